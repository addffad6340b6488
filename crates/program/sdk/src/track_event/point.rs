//! Trace points: what is known of an event at compile time, and the bytes that come of it.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use ferretto_protos::fields::{debug_annotation, trace_packet, track_event};
use ferretto_protozero::{Message, varint};

use crate::track_event::category::Category;
use crate::track_event::location::Location;
use crate::track_event::numbers::numbers;

/// `SequenceFlags` of TracePacket.
pub(crate) const NEEDS_INCREMENTAL_STATE: u64 = 2;
/// A packet's beginning, as far as it is the same for all events of a trace point: flags, `track_event` and its length, type, category,
/// name and place in the source, of which each has two bytes at most, and a constant argument. In two parts, which one store each can write.
pub(crate) const MAX_HEAD_LEN: usize = FIRST_HEAD_LEN + 16;
/// The bytes of the first part: more than all but the place and the constant argument take.
const FIRST_HEAD_LEN: usize = 15;
/// The length of `track_event` is the fourth byte of a packet's beginning.
pub(crate) const EVENT_LEN_AT: usize = 3;
/// An argument's beginning: its tag, its length, and the number of its name.
const MAX_ARGUMENT_HEAD_LEN: usize = 5;
/// Not seen yet.
const UNREGISTERED: u32 = 0;
/// Seen, but there was no number left.
const WITHOUT_NUMBER: u32 = u32::MAX;

/// `TrackEvent.Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
    State = 5,
}

/// A place in the program where events come from. The macros keep one in a static for each use, so that what never changes about its
/// events is worked out once.
#[derive(Debug)]
pub struct TracePoint {
    category: Option<&'static Category>,
    event_type: EventType,
    name: Option<&'static str>,
    constant: Option<&'static ConstantArgument>,
    location: Option<&'static Location>,
    arguments: &'static [ArgumentName],
    id: AtomicU32,
    name_number: AtomicU16,
    head: Head,
}

/// A debug argument that is the same in all events of a trace point: it costs no more than its bytes.
#[derive(Debug)]
pub struct ConstantArgument {
    name: ArgumentName,
    value: &'static str,
}

/// The name of a debug argument.
#[derive(Debug)]
pub struct ArgumentName {
    name: &'static str,
    number: AtomicU16,
    head: AtomicU64,
}

/// Up to 31 bytes: 15 with the number of all in the highest byte, and the rest. Written once, before the trace point's id.
#[derive(Debug)]
struct Head([AtomicU64; 4]);

impl TracePoint {
    /// The beginning of a slice; without a name here, each has its own.
    pub const fn begin(
        category: &'static Category,
        name: Option<&'static str>,
        arguments: &'static [ArgumentName],
    ) -> Self {
        Self::new(Some(category), EventType::Begin, name, arguments)
    }

    /// The end of a slice.
    pub const fn end(category: &'static Category, arguments: &'static [ArgumentName]) -> Self {
        Self::new(Some(category), EventType::End, None, arguments)
    }

    /// Something that happens at one moment; without a name here, each has its own.
    pub const fn instant(
        category: &'static Category,
        name: Option<&'static str>,
        arguments: &'static [ArgumentName],
    ) -> Self {
        Self::new(Some(category), EventType::Instant, name, arguments)
    }

    /// A new value of a counter.
    pub const fn counter(category: &'static Category, arguments: &'static [ArgumentName]) -> Self {
        Self::new(Some(category), EventType::Counter, None, arguments)
    }

    /// The beginning of a state.
    pub const fn state(
        category: &'static Category,
        name: Option<&'static str>,
        arguments: &'static [ArgumentName],
    ) -> Self {
        Self::new(Some(category), EventType::State, name, arguments)
    }

    /// With an argument that all events of this point have, before the others.
    #[must_use]
    pub const fn with_constant(mut self, argument: &'static ConstantArgument) -> Self {
        self.constant = Some(argument);
        self
    }

    /// With the place in the source that all events of this point have which are not given another one.
    #[must_use]
    pub const fn with_location(mut self, location: &'static Location) -> Self {
        self.location = Some(location);
        self
    }

    /// The end of a slice of any category.
    pub(crate) const fn any_end() -> Self {
        Self::new(None, EventType::End, None, &[])
    }

    const fn new(
        category: Option<&'static Category>,
        event_type: EventType,
        name: Option<&'static str>,
        arguments: &'static [ArgumentName],
    ) -> Self {
        Self {
            category,
            event_type,
            name,
            constant: None,
            location: None,
            arguments,
            id: AtomicU32::new(UNREGISTERED),
            name_number: AtomicU16::new(0),
            head: Head([const { AtomicU64::new(0) }; 4]),
        }
    }

    pub(crate) fn category(&self) -> Option<&'static Category> {
        self.category
    }

    pub(crate) fn event_type(&self) -> EventType {
        self.event_type
    }

    pub(crate) fn name(&self) -> Option<&'static str> {
        self.name
    }

    pub(crate) fn constant(&self) -> Option<&'static ConstantArgument> {
        self.constant
    }

    pub(crate) fn location(&self) -> Option<&'static Location> {
        self.location
    }

    #[inline(always)]
    pub(crate) fn arguments(&self) -> &'static [ArgumentName] {
        self.arguments
    }

    /// The number of its name; 0 if that has none.
    pub(crate) fn name_number(&self) -> u16 {
        self.name_number.load(Ordering::Relaxed)
    }

    /// Its own number; one that no set contains as long as it has none.
    #[inline(always)]
    pub(crate) fn id(&self) -> u32 {
        // Acquire: whoever has the number finds the heads.
        self.id.load(Ordering::Acquire)
    }

    /// Whether it has a number: its events may be small packets.
    pub(crate) fn is_small(&self) -> bool {
        !matches!(self.id(), UNREGISTERED | WITHOUT_NUMBER)
    }

    /// The bytes of a packet up to the arguments of the event, the first one lowest, and how many. Beyond 15 bytes the others are in
    /// [`head_rest`](Self::head_rest). Only for points with a number.
    #[inline(always)]
    pub(crate) fn head(&self) -> (u128, usize) {
        self.head.first()
    }

    /// What does not fit into the [`head`](Self::head), and how many bytes.
    #[inline(always)]
    pub(crate) fn head_rest(&self) -> (u128, usize) {
        let (_, len) = self.head.first();
        (self.head.rest(), len.saturating_sub(FIRST_HEAD_LEN))
    }

    /// Gives it and its texts their numbers, if they have none yet.
    pub(crate) fn register(&'static self) {
        if self.id() != UNREGISTERED {
            return;
        }
        // Before the lock, which numbers of categories take as well. The end of a slice is known by its track alone.
        let category = self.category.filter(|_| self.event_type != EventType::End);
        let category = category.map(|category| if category.is_group() { 0 } else { category.number() });
        let location = self.location.map(Location::number);
        let mut numbers = numbers();
        // Only whoever holds the lock stores.
        if self.id() != UNREGISTERED {
            return;
        }
        let name = self.name.map_or(0, |name| numbers.event_name(name));
        self.name_number.store(name, Ordering::Relaxed);
        let constant = self.constant.map(|constant| &constant.name);
        for argument in self.arguments.iter().chain(constant) {
            argument.register(numbers.argument_name(argument.name));
        }
        let is_short =
            self.event_type == EventType::End || category.is_some_and(|number| number != 0) && name != 0;
        let all_numbered = self.arguments.iter().chain(constant).all(|argument| argument.number() != 0);
        let head = self.encode(category.unwrap_or(0), name, location.unwrap_or(0));
        let is_small = is_short && all_numbered && location != Some(0) && head.len() <= MAX_HEAD_LEN;
        let id = if is_small { numbers.point() } else { None };
        if id.is_some() {
            self.head.set(&head);
        }
        // Release: pairs with the acquire in `id`.
        self.id.store(id.unwrap_or(WITHOUT_NUMBER), Ordering::Release);
    }

    fn encode(&self, category: u16, name: u16, location: u16) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_HEAD_LEN);
        let mut packet = Message::new(&mut bytes);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        let mut event = packet.nested(trace_packet::TRACK_EVENT);
        event.varint(track_event::TYPE, self.event_type as u64);
        if category != 0 {
            event.varint(track_event::CATEGORY_IIDS, category.into());
        }
        if name != 0 {
            event.varint(track_event::NAME_IID, name.into());
        }
        if location != 0 {
            event.varint(track_event::SOURCE_LOCATION_IID, location.into());
        }
        if let Some(ConstantArgument { name, value }) = self.constant {
            let mut argument = event.nested(track_event::DEBUG_ANNOTATIONS);
            argument.varint(debug_annotation::NAME_IID, name.number().into());
            argument.string(debug_annotation::STRING_VALUE, value);
        }
        drop(event);
        drop(packet);
        debug_assert!(bytes.len() > MAX_HEAD_LEN || usize::from(bytes[EVENT_LEN_AT]) + 4 == bytes.len());
        bytes
    }
}

impl ConstantArgument {
    /// An argument of this name and this value. Those of more than a few letters cost as much as others.
    pub const fn new(name: &'static str, value: &'static str) -> Self {
        Self { name: ArgumentName::new(name), value }
    }

    pub(crate) fn name(&self) -> &ArgumentName {
        &self.name
    }

    pub(crate) fn value(&self) -> &'static str {
        self.value
    }
}

impl ArgumentName {
    /// An argument of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: AtomicU16::new(0), head: AtomicU64::new(0) }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its number; 0 if it has none.
    pub(crate) fn number(&self) -> u16 {
        self.number.load(Ordering::Relaxed)
    }

    /// The bytes before its value, and how many; the second byte is to be its length. Only in points with a number.
    #[inline(always)]
    pub(crate) fn head(&self) -> (u64, usize) {
        let word = self.head.load(Ordering::Relaxed);
        (word << 8 >> 8, (word >> 56) as usize)
    }

    fn register(&self, number: u16) {
        let (value, len) = varint::word(number.into());
        let tags = u64::from(track_event::DEBUG_ANNOTATIONS << 3 | 2)
            | u64::from(debug_annotation::NAME_IID << 3) << 16;
        debug_assert!(3 + len <= MAX_ARGUMENT_HEAD_LEN);
        self.number.store(number, Ordering::Relaxed);
        self.head.store(tags | (value as u64) << 24 | (3 + len as u64) << 56, Ordering::Relaxed);
    }
}

impl Head {
    /// Longer ones are never made.
    fn set(&self, bytes: &[u8]) {
        let word = |bytes: &[u8]| {
            let of_byte = |(index, byte): (usize, &u8)| u128::from(*byte) << (8 * index);
            bytes.iter().enumerate().map(of_byte).sum::<u128>()
        };
        let (first, rest) = bytes.split_at(bytes.len().min(FIRST_HEAD_LEN));
        let first = word(first) | (bytes.len() as u128) << (8 * FIRST_HEAD_LEN);
        let halves = [first, word(rest)].into_iter().flat_map(|word| [word as u64, (word >> 64) as u64]);
        for (place, half) in self.0.iter().zip(halves) {
            place.store(half, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn first(&self) -> (u128, usize) {
        let [low, high, ..] = &self.0;
        let (low, high) = (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed));
        (u128::from(low) | u128::from(high << 8 >> 8) << 64, (high >> 56) as usize)
    }

    #[inline(always)]
    fn rest(&self) -> u128 {
        let [.., low, high] = &self.0;
        u128::from(low.load(Ordering::Relaxed)) | u128::from(high.load(Ordering::Relaxed)) << 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_registered_once_and_its_head_is_the_beginning_of_its_packets() {
        static CATEGORY: Category = Category::new("point.test");
        static ARGUMENTS: [ArgumentName; 1] = [ArgumentName::new("point test argument")];
        static NAMED: TracePoint = TracePoint::instant(&CATEGORY, Some("point test"), &ARGUMENTS);
        static UNNAMED: TracePoint = TracePoint::begin(&CATEGORY, None, &[]);
        static END: TracePoint = TracePoint::any_end();
        assert_eq!(NAMED.id(), UNREGISTERED);
        for point in [&NAMED, &UNNAMED, &END] {
            point.register();
        }
        let id = NAMED.id();
        NAMED.register();
        assert!(NAMED.id() == id && id != UNREGISTERED);
        // Its name is in none of the heads.
        assert_eq!(UNNAMED.id(), WITHOUT_NUMBER);

        let (bytes, len) = NAMED.head();
        let (category, name) = (CATEGORY.number() as u8, NAMED.name_number() as u8);
        assert_eq!(bytes.to_le_bytes()[..len], [0x68, 2, 0x5a, 6, 0x48, 3, 0x18, category, 0x50, name]);
        let (bytes, len) = END.head();
        assert_eq!(bytes.to_le_bytes()[..len], [0x68, 2, 0x5a, 2, 0x48, 2]);
        assert_eq!(END.head_rest(), (0, 0));
        let (word, len) = ARGUMENTS[0].head();
        assert_eq!(word.to_le_bytes()[..len], [0x22, 0, 0x08, ARGUMENTS[0].number() as u8]);
    }

    #[test]
    fn a_constant_argument_is_in_the_head() {
        static CATEGORY: Category = Category::new("point.constant");
        static CONSTANT: ConstantArgument = ConstantArgument::new("point constant", "value");
        static POINT: TracePoint =
            TracePoint::begin(&CATEGORY, Some("point constant"), &[]).with_constant(&CONSTANT);
        static LONG: ConstantArgument = ConstantArgument::new("point constant", "a value of many letters");
        static LONG_POINT: TracePoint =
            TracePoint::begin(&CATEGORY, Some("point constant"), &[]).with_constant(&LONG);
        POINT.register();
        LONG_POINT.register();
        let ((first, len), (rest, rest_len)) = (POINT.head(), POINT.head_rest());
        let bytes = [&first.to_le_bytes()[..len - rest_len], &rest.to_le_bytes()[..rest_len]].concat();
        let (category, name) = (CATEGORY.number() as u8, POINT.name_number() as u8);
        let argument = CONSTANT.name.number() as u8;
        let mut expected = vec![0x68, 2, 0x5a, 17, 0x48, 1, 0x18, category, 0x50, name];
        expected.extend([0x22, 9, 0x08, argument, 0x32, 5]);
        expected.extend(b"value");
        assert_eq!(bytes, expected);
        assert!(POINT.is_small() && !LONG_POINT.is_small());
    }

    #[test]
    fn a_place_in_the_source_is_in_the_head() {
        static CATEGORY: Category = Category::new("point.place");
        static PLACE: Location = Location::new("place.rs", "", 7);
        static LEVEL: ConstantArgument = ConstantArgument::new("level", "TRACE");
        static POINT: TracePoint = TracePoint::begin(&CATEGORY, Some("point place"), &[])
            .with_constant(&LEVEL)
            .with_location(&PLACE);
        POINT.register();
        let ((first, len), (rest, rest_len)) = (POINT.head(), POINT.head_rest());
        let bytes = [&first.to_le_bytes()[..len - rest_len], &rest.to_le_bytes()[..rest_len]].concat();
        // Field 34.
        assert_eq!(bytes[10..13], [0x90, 0x02, PLACE.number() as u8]);
        assert!(POINT.is_small());
    }

    #[test]
    fn numbers_of_two_bytes_fit() {
        let point = TracePoint::new(None, EventType::Counter, None, &[]);
        let max = crate::track_event::numbers::MAX_TEXTS as u16;
        point.head.set(&point.encode(max, max, 0));
        let (bytes, len) = point.head();
        assert_eq!(
            bytes.to_le_bytes()[..len],
            [0x68, 2, 0x5a, 8, 0x48, 4, 0x18, 0xff, 0x7f, 0x50, 0xff, 0x7f]
        );
        let argument = ArgumentName::new("long");
        argument.register(max);
        let (word, len) = argument.head();
        assert_eq!(word.to_le_bytes()[..len], [0x22, 0, 0x08, 0xff, 0x7f]);
    }
}
