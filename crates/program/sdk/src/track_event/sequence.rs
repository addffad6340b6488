//! The packets of one thread for one session.
//!
//! Events refer to what earlier packets of the sequence said: names by number, times as differences, the thread as default track. The
//! first packets say it; they are said again when the session asks, and after a loss. Upstream: `track_event_internal.cc`.

use ferretto_producer::{SmallPacket, TraceWriter};
use ferretto_protos::fields::{
    clock_snapshot, debug_annotation, trace_packet, trace_packet_defaults, track_event_defaults,
};
use ferretto_protozero::control::Writer;
use ferretto_protozero::{Message, SMALL_LEN, varint};

use crate::clock::Clock;
use crate::identity::{thread_id, thread_uuid};
use crate::track_event::descriptors::{describe_process, describe_thread, describe_track};
use crate::track_event::details::Details;
use crate::track_event::numbers::Set;
use crate::track_event::payload::{EventWriter, NewTexts, put_new_texts};
use crate::track_event::point::{
    ArgumentName, EVENT_LEN_AT, MAX_HEAD_LEN, NEEDS_INCREMENTAL_STATE, TracePoint,
};
use crate::track_event::thread_time;
use crate::track_event::timestamp::{BOOTTIME, Timestamp};
use crate::track_event::track::{Base, Track};
use crate::track_event::value::Value;
use crate::track_event::wishes::SessionOptions;

/// `SequenceFlags` of TracePacket.
const INCREMENTAL_STATE_CLEARED: u64 = 1;
/// The sequence's own clock, which counts differences (upstream: `kClockIdIncremental`).
const CLOCK_INCREMENTAL: u64 = 64;
/// Tracks and incremental counters that a sequence remembers; beyond, it begins anew. Programs that make tracks without end do not make
/// memory grow without end.
const MAX_TRACKS: usize = 16 * 1024;

/// The most bytes of a packet that one store can write.
const MAX_TINY_LEN: usize = 15;
/// The most bytes of a small packet beside its arguments: its beginning, and a time of up to 56 bits.
const SMALL_LEN_WITHOUT_ARGUMENTS: usize = MAX_HEAD_LEN + 9;
/// The most bytes of an argument, but for those of a text.
const SMALL_ARGUMENT_LEN: usize = 17;
/// The length of what no small packet can hold, whatever else is in it.
const NOT_SMALL: usize = 1 << 16;
/// No number of losses: the state is not what the reader knows.
const UNKNOWN: u64 = u64::MAX;
/// Times since the last event below this fit in eight bytes.
const MAX_SMALL_DELTA: u64 = 1 << 56;

/// What a trace point says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) point: &'static TracePoint,
    /// Of its arguments, in their order.
    pub(crate) values: &'a [Value<'a>],
    pub(crate) details: Option<&'a Details<'a>>,
    /// Now, in nanoseconds of the boot clock.
    pub(crate) now: u64,
}

/// A writer and what its reader knows.
#[derive(Debug)]
pub(crate) struct Sequence {
    writer: TraceWriter,
    options: SessionOptions,
    /// `None` before the first packet and when the reader may have missed something.
    state: Option<IncrementalState>,
}

/// What the reader knows.
#[derive(Debug)]
pub(crate) struct IncrementalState {
    last_timestamp: u64,
    /// Losses of the writer when this was said.
    drop_count: u64,
    pub(crate) categories: Set,
    pub(crate) names: Set,
    pub(crate) argument_names: Set,
    pub(crate) locations: Set,
    /// Texts of log messages so far: each has its own number.
    pub(crate) log_bodies: u64,
    /// Trace points whose events need nothing that was not said, and have the form of a small packet in this session.
    points: Set,
    /// By their numbers, in order.
    tracks: Vec<u64>,
    /// What incremental counters showed last, in the order of their tracks' numbers.
    counters: Vec<(u64, Value<'static>)>,
    pub(crate) thread_time: thread_time::Sampler,
}

/// Memory that is used for one event after another.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    packet: Vec<u8>,
    new_texts: NewTexts,
}

impl Event<'_> {
    /// Whether all that its point says was written with it, so that the next one of this point may be a small packet.
    fn is_whole(&self) -> bool {
        self.point.is_small()
            && self.details.is_none()
            && self.values.len() == self.point.arguments().len()
            && !self.values.iter().any(|value| matches!(value, Value::Missing))
    }

    fn has_arguments(&self) -> bool {
        !self.values.is_empty() || self.point.constant().is_some()
    }
}

impl Sequence {
    pub(crate) fn new(writer: TraceWriter, options: SessionOptions) -> Self {
        Self { writer, options, state: None }
    }

    /// The connection is gone.
    pub(crate) fn is_dead(&self) -> bool {
        self.writer.is_null()
    }

    /// Takes over what the session wants now: events that it adopts were recorded with less said.
    pub(crate) fn set_options(&mut self, options: SessionOptions) {
        if self.options != options {
            self.options = options;
            self.state = None;
        }
    }

    pub(crate) fn clear_incremental_state(&mut self) {
        self.state = None;
    }

    pub(crate) fn flush(&mut self) {
        self.writer.flush();
    }

    /// Writes an event without arguments at once, if all that it relies on was said and there is room; else `false`, and it is to be
    /// written by [`write`](Self::write).
    #[inline(always)]
    pub(crate) fn write_plain(&mut self, point: &TracePoint, now: u64) -> bool {
        let Some(state) = &mut self.state else {
            return false;
        };
        let delta = now.wrapping_sub(state.last_timestamp);
        if delta >= MAX_SMALL_DELTA || !state.points.contains(point.id()) {
            return false;
        }
        let (head, head_len) = point.head();
        let (timestamp, timestamp_len) = small_timestamp(delta);
        if head_len + timestamp_len > MAX_TINY_LEN {
            return self.write_longer(point, now, (timestamp, timestamp_len));
        }
        let is_written =
            self.writer.tiny_packet(head | timestamp << (8 * head_len), head_len + timestamp_len);
        if is_written {
            state.last_timestamp = now;
        }
        is_written
    }

    /// For points with a constant argument, for programs with many names, and after a long time.
    #[inline(never)]
    fn write_longer(
        &mut self,
        point: &TracePoint,
        now: u64,
        (timestamp, timestamp_len): (u128, usize),
    ) -> bool {
        let (Some(state), Some(mut packet)) =
            (&mut self.state, self.writer.small_packet(SMALL_LEN_WITHOUT_ARGUMENTS))
        else {
            return false;
        };
        let ((head, len), (rest, rest_len)) = (point.head(), point.head_rest());
        packet.put(head.to_le_bytes(), len - rest_len);
        let last_len = rest_len + timestamp_len;
        if last_len <= SMALL_LEN {
            // One store less.
            packet.put((rest | timestamp << (8 * rest_len)).to_le_bytes(), last_len);
        } else {
            packet.put(rest.to_le_bytes(), rest_len);
            packet.put(timestamp.to_le_bytes(), timestamp_len);
        }
        let is_written = packet.finish();
        if is_written {
            state.last_timestamp = now;
        }
        is_written
    }

    /// As [`write_plain`](Self::write_plain), with arguments.
    #[inline(always)]
    pub(crate) fn write_small(&mut self, point: &TracePoint, values: &[Value<'_>], now: u64) -> bool {
        let Some(state) = &mut self.state else {
            return false;
        };
        let delta = now.wrapping_sub(state.last_timestamp);
        if delta >= MAX_SMALL_DELTA || !state.points.contains(point.id()) {
            return false;
        }
        let arguments_len: usize = values.iter().map(small_len).sum();
        if arguments_len >= NOT_SMALL {
            return false;
        }
        let Some(mut packet) = self.writer.small_packet(SMALL_LEN_WITHOUT_ARGUMENTS + arguments_len) else {
            return false;
        };
        put_head(&mut packet, point);
        for (name, value) in point.arguments().iter().zip(values) {
            put_small_argument(&mut packet, name, value);
        }
        let event_len = packet.len() - EVENT_LEN_AT - 1;
        packet.set(EVENT_LEN_AT, event_len as u8);
        let (timestamp, timestamp_len) = small_timestamp(delta);
        packet.put(timestamp.to_le_bytes(), timestamp_len);
        let is_written = packet.finish();
        if is_written {
            state.last_timestamp = now;
        }
        is_written
    }

    /// Writes an event; `false` if it was lost.
    #[inline(never)]
    pub(crate) fn write(&mut self, event: &Event<'_>, clock: &Clock, scratch: &mut Scratch) -> bool {
        if self.state.as_ref().is_none_or(|state| state.drop_count != self.writer.drop_count()) {
            self.restart(event.now, clock);
        }
        let Some(state) = &mut self.state else {
            return false;
        };
        let track = event.details.and_then(|details| details.track).map(|track| (track, track.uuid()));
        if let Some(track) = track {
            state.learn_track(&mut self.writer, self.options, event.now, track);
        }
        event.point.register();
        // Values are turned into text by the program's code. If that panics, what this event was to say is not said: the next one begins
        // anew, as after a loss.
        let drop_count = std::mem::replace(&mut state.drop_count, UNKNOWN);
        scratch.write(event, track, state, self.options);
        state.drop_count = drop_count;
        put_packet(&mut self.writer, &scratch.packet);
        let is_lost = state.drop_count != self.writer.drop_count();
        if is_lost || state.is_overfull() {
            // Something of this event was lost: the next one begins anew.
            self.state = None;
        } else if event.is_whole() && self.options.has_small_packets(event.has_arguments()) {
            state.points.insert(event.point.id());
        }
        !is_lost
    }

    /// Ties other clocks to the system's.
    pub(crate) fn write_clocks(&mut self, now: u64, clocks: &[(u32, u64)]) {
        let mut snapshot = Writer::new();
        for (clock_id, value) in clocks.iter().copied().chain([(BOOTTIME, now)]) {
            let mut clock = Writer::new();
            clock
                .integer(clock_snapshot::clock::CLOCK_ID, clock_id.into())
                .integer(clock_snapshot::clock::TIMESTAMP, value);
            snapshot.message(clock_snapshot::CLOCKS, &clock);
        }
        let mut packet = Writer::new();
        packet
            .integer(trace_packet::TIMESTAMP, now)
            .integer(trace_packet::TIMESTAMP_CLOCK_ID, BOOTTIME.into())
            .message(trace_packet::CLOCK_SNAPSHOT, &snapshot);
        put_packet(&mut self.writer, packet.as_bytes());
    }

    /// Says everything that events rely on; leaves no state if it cannot be written now.
    fn restart(&mut self, now: u64, clock: &Clock) {
        self.state = None;
        let drop_count = self.writer.drop_count();
        let tid = thread_id();
        let mut packet = Writer::new();
        packet
            .integer(trace_packet::TIMESTAMP, now)
            .integer(trace_packet::TIMESTAMP_CLOCK_ID, BOOTTIME.into())
            .integer(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED)
            .message(trace_packet::TRACE_PACKET_DEFAULTS, &defaults(self.options, tid));
        if let Some(unit_ns) = self.options.delta_unit_ns {
            packet.message(trace_packet::CLOCK_SNAPSHOT, &own_clock(unit_ns, now, clock.offset()));
        }
        put_packet(&mut self.writer, packet.as_bytes());
        if self.writer.is_dropping() {
            return;
        }
        let mut state = IncrementalState::new(whole_units(now, self.options), drop_count);
        let mut describe = |track| state.describe(&mut self.writer, self.options, now, &track);
        describe(describe_thread(tid));
        describe(describe_process());
        if self.options.thread_time_period_ns.is_some() {
            describe(thread_time::describe(tid));
        }
        self.state = Some(state);
    }
}

impl Scratch {
    /// The event's packet, with the texts that it uses for the first time.
    fn write(
        &mut self,
        event: &Event<'_>,
        track: Option<(&Track, u64)>,
        state: &mut IncrementalState,
        options: SessionOptions,
    ) {
        self.packet.clear();
        self.new_texts.clear();
        let mut packet = Message::new(&mut self.packet);
        state.put_head(&mut packet, options, event.now, event.details.and_then(|details| details.timestamp));
        let mut message = packet.nested(trace_packet::TRACK_EVENT);
        EventWriter { message: &mut message, track, options, state, new_texts: &mut self.new_texts }
            .put_event(event);
        drop(message);
        put_new_texts(&mut packet, &self.new_texts);
    }
}

impl IncrementalState {
    fn new(last_timestamp: u64, drop_count: u64) -> Self {
        Self {
            last_timestamp,
            drop_count,
            categories: Set::default(),
            names: Set::default(),
            argument_names: Set::default(),
            locations: Set::default(),
            log_bodies: 0,
            points: Set::default(),
            tracks: Vec::new(),
            counters: Vec::new(),
            thread_time: thread_time::Sampler::default(),
        }
    }

    fn is_overfull(&self) -> bool {
        self.tracks.len() > MAX_TRACKS || self.counters.len() > MAX_TRACKS
    }

    /// Time and flags of a packet.
    fn put_head(
        &mut self,
        packet: &mut Message<'_, Vec<u8>>,
        options: SessionOptions,
        now: u64,
        timestamp: Option<Timestamp>,
    ) {
        let absolute = match (timestamp, options.delta_unit_ns) {
            (None, Some(unit)) if now >= self.last_timestamp => {
                let delta = (now - self.last_timestamp) / unit;
                self.last_timestamp += delta * unit;
                packet.varint(trace_packet::TIMESTAMP, delta);
                None
            }
            (timestamp, _) => Some(timestamp.unwrap_or(Timestamp::boot_ns(now))),
        };
        if let Some(Timestamp { clock_id, value }) = absolute {
            packet.varint(trace_packet::TIMESTAMP, value);
            packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock_id.into());
        }
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    }

    /// Notes what an incremental counter shows; what it showed before.
    pub(crate) fn replace_counter(&mut self, uuid: u64, value: Value<'static>) -> Option<Value<'static>> {
        match self.counters.binary_search_by_key(&uuid, |(uuid, _)| *uuid) {
            Ok(place) => self.counters.get_mut(place).map(|(_, last)| std::mem::replace(last, value)),
            Err(place) => {
                self.counters.insert(place, (uuid, value));
                None
            }
        }
    }

    /// Writes the description of a track.
    fn describe(&mut self, writer: &mut TraceWriter, options: SessionOptions, now: u64, track: &Writer) {
        let mut bytes = Vec::new();
        let mut packet = Message::new(&mut bytes);
        self.put_head(&mut packet, options, now, None);
        packet.bytes(trace_packet::TRACK_DESCRIPTOR, track.as_bytes());
        drop(packet);
        put_packet(writer, &bytes);
    }

    /// Describes a track and those above it, unless the reader knows them.
    fn learn_track(
        &mut self,
        writer: &mut TraceWriter,
        options: SessionOptions,
        now: u64,
        track: (&Track, u64),
    ) {
        let mut next = Some(track);
        while let Some((track, uuid)) = next {
            // This thread and the process are described at the start.
            let is_known = track.is_base() && !matches!(track.base(), Base::Thread(_));
            let place = self.tracks.binary_search(&uuid);
            let (false, Err(place)) = (is_known, place) else {
                return;
            };
            self.tracks.insert(place, uuid);
            self.describe(writer, options, now, &describe_track(track, uuid));
            next = track.parent().map(|parent| (parent, parent.uuid()));
        }
    }
}

#[inline(never)]
fn put_packet(writer: &mut TraceWriter, packet: &[u8]) {
    writer.new_packet().raw(packet);
}

/// What holds for all packets of the sequence that say nothing else: `TracePacketDefaults`.
fn defaults(options: SessionOptions, tid: i32) -> Writer {
    let mut event = Writer::new();
    event.integer(track_event_defaults::TRACK_UUID, thread_uuid(tid));
    if options.thread_time_period_ns.is_some() {
        event.integer(track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS, thread_time::uuid(tid));
    }
    let clock = if options.delta_unit_ns.is_some() { CLOCK_INCREMENTAL } else { BOOTTIME.into() };
    let mut defaults = Writer::new();
    defaults
        .integer(trace_packet_defaults::TIMESTAMP_CLOCK_ID, clock)
        .message(trace_packet_defaults::TRACK_EVENT_DEFAULTS, &event);
    defaults
}

/// The time at the last tick of the sequence's own clock: its events then have the times of ticks, and none is off by more than one.
fn whole_units(now: u64, options: SessionOptions) -> u64 {
    options.delta_unit_ns.map_or(now, |unit| now / unit * unit)
}

/// Ties the sequence's own clock to the system's, which is ahead by `offset_ns`: `ClockSnapshot`.
fn own_clock(unit_ns: u64, now: u64, offset_ns: i64) -> Writer {
    let mut system = Writer::new();
    system
        .integer(clock_snapshot::clock::CLOCK_ID, BOOTTIME.into())
        .integer(clock_snapshot::clock::TIMESTAMP, (now / unit_ns * unit_ns).wrapping_add_signed(offset_ns));
    let mut own = Writer::new();
    own.integer(clock_snapshot::clock::CLOCK_ID, CLOCK_INCREMENTAL)
        .integer(clock_snapshot::clock::TIMESTAMP, now / unit_ns)
        .truth(clock_snapshot::clock::IS_INCREMENTAL, true);
    if unit_ns > 1 {
        own.integer(clock_snapshot::clock::UNIT_MULTIPLIER_NS, unit_ns);
    }
    let mut snapshot = Writer::new();
    snapshot.message(clock_snapshot::CLOCKS, &system).message(clock_snapshot::CLOCKS, &own);
    snapshot
}

/// The most bytes that the argument may take in a small packet.
#[inline(always)]
fn small_len(value: &Value<'_>) -> usize {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) | Value::Missing => {
            SMALL_ARGUMENT_LEN
        }
        Value::Str(text) => SMALL_ARGUMENT_LEN + text.len().min(NOT_SMALL),
        _ => NOT_SMALL,
    }
}

/// The field of a packet's time: its bytes, and how many.
#[inline(always)]
fn small_timestamp(delta: u64) -> (u128, usize) {
    let (word, len) = varint::word(delta);
    (u128::from(trace_packet::TIMESTAMP << 3) | word << 8, 1 + len)
}

/// What is the same for all events of the point.
#[inline(always)]
fn put_head(packet: &mut SmallPacket<'_>, point: &TracePoint) {
    let ((head, len), (rest, rest_len)) = (point.head(), point.head_rest());
    packet.put(head.to_le_bytes(), len - rest_len);
    if rest_len != 0 {
        packet.put(rest.to_le_bytes(), rest_len);
    }
}

/// An argument, with bytes that were worked out before: at most 5, a tag, and 10 of a number, which is what one store takes.
#[inline(always)]
fn put_small_argument(packet: &mut SmallPacket<'_>, name: &ArgumentName, value: &Value<'_>) {
    let (tag, (word, word_len), text) = match *value {
        Value::Bool(value) => (debug_annotation::BOOL_VALUE << 3, (value.into(), 1), ""),
        Value::Int(value) => (debug_annotation::INT_VALUE << 3, varint::word(value as u64), ""),
        Value::Uint(value) => (debug_annotation::UINT_VALUE << 3, varint::word(value), ""),
        Value::Float(value) => (debug_annotation::DOUBLE_VALUE << 3 | 1, (value.to_bits().into(), 8), ""),
        // A small packet is shorter than 128 bytes.
        Value::Str(text) => (debug_annotation::STRING_VALUE << 3 | 2, (text.len() as u128 & 0x7f, 1), text),
        // Others are not in small packets.
        _ => return,
    };
    let (head, head_len) = name.head();
    // Without its tag and its length.
    let len = head_len - 2 + 1 + word_len + text.len();
    let head = head | (len as u64 & 0x7f) << 8;
    let bytes = u128::from(head) | (u128::from(tag) | word << 8) << (8 * head_len);
    packet.put(bytes.to_le_bytes(), head_len + 1 + word_len);
    if !text.is_empty() {
        packet.put_bytes(text.as_bytes());
    }
}
