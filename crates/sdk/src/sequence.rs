//! The packets of one thread for one session.
//!
//! Events refer to what earlier packets of the sequence said: names by number, times as differences, the thread as default track. The
//! first packets say it; they are said again when the session asks, and after a loss. Upstream: `track_event_internal.cc`.

use std::collections::HashSet;

use ferretto_producer::{SmallPacket, TraceWriter};
use ferretto_protos::fields::{
    clock_snapshot, counter_descriptor, debug_annotation, event_name, interned_data, process_descriptor,
    thread_descriptor, trace_packet, trace_packet_defaults, track_descriptor, track_event,
};
use ferretto_protozero::{Message, Sink, varint};

use crate::clock::Clock;
use crate::numbers::Set;
use crate::point::{ArgumentName, EVENT_LEN_AT, EventType, NEEDS_INCREMENTAL_STATE, TracePoint};
use crate::session::SessionOptions;
use crate::track::{CounterTrack, Unit, process, thread_id, thread_name, thread_uuid};
use crate::value::Value;

/// `SequenceFlags` of TracePacket.
const INCREMENTAL_STATE_CLEARED: u64 = 1;
/// `BuiltinClock.BUILTIN_CLOCK_BOOTTIME`.
const CLOCK_BOOTTIME: u64 = 6;
/// The sequence's own clock, which counts differences (upstream: `kClockIdIncremental`).
const CLOCK_INCREMENTAL: u64 = 64;
/// Stands for a name that the session does not want (upstream's text).
const FILTERED_NAME: &str = "FILTERED";

/// The most bytes of a small packet beside its arguments: its beginning, and a time of up to 56 bits.
const SMALL_LEN_WITHOUT_ARGUMENTS: usize = 12 + 9;
/// The most bytes of an argument, but for those of a text.
const SMALL_ARGUMENT_LEN: usize = 17;
/// Times since the last event below this fit in eight bytes.
const MAX_SMALL_DELTA: u64 = 1 << 56;

/// What a trace point says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) point: &'static TracePoint,
    /// Of its arguments, in their order.
    pub(crate) values: &'a [Value<'a>],
    pub(crate) extra: Extra<'a>,
    /// Nanoseconds of BOOTTIME.
    pub(crate) timestamp: u64,
}

/// What is known at run time only, beside values. Events that have it go the general way; this is the place for other tracks, flows and
/// timestamps of the program's own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extra<'a> {
    None,
    Name(&'a str),
    Counter(&'a CounterTrack, Value<'a>),
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
struct IncrementalState {
    last_timestamp: u64,
    /// Losses of the writer when this was said.
    drop_count: u64,
    categories: Set,
    names: Set,
    argument_names: Set,
    /// Trace points whose events need nothing that was not said, and have the form of a small packet in this session.
    points: Set,
    tracks: HashSet<u64>,
}

/// Texts that this packet uses for the first time, by the field of `InternedData` that says them.
type NewTexts = Vec<(u32, u16, &'static str)>;

/// Memory that is used for one event after another.
#[derive(Debug)]
pub(crate) struct Scratch {
    packet: Vec<u8>,
    new_texts: NewTexts,
}

impl Event<'_> {
    /// Whether all that its point says was written with it, so that the next one of this point may be a small packet.
    fn is_whole(&self) -> bool {
        self.point.is_small()
            && matches!(self.extra, Extra::None)
            && self.values.len() == self.point.arguments().len()
    }
}

impl Scratch {
    pub(crate) const fn new() -> Self {
        Self { packet: Vec::new(), new_texts: Vec::new() }
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

    pub(crate) fn clear_incremental_state(&mut self) {
        self.state = None;
    }

    pub(crate) fn flush(&mut self) {
        self.writer.flush();
    }

    /// Writes an event in one go, if all that it relies on was said and there is room; else `false`, and it is to be written by
    /// [`write`](Self::write).
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
        let Some(mut packet) = self.writer.small_packet(SMALL_LEN_WITHOUT_ARGUMENTS + arguments_len) else {
            return false;
        };
        let (head, head_len) = point.head();
        packet.put(head, head_len);
        if !values.is_empty() {
            for (name, value) in point.arguments().iter().zip(values) {
                put_small_argument(&mut packet, name, value);
            }
            let event_len = packet.len() - EVENT_LEN_AT - 1;
            packet.set(EVENT_LEN_AT, event_len as u8);
        }
        let (word, len) = varint::word(delta);
        let timestamp = u128::from(trace_packet::TIMESTAMP << 3) | word << 8;
        packet.put(timestamp.to_le_bytes(), 1 + len);
        let is_written = packet.finish();
        if is_written {
            state.last_timestamp = now;
        }
        is_written
    }

    #[inline(never)]
    pub(crate) fn write(&mut self, event: &Event<'_>, clock: &Clock, scratch: &mut Scratch) {
        if self.state.as_ref().is_none_or(|state| state.drop_count != self.writer.drop_count()) {
            self.restart(event.timestamp, clock);
        }
        let Some(state) = &mut self.state else {
            return;
        };
        if let Extra::Counter(track, _) = event.extra
            && state.tracks.insert(track.uuid())
        {
            describe_counter(&mut self.writer, state, self.options, event.timestamp, track);
        }
        event.point.register();
        scratch.packet.clear();
        scratch.new_texts.clear();
        let mut packet = Message::new(&mut scratch.packet);
        state.put_head(&mut packet, self.options, event.timestamp);
        put_event(
            &mut packet.nested(trace_packet::TRACK_EVENT),
            event,
            self.options,
            state,
            &mut scratch.new_texts,
        );
        put_new_texts(&mut packet, &scratch.new_texts);
        drop(packet);
        self.writer.new_packet().raw(&scratch.packet);
        if state.drop_count != self.writer.drop_count() {
            // Something of this event was lost: the next one begins anew.
            self.state = None;
        } else if event.is_whole() && self.options.has_small_packets(!event.values.is_empty()) {
            state.points.insert(event.point.id());
        }
    }

    /// Says everything that events rely on; leaves no state if it cannot be written now.
    fn restart(&mut self, now: u64, clock: &Clock) {
        self.state = None;
        let drop_count = self.writer.drop_count();
        let tid = thread_id();
        let mut packet = self.writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, now);
        packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        put_defaults(&mut packet, self.options, tid);
        put_clocks(&mut packet, self.options, now, clock.offset());
        drop(packet);
        if self.writer.is_dropping() {
            return;
        }
        let mut state = IncrementalState {
            last_timestamp: whole_units(now, self.options),
            drop_count,
            categories: Set::default(),
            names: Set::default(),
            argument_names: Set::default(),
            points: Set::default(),
            tracks: HashSet::new(),
        };
        describe_thread(&mut self.writer, &mut state, self.options, now, tid);
        describe_process(&mut self.writer, &mut state, self.options, now);
        self.state = Some(state);
    }
}

impl IncrementalState {
    /// Time and flags of a packet.
    fn put_head<S: Sink>(&mut self, packet: &mut Message<'_, S>, options: SessionOptions, now: u64) {
        match options.delta_unit_ns {
            Some(unit) if now >= self.last_timestamp => {
                let delta = (now - self.last_timestamp) / unit;
                self.last_timestamp += delta * unit;
                packet.varint(trace_packet::TIMESTAMP, delta);
            }
            Some(_) => {
                packet.varint(trace_packet::TIMESTAMP, now);
                packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
            }
            None => packet.varint(trace_packet::TIMESTAMP, now),
        }
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    }
}

fn put_defaults<S: Sink>(packet: &mut Message<'_, S>, options: SessionOptions, tid: i32) {
    let clock = if options.delta_unit_ns.is_some() { CLOCK_INCREMENTAL } else { CLOCK_BOOTTIME };
    let mut defaults = packet.nested(trace_packet::TRACE_PACKET_DEFAULTS);
    defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, clock);
    let mut event = defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS);
    // `TrackEventDefaults.track_uuid` has the number that it has in TrackEvent.
    event.varint(track_event::TRACK_UUID, thread_uuid(tid));
}

/// The time at the last tick of the sequence's own clock: its events then have the times of ticks, and none is off by more than one.
fn whole_units(now: u64, options: SessionOptions) -> u64 {
    options.delta_unit_ns.map_or(now, |unit| now / unit * unit)
}

/// Ties the sequence's own clock to the system's, which is ahead by `offset_ns`.
fn put_clocks<S: Sink>(packet: &mut Message<'_, S>, options: SessionOptions, now: u64, offset_ns: i64) {
    let Some(unit) = options.delta_unit_ns else {
        return;
    };
    let mut snapshot = packet.nested(trace_packet::CLOCK_SNAPSHOT);
    let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
    clock.varint(clock_snapshot::clock::CLOCK_ID, CLOCK_BOOTTIME);
    clock.varint(clock_snapshot::clock::TIMESTAMP, whole_units(now, options).wrapping_add_signed(offset_ns));
    drop(clock);
    let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
    clock.varint(clock_snapshot::clock::CLOCK_ID, CLOCK_INCREMENTAL);
    clock.varint(clock_snapshot::clock::TIMESTAMP, now / unit);
    clock.bool(clock_snapshot::clock::IS_INCREMENTAL, true);
    if unit > 1 {
        clock.varint(clock_snapshot::clock::UNIT_MULTIPLIER_NS, unit);
    }
}

fn describe_thread(
    writer: &mut TraceWriter,
    state: &mut IncrementalState,
    options: SessionOptions,
    now: u64,
    tid: i32,
) {
    let mut packet = writer.new_packet();
    state.put_head(&mut packet, options, now);
    let mut track = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    track.varint(track_descriptor::UUID, thread_uuid(tid));
    track.varint(track_descriptor::PARENT_UUID, process().uuid);
    let mut thread = track.nested(track_descriptor::THREAD);
    thread.int(thread_descriptor::PID, process().pid.into());
    thread.int(thread_descriptor::TID, tid.into());
    if let Some(name) = thread_name() {
        thread.string(thread_descriptor::THREAD_NAME, &name);
    }
}

fn describe_process(
    writer: &mut TraceWriter,
    state: &mut IncrementalState,
    options: SessionOptions,
    now: u64,
) {
    let mut packet = writer.new_packet();
    state.put_head(&mut packet, options, now);
    let mut track = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    track.varint(track_descriptor::UUID, process().uuid);
    let mut description = track.nested(track_descriptor::PROCESS);
    description.int(process_descriptor::PID, process().pid.into());
    // Trace Processor shows the name, which upstream's clients take from here, too.
    if let Some(name) = process().cmdline.first() {
        description.string(process_descriptor::PROCESS_NAME, name);
    }
    for argument in &process().cmdline {
        description.string(process_descriptor::CMDLINE, argument);
    }
}

fn describe_counter(
    writer: &mut TraceWriter,
    state: &mut IncrementalState,
    options: SessionOptions,
    now: u64,
    counter: &CounterTrack,
) {
    let mut packet = writer.new_packet();
    state.put_head(&mut packet, options, now);
    let mut track = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    track.varint(track_descriptor::UUID, counter.uuid());
    track.varint(track_descriptor::PARENT_UUID, process().uuid);
    track.string(track_descriptor::NAME, counter.name());
    let mut description = track.nested(track_descriptor::COUNTER);
    match counter.unit() {
        // `CounterDescriptor.Unit`.
        Some(Unit::TimeNs) => description.varint(counter_descriptor::UNIT, 1),
        Some(Unit::Count) => description.varint(counter_descriptor::UNIT, 2),
        Some(Unit::Bytes) => description.varint(counter_descriptor::UNIT, 3),
        Some(Unit::Named(name)) => description.string(counter_descriptor::UNIT_NAME, name),
        None => {}
    }
    if counter.unit_multiplier() != 1 {
        description.int(counter_descriptor::UNIT_MULTIPLIER, counter.unit_multiplier());
    }
}

fn put_event<S: Sink>(
    message: &mut Message<'_, S>,
    event: &Event<'_>,
    options: SessionOptions,
    state: &mut IncrementalState,
    new_texts: &mut NewTexts,
) {
    let point = event.point;
    message.varint(track_event::TYPE, point.event_type() as u64);
    // The end of a slice is known by its thread alone.
    if point.event_type() != EventType::End
        && let Some(category) = point.category()
    {
        match point.category_number() {
            0 => message.string(track_event::CATEGORIES, category.name()),
            number => {
                message.varint(track_event::CATEGORY_IIDS, number.into());
                if state.categories.insert(number.into()) {
                    new_texts.push((interned_data::EVENT_CATEGORIES, number, category.name()));
                }
            }
        }
    }
    match (event.extra, point.name()) {
        (Extra::Name(_), _) if options.without_dynamic_names => {
            message.string(track_event::NAME, FILTERED_NAME);
        }
        (Extra::Name(name), _) => message.string(track_event::NAME, name),
        (_, Some(name)) => match point.name_number() {
            0 => message.string(track_event::NAME, name),
            number => {
                message.varint(track_event::NAME_IID, number.into());
                if state.names.insert(number.into()) {
                    new_texts.push((interned_data::EVENT_NAMES, number, name));
                }
            }
        },
        _ => {}
    }
    if let Extra::Counter(track, value) = event.extra {
        message.varint(track_event::TRACK_UUID, track.uuid());
        put_counter_value(message, value);
    }
    if !options.without_arguments {
        for (name, value) in point.arguments().iter().zip(event.values) {
            put_argument(message, name, value, state, new_texts);
        }
    }
}

fn put_counter_value<S: Sink>(message: &mut Message<'_, S>, value: Value<'_>) {
    match value {
        Value::Bool(value) => message.int(track_event::COUNTER_VALUE, value.into()),
        Value::Int(value) => message.int(track_event::COUNTER_VALUE, value),
        Value::Uint(value) => {
            message.int(track_event::COUNTER_VALUE, i64::try_from(value).unwrap_or(i64::MAX))
        }
        Value::Float(value) => message.double(track_event::DOUBLE_COUNTER_VALUE, value),
        // No macro makes such a counter.
        Value::Str(_) => {}
    }
}

fn put_argument<S: Sink>(
    message: &mut Message<'_, S>,
    name: &ArgumentName,
    value: &Value<'_>,
    state: &mut IncrementalState,
    new_texts: &mut NewTexts,
) {
    let mut argument = message.nested(track_event::DEBUG_ANNOTATIONS);
    match name.number() {
        0 => argument.string(debug_annotation::NAME, name.name()),
        number => {
            argument.varint(debug_annotation::NAME_IID, number.into());
            if state.argument_names.insert(number.into()) {
                new_texts.push((interned_data::DEBUG_ANNOTATION_NAMES, number, name.name()));
            }
        }
    }
    match *value {
        Value::Bool(value) => argument.bool(debug_annotation::BOOL_VALUE, value),
        Value::Int(value) => argument.int(debug_annotation::INT_VALUE, value),
        Value::Uint(value) => argument.varint(debug_annotation::UINT_VALUE, value),
        Value::Float(value) => argument.double(debug_annotation::DOUBLE_VALUE, value),
        Value::Str(value) => argument.string(debug_annotation::STRING_VALUE, value),
    }
}

/// The most bytes that the argument may take in a small packet.
#[inline(always)]
fn small_len(value: &Value<'_>) -> usize {
    let text_len = if let Value::Str(text) = value { text.len() } else { 0 };
    SMALL_ARGUMENT_LEN.saturating_add(text_len)
}

/// As [`put_argument`], with bytes that were worked out before.
#[inline(always)]
fn put_small_argument(packet: &mut SmallPacket<'_>, name: &ArgumentName, value: &Value<'_>) {
    let (tag, (word, word_len), text) = match *value {
        Value::Bool(value) => (debug_annotation::BOOL_VALUE << 3, (value.into(), 1), ""),
        Value::Int(value) => (debug_annotation::INT_VALUE << 3, varint::word(value as u64), ""),
        Value::Uint(value) => (debug_annotation::UINT_VALUE << 3, varint::word(value), ""),
        Value::Float(value) => (debug_annotation::DOUBLE_VALUE << 3 | 1, (value.to_bits().into(), 8), ""),
        // A small packet is shorter than 128 bytes.
        Value::Str(text) => (debug_annotation::STRING_VALUE << 3 | 2, (text.len() as u128 & 0x7f, 1), text),
    };
    let (head, head_len) = name.head();
    // Without its tag and its length.
    let len = head_len - 2 + 1 + word_len + text.len();
    let head = head & 0x00ff_ffff_ffff_00ff | (len as u64 & 0x7f) << 8;
    packet.put(u128::from(head).to_le_bytes(), head_len);
    packet.put((u128::from(tag) | word << 8).to_le_bytes(), 1 + word_len);
    if !text.is_empty() {
        packet.put_bytes(text.as_bytes());
    }
}

fn put_new_texts<S: Sink>(packet: &mut Message<'_, S>, new_texts: &NewTexts) {
    if new_texts.is_empty() {
        return;
    }
    let mut data = packet.nested(trace_packet::INTERNED_DATA);
    for (field, number, text) in new_texts {
        // EventCategory, EventName and DebugAnnotationName have the same two fields.
        let mut entry = data.nested(*field);
        entry.varint(event_name::IID, (*number).into());
        entry.string(event_name::NAME, text);
    }
}
