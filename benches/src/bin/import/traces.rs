//! Traces out of a generator: the same bytes each time.

use ferretto_protos::fields::{
    clock_snapshot, counter_descriptor, debug_annotation, debug_annotation_name, event_category, event_name,
    ftrace_event, ftrace_event_bundle, interned_data, sched_switch_ftrace_event as switch,
    sched_waking_ftrace_event as waking, thread_descriptor, trace, trace_packet, trace_packet_defaults,
    track_descriptor, track_event, track_event_defaults,
};
use ferretto_protozero::Message;

const BOOTTIME: u64 = 6;
/// A sequence's own clock, which says differences.
const OWN_CLOCK: u64 = 64;
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;
/// When the traces begin.
const START_NS: u64 = 1_000_000_000_000;
const CPUS: u64 = 4;
/// Threads that are switched between on each processor.
const THREADS_OF_CPU: u64 = 20;
const EVENTS_OF_BUNDLE: usize = 500;
const SEQUENCES: u64 = 4;
/// Different names of spans.
const NAMES: u64 = 50;
/// How deep spans nest.
const DEPTH: u64 = 4;
const COUNTERS: u64 = 20;

/// All traces, of at least so many bytes each.
pub(crate) fn all(bytes: usize) -> [(&'static str, Vec<u8>); 4] {
    let with = |parts: &[fn(&mut Writer, usize)]| {
        let mut writer = Writer::new(bytes);
        parts.iter().for_each(|part| part(&mut writer, bytes / parts.len()));
        writer.bytes
    };
    [
        ("scheduling", with(&[scheduling])),
        ("spans", with(&[spans])),
        ("counters", with(&[counters])),
        ("mixed", with(&[scheduling, spans, counters])),
    ]
}

/// A trace that costs a reader nothing but to begin and end.
pub(crate) fn nearly_nothing() -> Vec<u8> {
    Writer::new(0).bytes
}

pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// A pseudo-random number's last one.
    state: u64,
}

impl Writer {
    fn new(bytes: usize) -> Self {
        let mut writer = Self { bytes: Vec::with_capacity(bytes + (1 << 20)), state: 0x9e37_79b9_7f4a_7c15 };
        writer.packet(|packet| clock(&mut packet.nested(trace_packet::CLOCK_SNAPSHOT), BOOTTIME, false));
        writer
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
        let mut root = Message::new(&mut self.bytes);
        fill(&mut root.nested(trace::PACKET));
    }

    /// Below `end`, each about as often (xorshift64).
    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }
}

fn clock(snapshot: &mut Message<'_, Vec<u8>>, id: u64, is_incremental: bool) {
    let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
    clock.varint(clock_snapshot::clock::CLOCK_ID, id);
    clock.varint(clock_snapshot::clock::TIMESTAMP, START_NS);
    if is_incremental {
        clock.bool(clock_snapshot::clock::IS_INCREMENTAL, true);
    }
}

/// Switches and wake-ups, in bundles of a processor each, as they come out of the kernel's buffers.
fn scheduling(writer: &mut Writer, bytes: usize) {
    let end = writer.bytes.len() + bytes;
    let mut now = [START_NS; CPUS as usize];
    let mut running = [0; CPUS as usize];
    while writer.bytes.len() < end {
        for cpu in 0..CPUS {
            let (now, running) = (&mut now[cpu as usize], &mut running[cpu as usize]);
            let steps: Vec<(u64, u64)> = (0..EVENTS_OF_BUNDLE / 2)
                .map(|_| (writer.below(THREADS_OF_CPU), 200 + writer.below(20_000)))
                .collect();
            writer.packet(|packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 100 + cpu);
                let mut bundle = packet.nested(trace_packet::FTRACE_EVENTS);
                bundle.varint(ftrace_event_bundle::CPU, cpu);
                for (thread, step_ns) in steps {
                    let next = 1000 + cpu * THREADS_OF_CPU + thread;
                    *now += step_ns;
                    let mut event = bundle.nested(ftrace_event_bundle::EVENT);
                    event.varint(ftrace_event::TIMESTAMP, *now);
                    event.varint(ftrace_event::PID, *running);
                    let mut woken = event.nested(ftrace_event::SCHED_WAKING);
                    woken.string(waking::COMM, &comm(next));
                    woken.varint(waking::PID, next);
                    woken.varint(waking::PRIO, 120);
                    woken.varint(waking::SUCCESS, 1);
                    woken.varint(waking::TARGET_CPU, cpu);
                    drop(woken);
                    drop(event);
                    *now += step_ns / 2;
                    let mut event = bundle.nested(ftrace_event_bundle::EVENT);
                    event.varint(ftrace_event::TIMESTAMP, *now);
                    event.varint(ftrace_event::PID, *running);
                    let mut switched = event.nested(ftrace_event::SCHED_SWITCH);
                    switched.string(switch::PREV_COMM, &comm(*running));
                    switched.varint(switch::PREV_PID, *running);
                    switched.varint(switch::PREV_PRIO, 120);
                    switched.varint(switch::PREV_STATE, u64::from(step_ns % 3 != 0));
                    switched.string(switch::NEXT_COMM, &comm(next));
                    switched.varint(switch::NEXT_PID, next);
                    switched.varint(switch::NEXT_PRIO, 120);
                    *running = next;
                }
            });
        }
    }
}

fn comm(pid: u64) -> String {
    if pid == 0 { "swapper".to_owned() } else { format!("worker-{pid}") }
}

/// A thread's first packets: its clock, defaults and track.
fn begin_sequence(writer: &mut Writer, sequence: u64) {
    writer.packet(|packet| {
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.varint(trace_packet::SEQUENCE_FLAGS, CLEARED);
        let mut defaults = packet.nested(trace_packet::TRACE_PACKET_DEFAULTS);
        defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, OWN_CLOCK);
        defaults
            .nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS)
            .varint(track_event_defaults::TRACK_UUID, sequence);
        drop(defaults);
        let mut snapshot = packet.nested(trace_packet::CLOCK_SNAPSHOT);
        clock(&mut snapshot, BOOTTIME, false);
        clock(&mut snapshot, OWN_CLOCK, true);
    });
    writer.packet(|packet| {
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.varint(trace_packet::TIMESTAMP, 0);
        let mut descriptor = packet.nested(trace_packet::TRACK_DESCRIPTOR);
        descriptor.varint(track_descriptor::UUID, sequence);
        let mut thread = descriptor.nested(track_descriptor::THREAD);
        thread.varint(thread_descriptor::PID, 5000);
        thread.varint(thread_descriptor::TID, 5000 + sequence);
        thread.string(thread_descriptor::THREAD_NAME, "span-writer");
    });
    writer.packet(|packet| {
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.varint(trace_packet::TIMESTAMP, 0);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
        let mut interned = packet.nested(trace_packet::INTERNED_DATA);
        let mut category = interned.nested(interned_data::EVENT_CATEGORIES);
        category.varint(event_category::IID, 1);
        category.string(event_category::NAME, "app");
        drop(category);
        for iid in 1..=NAMES {
            let mut name = interned.nested(interned_data::EVENT_NAMES);
            name.varint(event_name::IID, iid);
            name.string(event_name::NAME, &format!("operation number {iid}"));
        }
        for (iid, name) in [(1, "size"), (2, "path")] {
            let mut entry = interned.nested(interned_data::DEBUG_ANNOTATION_NAMES);
            entry.varint(debug_annotation_name::IID, iid);
            entry.string(debug_annotation_name::NAME, name);
        }
    });
}

/// Spans within spans, half of them with two arguments.
fn spans(writer: &mut Writer, bytes: usize) {
    (1..=SEQUENCES).for_each(|sequence| begin_sequence(writer, sequence));
    let end = writer.bytes.len() + bytes;
    let mut depth = [0; SEQUENCES as usize];
    while writer.bytes.len() < end {
        for sequence in 1..=SEQUENCES {
            let depth = &mut depth[sequence as usize - 1];
            let begins = *depth == 0 || (*depth < DEPTH && writer.below(2) == 0);
            *depth = if begins { *depth + 1 } else { *depth - 1 };
            let (step_ns, name, size, has_args) =
                (100 + writer.below(3000), 1 + writer.below(NAMES), writer.below(1000), writer.below(2) == 0);
            writer.packet(|packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
                packet.varint(trace_packet::TIMESTAMP, step_ns);
                packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
                let mut event = packet.nested(trace_packet::TRACK_EVENT);
                if !begins {
                    return event.varint(track_event::TYPE, SLICE_END);
                }
                event.varint(track_event::TYPE, SLICE_BEGIN);
                event.varint(track_event::CATEGORY_IIDS, 1);
                event.varint(track_event::NAME_IID, name);
                if has_args {
                    let mut arg = event.nested(track_event::DEBUG_ANNOTATIONS);
                    arg.varint(debug_annotation::NAME_IID, 1);
                    arg.varint(debug_annotation::INT_VALUE, size);
                    drop(arg);
                    let mut arg = event.nested(track_event::DEBUG_ANNOTATIONS);
                    arg.varint(debug_annotation::NAME_IID, 2);
                    arg.string(debug_annotation::STRING_VALUE, &format!("/srv/data/{}", size % 100));
                }
            });
        }
    }
}

/// Counters of a program, in turn.
fn counters(writer: &mut Writer, bytes: usize) {
    let sequence = SEQUENCES + 1;
    begin_sequence(writer, sequence);
    let uuid = |counter: u64| 1000 + counter;
    for counter in 0..COUNTERS {
        writer.packet(|packet| {
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
            packet.varint(trace_packet::TIMESTAMP, 0);
            let mut descriptor = packet.nested(trace_packet::TRACK_DESCRIPTOR);
            descriptor.varint(track_descriptor::UUID, uuid(counter));
            descriptor.varint(track_descriptor::PARENT_UUID, sequence);
            descriptor.string(track_descriptor::NAME, &format!("counter {counter}"));
            descriptor.nested(track_descriptor::COUNTER).varint(counter_descriptor::UNIT_MULTIPLIER, 1);
        });
    }
    let end = writer.bytes.len() + bytes;
    let mut number = 0;
    while writer.bytes.len() < end {
        number += 1;
        let (step_ns, value) = (50 + writer.below(500), writer.below(1 << 20));
        writer.packet(|packet| {
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
            packet.varint(trace_packet::TIMESTAMP, step_ns);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
            let mut event = packet.nested(trace_packet::TRACK_EVENT);
            event.varint(track_event::TYPE, COUNTER);
            event.varint(track_event::TRACK_UUID, uuid(number % COUNTERS));
            event.varint(track_event::COUNTER_VALUE, value);
        });
    }
}
