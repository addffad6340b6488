//! Packets in the order of their file, with what their sequences have said before: the same in every pass.
//!
//! It follows what upstream's reader does with flags, defaults and clocks (upstream: proto_trace_reader.cc, clock_synchronizer.h), as
//! `ferretto-trace-model` does, but holds no interned data: for a cut it is enough to know where it was last cleared.
//!
//! Memory: [`MAX_SEQUENCES`] and the clocks.

use ferretto_protos::fields::{trace_packet, trace_packet_defaults, track_descriptor, track_event_defaults};
use ferretto_trace_read::Head;
use ferretto_trace_read::clocks::{Clock, ClockNumber, Clocks, Machine, Reading, Snapshot};
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_read::remote_clocks;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::event::MAX_EXTRA;
use crate::kind::Kind;
use crate::usual::{SliceEvent, Told};

/// Sequences of one trace. Ours: upstream's service hands out 65,535 numbers; packets of further ones are left out, and counted.
const MAX_SEQUENCES: usize = 1 << 18;
/// Machines of one trace, as in `ferretto-trace-model`.
const MAX_MACHINES: u32 = 4096;
/// Counters that say differences. Ours: a program has one or two for each thread.
const MAX_INCREMENTAL: usize = 1 << 20;
/// Clocks that one sequence counts in differences: those that it may have of its own.
const MAX_TICKS: usize = 64;
/// `CounterDescriptor.is_incremental` (upstream: counter_descriptor.proto).
const IS_INCREMENTAL: u32 = 5;
/// Numbers of sequences that are found without a search: those that upstream's service hands out.
const MAX_DIRECT: u32 = 1 << 16;
/// Clocks of a sequence's own (upstream: builtin_clock.proto).
const SEQUENCE_CLOCKS: std::ops::RangeInclusive<u32> = 64..=127;

/// The generation of a sequence that was never cleared: nothing that it has interned counts.
pub(crate) const NO_GENERATION: u64 = u64::MAX;

/// A sequence of packets.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// Of which machine, and its number there.
    key: (u32, u32),
    /// The packet that cleared what was interned before it; [`NO_GENERATION`] without one.
    pub(crate) generation: u64,
    /// Nothing is missing of what was interned.
    is_valid: bool,
    clock_id: Option<u32>,
    /// The same, once a time of it was told: the clock, and where it is in `ticks`.
    steady: Option<(ClockNumber, Option<usize>)>,
    /// The track of events that name none.
    pub(crate) track_uuid: Option<u64>,
    /// The further counters of events that name none.
    pub(crate) extra_counters: Vec<u64>,
    /// Clocks of differences: what they show.
    ticks: Vec<(u32, i64)>,
    /// The time of its last packet that had one.
    pub(crate) last_ts: Option<i64>,
    /// The process, by the service's word.
    pub(crate) trusted_pid: Option<i32>,
    /// The block that its last packet is in.
    pub(crate) block: u32,
}

/// A packet with all that is known when it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) head: &'a Head<'a>,
    pub(crate) kind: Kind,
    /// Its number in the file.
    pub(crate) ordinal: u64,
    /// The number of its sequence in [`Walk::sequences`].
    pub(crate) sequence: usize,
    /// Its time, if it has one that can be told.
    pub(crate) ts: Option<i64>,
    /// Its clock says differences: the clock, and what it shows now.
    pub(crate) tick: Option<(u32, i64)>,
    /// What it relies on is there.
    pub(crate) is_readable: bool,
}

/// What packets of a sequence leave behind: the time of its last one (clock 0), or what one of its clocks of differences shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    sequence: u32,
    clock: u32,
    shows: i64,
}

/// What all passes do alike.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    clocks: Clocks,
    /// All that an earlier pass has seen of the clocks, for packets that come before the first snapshot of theirs.
    all_clocks: Option<Clocks>,
    numbers: HashMap<(u32, u32), usize, RandomState>,
    /// The same of the first machine's usual numbers: one more than the number, or 0.
    direct: Vec<u32>,
    pub(crate) sequences: Vec<Sequence>,
    machines: HashMap<u32, u32, RandomState>,
    packets: u64,
    /// Machines of which a time was told, but for the first.
    has_told: HashSet<u32, RandomState>,
    has_told_here: bool,
    /// The last packet has changed what later ones mean, by more than what [`Left`] says: each pass has to see it.
    pub(crate) has_changed: bool,
    /// Packets whose time was only told by an earlier pass, or not at all.
    pub(crate) untold: u64,
    last_pair: Option<u64>,
    /// Counters that say differences.
    pub(crate) incremental: HashSet<u64, RandomState>,
    /// Packets of sequences beyond the bound, and those that cannot be read at all.
    pub(crate) left_out: u64,
}

impl Walk {
    /// A further pass over the file that this one has seen to its end.
    pub(crate) fn again(self) -> Self {
        Self { all_clocks: Some(self.clocks), ..Self::default() }
    }

    /// Takes the next packet of the file.
    #[inline]
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8], head: &'a Head<'a>) -> Option<Seen<'a>> {
        let ordinal = self.packets;
        self.packets += 1;
        self.has_changed = false;
        let Some(number) = self.number((head.machine_id, head.sequence_id)) else {
            self.left_out += 1;
            return None;
        };
        let sequence = self.sequences.get_mut(number)?;
        self.has_changed |= sequence.arrive(head, ordinal);
        let is_readable = sequence.is_valid || !head.needs_state();
        let kind = Kind::of(head);
        let mut seen =
            Seen { bytes, head, kind, ordinal, sequence: number, ts: None, tick: None, is_readable };
        match head.data {
            Some((trace_packet::CLOCK_SNAPSHOT, message)) => self.clock_snapshot(message, &seen),
            Some((trace_packet::REMOTE_CLOCK_SYNC, message)) => {
                self.remote_clocks(message, head.machine_id);
            }
            // Upstream's reader is done with these before it comes to times.
            Some((trace_packet::SERVICE_EVENT | trace_packet::EXTENSION_DESCRIPTOR, _)) => {}
            Some((trace_packet::TRACK_DESCRIPTOR, message)) if is_readable => {
                self.descriptor(message);
                self.tell_time(&mut seen);
            }
            _ if is_readable => self.tell_time(&mut seen),
            _ => {}
        }
        Some(seen)
    }

    /// Takes the next packet of the file, if it is a slice's and of its sequence nothing new.
    #[inline(always)]
    pub(crate) fn take_usual(&mut self, event: &SliceEvent) -> Option<Told> {
        let number = *self.direct.get(event.sequence_id as usize)?;
        let number = (number as usize).checked_sub(1)?;
        let sequence = self.sequences.get_mut(number)?;
        let is_its = event.trusted_pid.is_none() || event.trusted_pid == sequence.trusted_pid;
        if !is_its || !sequence.is_valid {
            return None;
        }
        let (clock, tick) = sequence.steady?;
        let ts = self.clocks.to_trace_time_of(clock, event.timestamp)?;
        if let Some((_, shows)) = tick.and_then(|tick| sequence.ticks.get_mut(tick)) {
            *shows = shows.saturating_add(event.timestamp);
        }
        sequence.last_ts = Some(ts);
        let ordinal = self.packets;
        self.packets += 1;
        self.has_changed = false;
        let Sequence { generation, track_uuid, .. } = *sequence;
        Some(Told { ts, ordinal, sequence: number, generation, track_uuid })
    }

    /// Takes a packet that cannot be read at all.
    pub(crate) fn leave_out(&mut self) {
        self.packets += 1;
        self.left_out += 1;
    }

    /// How many packets were taken.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// What a sequence's packets leave behind, for a pass that does not see them.
    pub(crate) fn left(&self, sequence: usize) -> impl Iterator<Item = Left> {
        let number = sequence as u32;
        let sequence = self.sequences.get(sequence);
        let last_ts = sequence.and_then(|sequence| sequence.last_ts);
        let ticks = sequence.into_iter().flat_map(|sequence| &sequence.ticks);
        let time = last_ts.map(|last_ts| Left { sequence: number, clock: 0, shows: last_ts });
        time.into_iter().chain(ticks.map(move |(clock, shows)| Left {
            sequence: number,
            clock: *clock,
            shows: *shows,
        }))
    }

    /// Goes on behind packets that this pass does not see.
    pub(crate) fn go_on(&mut self, packets: u64, left: &[Left]) {
        self.packets = packets;
        for left in left {
            let Some(sequence) = self.sequences.get_mut(left.sequence as usize) else { continue };
            if left.clock == 0 {
                sequence.last_ts = Some(left.shows);
                continue;
            }
            let (machine, sequence_id) = sequence.key;
            let Some((_, shows)) = sequence.ticks.iter_mut().find(|(clock, _)| *clock == left.clock) else {
                continue;
            };
            let difference = left.shows.wrapping_sub(std::mem::replace(shows, left.shows));
            self.trace_time(left.clock, sequence_id, machine, difference);
        }
    }

    /// A time of a clock that packets of this sequence name.
    #[inline]
    pub(crate) fn trace_time(
        &mut self,
        clock_id: u32,
        sequence_id: u32,
        machine: u32,
        value: i64,
    ) -> Option<i64> {
        let clock = Clock::new(clock_id, sequence_id, self.machine(machine));
        if machine != 0 || !self.has_told_here {
            self.first_told(machine);
        }
        if let Ok(ts) = self.clocks.to_trace_time(clock, value) {
            return Some(ts);
        }
        (self.has_changed, self.untold) = (true, self.untold + 1);
        if let Some(all_clocks) = &mut self.all_clocks
            && let Ok(ts) = all_clocks.to_trace_time(clock, value)
        {
            return Some(ts);
        }
        // Clocks of other machines are taken for the same: which machine's event it is does not change what is cut.
        let here = Clock::new(clock_id, sequence_id, Machine(0));
        (machine != 0).then(|| self.clocks.to_trace_time(here, value).ok())?
    }

    /// Whether times of a clock that packets of this sequence name are the trace's as they are.
    pub(crate) fn is_trace_clock(&mut self, clock_id: u32, seen: &Seen<'_>) -> bool {
        let (sequence_id, machine) = (seen.head.sequence_id, seen.head.machine_id);
        let clock = Clock::new(clock_id, sequence_id, self.machine(machine));
        // Told once, it stays the trace's.
        clock == self.clocks.trace_clock() && self.trace_time(clock_id, sequence_id, machine, 0).is_some()
    }

    /// After its first time a machine cannot set the trace's clock any more.
    fn first_told(&mut self, machine: u32) {
        let is_first = match machine {
            0 => !std::mem::replace(&mut self.has_told_here, true),
            // Those beyond the bound are not told apart from new ones.
            _ if self.has_told.len() >= MAX_MACHINES as usize => !self.has_told.contains(&machine),
            _ => self.has_told.insert(machine),
        };
        self.has_changed |= is_first;
    }

    /// Adds what two clocks showed at once.
    pub(crate) fn add_pair(&mut self, seen: &Seen<'_>, clocks: [(u32, i64); 2]) {
        self.has_changed = true;
        // Several cuts may be made at once.
        if self.last_pair.replace(seen.ordinal) == Some(seen.ordinal) {
            return;
        }
        let (sequence_id, machine) = (seen.head.sequence_id, self.machine(seen.head.machine_id));
        let readings = clocks.map(|(id, value)| Reading::new(Clock::new(id, sequence_id, machine), value));
        let _ = self.clocks.add_snapshot(&readings);
    }

    /// Adds how the clocks of another machine stand to those of the trace's.
    fn remote_clocks(&mut self, message: &[u8], machine: u32) {
        self.has_changed = true;
        let machine = self.machine(machine);
        for snapshot in remote_clocks::snapshots(message, machine, self.clocks.trace_clock().machine) {
            // One that contradicts others counts for nothing.
            let _ = self.clocks.add_snapshot(&snapshot);
        }
    }

    /// What its sequence's clock of differences shows.
    pub(crate) fn ticks(&self, sequence: usize) -> &[(u32, i64)] {
        self.sequences.get(sequence).map_or(&[], |sequence| &sequence.ticks)
    }

    /// Machines by their turn; those beyond the bound are taken for the first.
    #[inline]
    fn machine(&mut self, raw: u32) -> Machine {
        if raw == 0 {
            return Machine(0);
        }
        let next = self.machines.len() as u32 + 1;
        if next > MAX_MACHINES && !self.machines.contains_key(&raw) {
            return Machine(0);
        }
        let machine = Machine(*self.machines.entry(raw).or_insert(next));
        if machine == Machine(next) {
            self.clocks.add_machine(machine);
        }
        machine
    }

    #[inline]
    fn number(&mut self, key: (u32, u32)) -> Option<usize> {
        let (machine, sequence_id) = key;
        let is_direct = machine == 0 && sequence_id < MAX_DIRECT;
        if is_direct && let Some(number @ 1..) = self.direct.get(sequence_id as usize) {
            return Some(*number as usize - 1);
        }
        if !is_direct && let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        self.new_number(key, is_direct)
    }

    #[cold]
    fn new_number(&mut self, key: (u32, u32), is_direct: bool) -> Option<usize> {
        let number = self.sequences.len();
        if number >= MAX_SEQUENCES {
            return None;
        }
        self.has_changed = true;
        self.sequences.push(Sequence::new(key));
        if !is_direct {
            self.numbers.insert(key, number);
            return Some(number);
        }
        let at = key.1 as usize;
        if self.direct.len() <= at {
            self.direct.resize(at + 1, 0);
        }
        if let Some(slot) = self.direct.get_mut(at) {
            *slot = number as u32 + 1;
        }
        Some(number)
    }

    #[inline]
    fn tell_time(&mut self, seen: &mut Seen<'_>) {
        let Some(timestamp) = seen.head.timestamp else { return };
        let timestamp = i64::try_from(timestamp).unwrap_or(i64::MAX);
        let Some(sequence) = self.sequences.get_mut(seen.sequence) else { return };
        let own = seen.head.clock_id.or(sequence.clock_id).filter(|id| *id != 0);
        let machine = Machine(0);
        let Some(id) = own.or_else(|| self.clocks.default_of(machine)) else {
            seen.ts = Some(timestamp);
            sequence.last_ts = seen.ts;
            return;
        };
        if SEQUENCE_CLOCKS.contains(&id)
            && let Some((_, shows)) = sequence.ticks.iter_mut().find(|(clock, _)| *clock == id)
        {
            *shows = shows.saturating_add(timestamp);
            seen.tick = Some((id, *shows));
        }
        seen.ts = self.trace_time(id, seen.head.sequence_id, seen.head.machine_id, timestamp);
        let Some(sequence) = self.sequences.get_mut(seen.sequence) else { return };
        sequence.last_ts = seen.ts.or(sequence.last_ts);
        // Of each sequence the first packets that rely on its state are counted one by one.
        let is_usual = seen.head.needs_state() && seen.head.machine_id == 0;
        if sequence.steady.is_none() && sequence.clock_id == Some(id) && is_usual {
            let number = self.clocks.number_of(Clock::new(id, seen.head.sequence_id, Machine(0)));
            let tick = sequence.ticks.iter().position(|(clock, _)| *clock == id);
            let tick = tick.filter(|_| SEQUENCE_CLOCKS.contains(&id));
            sequence.steady = number.map(|number| (number, tick));
        }
    }

    fn clock_snapshot(&mut self, message: &[u8], seen: &Seen<'_>) {
        let machine = self.machine(seen.head.machine_id);
        let Snapshot { readings, trace_clock } = Snapshot::read(message, seen.head.sequence_id, machine);
        if let Some(clock) = trace_clock {
            self.clocks.set_trace_clock(clock);
        }
        // One that contradicts others counts for nothing, here and for those who read the cut.
        let _ = self.clocks.add_snapshot(&readings);
        let Some(sequence) = self.sequences.get_mut(seen.sequence) else { return };
        sequence.steady = None;
        for reading in readings.iter().filter(|reading| SEQUENCE_CLOCKS.contains(&reading.clock.id)) {
            let id = reading.clock.id;
            let has_room = sequence.ticks.len() < MAX_TICKS;
            match sequence.ticks.iter_mut().find(|(clock, _)| *clock == id) {
                Some((_, shows)) => *shows = reading.value,
                None if reading.is_incremental && has_room => {
                    sequence.ticks.push((id, reading.value));
                }
                None => {}
            }
        }
    }

    fn descriptor(&mut self, message: &[u8]) {
        let (mut uuid, mut is_incremental) = (None, false);
        for part in Fields::new(message).whole() {
            match (part.number, part.value) {
                (track_descriptor::UUID, value) => uuid = value.as_u64(),
                (track_descriptor::COUNTER, Value::Bytes(counter)) => {
                    let mut parts = Fields::new(counter).whole();
                    is_incremental =
                        parts.any(|part| part.number == IS_INCREMENTAL && part.value.as_u64() != Some(0));
                }
                _ => {}
            }
        }
        if let Some(uuid) = uuid.filter(|_| is_incremental && self.incremental.len() < MAX_INCREMENTAL) {
            self.incremental.insert(uuid);
        }
    }
}

impl Sequence {
    fn new(key: (u32, u32)) -> Self {
        Self {
            key,
            generation: NO_GENERATION,
            is_valid: false,
            clock_id: None,
            steady: None,
            track_uuid: None,
            extra_counters: Vec::new(),
            ticks: Vec::new(),
            last_ts: None,
            trusted_pid: None,
            block: u32::MAX,
        }
    }

    /// Says whether the process is another one.
    #[inline]
    fn arrive(&mut self, head: &Head<'_>, ordinal: u64) -> bool {
        if head.clears_state() {
            self.is_valid = true;
            self.generation = ordinal;
            self.forget_defaults();
        } else if head.previous_packet_dropped != 0 {
            self.is_valid = false;
            self.forget_defaults();
        }
        if let Some(defaults) = head.defaults {
            self.forget_defaults();
            self.take_defaults(defaults);
        }
        if head.trusted_pid.is_none() || head.trusted_pid == self.trusted_pid {
            return false;
        }
        self.trusted_pid = head.trusted_pid;
        true
    }

    fn forget_defaults(&mut self) {
        self.steady = None;
        self.clock_id = None;
        self.track_uuid = None;
        self.extra_counters.clear();
    }

    fn take_defaults(&mut self, message: &[u8]) {
        for part in Fields::new(message).whole() {
            match (part.number, part.value) {
                (trace_packet_defaults::TIMESTAMP_CLOCK_ID, value) => {
                    self.clock_id = value.as_u64().and_then(|id| u32::try_from(id).ok());
                }
                (trace_packet_defaults::TRACK_EVENT_DEFAULTS, Value::Bytes(event)) => {
                    for part in Fields::new(event).whole() {
                        match part.number {
                            track_event_defaults::TRACK_UUID => self.track_uuid = part.value.as_u64(),
                            track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS => {
                                crate::packed::each(part.value, |uuid| {
                                    // An event has values for so many.
                                    if self.extra_counters.len() < MAX_EXTRA {
                                        self.extra_counters.push(uuid);
                                    }
                                });
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_has_as_many_further_counters_as_an_event_has_values_for() {
        let mut event = Vec::new();
        let counters = track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS;
        ferretto_protozero::Message::new(&mut event).packed_varints(counters, 1..=1000u64);
        let mut defaults = Vec::new();
        ferretto_protozero::Message::new(&mut defaults)
            .bytes(trace_packet_defaults::TRACK_EVENT_DEFAULTS, &event);
        let mut sequence = Sequence::new((0, 1));
        sequence.take_defaults(&defaults);
        assert!(sequence.extra_counters.into_iter().eq(1..=MAX_EXTRA as u64));
    }
}
