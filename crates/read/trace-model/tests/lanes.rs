//! Packets with a usual event are read in one go, and mean what they mean when they are read piece by piece.

use ferretto_protos::fields::{
    clock_snapshot, counter_descriptor, debug_annotation, debug_annotation_name, event_name, interned_data,
    thread_descriptor, trace_packet, trace_packet_defaults, track_descriptor, track_event,
    track_event_defaults,
};
use ferretto_protozero::Message;
use ferretto_trace_model::Import;
use ferretto_trace_read::Place;
use ferretto_trace_tables::{Tables, Value};
use proptest::prelude::*;

const OWN_CLOCK: u64 = 64;
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// A field that no packet has: nobody reads it, and no packet with it is a usual one.
const UNKNOWN: u32 = 2000;

type Packet = Vec<u8>;

fn packet(sequence: u64, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) -> Packet {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
    fill(&mut message);
    drop(message);
    bytes
}

/// What a sequence says before its events: its clock, the track of events that name none, its names.
fn beginning(sequence: u64, is_own_clock: bool) -> Vec<Packet> {
    let defaults = packet(sequence, |packet| {
        packet.varint(trace_packet::SEQUENCE_FLAGS, CLEARED);
        let mut defaults = packet.nested(trace_packet::TRACE_PACKET_DEFAULTS);
        if is_own_clock {
            defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, OWN_CLOCK);
        }
        defaults
            .nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS)
            .varint(track_event_defaults::TRACK_UUID, sequence);
        drop(defaults);
        let mut snapshot = packet.nested(trace_packet::CLOCK_SNAPSHOT);
        for (id, is_incremental) in [(6, false), (OWN_CLOCK, true)] {
            let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
            clock.varint(clock_snapshot::clock::CLOCK_ID, id);
            clock.varint(clock_snapshot::clock::TIMESTAMP, 1000);
            clock.bool(clock_snapshot::clock::IS_INCREMENTAL, is_incremental);
        }
    });
    let track = packet(sequence, |packet| {
        packet.varint(trace_packet::TIMESTAMP, 0);
        let mut descriptor = packet.nested(trace_packet::TRACK_DESCRIPTOR);
        descriptor.varint(track_descriptor::UUID, sequence);
        let mut thread = descriptor.nested(track_descriptor::THREAD);
        thread.varint(thread_descriptor::PID, 50);
        thread.varint(thread_descriptor::TID, 50 + sequence);
    });
    let counter = packet(sequence, |packet| {
        packet.varint(trace_packet::TIMESTAMP, 0);
        let mut descriptor = packet.nested(trace_packet::TRACK_DESCRIPTOR);
        descriptor.varint(track_descriptor::UUID, 10 + sequence);
        let mut counter = descriptor.nested(track_descriptor::COUNTER);
        counter.varint(counter_descriptor::UNIT_MULTIPLIER, 3);
        counter.bool(counter_descriptor::IS_INCREMENTAL, sequence == 2);
    });
    vec![defaults, track, counter, names(sequence, 0)]
}

/// Names of events and annotations by their numbers.
fn names(sequence: u64, more: u64) -> Packet {
    packet(sequence, |packet| {
        packet.varint(trace_packet::TIMESTAMP, 1);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
        let mut interned = packet.nested(trace_packet::INTERNED_DATA);
        for iid in 1 + more..=3 + more {
            let mut name = interned.nested(interned_data::EVENT_NAMES);
            name.varint(event_name::IID, iid);
            name.string(event_name::NAME, &format!("event {iid}"));
            drop(name);
            let mut name = interned.nested(interned_data::DEBUG_ANNOTATION_NAMES);
            name.varint(debug_annotation_name::IID, iid);
            name.string(debug_annotation_name::NAME, &format!("arg.{}", iid % 3));
        }
    })
}

/// An event with any of the fields that most have: what each is follows from `dice`.
fn event(sequence: u64, kind: u64, dice: u64) -> Packet {
    let one_of = |shift: u32, of: u64| dice >> shift & (of - 1);
    let fill = |packet: &mut Message<'_, Vec<u8>>| {
        if one_of(0, 16) != 0 {
            packet.varint(trace_packet::TIMESTAMP, one_of(4, 64));
        }
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
        let mut event = packet.nested(trace_packet::TRACK_EVENT);
        event.varint(track_event::TYPE, kind);
        if one_of(10, 4) != 0 {
            event.varint(track_event::NAME_IID, one_of(12, 8));
        }
        match one_of(15, 8) {
            0 => event.string(track_event::NAME, "own"),
            1 => event.varint(track_event::TRACK_UUID, 10 + sequence),
            2 => event.varint(track_event::TRACK_UUID, one_of(18, 8)),
            3 => event.varint(track_event::FLOW_IDS, one_of(18, 4)),
            _ => {}
        }
        if kind == 4 {
            event.varint(track_event::COUNTER_VALUE, one_of(21, 64));
        }
        for at in 0..one_of(27, 4) as u32 {
            let dice = dice.rotate_right(29 + 10 * at);
            let mut annotation = event.nested(track_event::DEBUG_ANNOTATIONS);
            annotation.varint(debug_annotation::NAME_IID, dice & 7);
            match dice >> 3 & 7 {
                0 => annotation.varint(debug_annotation::INT_VALUE, dice >> 6 & 1),
                1 => annotation.varint(debug_annotation::UINT_VALUE, 1 << 63),
                2 => annotation.bool(debug_annotation::BOOL_VALUE, true),
                3 => annotation.double(debug_annotation::DOUBLE_VALUE, 0.5),
                4 => annotation.string(debug_annotation::STRING_VALUE, "text"),
                5 => annotation.varint(debug_annotation::POINTER_VALUE, 7),
                6 => annotation.nested(debug_annotation::DICT_ENTRIES).string(debug_annotation::NAME, "in"),
                _ => {}
            }
        }
    };
    packet(sequence, fill)
}

fn any_packets() -> impl Strategy<Value = Vec<Packet>> {
    let sequence = || prop_oneof![Just(1u64), Just(2), Just(1 + 64)];
    let one = prop_oneof![
        40 => (sequence(), 1u64..6, any::<u64>()).prop_map(|(sequence, kind, dice)| vec![event(sequence, kind, dice)]),
        2 => (sequence(), 0u64..5).prop_map(|(sequence, more)| vec![names(sequence, more)]),
        1 => (sequence(), any::<bool>()).prop_map(|(sequence, is_own_clock)| beginning(sequence, is_own_clock)),
        1 => sequence().prop_map(|sequence| vec![packet(sequence, |packet| {
            packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, 1);
        })]),
    ];
    (any::<bool>(), proptest::collection::vec(one, 0..120)).prop_map(|(is_own_clock, packets)| {
        let begun = [1, 2, 1 + 64].into_iter().flat_map(|sequence| beginning(sequence, is_own_clock));
        begun.chain(packets.into_iter().flatten()).collect()
    })
}

/// All rows as text.
fn rows(packets: &[Packet]) -> Vec<String> {
    let mut import = Import::default();
    for (packet, offset) in packets.iter().zip(0..) {
        import.push(packet, Place { offset, in_batch: None });
    }
    let tables = import.finish();
    let text = |value| match value {
        Value::Str(text) => tables.strings.get(text).to_owned(),
        value => format!("{value:?}"),
    };
    let mut all = Vec::new();
    for table in Tables::all(&tables) {
        for row in 0..table.len() {
            let cells = table.columns().iter().map(|column| text(column.data.get(row))).collect::<Vec<_>>();
            all.push(format!("{} {}", table.name(), cells.join(" | ")));
        }
    }
    all
}

proptest! {
    #[test]
    fn a_usual_packet_says_what_it_says_with_a_field_that_nobody_reads(packets in any_packets()) {
        let unusual: Vec<Packet> = packets
            .iter()
            .map(|packet| {
                let mut packet = packet.clone();
                Message::new(&mut packet).varint(UNKNOWN, 1);
                packet
            })
            .collect();
        prop_assert_eq!(rows(&packets), rows(&unusual));
    }
}
