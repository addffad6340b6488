//! Which packets of a trace a reader can make use of: those whose names and clocks it knows.
//!
//! The rules are Trace Processor's. A packet that needs the state of its sequence is skipped until the sequence has said that state anew
//! since its start or its last gap; one on a clock that no snapshot tells of has no time (upstream: trace_packet.proto,
//! `sequence_flags` and `timestamp_clock_id`; clock_snapshot.proto).

use std::collections::{HashMap, HashSet};

use ferretto_protos::fields::{clock_snapshot, trace_packet, trace_packet_defaults};
use ferretto_protos::trace_packet::SequenceFlags;
use ferretto_protozero::read::{Fields, Value};

/// Sequences that are told apart, and clocks; beyond it packets count as readable. It bounds our memory on a hostile trace.
const MAX_SEQUENCES: usize = 1 << 20;
const MAX_CLOCKS: usize = 1 << 16;
/// Clocks that mean something on their sequence only (upstream: clock_snapshot.proto).
const SEQUENCE_CLOCKS: std::ops::RangeInclusive<u64> = 64..=127;
/// What traces count time by, with or without snapshots: the boot clock. 0 is the trace's own.
const ALWAYS_KNOWN: [u64; 2] = [0, 6];

/// What of a packet it takes to tell.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) sequence: u64,
    pub(crate) flags: u64,
    /// The older way to say that the state was cleared.
    pub(crate) is_cleared: bool,
    pub(crate) is_after_loss: bool,
    pub(crate) has_time: bool,
    pub(crate) clock: Option<u64>,
    pub(crate) defaults: Option<&'a [u8]>,
    pub(crate) snapshot: Option<&'a [u8]>,
}

/// What a reader knows so far.
#[derive(Debug, Default, Clone)]
pub struct Readable {
    sequences: HashMap<u64, Sequence>,
    /// With their sequence, or 0 for those that mean the same everywhere.
    clocks: HashSet<(u64, u64)>,
    /// Packets whose names nobody knows.
    pub without_names: u64,
    /// Packets whose time nobody knows.
    pub without_time: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sequence {
    has_state: bool,
    default_clock: u64,
}

impl Readable {
    /// Takes note of a packet. Says if it is the first of its sequence.
    pub(crate) fn packet(&mut self, head: &Head<'_>) -> bool {
        let is_known = self.sequences.contains_key(&head.sequence);
        if !is_known && self.sequences.len() >= MAX_SEQUENCES {
            return false;
        }
        head.snapshot.into_iter().for_each(|snapshot| self.clocks_of(head.sequence, snapshot));
        let sequence = self.sequences.entry(head.sequence).or_default();
        if head.is_after_loss {
            sequence.has_state = false;
        }
        if head.is_cleared || head.flags & SequenceFlags::SeqIncrementalStateCleared as u64 != 0 {
            *sequence = Sequence { has_state: true, default_clock: 0 };
        }
        if let Some(defaults) = head.defaults {
            sequence.default_clock = varint(defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID).unwrap_or(0);
        }
        let sequence = *sequence;
        if head.flags & SequenceFlags::SeqNeedsIncrementalState as u64 != 0 && !sequence.has_state {
            self.without_names += 1;
        } else if head.has_time && !self.knows(head.sequence, head.clock.unwrap_or(sequence.default_clock)) {
            self.without_time += 1;
        }
        !is_known
    }

    fn knows(&self, sequence: u64, clock: u64) -> bool {
        ALWAYS_KNOWN.contains(&clock)
            || self.clocks.contains(&Self::key(sequence, clock))
            || self.clocks.len() >= MAX_CLOCKS
    }

    fn clocks_of(&mut self, sequence: u64, snapshot: &[u8]) {
        for field in Fields::new(snapshot).map_while(Result::ok) {
            let Value::Bytes(clock) = field.value else { continue };
            if field.number == clock_snapshot::CLOCKS
                && self.clocks.len() < MAX_CLOCKS
                && let Some(id) = varint(clock, clock_snapshot::clock::CLOCK_ID)
            {
                self.clocks.insert(Self::key(sequence, id));
            }
        }
    }

    fn key(sequence: u64, clock: u64) -> (u64, u64) {
        (if SEQUENCE_CLOCKS.contains(&clock) { sequence } else { 0 }, clock)
    }
}

impl<'a> Head<'a> {
    /// Takes note of a field of the packet.
    pub(crate) fn field(&mut self, number: u32, value: Value<'a>) {
        match (number, value) {
            (trace_packet::TRUSTED_PACKET_SEQUENCE_ID, Value::Varint(id)) => self.sequence = id,
            (trace_packet::SEQUENCE_FLAGS, Value::Varint(flags)) => self.flags = flags,
            (trace_packet::INCREMENTAL_STATE_CLEARED, Value::Varint(flag)) => self.is_cleared = flag != 0,
            (trace_packet::TIMESTAMP, _) => self.has_time = true,
            (trace_packet::TIMESTAMP_CLOCK_ID, Value::Varint(clock)) => self.clock = Some(clock),
            (trace_packet::TRACE_PACKET_DEFAULTS, Value::Bytes(defaults)) => self.defaults = Some(defaults),
            (trace_packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => self.snapshot = Some(snapshot),
            _ => {}
        }
    }
}

fn varint(body: &[u8], number: u32) -> Option<u64> {
    let fields = Fields::new(body).map_while(Result::ok);
    fields.filter(|field| field.number == number).find_map(|field| match field.value {
        Value::Varint(value) => Some(value),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEARED: u64 = 1;
    const NEEDS: u64 = 2;

    fn head(sequence: u64, flags: u64) -> Head<'static> {
        Head { sequence, flags, ..Head::default() }
    }

    fn unreadable(heads: &[Head<'_>]) -> (u64, u64) {
        let mut readable = Readable::default();
        for head in heads {
            readable.packet(head);
        }
        (readable.without_names, readable.without_time)
    }

    #[test]
    fn names_are_known_from_when_the_sequence_says_them_until_something_is_lost() {
        let lost = Head { is_after_loss: true, ..head(1, NEEDS) };
        let old_way = Head { is_cleared: true, ..head(1, NEEDS) };
        let cases = [
            (vec![head(1, 0)], 0),
            (vec![head(1, NEEDS), head(1, NEEDS)], 2),
            (vec![head(1, CLEARED | NEEDS), head(1, NEEDS), head(2, NEEDS)], 1),
            (vec![head(1, CLEARED), lost, head(1, NEEDS), head(1, CLEARED), head(1, NEEDS)], 2),
            (vec![Head { is_after_loss: true, ..head(1, CLEARED | NEEDS) }], 0),
            (vec![old_way, head(1, NEEDS)], 0),
        ];
        for (heads, expected) in cases {
            assert_eq!(unreadable(&heads), (expected, 0), "{heads:?}");
        }
    }

    #[test]
    fn a_clock_is_known_by_a_snapshot_of_its_sequence_or_of_any_if_it_is_everybodys() {
        let timed = |sequence, clock| Head { has_time: true, clock: Some(clock), ..head(sequence, 0) };
        let snapshot = |sequence, bytes: &'static [u8]| Head { snapshot: Some(bytes), ..head(sequence, 0) };
        // { clocks { clock_id: 64 } }, then 3, then 200.
        let (own, monotonic, custom): (&[u8], &[u8], &[u8]) =
            (b"\x0a\x02\x08\x40", b"\x0a\x02\x08\x03", b"\x0a\x03\x08\xc8\x01");
        let defaults = Head { defaults: Some(b"\xd0\x03\x40"), ..head(1, CLEARED) };
        let on_default = Head { has_time: true, ..head(1, 0) };
        let cases = [
            (vec![timed(1, 6), timed(1, 0)], 0),
            (vec![timed(1, 3)], 1),
            (vec![snapshot(7, monotonic), timed(1, 3)], 0),
            (vec![snapshot(1, own), timed(1, 64), timed(2, 64)], 1),
            (vec![timed(1, 200), snapshot(7, custom), timed(1, 200)], 1),
            (vec![defaults, on_default], 1),
            (vec![defaults, snapshot(1, own), on_default], 0),
        ];
        for (heads, expected) in cases {
            assert_eq!(unreadable(&heads), (0, expected), "{heads:?}");
        }
    }
}
