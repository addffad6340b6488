//! Which packets of a trace a reader can make use of, those whose names and clocks it knows, and when they were.
//!
//! The rules are Trace Processor's. A packet that needs the state of its sequence is skipped until the sequence has said that state anew
//! since its start or its last gap; one on a clock that no snapshot tells of has no time (upstream: trace_packet.proto,
//! `sequence_flags` and `timestamp_clock_id`; clock_snapshot.proto). Only, here a clock is known from its first snapshot on, and not before
//! it: nothing waits for the end of the trace.

use ferretto_protos::fields::{trace_packet, trace_packet_defaults};
use ferretto_protozero::read::Fields;
use ferretto_trace_read::clocks::{BOOTTIME, Clock, Clocks, Machine, REALTIME, Snapshot, Steady};
use ferretto_trace_read::{Change, Continuity, Head};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Sequences that are told apart; beyond it packets count as readable. It bounds our memory on a hostile trace.
const MAX_SEQUENCES: usize = 1 << 20;

/// What a reader knows so far.
#[derive(Debug, Default)]
pub struct Readable {
    numbers: HashMap<(u32, u32), usize, RandomState>,
    sequences: Vec<Sequence>,
    /// The one that wrote the last packet: it often wrote the next one, too.
    last: Option<((u32, u32), usize)>,
    clocks: Clocks,
    /// Some clock was shown.
    has_readings: bool,
    wall: Option<Wall>,
    /// Packets whose names nobody knows.
    pub without_names: u64,
    /// Packets whose time nobody knows.
    pub without_time: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    continuity: Continuity,
    default_clock: u32,
}

/// What a wall clock showed, and the boot clock at that moment.
#[derive(Clone, Copy, Debug)]
struct Wall {
    boot_ns: i64,
    real_ns: i64,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its sequence's number: from 0 on, in the order in which they begin. None if there are too many.
    pub sequence: Option<usize>,
    /// It is the first of its sequence.
    pub is_first: bool,
    /// What it does to what its sequence has interned.
    pub change: Change,
    /// What it interns can be taken at its word.
    pub has_state: bool,
    /// It can be read, and its time, if it has one, is known.
    pub is_readable: bool,
    /// On the trace's clock.
    pub time_ns: Option<i64>,
}

impl Readable {
    /// Takes note of the next packet of the file.
    #[inline]
    pub fn packet(&mut self, head: &Head<'_>) -> Arrival {
        if let Some((trace_packet::CLOCK_SNAPSHOT, snapshot)) = head.data {
            self.snapshot(head, snapshot);
        }
        let known = self.number(head);
        let mut nobody = Sequence::default();
        let sequence = match known {
            Some((number, _)) => self.sequences.get_mut(number).unwrap_or(&mut nobody),
            None => &mut nobody,
        };
        let change = sequence.continuity.arrive(head);
        if change == Change::Cleared {
            sequence.default_clock = 0;
        }
        if let Some(defaults) = head.defaults {
            sequence.default_clock = clock_of(defaults);
        }
        let has_state = sequence.continuity.is_valid();
        let mut is_readable = known.is_none() || sequence.continuity.can_read(head);
        self.without_names += u64::from(!is_readable);
        let mut time_ns = None;
        if let Some(timestamp) = head.timestamp.filter(|_| is_readable) {
            let clock = head.clock_id.unwrap_or(sequence.default_clock);
            time_ns = self.time(clock, timestamp, head);
            if time_ns.is_none() {
                self.without_time += 1;
                is_readable = false;
            }
        }
        Arrival {
            sequence: known.map(|(number, _)| number),
            is_first: known.is_some_and(|(_, is_first)| is_first),
            change,
            has_state,
            is_readable,
            time_ns,
        }
    }

    /// Further times of a sequence's packets that name no clock, after one that has been told.
    #[must_use]
    pub fn steady(&self, sequence: usize, head: &Head<'_>) -> Option<Steady> {
        match self.sequences.get(sequence)?.default_clock {
            0 => Some(Steady::trace()),
            BOOTTIME if head.machine_id == 0 && !self.has_readings => Some(Steady::trace()),
            id => self.clocks.steady(Clock::new(id, head.sequence_id, Machine(head.machine_id))),
        }
    }

    /// What came of them.
    pub fn put_back(&mut self, times: Steady) {
        self.clocks.put_back(times);
    }

    /// How many sequences there are.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// What a wall clock of the service's machine showed at a time of the trace's clock: nanoseconds since 1970, UTC.
    #[must_use]
    pub fn wall_ns(&self, time_ns: i64) -> Option<i64> {
        let wall = self.wall?;
        time_ns.checked_sub(wall.boot_ns)?.checked_add(wall.real_ns)
    }

    /// The time of a kernel's event, which is on `clock` (0: the trace's own).
    #[inline]
    pub fn time(&mut self, clock: u32, timestamp: u64, head: &Head<'_>) -> Option<i64> {
        let value = i64::try_from(timestamp).unwrap_or(i64::MAX);
        match clock {
            0 => Some(value),
            // It counts as the trace's clock until something else is said.
            BOOTTIME if head.machine_id == 0 && !self.has_readings => Some(value),
            id => {
                let clock = Clock::new(id, head.sequence_id, Machine(head.machine_id));
                let time = self.clocks.to_trace_time(clock, value).ok();
                // Of another machine nothing but its own clocks may be known.
                time.or_else(|| (id == BOOTTIME).then_some(value))
            }
        }
    }

    #[inline]
    fn number(&mut self, head: &Head<'_>) -> Option<(usize, bool)> {
        let key = (head.machine_id, head.sequence_id);
        match self.last {
            Some((last, number)) if last == key => Some((number, false)),
            _ => self.find(key),
        }
    }

    fn find(&mut self, key: (u32, u32)) -> Option<(usize, bool)> {
        let known = self.numbers.get(&key).copied();
        let number = known.unwrap_or(self.sequences.len());
        if known.is_none() {
            if number >= MAX_SEQUENCES {
                return None;
            }
            self.numbers.insert(key, number);
            self.sequences.push(Sequence::default());
        }
        self.last = Some((key, number));
        Some((number, known.is_none()))
    }

    fn snapshot(&mut self, head: &Head<'_>, message: &[u8]) {
        let machine = Machine(head.machine_id);
        let snapshot = Snapshot::read(message, head.sequence_id, machine);
        let of =
            |id| snapshot.readings.iter().find(|reading| reading.clock.id == id).map(|reading| reading.value);
        if let (None, 0, Some(boot_ns), Some(real_ns)) =
            (self.wall, head.machine_id, of(BOOTTIME), of(REALTIME))
        {
            self.wall = Some(Wall { boot_ns, real_ns });
        }
        if let Some(clock) = snapshot.trace_clock {
            self.clocks.set_trace_clock(clock);
        }
        self.has_readings |= !snapshot.readings.is_empty();
        // One that is wrong tells nothing.
        let _ = self.clocks.add_snapshot(&snapshot.readings);
    }
}

fn clock_of(defaults: &[u8]) -> u32 {
    let mut fields = Fields::new(defaults).map_while(Result::ok);
    let clock = fields.find(|field| field.number == trace_packet_defaults::TIMESTAMP_CLOCK_ID);
    clock.and_then(|field| field.value.as_u64()).and_then(|id| u32::try_from(id).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ferretto_protos::fields::clock_snapshot::{CLOCKS, clock};
    use ferretto_protozero::Message;

    use super::*;

    const CLEARED: u32 = 1;
    const NEEDS: u32 = 2;

    fn head(sequence_id: u32, flags: u32) -> Head<'static> {
        Head { sequence_id, flags, ..Head::default() }
    }

    fn unreadable(heads: &[Head<'_>]) -> (u64, u64) {
        let mut readable = Readable::default();
        for head in heads {
            readable.packet(head);
        }
        (readable.without_names, readable.without_time)
    }

    fn snapshot(clocks: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        for (id, value) in clocks {
            let mut reading = message.nested(CLOCKS);
            reading.varint(clock::CLOCK_ID, *id);
            reading.varint(clock::TIMESTAMP, *value);
        }
        drop(message);
        bytes
    }

    #[test]
    fn names_are_known_from_when_the_sequence_says_them_until_something_is_lost() {
        let lost = Head { previous_packet_dropped: 1, ..head(1, NEEDS) };
        let cases = [
            (vec![head(1, 0)], 0),
            (vec![head(1, NEEDS), head(1, NEEDS)], 2),
            (vec![head(1, CLEARED | NEEDS), head(1, NEEDS), head(2, NEEDS)], 1),
            (vec![head(1, CLEARED), lost, head(1, NEEDS), head(1, CLEARED), head(1, NEEDS)], 2),
            (vec![Head { previous_packet_dropped: 1, ..head(1, CLEARED | NEEDS) }], 0),
        ];
        for (heads, expected) in cases {
            assert_eq!(unreadable(&heads), (expected, 0), "{heads:?}");
        }
    }

    #[test]
    fn a_clock_is_known_by_a_snapshot_of_its_sequence_or_of_any_if_it_is_everybodys() {
        let timed = |sequence, clock| Head { timestamp: Some(7), clock_id: Some(clock), ..head(sequence, 0) };
        let [own, monotonic, custom, lonely] =
            [vec![(6, 100), (64, 1)], vec![(6, 100), (3, 50)], vec![(6, 100), (200, 9)], vec![(3, 50)]]
                .map(|clocks| snapshot(&clocks));
        fn said(sequence: u32, bytes: &[u8]) -> Head<'_> {
            let data = Some((trace_packet::CLOCK_SNAPSHOT, bytes));
            Head { sequence_id: sequence, data, ..Head::default() }
        }
        let defaults = Head { defaults: Some(b"\xd0\x03\x40"), ..head(1, CLEARED) };
        let on_default = Head { timestamp: Some(7), ..head(1, 0) };
        let cases = [
            (vec![timed(1, 6), timed(1, 0)], 0),
            (vec![timed(1, 3)], 1),
            (vec![said(7, &monotonic), timed(1, 3)], 0),
            (vec![said(7, &lonely), timed(1, 3)], 1),
            (vec![said(1, &own), timed(1, 64), timed(2, 64)], 1),
            (vec![timed(1, 200), said(7, &custom), timed(1, 200)], 1),
            (vec![defaults, on_default], 1),
            (vec![defaults, said(1, &own), on_default], 0),
        ];
        for (heads, expected) in cases {
            assert_eq!(unreadable(&heads), (0, expected), "{heads:?}");
        }
    }

    #[test]
    fn times_are_told_on_the_traces_clock_and_on_the_wall() {
        let bytes = snapshot(&[(6, 1000), (3, 100), (1, 1_700_000_000_000)]);
        let mut readable = Readable::default();
        let said = Head { data: Some((trace_packet::CLOCK_SNAPSHOT, bytes.as_slice())), ..Head::default() };
        readable.packet(&said);
        let timed = Head { timestamp: Some(150), clock_id: Some(3), ..head(1, 0) };
        assert_eq!(readable.packet(&timed).time_ns, Some(1050));
        assert_eq!(readable.wall_ns(1050), Some(1_700_000_000_050));
    }
}
