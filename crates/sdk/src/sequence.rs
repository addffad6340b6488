//! The packets of one thread for one session.
//!
//! Events refer to what earlier packets of the sequence said: names by number, times as differences, the thread as default track. The
//! first packets say it; they are said again when the session asks, and after a loss. Upstream: `track_event_internal.cc`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use ferretto_producer::TraceWriter;
use ferretto_protos::fields::{
    clock_snapshot, counter_descriptor, debug_annotation, event_name, interned_data, process_descriptor,
    thread_descriptor, trace_packet, trace_packet_defaults, track_descriptor, track_event,
};
use ferretto_protozero::{Message, Sink};

use crate::event::{Event, Kind};
use crate::session::SessionOptions;
use crate::track::{CounterTrack, Unit, process, thread_id, thread_name, thread_uuid};
use crate::value::{Arg, Name, Value};

/// `SequenceFlags` of TracePacket.
const INCREMENTAL_STATE_CLEARED: u64 = 1;
/// As above.
const NEEDS_INCREMENTAL_STATE: u64 = 2;
/// `BuiltinClock.BUILTIN_CLOCK_BOOTTIME`.
const CLOCK_BOOTTIME: u64 = 6;
/// The sequence's own clock, which counts differences (upstream: `kClockIdIncremental`).
const CLOCK_INCREMENTAL: u64 = 64;
/// Stands for a name that the session does not want (upstream's text).
const FILTERED_NAME: &str = "FILTERED";

/// `TrackEvent.Type`.
mod event_type {
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const COUNTER: u64 = 4;
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
    categories: Interned,
    names: Interned,
    argument_names: Interned,
    tracks: HashSet<u64>,
}

/// Texts that were given numbers, from 1, by their addresses: two texts of equal content may get two numbers, which does no harm.
#[derive(Debug, Default)]
struct Interned {
    numbers: HashMap<(usize, usize), u64, BuildHasherDefault<AddressHasher>>,
}

/// Addresses need no strong hash.
#[derive(Debug, Default)]
struct AddressHasher(u64);

/// Texts that this packet uses for the first time, by the field of `InternedData` that says them.
type NewTexts = Vec<(u32, u64, &'static str)>;

/// Memory that is used for one event after another.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    packet: Vec<u8>,
    new_texts: NewTexts,
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

    pub(crate) fn write(&mut self, event: &Event<'_>, scratch: &mut Scratch) {
        if self.state.as_ref().is_none_or(|state| state.drop_count != self.writer.drop_count()) {
            self.restart(event.timestamp);
        }
        let Some(state) = &mut self.state else {
            return;
        };
        if let Kind::Counter(track, _) = event.kind
            && state.tracks.insert(track.uuid())
        {
            describe_counter(&mut self.writer, state, self.options, event.timestamp, track);
        }
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
    }

    /// Says everything that events rely on; leaves no state if it cannot be written now.
    fn restart(&mut self, now: u64) {
        self.state = None;
        let drop_count = self.writer.drop_count();
        let tid = thread_id();
        let mut packet = self.writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, now);
        packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        put_defaults(&mut packet, self.options, tid);
        put_clocks(&mut packet, self.options, now);
        drop(packet);
        if self.writer.is_dropping() {
            return;
        }
        let mut state = IncrementalState {
            last_timestamp: whole_units(now, self.options),
            drop_count,
            categories: Interned::default(),
            names: Interned::default(),
            argument_names: Interned::default(),
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

/// Ties the sequence's own clock to the system's.
fn put_clocks<S: Sink>(packet: &mut Message<'_, S>, options: SessionOptions, now: u64) {
    let Some(unit) = options.delta_unit_ns else {
        return;
    };
    let mut snapshot = packet.nested(trace_packet::CLOCK_SNAPSHOT);
    let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
    clock.varint(clock_snapshot::clock::CLOCK_ID, CLOCK_BOOTTIME);
    clock.varint(clock_snapshot::clock::TIMESTAMP, whole_units(now, options));
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
    let event_type = match event.kind {
        Kind::Begin => event_type::SLICE_BEGIN,
        Kind::End => event_type::SLICE_END,
        Kind::Instant => event_type::INSTANT,
        Kind::Counter(..) => event_type::COUNTER,
    };
    message.varint(track_event::TYPE, event_type);
    // The end of a slice is known by its thread alone.
    if !matches!(event.kind, Kind::End) {
        let category = event.category.name();
        let number = state.categories.number(category, interned_data::EVENT_CATEGORIES, new_texts);
        message.varint(track_event::CATEGORY_IIDS, number);
    }
    match event.name {
        Some(Name::Static(name)) => {
            let number = state.names.number(name, interned_data::EVENT_NAMES, new_texts);
            message.varint(track_event::NAME_IID, number);
        }
        Some(Name::Dynamic(name)) => {
            message
                .string(track_event::NAME, if options.without_dynamic_names { FILTERED_NAME } else { name });
        }
        None => {}
    }
    if let Kind::Counter(track, value) = event.kind {
        message.varint(track_event::TRACK_UUID, track.uuid());
        put_counter_value(message, value);
    }
    if !options.without_arguments {
        for argument in event.arguments {
            put_argument(message, argument, state, new_texts);
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
    (name, value): &Arg<'_>,
    state: &mut IncrementalState,
    new_texts: &mut NewTexts,
) {
    let number = state.argument_names.number(name, interned_data::DEBUG_ANNOTATION_NAMES, new_texts);
    let mut argument = message.nested(track_event::DEBUG_ANNOTATIONS);
    argument.varint(debug_annotation::NAME_IID, number);
    match *value {
        Value::Bool(value) => argument.bool(debug_annotation::BOOL_VALUE, value),
        Value::Int(value) => argument.int(debug_annotation::INT_VALUE, value),
        Value::Uint(value) => argument.varint(debug_annotation::UINT_VALUE, value),
        Value::Float(value) => argument.double(debug_annotation::DOUBLE_VALUE, value),
        Value::Str(value) => argument.string(debug_annotation::STRING_VALUE, value),
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
        entry.varint(event_name::IID, *number);
        entry.string(event_name::NAME, text);
    }
}

impl Interned {
    /// The number of a text; noted in `new_texts` if the reader does not know it yet.
    fn number(&mut self, text: &'static str, field: u32, new_texts: &mut NewTexts) -> u64 {
        let next = self.numbers.len() as u64 + 1;
        *self.numbers.entry((text.as_ptr().addr(), text.len())).or_insert_with(|| {
            new_texts.push((field, next, text));
            next
        })
    }
}

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        // Fibonacci hashing: the upper bits, which the map looks at, depend on all bits.
        self.0 = (self.0.rotate_left(5) ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
