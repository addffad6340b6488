//! Every clock's time to the trace's.
//!
//! Snapshots say what several clocks showed at one time. They are the edges of a graph of clocks; a time goes the shortest way through it, at
//! most four steps. On each step the latest snapshot counts that is not after the time, or the first if all are; nothing is interpolated
//! (upstream: clock_synchronizer.h).
//!
//! Memory: the snapshots. A conversion is a search of the graph, but for times near the last one, which are the rule.

use ferretto_protos::fields::clock_snapshot as field;
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::MachineId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// `REALTIME` of builtin_clock.proto.
pub const REALTIME: u32 = 1;
/// `MONOTONIC`.
pub const MONOTONIC: u32 = 3;
/// `BOOTTIME`, the trace's clock where nothing else is said.
pub const BOOTTIME: u32 = 6;
/// Clocks of a sequence's own: their numbers mean something to that sequence only.
const SEQUENCE_CLOCKS: std::ops::RangeInclusive<u32> = 64..=127;
/// Steps from one clock to another. Upstream's.
const MAX_STEPS: usize = 4;
/// Clocks of one trace: beyond, further ones are unknown. Ours: each sequence may have 64 of its own, hence many.
const MAX_CLOCKS: usize = 1 << 20;
/// Clocks of one snapshot: it has an edge for each two of them. Ours: writers say a handful.
const MAX_CLOCKS_OF_SNAPSHOT: usize = 32;

/// Which clock of which machine, and of which sequence if it is one of a sequence's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clock {
    /// Its number, as packets have it.
    pub id: u32,
    sequence_id: u32,
    machine: MachineId,
}

impl Clock {
    /// The clock that a packet of this sequence and machine calls `id`.
    #[must_use]
    pub fn new(id: u32, sequence_id: u32, machine: MachineId) -> Self {
        let sequence_id = if SEQUENCE_CLOCKS.contains(&id) { sequence_id } else { 0 };
        Self { id, sequence_id, machine }
    }
}

/// What a clock showed, out of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Which.
    pub clock: Clock,
    /// In its own unit.
    pub value: i64,
    /// How long its unit is.
    pub unit_multiplier_ns: i64,
    /// Its times are differences to the last.
    pub is_incremental: bool,
}

/// `ClockSnapshot`.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What the clocks showed.
    pub readings: Vec<Reading>,
    /// Which is the trace's clock, if it says so.
    pub trace_clock: Option<Clock>,
}

/// Why a time cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No snapshot has shown the clock so far.
    Clock,
    /// Nothing leads from it to the trace's clock.
    Way,
}

/// All clocks of a trace.
#[derive(Debug)]
pub struct Clocks {
    trace_clock: Clock,
    /// Nothing may change it any more: a time was converted, or a snapshot said it.
    is_settled: bool,
    numbers: HashMap<Clock, usize, RandomState>,
    states: Vec<State>,
    snapshots: u32,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    unit_multiplier_ns: i64,
    is_incremental: bool,
    /// The last time of a clock that says differences, in nanoseconds.
    last_ns: i64,
    /// By the set of clocks that a snapshot showed: the numbers of snapshots and its times, in order.
    shown: HashMap<u64, Shown, RandomState>,
    /// The clocks that it can be compared with, and by which set.
    edges: Vec<(usize, u64)>,
    cached: Option<Cached>,
}

#[derive(Debug, Default)]
struct Shown {
    snapshots: Vec<u32>,
    times_ns: Vec<i64>,
    /// A later snapshot showed an earlier time: it cannot be converted from.
    goes_back: bool,
}

/// A conversion, and how many snapshots there were when it was made: a further one may change it.
#[derive(Clone, Copy, Debug)]
struct Cached {
    snapshots: u32,
    conversion: Conversion,
}

/// What is added to a time, and for which times.
#[derive(Clone, Copy, Debug)]
struct Conversion {
    from_ns: i64,
    before_ns: i64,
    offset_ns: i64,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            trace_clock: Clock::new(BOOTTIME, 0, MachineId(0)),
            is_settled: false,
            numbers: HashMap::default(),
            states: Vec::new(),
            snapshots: 0,
        }
    }
}

impl Snapshot {
    /// Out of a packet of this sequence and machine.
    #[must_use]
    pub fn read(message: &[u8], sequence_id: u32, machine: MachineId) -> Self {
        let mut snapshot = Self::default();
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (field::CLOCKS, Value::Bytes(clock)) => {
                    snapshot.readings.extend(read_clock(clock, sequence_id, machine));
                }
                (field::PRIMARY_TRACE_CLOCK, value) => {
                    let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0);
                    snapshot.trace_clock = id.map(|id| Clock::new(id, sequence_id, machine));
                }
                _ => {}
            }
        }
        snapshot
    }
}

impl Clocks {
    /// The clock of all tables.
    #[must_use]
    pub fn trace_clock(&self) -> Clock {
        self.trace_clock
    }

    /// A snapshot says which is the trace's clock. The first one counts, and only before any time was converted.
    pub fn set_trace_clock(&mut self, clock: Clock) {
        if !self.is_settled {
            self.trace_clock = clock;
            self.is_settled = true;
        }
    }

    /// Adds a snapshot; returns its number.
    pub fn add_snapshot(&mut self, readings: &[Reading]) -> u32 {
        self.snapshots = self.snapshots.saturating_add(1);
        let snapshot = self.snapshots;
        let readings = readings.get(..readings.len().min(MAX_CLOCKS_OF_SNAPSHOT)).unwrap_or_default();
        let mut numbered: Vec<(usize, &Reading)> =
            readings.iter().filter_map(|reading| Some((self.number(reading)?, reading))).collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered.dedup_by_key(|(number, _)| *number);
        let set = set_of(numbered.iter().map(|(number, _)| *number));
        for (number, reading) in &numbered {
            if let Some(state) = self.states.get_mut(*number)
                && state.show(set, snapshot, reading.value)
            {
                let others = numbered.iter().map(|(to, _)| *to).filter(|to| to != number);
                state.edges.extend(others.map(|to| (to, set)));
            }
        }
        snapshot
    }

    /// The trace's time of a clock's, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If nothing leads from that clock to the trace's.
    #[inline]
    pub fn to_trace_time(&mut self, clock: Clock, value: i64) -> Result<i64, Unknown> {
        self.is_settled = true;
        if clock == self.trace_clock {
            return Ok(value);
        }
        let number = *self.numbers.get(&clock).ok_or(Unknown::Clock)?;
        let state = self.states.get_mut(number).ok_or(Unknown::Clock)?;
        let ns = state.take_ns(value);
        if let Some(Cached { snapshots, conversion }) = state.cached
            && snapshots == self.snapshots
            && (conversion.from_ns..conversion.before_ns).contains(&ns)
        {
            return Ok(ns.saturating_add(conversion.offset_ns));
        }
        let to = *self.numbers.get(&self.trace_clock).ok_or(Unknown::Way)?;
        let conversion = self.search(number, to, ns).ok_or(Unknown::Way)?;
        if let Some(state) = self.states.get_mut(number) {
            state.cached = Some(Cached { snapshots: self.snapshots, conversion });
        }
        Ok(ns.saturating_add(conversion.offset_ns))
    }

    fn number(&mut self, reading: &Reading) -> Option<usize> {
        if let Some(number) = self.numbers.get(&reading.clock) {
            return Some(*number);
        }
        let number = self.states.len();
        if number >= MAX_CLOCKS {
            return None;
        }
        self.numbers.insert(reading.clock, number);
        self.states.push(State {
            clock: reading.clock,
            unit_multiplier_ns: if reading.unit_multiplier_ns == 0 { 1 } else { reading.unit_multiplier_ns },
            is_incremental: reading.is_incremental && SEQUENCE_CLOCKS.contains(&reading.clock.id),
            last_ns: 0,
            shown: HashMap::default(),
            edges: Vec::new(),
            cached: None,
        });
        Some(number)
    }

    /// The shortest way, breadth first.
    fn search(&self, from: usize, to: usize, ns: i64) -> Option<Conversion> {
        let mut seen = vec![from];
        let mut ways: Vec<Vec<(usize, usize, u64)>> = vec![Vec::new()];
        for _ in 0..MAX_STEPS {
            let mut longer = Vec::new();
            for way in &ways {
                let at = way.last().map_or(from, |(_, to, _)| *to);
                for (next, set) in self.edges(at) {
                    if seen.contains(&next) {
                        continue;
                    }
                    seen.push(next);
                    let mut way = way.clone();
                    way.push((at, next, set));
                    if next == to {
                        return self.along(&way, ns);
                    }
                    longer.push(way);
                }
            }
            ways = longer;
        }
        None
    }

    fn edges(&self, from: usize) -> impl Iterator<Item = (usize, u64)> {
        let state = self.states.get(from);
        let goes_back = move |set| state.and_then(|state| state.of(set)).is_some_and(|shown| shown.goes_back);
        state
            .into_iter()
            .flat_map(|state| state.edges.iter().copied())
            .filter(move |(_, set)| !goes_back(*set))
    }

    fn along(&self, way: &[(usize, usize, u64)], ns: i64) -> Option<Conversion> {
        let mut whole = Conversion { from_ns: i64::MIN, before_ns: i64::MAX, offset_ns: 0 };
        for (from, to, set) in way {
            let here = ns.saturating_add(whole.offset_ns);
            let (from, to) = (self.states.get(*from)?.of(*set)?, self.states.get(*to)?.of(*set)?);
            let after = from.times_ns.partition_point(|time| *time <= here);
            let at = after.saturating_sub(1);
            let shown_ns = *from.times_ns.get(at)?;
            let snapshot = *from.snapshots.get(at)?;
            let twin = to.snapshots.binary_search(&snapshot).ok()?;
            let starts = if at == 0 { i64::MIN } else { shown_ns.saturating_sub(whole.offset_ns) };
            let ends = from.times_ns.get(after).map_or(i64::MAX, |next| next.saturating_sub(whole.offset_ns));
            whole.from_ns = whole.from_ns.max(starts);
            whole.before_ns = whole.before_ns.min(ends);
            whole.offset_ns = whole.offset_ns.saturating_add(to.times_ns.get(twin)?.saturating_sub(shown_ns));
        }
        Some(whole)
    }

    /// All clocks that snapshots have shown.
    pub fn known(&self) -> impl Iterator<Item = Clock> {
        self.states.iter().map(|state| state.clock)
    }
}

impl State {
    fn of(&self, set: u64) -> Option<&Shown> {
        self.shown.get(&set)
    }

    /// Says if it is the first snapshot of this set.
    fn show(&mut self, set: u64, snapshot: u32, value: i64) -> bool {
        let ns = value.saturating_mul(self.unit_multiplier_ns);
        self.last_ns = ns;
        let shown = self.shown.entry(set).or_default();
        shown.goes_back |= shown.times_ns.last().is_some_and(|last| *last > ns);
        shown.snapshots.push(snapshot);
        shown.times_ns.push(ns);
        shown.snapshots.len() == 1
    }

    fn take_ns(&mut self, value: i64) -> i64 {
        let ns = value.saturating_mul(self.unit_multiplier_ns);
        if !self.is_incremental {
            return ns;
        }
        self.last_ns = self.last_ns.saturating_add(ns);
        self.last_ns
    }
}

fn read_clock(message: &[u8], sequence_id: u32, machine: MachineId) -> Option<Reading> {
    use field::clock as part_of;
    let (mut id, mut value, mut is_incremental, mut unit_multiplier_ns) = (None, None, false, 1);
    for part in Fields::new(message).map_while(Result::ok) {
        let number = part.value.as_u64();
        match part.number {
            part_of::CLOCK_ID => id = number.and_then(|id| u32::try_from(id).ok()),
            part_of::TIMESTAMP => value = number.and_then(|value| i64::try_from(value).ok()),
            part_of::IS_INCREMENTAL => is_incremental = number != Some(0),
            part_of::UNIT_MULTIPLIER_NS => {
                unit_multiplier_ns = number.and_then(|by| i64::try_from(by).ok()).unwrap_or(1)
            }
            _ => {}
        }
    }
    Some(Reading {
        clock: Clock::new(id?, sequence_id, machine),
        value: value?,
        unit_multiplier_ns,
        is_incremental,
    })
}

/// FNV-1a of the numbers, in their order.
fn set_of(numbers: impl Iterator<Item = usize>) -> u64 {
    numbers.fold(0xcbf2_9ce4_8422_2325, |hash, number| (hash ^ number as u64).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: MachineId = MachineId(0);

    fn reading(id: u32, value: i64) -> Reading {
        Reading { clock: Clock::new(id, 7, HERE), value, unit_multiplier_ns: 1, is_incremental: false }
    }

    fn convert(clocks: &mut Clocks, id: u32, value: i64) -> Result<i64, Unknown> {
        clocks.to_trace_time(Clock::new(id, 7, HERE), value)
    }

    #[test]
    fn the_latest_snapshot_before_a_time_counts_and_the_first_for_earlier_ones() {
        let mut clocks = Clocks::default();
        assert_eq!(convert(&mut clocks, MONOTONIC, 5), Err(Unknown::Clock));
        clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(MONOTONIC, 100)]);
        clocks.add_snapshot(&[reading(BOOTTIME, 2500), reading(MONOTONIC, 1100)]);
        for (value, expected) in [(50, 950), (100, 1000), (1099, 1999), (1100, 2500), (1200, 2600), (60, 960)]
        {
            assert_eq!(convert(&mut clocks, MONOTONIC, value), Ok(expected), "{value}");
        }
        assert_eq!(convert(&mut clocks, BOOTTIME, 7), Ok(7));
    }

    #[test]
    fn ways_lead_over_other_clocks() {
        let mut clocks = Clocks::default();
        clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(MONOTONIC, 100)]);
        clocks.add_snapshot(&[reading(MONOTONIC, 200), reading(200, 5)]);
        assert_eq!(convert(&mut clocks, 200, 15), Ok(1110));
        assert_eq!(convert(&mut clocks, 201, 15), Err(Unknown::Clock));
        clocks.add_snapshot(&[reading(201, 0)]);
        assert_eq!(convert(&mut clocks, 201, 15), Err(Unknown::Way));
    }

    #[test]
    fn clocks_of_sequences_say_differences_in_their_units() {
        let mut clocks = Clocks::default();
        let own = Reading { unit_multiplier_ns: 1000, is_incremental: true, ..reading(64, 3) };
        clocks.add_snapshot(&[reading(BOOTTIME, 50_000), own]);
        assert_eq!(convert(&mut clocks, 64, 1), Ok(51_000));
        assert_eq!(convert(&mut clocks, 64, 2), Ok(53_000));
        assert_eq!(clocks.to_trace_time(Clock::new(64, 8, HERE), 2), Err(Unknown::Clock));
    }

    #[test]
    fn the_trace_clock_is_settled_by_the_first_conversion() {
        let mut clocks = Clocks::default();
        clocks.set_trace_clock(Clock::new(MONOTONIC, 0, HERE));
        assert_eq!(convert(&mut clocks, MONOTONIC, 5), Ok(5));
        clocks.set_trace_clock(Clock::new(BOOTTIME, 0, HERE));
        assert_eq!(clocks.trace_clock().id, MONOTONIC);
    }
}
