//! Trace points: what is known of an event at compile time, and the bytes that come of it.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use ferretto_protos::fields::{debug_annotation, trace_packet, track_event};
use ferretto_protozero::{Message, varint};

use crate::category::Category;
use crate::numbers::numbers;

/// `SequenceFlags` of TracePacket.
pub(crate) const NEEDS_INCREMENTAL_STATE: u64 = 2;
/// A packet's beginning, without arguments: flags, `track_event` and its length, type, category and name, which each have two bytes at
/// most.
const MAX_HEAD_LEN: usize = 12;
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
    arguments: &'static [ArgumentName],
    id: AtomicU32,
    name_number: AtomicU16,
    head: Head,
}

/// The name of a debug argument.
#[derive(Debug)]
pub struct ArgumentName {
    name: &'static str,
    number: AtomicU16,
    head: AtomicU64,
}

/// Up to 15 bytes, and their number. Written once, before the trace point's id.
#[derive(Debug)]
struct Head([AtomicU64; 2]);

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
            arguments,
            id: AtomicU32::new(UNREGISTERED),
            name_number: AtomicU16::new(0),
            head: Head([AtomicU64::new(0), AtomicU64::new(0)]),
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

    /// The bytes of a packet up to its arguments, the first one lowest, and how many. Only for points with a number.
    #[inline(always)]
    pub(crate) fn head(&self) -> (u128, usize) {
        self.head.get()
    }

    /// Gives it and its texts their numbers, if they have none yet.
    pub(crate) fn register(&'static self) {
        if self.id() != UNREGISTERED {
            return;
        }
        // Before the lock, which numbers of categories take as well. The end of a slice is known by its track alone.
        let category = self.category.filter(|_| self.event_type != EventType::End);
        let category = category.map(|category| if category.is_group() { 0 } else { category.number() });
        let mut numbers = numbers();
        // Only whoever holds the lock stores.
        if self.id() != UNREGISTERED {
            return;
        }
        let name = self.name.map_or(0, |name| numbers.event_name(name));
        self.name_number.store(name, Ordering::Relaxed);
        for argument in self.arguments {
            argument.register(numbers.argument_name(argument.name));
        }
        let is_short =
            self.event_type == EventType::End || category.is_some_and(|number| number != 0) && name != 0;
        let all_numbered = self.arguments.iter().all(|argument| argument.number() != 0);
        let id = if is_short && all_numbered { numbers.point() } else { None };
        if id.is_some() {
            self.head.set(&self.encode(category.unwrap_or(0), name));
        }
        // Release: pairs with the acquire in `id`.
        self.id.store(id.unwrap_or(WITHOUT_NUMBER), Ordering::Release);
    }

    fn encode(&self, category: u16, name: u16) -> Vec<u8> {
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
        drop(event);
        drop(packet);
        debug_assert!(bytes.len() <= MAX_HEAD_LEN && usize::from(bytes[EVENT_LEN_AT]) + 4 == bytes.len());
        bytes
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
    fn set(&self, bytes: &[u8]) {
        let mut word = [0; 16];
        // Longer ones are never made.
        if let Some(place) = word[..15].get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
            word[15] = bytes.len() as u8;
        }
        let word = u128::from_le_bytes(word);
        self.0[0].store(word as u64, Ordering::Relaxed);
        self.0[1].store((word >> 64) as u64, Ordering::Relaxed);
    }

    #[inline(always)]
    fn get(&self) -> (u128, usize) {
        let [low, high] = [self.0[0].load(Ordering::Relaxed), self.0[1].load(Ordering::Relaxed)];
        (u128::from(low) | u128::from(high << 8 >> 8) << 64, (high >> 56) as usize)
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
        let (word, len) = ARGUMENTS[0].head();
        assert_eq!(word.to_le_bytes()[..len], [0x22, 0, 0x08, ARGUMENTS[0].number() as u8]);
    }

    #[test]
    fn numbers_of_two_bytes_fit() {
        let point = TracePoint::new(None, EventType::Counter, None, &[]);
        let max = crate::numbers::MAX_TEXTS as u16;
        point.head.set(&point.encode(max, max));
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
