use ferretto_protozero::Message;
use ferretto_trace_read::fields::{Fields, Value};

use super::*;

const THREADS: u64 = 3;

/// Threads with clocks of differences and slices of several lengths, and two CPUs.
fn trace() -> Vec<u8> {
    let mut out = Vec::new();
    let mut packet = |fill: &dyn Fn(&mut Message<'_, Vec<u8>>)| {
        let mut body = Vec::new();
        fill(&mut Message::new(&mut body));
        Message::new(&mut out).bytes(1, &body);
    };
    for thread in 0..THREADS {
        packet(&|packet| {
            packet.varint(8, 1000);
            packet.varint(58, 6);
            packet.varint(10, 2 + thread);
            packet.varint(13, 1);
            let mut defaults = packet.nested(59);
            defaults.varint(58, 64);
            defaults.nested(11).varint(11, 77 + thread);
            drop(defaults);
            let mut snapshot = packet.nested(6);
            for (id, incremental) in [(6, 0), (64, 1)] {
                let mut clock = snapshot.nested(1);
                clock.varint(1, id);
                clock.varint(2, 1000);
                clock.varint(3, incremental);
            }
        });
    }
    for step in 0..60u64 {
        for thread in 0..THREADS {
            packet(&|packet| {
                packet.varint(8, 10 + thread);
                packet.varint(10, 2 + thread);
                packet.varint(13, 2);
                if step % 20 == 7 {
                    let mut interned = packet.nested(12);
                    let mut name = interned.nested(2);
                    name.varint(1, step);
                    name.string(2, "work");
                }
                let mut event = packet.nested(11);
                // Every sixth slice is open for long.
                event.varint(9, if step.is_multiple_of(2) || step % 12 == 1 { 1 } else { 2 });
                event.varint(10, 7);
            });
        }
        if step.is_multiple_of(4) {
            packet(&|packet| bundle(packet, step / 4 % 2, 1000 + 10 * step));
        }
    }
    out
}

fn bundle(packet: &mut Message<'_, Vec<u8>>, cpu: u64, now: u64) {
    packet.varint(10, 1);
    let mut bundle = packet.nested(1);
    bundle.varint(1, cpu);
    let mut compact = bundle.nested(4);
    compact.string(5, "a");
    compact.string(5, "b");
    let tid = |at: u64| if at.is_multiple_of(2) { 0 } else { 10 + (now + at) % 7 };
    compact.packed_varints(1, (0..8).map(|at| if at == 0 { now } else { 9 }));
    compact.packed_varints(2, (0..8).map(|at| at % 3));
    compact.packed_varints(3, (0..8).map(tid));
    compact.packed_varints(4, (0..8).map(|_| 120));
    compact.packed_varints(6, (0..8).map(|at| at % 2));
    compact.packed_varints(7, (0..6).map(|at| if at == 0 { now + 3 } else { 13 }));
    compact.packed_varints(8, (0..6).map(|at| tid(2 * at + 1)));
    compact.packed_varints(9, (0..6).map(|_| cpu));
    compact.packed_varints(10, (0..6).map(|_| 120));
    compact.packed_varints(11, (0..6).map(|at| at % 2));
}

/// Without a glance there is a pass that finds when the trace begins; in one block all packets are seen by all passes.
const PLAIN: Grain = Grain { glance_bytes: u64::MAX, block_bytes: u64::MAX };

fn cut_in(grain: Grain, trace: &[u8], from: i64, to: i64) -> (Report, Vec<u8>) {
    let options = Options {
        from: Some(Moment::FromStart(from)),
        to: Some(Moment::FromStart(to)),
        ..Options::default()
    };
    let mut out = Vec::new();
    let report = cut_by(trace, "t", &options, &mut out, grain).unwrap();
    (report, out)
}

#[test]
fn what_is_passed_over_and_what_is_guessed_changes_nothing() {
    let trace = trace();
    for (glance_bytes, block_bytes) in [(300, 1), (300, 100), (100, 1), (2000, 500), (u64::MAX, 1)] {
        for from in (0..700).step_by(53) {
            for len in [0, 40, 300] {
                let (expected, plain) = cut_in(PLAIN, &trace, from, from + len);
                let (report, out) = cut_in(Grain { glance_bytes, block_bytes }, &trace, from, from + len);
                assert_eq!(report, expected);
                assert!(out == plain, "{glance_bytes} {block_bytes} {from} {len}");
            }
        }
    }
}

#[test]
fn a_packed_trace_is_passed_over_as_a_plain_one() {
    let plain = trace();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&plain).unwrap();
    let packed = packed.finish().unwrap();
    let grain = Grain { glance_bytes: 300, block_bytes: 50 };
    assert_eq!(cut_in(grain, &packed, 200, 300), cut_in(grain, &plain, 200, 300));
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const TRACK: u64 = 9;
const FLOW: u64 = 5;

/// An event of a thread, at a time of the trace's clock.
fn event_of(out: &mut Vec<u8>, thread: u64, ts: u64, kind: u64, track: Option<u64>, has_flow: bool) {
    let mut body = Vec::new();
    let mut packet = Message::new(&mut body);
    packet.varint(8, ts);
    packet.varint(58, 6);
    packet.varint(10, thread);
    packet.varint(13, 1);
    let mut event = packet.nested(11);
    event.varint(9, kind);
    if let Some(track) = track {
        event.varint(11, track);
    }
    if has_flow {
        event.fixed64(47, FLOW);
    }
    drop(event);
    drop(packet);
    Message::new(out).bytes(1, &body);
}

/// The events of [`TRACK`], by time: when, and their kind.
fn events_on_track(trace: &[u8]) -> Vec<(u64, u64)> {
    let mut events = Vec::new();
    ferretto_trace_read::Reader::new(trace)
        .for_each(|packet, _| {
            let mut ts = 0;
            for part in Fields::new(packet).whole() {
                match (part.number, part.value) {
                    (8, value) => ts = value.as_u64().unwrap(),
                    (11, Value::Bytes(bytes)) if TrackEvent::of(bytes).track_uuid == Some(TRACK) => {
                        events.push((ts, TrackEvent::of(bytes).kind));
                    }
                    _ => {}
                }
            }
        })
        .unwrap();
    events.sort_unstable();
    events
}

/// A task begins on one thread and ends on another, whose events come first in the file.
#[test]
fn what_a_flow_comes_from_is_whole_though_its_end_stands_before_its_begin() {
    let mut trace = Vec::new();
    for ts in [200, 400] {
        event_of(&mut trace, 2, ts, END, Some(TRACK), false);
    }
    event_of(&mut trace, 2, 1000, INSTANT, None, true);
    for ts in [100, 300] {
        event_of(&mut trace, 3, ts, BEGIN, Some(TRACK), true);
    }
    let (_, part) = cut_in(GRAIN, &trace, 800, 1000);
    assert_eq!(events_on_track(&part), [(100, BEGIN), (200, END), (300, BEGIN), (400, END)]);
}

/// The flow is that of a slice which reaches into the range, as the order of time shows only.
#[test]
fn a_flow_of_a_slice_that_is_known_late_leads_to_its_other_end() {
    let mut trace = Vec::new();
    for ts in [50, 900] {
        event_of(&mut trace, 2, ts, END, Some(TRACK), false);
    }
    event_of(&mut trace, 2, 1500, INSTANT, Some(TRACK), true);
    for ts in [20, 100] {
        event_of(&mut trace, 3, ts, BEGIN, Some(TRACK), ts == 100);
    }
    let (_, part) = cut_in(GRAIN, &trace, 400, 500);
    assert_eq!(events_on_track(&part), [(100, BEGIN), (900, END), (1500, INSTANT)]);
}

/// Who is who is said when it becomes known, which may be long after the range.
#[test]
fn names_that_are_given_late_are_kept() {
    const PROCESS_TREE: u32 = 2;
    const TRACK_DESCRIPTOR: u32 = 60;
    let mut trace = Vec::new();
    for ts in [100, 500, 900] {
        event_of(&mut trace, 2, ts, INSTANT, Some(TRACK), false);
    }
    for (number, name_field) in [(TRACK_DESCRIPTOR, 2), (PROCESS_TREE, 4)] {
        let mut body = Vec::new();
        let mut packet = Message::new(&mut body);
        packet.varint(8, 950);
        packet.varint(58, 6);
        packet.varint(10, 2);
        packet.nested(number).string(name_field, "named late");
        drop(packet);
        Message::new(&mut trace).bytes(1, &body);
    }
    let (_, part) = cut_in(GRAIN, &trace, 300, 500);
    let mut named = Vec::new();
    ferretto_trace_read::Reader::new(&part[..])
        .for_each(|packet, _| {
            let is_name = |number: &u32| [PROCESS_TREE, TRACK_DESCRIPTOR].contains(number);
            named.extend(Fields::new(packet).whole().map(|part| part.number).filter(is_name));
        })
        .unwrap();
    assert_eq!(named, [TRACK_DESCRIPTOR, PROCESS_TREE]);
    assert_eq!(events_on_track(&part), [(500, INSTANT)]);
}

/// Times of clocks other than the trace's.
mod clocks;
/// Sequences of which nothing can be read.
mod dropped;
/// Threads and what the kernel says of them.
mod kernel;
