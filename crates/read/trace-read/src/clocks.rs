//! Every clock's time to the trace's.
//!
//! Snapshots say what several clocks showed at one time. They are the edges of a graph of clocks; a time goes the shortest way through it, at
//! most four steps. On each step the latest snapshot counts that is not after the time, or the first if all are; nothing is interpolated. A
//! clock that went back is none to convert from (upstream: clock_synchronizer.h, clock_tracker.h).
//!
//! A conversion is a search of the graph, but for times near the last one of the same clock, which are the rule, and where no snapshot has
//! had a way that is new.
//!
//! Traces are hostile: the constants here bound memory, to some 100 MB, and the work of all searches by the number of them.

use std::collections::BTreeMap;

use ferretto_protos::fields::clock_snapshot as field;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::recent::Recent;
use crate::wire;

/// `REALTIME` of builtin_clock.proto.
pub const REALTIME: u32 = 1;
/// `MONOTONIC`.
pub const MONOTONIC: u32 = 3;
/// `BOOTTIME`, the trace's clock where nothing else is said.
pub const BOOTTIME: u32 = 6;
/// `TRACE_FILE`: a file's own clock.
pub const TRACE_FILE: u32 = 11;
/// Clocks of a sequence's own: their numbers mean something to that sequence only.
const SEQUENCE_CLOCKS: std::ops::RangeInclusive<u32> = 64..=127;
/// Steps from one clock to another. Upstream's.
const MAX_STEPS: usize = 4;
/// Clocks that a search looks at. Ours: the trace's clock may have an edge to one of each sequence, and a search in vain would see them all.
const MAX_SEARCHED: usize = 4096;
/// Steps that all searches may take, beside [`STEPS_OF_A_SEARCH`] for each. Ours: what an attacker has of it is a fraction of a second.
const MAX_STEPS_OF_ALL: u64 = 1 << 22;
/// Ours: from a sequence's clock, or another machine's, it is a few.
const STEPS_OF_A_SEARCH: u64 = 16;
/// Clocks of one trace: beyond, further ones are unknown. Ours: upstream's service hands out 65,535 sequences, whose writers have two of their
/// own each.
const MAX_CLOCKS: usize = 1 << 17;
/// Clocks of one snapshot: it has an edge for each two of them, each way. Ours: writers say a handful.
pub(crate) const MAX_CLOCKS_OF_SNAPSHOT: usize = 32;
/// Edges between two clocks. Ours: three clocks that each of 65,535 sequences shows at once have 6 for each. 40 bytes each.
const MAX_EDGES: usize = 1 << 19;
/// Clocks of all sets of clocks that are shown at once. Ours: the same sequences have 3 each. 90 bytes each.
const MAX_SHOWN: usize = 1 << 18;
/// Readings that are kept. Beyond, of each set of clocks the newest takes the place of the one before it: times that come in order do not
/// notice. Ours: a thousand threads that say theirs every ten seconds take three hours to say so many. 16 bytes each.
const MAX_READINGS: usize = 1 << 21;
/// Machines that are told apart. Ours, as in `ferretto-trace-model`.
const MAX_GUESTS: usize = 4096;

/// A machine, by a number that whoever reads the trace gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Machine(pub u32);

/// The machine that the service ran on.
const HOST: Machine = Machine(0);

/// Which clock of which machine, and of which sequence if it is one of a sequence's own. Their order is that in which ways are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clock {
    /// Its number, as packets have it.
    pub id: u32,
    sequence_id: u32,
    /// Whose it is.
    pub machine: Machine,
}

impl Clock {
    /// A number that clocks which are used together have not in common.
    #[inline]
    fn place(self) -> u64 {
        u64::from(self.id) ^ u64::from(self.sequence_id) ^ u64::from(self.machine.0)
    }

    /// The clock that a packet of this sequence and machine calls `id`.
    #[must_use]
    pub fn new(id: u32, sequence_id: u32, machine: Machine) -> Self {
        let sequence_id = if SEQUENCE_CLOCKS.contains(&id) { sequence_id } else { 0 };
        Self { id, sequence_id, machine }
    }

    /// A machine's clock.
    #[must_use]
    pub const fn of_machine(id: u32, machine: Machine) -> Self {
        Self { id, sequence_id: 0, machine }
    }

    /// The sequence whose own it is; 0 if it is none's.
    #[must_use]
    pub const fn sequence_id(self) -> u32 {
        self.sequence_id
    }

    /// Whether it should be a sequence's own, and there is no sequence.
    #[must_use]
    pub fn lacks_sequence(self) -> bool {
        self.sequence_id == 0 && SEQUENCE_CLOCKS.contains(&self.id)
    }
}

/// A clock that was shown, by its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockNumber(usize);

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

impl Reading {
    /// Of a clock that says nanoseconds.
    #[must_use]
    pub const fn new(clock: Clock, value: i64) -> Self {
        Self { clock, value, unit_multiplier_ns: 1, is_incremental: false }
    }

    /// Reads `ClockSnapshot.Clock`.
    #[must_use]
    pub fn read(message: &[u8], sequence_id: u32, machine: Machine) -> Self {
        use field::clock as part_of;
        let (mut id, mut value, mut unit_multiplier_ns, mut is_incremental) = (0, 0, 0, false);
        for part in wire::fields(message) {
            let number = part.value.as_u64().unwrap_or(0);
            match part.number {
                part_of::CLOCK_ID => id = number as u32,
                part_of::TIMESTAMP => value = number as i64,
                part_of::UNIT_MULTIPLIER_NS => unit_multiplier_ns = number as i64,
                part_of::IS_INCREMENTAL => is_incremental = number != 0,
                _ => {}
            }
        }
        let unit_multiplier_ns = if unit_multiplier_ns == 0 { 1 } else { unit_multiplier_ns };
        Self { clock: Clock::new(id, sequence_id, machine), value, unit_multiplier_ns, is_incremental }
    }
}

/// `ClockSnapshot`.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What the clocks showed; of too many the first.
    pub readings: Vec<Reading>,
    /// Which is the trace's clock. Old traces do not say so, but have `BOOTTIME`.
    pub trace_clock: Option<Clock>,
}

impl Snapshot {
    /// Out of a packet of this sequence and machine.
    #[must_use]
    pub fn read(message: &[u8], sequence_id: u32, machine: Machine) -> Self {
        let clocks = wire::all_bytes(message, field::CLOCKS);
        let readings = clocks.map(|clock| Reading::read(clock, sequence_id, machine));
        let readings: Vec<Reading> = readings.take(MAX_CLOCKS_OF_SNAPSHOT).collect();
        let primary = wire::number(message, field::PRIMARY_TRACE_CLOCK).unwrap_or(0) as u32;
        let shows = |id| readings.iter().any(|reading| reading.clock.id == id);
        let trace_clock = match primary {
            0 if shows(BOOTTIME) && !shows(TRACE_FILE) => Some(BOOTTIME),
            0 => None,
            id => Some(id),
        };
        Self { readings, trace_clock: trace_clock.map(|id| Clock::of_machine(id, machine)) }
    }
}

/// Why a time cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No snapshot has shown the clock so far.
    Clock,
    /// Nor the trace's.
    TraceClock,
    /// Nothing leads from it to the trace's clock.
    Way,
}

/// A snapshot contradicts an earlier one, itself, or what may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Which clocks a snapshot shows, as a number.
type Set = u32;
/// From one clock to another, by snapshots of a set.
type Edge = (Clock, Clock, Set);
/// The turn of what has changed: something that was found out at one turn holds until the next.
type Turn = u64;

/// All clocks of a trace.
#[derive(Debug)]
pub struct Clocks {
    trace_clock: Clock,
    /// The machine that has said which is the trace's.
    said_by: Option<Machine>,
    /// Of each machine: what a time without a clock is on, and whether one was converted.
    host: OfMachine,
    /// The numbers of others may be any, where nobody has counted them.
    guests: HashMap<Machine, OfMachine, RandomState>,
    numbers: HashMap<Clock, usize, RandomState>,
    states: Vec<State>,
    /// Of each two clocks the set that ways lead by: the lowest of all that show both.
    edges: BTreeMap<(Clock, Clock), Set>,
    shown: HashMap<(u32, Set), Shown, RandomState>,
    readings: usize,
    snapshots: u32,
    /// Of what clocks showed.
    turn: Turn,
    /// Of the edges, and of where ways have to lead.
    turn_of_ways: Turn,
    searches: u64,
    /// That these have taken.
    steps: u64,
    /// The last clock that was converted: most times come from one.
    last: Option<(Clock, usize)>,
    /// Clocks that were converted lately.
    recent: Recent<Clock, usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfMachine {
    default: Option<u32>,
    has_converted: bool,
}

#[derive(Debug)]
struct State {
    hand: Hand,
    /// A snapshot showed an earlier time than one before: it cannot be converted from.
    goes_back: bool,
    /// The last answer.
    cached: Option<(Turn, Conversion)>,
    /// The last way, or that there was none.
    way: Option<(Turn, Option<Vec<Edge>>)>,
}

/// How a clock's values are read, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Hand {
    unit_multiplier_ns: i64,
    is_incremental: bool,
    /// The last time of a clock that says differences, in nanoseconds.
    last_ns: i64,
}

/// What a clock showed in snapshots of one set.
#[derive(Debug, Default)]
struct Shown {
    times: Vec<Shot>,
    /// Its edges by this set are known.
    has_edges: bool,
}

#[derive(Clone, Copy, Debug)]
struct Shot {
    snapshot: u32,
    ns: i64,
}

/// What is added to a time, and for which times.
#[derive(Clone, Copy, Debug)]
struct Conversion {
    from_ns: i64,
    before_ns: i64,
    offset_ns: i64,
}

/// A clock's times one after the other, as long as no snapshot comes: what [`Clocks::to_trace_time`] would say, without looking for it.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// Whose state goes back; none if the times are the trace's.
    number: Option<usize>,
    hand: Hand,
    conversion: Conversion,
}

impl Steady {
    /// Of times that are the trace's already.
    #[must_use]
    pub const fn trace() -> Self {
        let conversion = Conversion { from_ns: i64::MIN, before_ns: i64::MAX, offset_ns: 0 };
        let hand = Hand { unit_multiplier_ns: 1, is_incremental: false, last_ns: 0 };
        Self { number: None, hand, conversion }
    }

    /// The trace's time; nothing if another snapshot may count for it.
    #[inline]
    pub fn time(&mut self, value: i64) -> Option<i64> {
        self.hand.trace_time(value, self.conversion)
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            trace_clock: Clock::of_machine(BOOTTIME, Machine(0)),
            said_by: None,
            host: OfMachine::default(),
            guests: HashMap::default(),
            numbers: HashMap::default(),
            states: Vec::new(),
            edges: BTreeMap::new(),
            shown: HashMap::default(),
            readings: 0,
            snapshots: 0,
            turn: 0,
            turn_of_ways: 0,
            searches: 0,
            steps: 0,
            last: None,
            recent: Recent::default(),
        }
    }
}

impl Clocks {
    /// The clock of all tables.
    #[must_use]
    pub fn trace_clock(&self) -> Clock {
        self.trace_clock
    }

    /// A machine says which is the trace's clock, and the one that its own times are on if nothing is said. It changes the trace's until a
    /// time of that machine was converted; returns whether it did. What another machine has said before stands, or times that were converted
    /// would be on another clock than later ones (upstream, which asks for the file only, lets it change).
    pub fn set_trace_clock(&mut self, clock: Clock) -> bool {
        let Some(machine) = self.of_machine(clock.machine) else { return false };
        machine.default = Some(clock.id);
        let may_change = !machine.has_converted && self.said_by.is_none_or(|by| by == clock.machine);
        if may_change {
            self.said_by = Some(clock.machine);
        }
        if may_change && self.trace_clock != clock {
            self.trace_clock = clock;
            self.turn += 1;
            self.turn_of_ways += 1;
        }
        may_change
    }

    /// Which is the trace's clock, whatever machines say later.
    pub fn claim_trace_clock(&mut self, clock: Clock) {
        /// None of the machines.
        const NOBODY: Machine = Machine(u32::MAX);
        self.trace_clock = clock;
        self.said_by = Some(NOBODY);
        self.turn += 1;
        self.turn_of_ways += 1;
    }

    /// The clock of a machine's times that name none. Without one, such a time is the trace's already.
    #[must_use]
    pub fn default_of(&self, machine: Machine) -> Option<u32> {
        match machine {
            HOST => self.host.default,
            // A machine that was named before any spoke.
            guest => self.guests.get(&guest).and_then(|machine| machine.default).or(self.host.default),
        }
    }

    /// A new machine, whose times are on the same clock as the first one's.
    pub fn add_machine(&mut self, machine: Machine) {
        let default = self.default_of(Machine(0));
        if let Some(machine) = self.of_machine(machine) {
            machine.default = default;
        }
    }

    /// Adds a snapshot; returns its number.
    ///
    /// # Errors
    ///
    /// If it contradicts what is known, or has clocks that there is no room for. Then it has a number, and counts for nothing.
    pub fn add_snapshot(&mut self, readings: &[Reading]) -> Result<u32, Invalid> {
        let snapshot = self.snapshots;
        self.snapshots = self.snapshots.saturating_add(1);
        self.turn += 1;
        let readings = readings.get(..readings.len().min(MAX_CLOCKS_OF_SNAPSHOT)).unwrap_or_default();
        let set = set_of(readings);
        if !self.has_room(readings, set) {
            return Err(Invalid);
        }
        let mut numbers = Vec::with_capacity(readings.len());
        for reading in readings {
            numbers.push(self.show(reading, set, snapshot)?);
        }
        self.add_edges(readings, &numbers, set);
        Ok(snapshot)
    }

    /// Whether its clocks have been shown together before, or may be.
    fn has_room(&self, readings: &[Reading], set: Set) -> bool {
        let clocks = readings.len();
        let is_room = self.shown.len() + clocks <= MAX_SHOWN
            && self.readings + clocks <= MAX_READINGS
            && self.edges.len() + clocks * clocks.saturating_sub(1) <= MAX_EDGES;
        is_room || readings.iter().all(|reading| self.shown_by(reading.clock, set).is_some())
    }

    fn add_edges(&mut self, readings: &[Reading], numbers: &[usize], set: Set) {
        let mut are_known = true;
        for number in numbers {
            if let Some(shown) = self.shown.get_mut(&(*number as u32, set)) {
                are_known &= std::mem::replace(&mut shown.has_edges, true);
            }
        }
        if are_known {
            return;
        }
        for (at, (from, a)) in numbers.iter().zip(readings).enumerate() {
            for (to, b) in numbers.iter().zip(readings).skip(at + 1) {
                self.add_edge(*from, (a.clock, b.clock), set);
                self.add_edge(*to, (b.clock, a.clock), set);
            }
        }
    }

    fn add_edge(&mut self, from: usize, clocks: (Clock, Clock), set: Set) {
        if self.states.get(from).is_none_or(|state| state.goes_back) {
            return;
        }
        let lowest = self.edges.entry(clocks).or_insert(Set::MAX);
        if set <= *lowest {
            *lowest = set;
            self.turn_of_ways += 1;
        }
    }

    /// The trace's time of a clock's, in nanoseconds. It was converted: from now on, its machine does not change the trace's clock.
    ///
    /// # Errors
    ///
    /// If nothing leads from that clock to the trace's.
    #[inline]
    pub fn to_trace_time(&mut self, clock: Clock, value: i64) -> Result<i64, Unknown> {
        if let Some(machine) = self.of_machine(clock.machine) {
            machine.has_converted = true;
        }
        if clock == self.trace_clock {
            return Ok(value);
        }
        match self.as_lately(clock, value) {
            Some(ns) => Ok(ns),
            None => self.convert(clock, value, self.trace_clock),
        }
    }

    /// The clock of the time that was converted last, for further ones; nothing if it was another, or cannot be told.
    #[must_use]
    pub fn steady(&self, clock: Clock) -> Option<Steady> {
        if clock == self.trace_clock {
            return Some(Steady::trace());
        }
        let (_, number) = self.last.filter(|(last, _)| *last == clock)?;
        let state = self.states.get(number)?;
        let (_, conversion) = state.cached.filter(|(then, _)| *then == self.turn)?;
        Some(Steady { number: Some(number), hand: state.hand, conversion })
    }

    /// The clock shows now what it has come to meanwhile.
    pub fn put_back(&mut self, steady: Steady) {
        if let Some(state) = steady.number.and_then(|number| self.states.get_mut(number)) {
            state.hand = steady.hand;
        }
    }

    /// The same, if it is known from a time of the same clock lately: where a packet's loop stands.
    #[inline]
    fn as_lately(&mut self, clock: Clock, value: i64) -> Option<i64> {
        let number = self.recent.get(clock.place(), clock)?;
        let ns = self.to_trace_time_of(ClockNumber(number), value)?;
        self.last = Some((clock, number));
        Some(ns)
    }

    /// A clock's number, for [`to_trace_time_of`](Self::to_trace_time_of).
    #[must_use]
    pub fn number_of(&self, clock: Clock) -> Option<ClockNumber> {
        self.numbers.get(&clock).map(|number| ClockNumber(*number))
    }

    /// The same as [`to_trace_time`](Self::to_trace_time), quicker, for times near the last one that was told of this clock; nothing for
    /// others, which leaves all as it was.
    #[inline]
    pub fn to_trace_time_of(&mut self, ClockNumber(number): ClockNumber, value: i64) -> Option<i64> {
        self.states.get_mut(number)?.as_before(value, self.turn)
    }

    /// The time that a clock showed when another one showed `value`.
    ///
    /// # Errors
    ///
    /// If nothing leads from one to the other.
    pub fn convert(&mut self, clock: Clock, value: i64, to: Clock) -> Result<i64, Unknown> {
        if clock == to {
            return Ok(value);
        }
        let number = match self.last {
            Some((last, number)) if last == clock => number,
            _ => *self.numbers.get(&clock).ok_or(Unknown::Clock)?,
        };
        self.last = Some((clock, number));
        self.recent.put(clock.place(), clock, number);
        let turn = self.turn;
        let is_to_trace = to == self.trace_clock;
        let state = self.states.get_mut(number).ok_or(Unknown::Clock)?;
        if is_to_trace && let Some(ns) = state.as_before(value, turn) {
            return Ok(ns);
        }
        let way = match &state.way {
            Some((then, way)) if is_to_trace && *then == self.turn_of_ways => way.clone(),
            _ => self.search(clock, to),
        };
        let is_known = self.numbers.contains_key(&to);
        let state = self.states.get_mut(number).ok_or(Unknown::Clock)?;
        if is_to_trace {
            state.way = Some((self.turn_of_ways, way.clone()));
        }
        let way = way.ok_or(if is_known { Unknown::Way } else { Unknown::TraceClock })?;
        let ns = state.hand.peek_ns(value);
        state.hand.last_ns = ns;
        let conversion = self.along(&way, ns).ok_or(Unknown::Way)?;
        if is_to_trace && let Some(state) = self.states.get_mut(number) {
            state.cached = Some((turn, conversion));
        }
        Ok(ns.saturating_add(conversion.offset_ns))
    }

    #[inline]
    fn of_machine(&mut self, machine: Machine) -> Option<&mut OfMachine> {
        match machine {
            HOST => Some(&mut self.host),
            guest if self.guests.len() < MAX_GUESTS => Some(self.guests.entry(guest).or_default()),
            guest => self.guests.get_mut(&guest),
        }
    }

    fn show(&mut self, reading: &Reading, set: Set, snapshot: u32) -> Result<usize, Invalid> {
        let number = self.number(reading)?;
        let is_trace_clock = reading.clock == self.trace_clock;
        let state = self.states.get_mut(number).ok_or(Invalid)?;
        if state.hand.unit_multiplier_ns != reading.unit_multiplier_ns
            || state.hand.is_incremental != reading.is_incremental
            || (is_trace_clock && state.hand.unit_multiplier_ns != 1)
        {
            return Err(Invalid);
        }
        let ns = reading.value.wrapping_mul(state.hand.unit_multiplier_ns);
        state.hand.last_ns = ns;
        let shown = self.shown.entry((number as u32, set)).or_default();
        let last = shown.times.last();
        if last.is_some_and(|last| last.snapshot == snapshot) {
            return Err(Invalid);
        }
        let goes_back = last.is_some_and(|last| last.ns > ns);
        if goes_back && is_trace_clock {
            return Err(Invalid);
        }
        if self.readings >= MAX_READINGS && shown.times.pop().is_some() {
            self.readings -= 1;
        }
        shown.add(Shot { snapshot, ns });
        self.readings += 1;
        if goes_back && !state.goes_back {
            state.goes_back = true;
            self.forget_ways_from(reading.clock);
        }
        Ok(number)
    }

    fn number(&mut self, reading: &Reading) -> Result<usize, Invalid> {
        if let Some(number) = self.numbers.get(&reading.clock) {
            return Ok(*number);
        }
        let number = self.states.len();
        if number >= MAX_CLOCKS || (reading.is_incremental && reading.clock.sequence_id == 0) {
            return Err(Invalid);
        }
        self.numbers.insert(reading.clock, number);
        let &Reading { unit_multiplier_ns, is_incremental, .. } = reading;
        let hand = Hand { unit_multiplier_ns, is_incremental, last_ns: 0 };
        self.states.push(State { hand, goes_back: false, cached: None, way: None });
        Ok(number)
    }

    fn forget_ways_from(&mut self, clock: Clock) {
        let gone: Vec<Edge> = self.edges_from(clock).collect();
        for (from, to, _) in gone {
            self.edges.remove(&(from, to));
        }
        self.turn_of_ways += 1;
    }

    fn edges_from(&self, clock: Clock) -> impl Iterator<Item = Edge> {
        let first = Clock::of_machine(0, Machine(0));
        let edges = self.edges.range((clock, first)..).take_while(move |((from, _), _)| *from == clock);
        edges.map(|((from, to), set)| (*from, *to, *set))
    }

    /// The shortest way, breadth first: of several the first in their order. None if it takes too many steps to find it.
    fn search(&mut self, from: Clock, to: Clock) -> Option<Vec<Edge>> {
        self.searches += 1;
        let steps = MAX_STEPS_OF_ALL.saturating_add(self.searches.saturating_mul(STEPS_OF_A_SEARCH));
        let mut left = steps.saturating_sub(self.steps);
        let way = self.search_within(&mut left, from, to);
        self.steps = steps.saturating_sub(left).max(self.steps);
        way
    }

    fn search_within(&self, left: &mut u64, from: Clock, to: Clock) -> Option<Vec<Edge>> {
        let mut seen = hashbrown::HashSet::<Clock, RandomState>::default();
        seen.insert(from);
        let mut ways: Vec<Vec<Edge>> = vec![Vec::new()];
        for step in 1..=MAX_STEPS {
            let end = |way: &Vec<Edge>| way.last().map_or(from, |(_, to, _)| *to);
            for way in &ways {
                *left = left.checked_sub(1)?;
                let at = end(way);
                if let Some(set) = self.edges.get(&(at, to)) {
                    return Some(way.iter().copied().chain([(at, to, *set)]).collect());
                }
            }
            if step == MAX_STEPS {
                break;
            }
            let mut longer = Vec::new();
            for way in &ways {
                for edge in self.edges_from(end(way)) {
                    *left = left.checked_sub(1)?;
                    if seen.len() > MAX_SEARCHED {
                        return None;
                    }
                    if seen.insert(edge.1) {
                        longer.push(way.iter().copied().chain([edge]).collect());
                    }
                }
            }
            ways = longer;
        }
        None
    }

    fn along(&self, way: &[Edge], ns: i64) -> Option<Conversion> {
        let mut whole = Conversion { from_ns: i64::MIN, before_ns: i64::MAX, offset_ns: 0 };
        for (from, to, set) in way {
            let here = ns.saturating_add(whole.offset_ns);
            let (from, to) = (self.shown_by(*from, *set)?, self.shown_by(*to, *set)?);
            let after = from.times.partition_point(|shot| shot.ns <= here);
            let at = after.saturating_sub(1);
            let Shot { snapshot, ns: shown_ns } = *from.times.get(at)?;
            let twin = to.times.binary_search_by_key(&snapshot, |shot| shot.snapshot).ok()?;
            let starts = if at == 0 { i64::MIN } else { shown_ns.saturating_sub(whole.offset_ns) };
            let ends =
                from.times.get(at + 1).map_or(i64::MAX, |next| next.ns.saturating_sub(whole.offset_ns));
            whole.from_ns = whole.from_ns.max(starts);
            whole.before_ns = whole.before_ns.min(ends);
            let step = to.times.get(twin)?.ns.wrapping_sub(shown_ns);
            whole.offset_ns = whole.offset_ns.wrapping_add(step);
        }
        Some(whole)
    }

    fn shown_by(&self, clock: Clock, set: Set) -> Option<&Shown> {
        self.shown.get(&(*self.numbers.get(&clock)? as u32, set))
    }
}

impl Shown {
    fn add(&mut self, shot: Shot) {
        // Most sets are shown once.
        if self.times.is_empty() {
            self.times.reserve_exact(1);
        }
        self.times.push(shot);
    }
}

impl State {
    /// The trace's time of a clock's, if the last answer holds for it.
    #[inline(always)]
    fn as_before(&mut self, value: i64, turn: Turn) -> Option<i64> {
        let (_, conversion) = self.cached.filter(|(then, _)| *then == turn)?;
        self.hand.trace_time(value, conversion)
    }
}

impl Hand {
    /// The trace's time; nothing if the conversion does not hold for it.
    #[inline(always)]
    fn trace_time(&mut self, value: i64, conversion: Conversion) -> Option<i64> {
        let Conversion { from_ns, before_ns, offset_ns } = conversion;
        let ns = self.peek_ns(value);
        if !(from_ns..before_ns).contains(&ns) {
            return None;
        }
        self.last_ns = ns;
        Some(ns.saturating_add(offset_ns))
    }

    /// A time in nanoseconds. For a clock that says differences it is the sum, which has to be kept if the time is converted.
    #[inline]
    fn peek_ns(&self, value: i64) -> i64 {
        let ns = value.wrapping_mul(self.unit_multiplier_ns);
        if self.is_incremental { self.last_ns.wrapping_add(ns) } else { ns }
    }
}

/// Upstream's hash of the clocks in their order: ways of one length are taken in the order of these numbers (murmur_hash.h).
fn set_of(readings: &[Reading]) -> Set {
    let mix = |mut hash: u64| {
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    };
    let parts = |reading: &Reading| {
        let Clock { id, sequence_id, machine } = reading.clock;
        // The third is the file.
        [id, sequence_id, 0, machine.0]
    };
    let step = |hash: u64, part: u32| {
        let more = mix(u64::from(part)).wrapping_add(0x9e37_79b9);
        hash ^ more.wrapping_add(hash << 6).wrapping_add(hash >> 2)
    };
    readings.iter().flat_map(parts).fold(0xe17a_1465, step) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Machine = Machine(0);

    fn reading(id: u32, value: i64) -> Reading {
        Reading::new(Clock::new(id, 7, HERE), value)
    }

    fn convert(clocks: &mut Clocks, id: u32, value: i64) -> Result<i64, Unknown> {
        clocks.to_trace_time(Clock::new(id, 7, HERE), value)
    }

    #[test]
    fn the_latest_snapshot_before_a_time_counts_and_the_first_for_earlier_ones() {
        let mut clocks = Clocks::default();
        assert_eq!(convert(&mut clocks, MONOTONIC, 5), Err(Unknown::Clock));
        assert_eq!(clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(MONOTONIC, 100)]), Ok(0));
        assert_eq!(clocks.add_snapshot(&[reading(BOOTTIME, 2500), reading(MONOTONIC, 1100)]), Ok(1));
        for (value, expected) in [(50, 950), (100, 1000), (1099, 1999), (1100, 2500), (1200, 2600), (60, 960)]
        {
            assert_eq!(convert(&mut clocks, MONOTONIC, value), Ok(expected), "{value}");
        }
        assert_eq!(convert(&mut clocks, BOOTTIME, 7), Ok(7));
    }

    #[test]
    fn ways_lead_over_other_clocks() -> Result<(), Invalid> {
        let mut clocks = Clocks::default();
        clocks.add_snapshot(&[reading(200, 5)])?;
        assert_eq!(convert(&mut clocks, 200, 15), Err(Unknown::TraceClock));
        clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(MONOTONIC, 100)])?;
        clocks.add_snapshot(&[reading(MONOTONIC, 200), reading(200, 5)])?;
        assert_eq!(convert(&mut clocks, 200, 15), Ok(1110));
        assert_eq!(convert(&mut clocks, 201, 15), Err(Unknown::Clock));
        clocks.add_snapshot(&[reading(201, 0)])?;
        assert_eq!(convert(&mut clocks, 201, 15), Err(Unknown::Way));
        Ok(())
    }

    #[test]
    fn clocks_of_sequences_say_differences_in_their_units() -> Result<(), Invalid> {
        let mut clocks = Clocks::default();
        let own = Reading { unit_multiplier_ns: 1000, is_incremental: true, ..reading(64, 3) };
        clocks.add_snapshot(&[reading(BOOTTIME, 50_000), own])?;
        assert_eq!(convert(&mut clocks, 64, 1), Ok(51_000));
        assert_eq!(convert(&mut clocks, 64, 2), Ok(53_000));
        assert_eq!(clocks.to_trace_time(Clock::new(64, 8, HERE), 2), Err(Unknown::Clock));
        Ok(())
    }

    #[test]
    fn one_after_the_other_times_are_what_each_is() -> Result<(), Invalid> {
        let own = Reading { unit_multiplier_ns: 1000, is_incremental: true, ..reading(64, 3) };
        let [mut one_by_one, mut clocks] = [Clocks::default(), Clocks::default()];
        for clocks in [&mut one_by_one, &mut clocks] {
            clocks.add_snapshot(&[reading(BOOTTIME, 50_000), own])?;
            assert!(clocks.steady(own.clock).is_none(), "nothing was converted");
            assert_eq!(convert(clocks, 64, 1), Ok(51_000));
        }
        let mut steady = clocks.steady(own.clock).expect("it was converted");
        for value in [2, 0, 7] {
            assert_eq!(steady.time(value), convert(&mut one_by_one, 64, value).ok());
        }
        clocks.put_back(steady);
        assert_eq!(convert(&mut clocks, 64, 1), convert(&mut one_by_one, 64, 1));
        clocks.add_snapshot(&[reading(BOOTTIME, 90_000)])?;
        assert!(clocks.steady(own.clock).is_none());
        Ok(())
    }

    #[test]
    fn a_time_by_a_clock_s_number_is_the_same_or_not_told() -> Result<(), Invalid> {
        let mut clocks = Clocks::default();
        let own = Reading { is_incremental: true, ..reading(64, 3) };
        assert_eq!(clocks.number_of(own.clock), None);
        clocks.add_snapshot(&[reading(BOOTTIME, 5000), own])?;
        let number = clocks.number_of(own.clock).expect("it was shown");
        assert_eq!(clocks.to_trace_time_of(number, 1), None, "none was told before");
        assert_eq!(convert(&mut clocks, 64, 1), Ok(5001));
        assert_eq!(clocks.to_trace_time_of(number, 2), Some(5003));
        assert_eq!(convert(&mut clocks, 64, 1), Ok(5004));
        clocks.add_snapshot(&[reading(BOOTTIME, 9000), own])?;
        assert_eq!(clocks.to_trace_time_of(number, 1), None, "a snapshot has come in between");
        assert_eq!(convert(&mut clocks, 64, 1), Ok(9001));
        Ok(())
    }

    #[test]
    fn a_clock_that_goes_back_is_converted_to_but_not_from() -> Result<(), Invalid> {
        let mut clocks = Clocks::default();
        clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(REALTIME, 9000)])?;
        assert_eq!(convert(&mut clocks, REALTIME, 9100), Ok(1100));
        clocks.add_snapshot(&[reading(BOOTTIME, 2000), reading(REALTIME, 5000)])?;
        assert_eq!(convert(&mut clocks, REALTIME, 9100), Err(Unknown::Way));
        let (boot, real) = (Clock::of_machine(BOOTTIME, HERE), Clock::of_machine(REALTIME, HERE));
        assert_eq!(clocks.convert(boot, 2100, real), Ok(5100));
        Ok(())
    }

    #[test]
    fn snapshots_that_contradict_are_invalid() {
        let mut clocks = Clocks::default();
        let in_us = Reading { unit_multiplier_ns: 1000, ..reading(MONOTONIC, 1) };
        let differences = Reading { is_incremental: true, ..reading(REALTIME, 1) };
        for (at, (snapshot, is_valid)) in [
            (vec![reading(BOOTTIME, 1000), reading(MONOTONIC, 100)], true),
            (vec![reading(BOOTTIME, 2000), in_us], false),
            (vec![reading(BOOTTIME, 3000), reading(BOOTTIME, 3000)], false),
            (vec![differences], false),
            (vec![reading(BOOTTIME, 900), reading(MONOTONIC, 1)], false),
            (vec![reading(BOOTTIME, 4000), reading(MONOTONIC, 5000)], true),
        ]
        .into_iter()
        .enumerate()
        {
            let expected = if is_valid { Ok(at as u32) } else { Err(Invalid) };
            assert_eq!(clocks.add_snapshot(&snapshot), expected, "{at}");
        }
    }

    #[test]
    fn the_trace_clock_is_settled_by_the_first_conversion() {
        let mut clocks = Clocks::default();
        assert!(clocks.set_trace_clock(Clock::new(MONOTONIC, 0, HERE)));
        assert_eq!(convert(&mut clocks, MONOTONIC, 5), Ok(5));
        assert!(!clocks.set_trace_clock(Clock::new(BOOTTIME, 0, HERE)));
        assert_eq!(clocks.trace_clock().id, MONOTONIC);
    }

    #[test]
    fn the_trace_clock_stays_that_of_the_machine_that_has_said_it() {
        let mut clocks = Clocks::default();
        let there = Clock::new(BOOTTIME, 0, Machine(1));
        assert!(clocks.set_trace_clock(Clock::new(BOOTTIME, 0, HERE)));
        assert!(!clocks.set_trace_clock(there));
        assert_eq!(clocks.trace_clock().machine, HERE);
        assert!(clocks.set_trace_clock(Clock::new(MONOTONIC, 0, HERE)));
        assert_eq!(clocks.default_of(there.machine), Some(BOOTTIME));
    }

    /// A clock with so many others that a search in vain sees as many as it may.
    fn crowd(clocks: &mut Clocks) -> Result<(), Invalid> {
        for group in 0..140 {
            let others = (1..32).map(|n| reading(1000 + group * 32 + n, 1));
            let readings: Vec<Reading> = [reading(200, i64::from(group))].into_iter().chain(others).collect();
            clocks.add_snapshot(&readings)?;
        }
        Ok(())
    }

    #[test]
    fn a_way_is_looked_for_again_only_if_there_may_be_another() -> Result<(), Invalid> {
        let mut clocks = Clocks::default();
        crowd(&mut clocks)?;
        for _ in 0..1000 {
            clocks.add_snapshot(&[])?;
            assert_eq!(convert(&mut clocks, 200, 5), Err(Unknown::TraceClock));
        }
        assert_eq!(clocks.searches, 1);
        clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(200, 200)])?;
        for value in 200..1200 {
            assert_eq!(convert(&mut clocks, 200, value), Ok(value + 800));
            clocks.add_snapshot(&[reading(BOOTTIME, 801 + value), reading(200, 1 + value)])?;
        }
        assert_eq!(clocks.searches, 2);
        Ok(())
    }

    #[test]
    fn searches_take_so_many_steps_in_sum() -> Result<(), Invalid> {
        let mut clocks = Clocks { steps: MAX_STEPS_OF_ALL - 10_000, ..Clocks::default() };
        crowd(&mut clocks)?;
        for n in 0..2000 {
            clocks.add_snapshot(&[reading(10_000 + n, 1), reading(20_000 + n, 1)])?;
            assert_eq!(convert(&mut clocks, 200, 5), Err(Unknown::TraceClock));
        }
        assert_eq!(clocks.searches, 2000);
        assert!(clocks.steps <= MAX_STEPS_OF_ALL + 2000 * STEPS_OF_A_SEARCH, "{}", clocks.steps);
        // What is near is found still.
        clocks.add_snapshot(&[reading(BOOTTIME, 1000), reading(MONOTONIC, 100)])?;
        assert_eq!(convert(&mut clocks, MONOTONIC, 110), Ok(1010));
        Ok(())
    }

    #[test]
    fn clocks_in_any_order_have_one_edge_each_way() -> Result<(), Invalid> {
        let mut clocks = Clocks::default();
        let mut readings: Vec<Reading> = (0..32).map(|n| reading(200 + n, 1)).collect();
        for at in 0..100 {
            readings.swap(at % 31, 31 - at % 7);
            clocks.add_snapshot(&readings)?;
        }
        assert!(clocks.shown.len() > 1000, "orders are told apart");
        assert_eq!(clocks.edges.len(), 32 * 31);
        Ok(())
    }

    #[test]
    fn sets_of_clocks_are_bounded_and_known_ones_go_on() {
        let mut clocks = Clocks::default();
        let first = [reading(BOOTTIME, 1000), reading(MONOTONIC, 100)];
        assert!(clocks.add_snapshot(&first).is_ok());
        let own = |sequence| Reading::new(Clock::new(64, sequence, HERE), 1);
        let sets = (1..).take_while(|at| clocks.add_snapshot(&[reading(BOOTTIME, 1), own(*at)]).is_ok());
        assert_eq!(sets.count(), MAX_CLOCKS - 2);
        assert!(clocks.shown.len() <= MAX_SHOWN && clocks.edges.len() <= MAX_EDGES);
        assert_eq!(clocks.add_snapshot(&[reading(BOOTTIME, 1), reading(REALTIME, 1)]), Err(Invalid));
        assert!(clocks.add_snapshot(&[reading(BOOTTIME, 3000), reading(MONOTONIC, 2000)]).is_ok());
        assert_eq!(convert(&mut clocks, MONOTONIC, 2001), Ok(3001));
    }

    #[test]
    fn of_too_many_readings_the_newest_count() -> Result<(), Invalid> {
        let mut clocks = Clocks { readings: MAX_READINGS - 4, ..Clocks::default() };
        let mut show =
            |at: i64| clocks.add_snapshot(&[reading(BOOTTIME, 1001 * at), reading(MONOTONIC, 1000 * at)]);
        for at in 1..100 {
            show(at)?;
        }
        assert_eq!(clocks.readings, MAX_READINGS);
        assert_eq!(clocks.shown.values().map(|shown| shown.times.len()).sum::<usize>(), 4);
        for (value, expected) in [(99_005, 99_104), (1005, 1006)] {
            assert_eq!(convert(&mut clocks, MONOTONIC, value), Ok(expected));
        }
        Ok(())
    }

    #[test]
    fn a_snapshot_has_so_many_clocks_and_a_trace_so_many_machines() {
        assert_eq!(Snapshot::read(&b"\x0a\x00".repeat(1000), 7, HERE).readings.len(), MAX_CLOCKS_OF_SNAPSHOT);
        let mut clocks = Clocks::default();
        for machine in 1..10_000 {
            assert!(clocks.to_trace_time(Clock::new(MONOTONIC, 0, Machine(machine)), 5).is_err());
        }
        assert_eq!(clocks.guests.len(), MAX_GUESTS);
    }

    #[test]
    fn the_number_of_a_machine_may_be_any() {
        let mut clocks = Clocks::default();
        let there = Clock::new(MONOTONIC, 0, Machine(u32::MAX));
        assert_eq!(clocks.to_trace_time(there, 5), Err(Unknown::Clock));
        assert!(clocks.guests.len() <= 1, "nothing is as large as the number");
    }
}
