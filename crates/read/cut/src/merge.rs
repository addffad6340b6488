//! Several traces as one.
//!
//! Packets are copied one trace after the other. Numbers of sequences are given anew where they collide, and so are those of machines: a trace
//! that comes from another machine than the first one gets a number for it. How its clocks stand to the first one's is said as a relay would
//! say it, by what both clocks showed at one time of the calendar.
//!
//! Two traces are of one machine if it says the same of itself, and has been started at the same time of the calendar.
//!
//! Clocks of a program's own (from 128 on) are another's in another trace, even under the same number: they get new ones, too.
//!
//! What the machine's clocks showed comes first, in the order of time, as readers want it: a clock must not go back.
//!
//! What a trace says of itself (its config, its uuid) is the first one's. Statistics of losses are joined: buffers of later traces are numbered
//! on, and writers by their new sequences.
//!
//! Memory: of each trace the numbers of sequences, [`MAX_SNAPSHOTS`] and [`MAX_SNAPSHOT_BYTES`], its last statistics; and one packet.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ferretto_protos::fields::trace_stats::{self, writer_stats};
use ferretto_protos::fields::{
    clock_snapshot, remote_clock_sync, system_info, trace_config, trace_packet, trace_packet_defaults,
    tracing_service_event,
};
use ferretto_protozero::Message;
use ferretto_protozero::read::{Field, Fields, Value};
use ferretto_trace_read::Head;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::cut::Error;
use crate::kind::Kind;
use crate::passes::reader;
use crate::source::Source;
use crate::write::put;

/// Sequences of all traces. Ours: packets of further ones are left out, and counted.
const MAX_SEQUENCES: usize = 1 << 20;
/// Clocks of the calendar differ by so much between two recordings on one machine, which may set them in between.
const SAME_START_NS: i64 = 2_000_000_000;
/// What the machine's clocks showed, of one trace. Ours: services say it every ten seconds; further ones stay where they are.
const MAX_SNAPSHOTS: usize = 1 << 15;
/// Bytes of these packets. Ours: one has a hundred.
const MAX_SNAPSHOT_BYTES: usize = 16 << 20;
/// What a machine says of itself: so much of it is compared. Ours: names have 65 bytes each.
const MAX_SYSTEM_BYTES: usize = 4096;
/// Machines of one trace, as in `ferretto-trace-model`. Further ones keep their numbers.
const MAX_MACHINES: usize = 4096;
/// The first clock that is not the machine's (upstream: builtin_clock.proto).
const FIRST_OTHER_CLOCK: u64 = 64;
/// The first of the clocks of programs' own (upstream: builtin_clock.proto).
const FIRST_OWN_CLOCK: u32 = 128;
/// Such clocks of one trace. Ours: with more, further ones keep their numbers.
const MAX_CLOCKS: usize = 1 << 16;
/// `REALTIME` and `BOOTTIME` of builtin_clock.proto.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// Which traces are of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machines {
    /// By what they say of it.
    #[default]
    ByWhatTheySay,
    /// All are.
    One,
    /// None is that of another.
    Apart,
}

/// What was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Machines, the first trace's own among them.
    pub machines: u64,
    /// Packets that cannot be read, or are of more sequences than can be numbered.
    pub left_out: u64,
    /// Traces that do not say what time of the calendar it was: their clocks are taken for the first one's.
    pub without_calendar: u64,
    /// Packets written.
    pub packets: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// What a first look at a trace finds.
#[derive(Debug, Default)]
struct Look {
    /// The machine's words on itself.
    system: Option<Vec<u8>>,
    /// The boot's clock and the calendar's at once.
    calendar: Option<(i64, i64)>,
    sequences: HashSet<(u32, u32), RandomState>,
    machines: Vec<u32>,
    known_machines: HashSet<u32, RandomState>,
    /// Clocks of programs' own.
    clocks: HashSet<u32, RandomState>,
    /// When the machine's clocks showed what.
    snapshots: Vec<(i64, Vec<u8>)>,
    /// That these have, with the first for which there was no room.
    snapshot_bytes: usize,
    buffers: u64,
    /// When its service began.
    tracing_started: Option<u64>,
    /// The last statistics.
    stats: Option<Vec<u8>>,
    left_out: u64,
}

/// Which numbers are taken.
#[derive(Debug, Default)]
struct Taken {
    sequences: HashSet<(u32, u32), RandomState>,
    /// The numbers of sequences, whatever their machine.
    of_sequences: HashSet<u32, RandomState>,
    next_sequence: u32,
    machines: HashSet<u32, RandomState>,
    next_machine: u32,
    clocks: HashSet<u32, RandomState>,
    next_clock: u32,
}

/// Merges traces, and writes the result.
///
/// # Errors
///
/// With the number of the trace that cannot be read or is none; or of the last one, if the result cannot be written.
pub fn merge<S: Source>(
    sources: &[S],
    machines: Machines,
    out: impl Write,
) -> Result<Merged, (usize, Error)> {
    let mut looks = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        looks.push(look(source).map_err(|error| (number, error))?);
    }
    let mut out = io::BufWriter::with_capacity(1 << 18, out);
    let mut merged = Merged::default();
    let mut taken = Taken::default();
    let mut stats = Stats::default();
    let mut all_numbers = Vec::new();
    let mut snapshots = Vec::new();
    for (number, look) in looks.iter().enumerate() {
        let is_same =
            looks.first().is_none_or(|first| number == 0 || look.is_of_same_machine(first, machines));
        let numbers = taken.give(look, is_same);
        snapshots.extend(look.snapshots.iter().map(|(boot, packet)| (*boot, number, packet)));
        stats.add(look, &numbers);
        merged.left_out += look.left_out;
        all_numbers.push((is_same, numbers));
    }
    snapshots.sort_by_key(|(boot, number, _)| (*boot, *number));
    let starts = looks.iter().enumerate().filter_map(|(number, look)| Some((look.tracing_started?, number)));
    let is_one_machine = all_numbers.iter().all(|(is_same, _)| *is_same);
    let starter = starts.min().map(|(_, number)| number).filter(|_| is_one_machine);
    let mut renumbered = Vec::new();
    for (_, number, packet) in snapshots {
        let Some((_, numbers)) = all_numbers.get(number) else { continue };
        renumbered.clear();
        numbers.apply(packet, &mut renumbered);
        merged.count(put(&mut out, &renumbered).map_err(|error| (number, Error::Write(error)))?);
    }
    for (number, ((source, look), (is_same, numbers))) in
        sources.iter().zip(&looks).zip(&all_numbers).enumerate()
    {
        let first = looks.first().filter(|_| number > 0);
        if let Some(machine) = numbers.machines.get(&0).filter(|_| !is_same) {
            merged.without_calendar += u64::from(first.is_some_and(|first| first.offset(look).is_none()));
            if let Some(packet) = first.and_then(|first| clock_sync(first, look, *machine)) {
                merged.count(put(&mut out, &packet).map_err(|error| (number, Error::Write(error)))?);
            }
        }
        let moved = look.snapshots.len();
        let part = Part { is_further: number > 0, says_start: starter == Some(number), moved };
        copy(source, part, numbers, &mut out, &mut merged).map_err(|error| (number, error))?;
    }
    let last = sources.len().saturating_sub(1);
    if let Some(packet) = stats.packet() {
        merged.count(put(&mut out, &packet).map_err(|error| (last, Error::Write(error)))?);
    }
    out.flush().map_err(|error| (last, Error::Write(error)))?;
    merged.machines = taken.machines.len() as u64;
    Ok(merged)
}

fn look<S: Source>(source: &S) -> Result<Look, Error> {
    let mut look = Look::default();
    let reader = reader(source)?;
    let end = reader.for_each(|packet, _| match Head::of(packet) {
        Ok(head) => look.take(packet, &head),
        Err(_) => look.left_out += 1,
    });
    let end = end.map_err(Error::Read)?;
    match end.broken_at.or(end.torn_at) {
        Some(offset) if end.packets == 0 => Err(Error::NotATrace { offset }),
        _ => Ok(look),
    }
}

impl Look {
    fn take(&mut self, packet: &[u8], head: &Head<'_>) {
        if self.sequences.len() < MAX_SEQUENCES {
            self.sequences.insert((head.machine_id, head.sequence_id));
        }
        if self.machines.len() < MAX_MACHINES && self.known_machines.insert(head.machine_id) {
            self.machines.push(head.machine_id);
        }
        if let Some((trace_packet::CLOCK_SNAPSHOT, snapshot)) = head.data {
            let own = clocks(snapshot).filter_map(|clock| number(clock, clock_snapshot::clock::CLOCK_ID));
            let own = own.filter_map(|id| u32::try_from(id).ok()).filter(|id| *id >= FIRST_OWN_CLOCK);
            let room = MAX_CLOCKS.saturating_sub(self.clocks.len());
            self.clocks.extend(own.take(room));
            if let Some(boot) = of_machine(snapshot) {
                self.snapshot(boot, packet);
            }
        }
        match head.data {
            Some((trace_packet::CLOCK_SNAPSHOT, snapshot)) if head.machine_id == 0 => {
                let both = clock(snapshot, BOOTTIME).zip(clock(snapshot, REALTIME));
                self.calendar = self.calendar.or(both);
            }
            Some((trace_packet::SYSTEM_INFO, info)) if head.machine_id == 0 => {
                let name =
                    Fields::new(info).map_while(Result::ok).find(|part| part.number == system_info::UTSNAME);
                let name = name.map(|name| name.raw.get(..MAX_SYSTEM_BYTES).unwrap_or(name.raw).to_vec());
                self.system = self.system.take().or(name);
            }
            Some((trace_packet::TRACE_CONFIG, config)) => {
                let buffers = Fields::new(config).map_while(Result::ok);
                let buffers = buffers.filter(|part| part.number == trace_config::BUFFERS).count();
                self.buffers = self.buffers.max(buffers as u64);
            }
            Some((trace_packet::TRACE_STATS, stats)) => self.stats = Some(stats.to_vec()),
            Some((trace_packet::SERVICE_EVENT, event)) if is_start(event) => {
                self.tracing_started = [self.tracing_started, head.timestamp].into_iter().flatten().min();
            }
            _ => {}
        }
    }

    /// Keeps the first ones: without a gap, as [`copy`] counts them.
    fn snapshot(&mut self, boot: i64, packet: &[u8]) {
        self.snapshot_bytes = self.snapshot_bytes.saturating_add(packet.len());
        if self.snapshots.len() < MAX_SNAPSHOTS && self.snapshot_bytes <= MAX_SNAPSHOT_BYTES {
            self.snapshots.push((boot, packet.to_vec()));
        }
    }

    /// When its machine was started, by the calendar.
    fn started(&self) -> Option<i64> {
        self.calendar.map(|(boot, calendar)| calendar.saturating_sub(boot))
    }

    /// How much later the boot's clock of this one began.
    fn offset(&self, other: &Self) -> Option<i64> {
        Some(self.started()?.saturating_sub(other.started()?))
    }

    fn is_of_same_machine(&self, first: &Self, machines: Machines) -> bool {
        match machines {
            Machines::One => true,
            Machines::Apart => false,
            Machines::ByWhatTheySay => {
                let starts = first.offset(self);
                self.system == first.system && starts.is_none_or(|by| by.saturating_abs() <= SAME_START_NS)
            }
        }
    }
}

/// What becomes of the numbers of one trace.
#[derive(Debug, Default)]
struct Numbers {
    sequences: HashMap<(u32, u32), u32, RandomState>,
    machines: HashMap<u32, u32, RandomState>,
    /// Those that have a new one.
    clocks: HashMap<u32, u32, RandomState>,
}

impl Taken {
    fn give(&mut self, look: &Look, is_same_machine: bool) -> Numbers {
        let mut numbers = Numbers::default();
        for machine in &look.machines {
            let keeps = if *machine == 0 { is_same_machine } else { !self.machines.contains(machine) };
            let given = if keeps { *machine } else { self.free_machine(look) };
            self.machines.insert(given);
            numbers.machines.insert(*machine, given);
        }
        let own: HashSet<u32, RandomState> = look.sequences.iter().map(|(_, sequence)| *sequence).collect();
        // In order, so that the same traces become the same one.
        for (machine, sequence) in look.sequences.iter().collect::<BTreeSet<_>>() {
            let given_machine = numbers.machines.get(machine).copied().unwrap_or(*machine);
            let is_taken = self.sequences.contains(&(given_machine, *sequence));
            let given = if is_taken && *sequence != 0 { self.free_sequence(&own) } else { *sequence };
            numbers.sequences.insert((*machine, *sequence), given);
        }
        for ((machine, _), given) in &numbers.sequences {
            let machine = numbers.machines.get(machine).copied().unwrap_or(*machine);
            self.sequences.insert((machine, *given));
            self.of_sequences.insert(*given);
        }
        for clock in look.clocks.iter().collect::<BTreeSet<_>>() {
            if !self.clocks.insert(*clock) {
                let given = self.free_clock(look);
                self.clocks.insert(given);
                numbers.clocks.insert(*clock, given);
            }
        }
        numbers
    }

    fn free_clock(&mut self, look: &Look) -> u32 {
        self.next_clock = self.next_clock.max(FIRST_OWN_CLOCK - 1);
        loop {
            self.next_clock += 1;
            if !self.clocks.contains(&self.next_clock) && !look.clocks.contains(&self.next_clock) {
                return self.next_clock;
            }
        }
    }

    /// One that no trace has, this one neither, whose own these are. Readers may keep losses by sequences alone, so it is free on all machines.
    fn free_sequence(&mut self, own: &HashSet<u32, RandomState>) -> u32 {
        loop {
            self.next_sequence = self.next_sequence.wrapping_add(1);
            let next = self.next_sequence;
            if next != 0 && !self.of_sequences.contains(&next) && !own.contains(&next) {
                return next;
            }
        }
    }

    fn free_machine(&mut self, look: &Look) -> u32 {
        loop {
            self.next_machine += 1;
            if !self.machines.contains(&self.next_machine)
                && !look.known_machines.contains(&self.next_machine)
            {
                return self.next_machine;
            }
        }
    }
}

/// What of a trace is to be copied.
#[derive(Clone, Copy, Debug)]
struct Part {
    is_further: bool,
    /// Readers leave out what the kernel has said before the last service that says so began: only the earliest may say it.
    says_start: bool,
    /// The first so many snapshots of its machine's clocks have been written.
    moved: usize,
}

/// Copies what is left of a trace.
fn copy<S: Source>(
    source: &S,
    part: Part,
    numbers: &Numbers,
    out: &mut impl Write,
    merged: &mut Merged,
) -> Result<(), Error> {
    let Part { is_further, says_start, mut moved } = part;
    let mut result = Ok(());
    let mut packet = Vec::new();
    let reader = reader(source)?;
    let end = reader.for_each(|bytes, _| {
        let Ok(head) = Head::of(bytes) else { return };
        let is_left = match head.data {
            Some((trace_packet::TRACE_CONFIG | trace_packet::TRACE_UUID, _)) => is_further,
            Some((trace_packet::TRACE_STATS, _)) => true,
            Some((trace_packet::SERVICE_EVENT, event)) if is_start(event) => !says_start,
            Some((trace_packet::CLOCK_SNAPSHOT, snapshot)) if moved > 0 => {
                let is_moved = of_machine(snapshot).is_some();
                moved -= usize::from(is_moved);
                is_moved
            }
            _ => Kind::of(&head) == Kind::Progress,
        };
        if result.is_err() || is_left {
            return;
        }
        if !numbers.sequences.contains_key(&(head.machine_id, head.sequence_id)) {
            merged.left_out += 1;
            return;
        }
        if numbers.keep(&head) {
            result = put(out, bytes).map(|len| merged.count(len));
            return;
        }
        packet.clear();
        numbers.apply(bytes, &mut packet);
        result = put(out, &packet).map(|len| merged.count(len));
    });
    result.map_err(Error::Write)?;
    end.map(drop).map_err(Error::Read)
}

fn is_start(event: &[u8]) -> bool {
    number(event, tracing_service_event::TRACING_STARTED).is_some()
}

/// The boot's clock, if a snapshot shows that, and only clocks of the machine.
fn of_machine(snapshot: &[u8]) -> Option<i64> {
    let ids = clocks(snapshot).filter_map(|clock| number(clock, clock_snapshot::clock::CLOCK_ID));
    let are_machines = ids.into_iter().all(|id| id < FIRST_OTHER_CLOCK);
    clock(snapshot, BOOTTIME).filter(|_| are_machines)
}

impl Numbers {
    /// Its sequence and machine.
    fn of(&self, head: &Head<'_>) -> (u32, u32) {
        let sequence = self.sequences.get(&(head.machine_id, head.sequence_id)).copied();
        let machine = self.machines.get(&head.machine_id).copied();
        (sequence.unwrap_or(head.sequence_id), machine.unwrap_or(head.machine_id))
    }

    /// Whether a packet stays as it is.
    fn keep(&self, head: &Head<'_>) -> bool {
        self.clocks.is_empty() && self.of(head) == (head.sequence_id, head.machine_id)
    }

    fn apply(&self, packet: &[u8], out: &mut Vec<u8>) {
        let (sequence, machine) = self.of(&Head::of(packet).unwrap_or_default());
        renumber(packet, sequence, machine, &self.clocks, out);
    }
}

type Clocks = HashMap<u32, u32, RandomState>;

fn renumber(packet: &[u8], sequence: u32, machine: u32, clocks: &Clocks, out: &mut Vec<u8>) {
    let mut message = Message::new(out);
    for part in Fields::new(packet).map_while(Result::ok) {
        match (part.number, part.value) {
            (trace_packet::TRUSTED_PACKET_SEQUENCE_ID | trace_packet::MACHINE_ID, _) => {}
            (trace_packet::TIMESTAMP_CLOCK_ID, _) => clock_id(part, clocks, &mut message),
            (trace_packet::TRACE_PACKET_DEFAULTS, Value::Bytes(defaults)) if !clocks.is_empty() => {
                let mut new = message.nested(trace_packet::TRACE_PACKET_DEFAULTS);
                for part in Fields::new(defaults).map_while(Result::ok) {
                    match part.number {
                        trace_packet_defaults::TIMESTAMP_CLOCK_ID => clock_id(part, clocks, &mut new),
                        _ => new.raw(part.raw),
                    }
                }
            }
            (trace_packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) if !clocks.is_empty() => {
                let mut new = message.nested(trace_packet::CLOCK_SNAPSHOT);
                for part in Fields::new(snapshot).map_while(Result::ok) {
                    let (clock_snapshot::CLOCKS, Value::Bytes(clock)) = (part.number, part.value) else {
                        new.raw(part.raw);
                        continue;
                    };
                    let mut new = new.nested(clock_snapshot::CLOCKS);
                    for part in Fields::new(clock).map_while(Result::ok) {
                        match part.number {
                            clock_snapshot::clock::CLOCK_ID => clock_id(part, clocks, &mut new),
                            _ => new.raw(part.raw),
                        }
                    }
                }
            }
            _ => message.raw(part.raw),
        }
    }
    if sequence != 0 {
        message.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, u64::from(sequence));
    }
    if machine != 0 {
        message.varint(trace_packet::MACHINE_ID, u64::from(machine));
    }
}

/// How the clocks of another machine stand to the first one's (upstream: remote_clock_sync.proto). A round has two pairs.
fn clock_sync(first: &Look, other: &Look, machine: u32) -> Option<Vec<u8>> {
    let (boot, calendar) = other.calendar?;
    let host = boot.saturating_sub(first.offset(other)?);
    let mut packet = Vec::new();
    let mut message = Message::new(&mut packet);
    let mut sync = message.nested(trace_packet::REMOTE_CLOCK_SYNC);
    for _ in 0..2 {
        let mut pair = sync.nested(remote_clock_sync::SYNCED_CLOCKS);
        write_clocks(&mut pair.nested(remote_clock_sync::synced_clocks::CLIENT_CLOCKS), boot, calendar);
        write_clocks(&mut pair.nested(remote_clock_sync::synced_clocks::HOST_CLOCKS), host, calendar);
    }
    drop(sync);
    message.varint(trace_packet::MACHINE_ID, u64::from(machine));
    drop(message);
    Some(packet)
}

fn write_clocks(snapshot: &mut Message<'_, Vec<u8>>, boot: i64, calendar: i64) {
    for (id, value) in [(BOOTTIME, boot), (REALTIME, calendar)] {
        let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
        clock.varint(clock_snapshot::clock::CLOCK_ID, id);
        clock.varint(clock_snapshot::clock::TIMESTAMP, value as u64);
    }
}

fn clock_id(part: Field<'_>, clocks: &Clocks, message: &mut Message<'_, Vec<u8>>) {
    let new = part.value.as_u64().and_then(|id| clocks.get(&u32::try_from(id).ok()?));
    match new {
        Some(new) => message.varint(part.number, u64::from(*new)),
        None => message.raw(part.raw),
    }
}

/// The clocks of a snapshot.
fn clocks(snapshot: &[u8]) -> impl Iterator<Item = &[u8]> {
    Fields::new(snapshot).map_while(Result::ok).filter_map(|part| match (part.number, part.value) {
        (clock_snapshot::CLOCKS, Value::Bytes(clock)) => Some(clock),
        _ => None,
    })
}

fn number(message: &[u8], field: u32) -> Option<u64> {
    let mut parts = Fields::new(message).map_while(Result::ok);
    parts.find(|part| part.number == field).and_then(|part| part.value.as_u64())
}

fn clock(snapshot: &[u8], id: u64) -> Option<i64> {
    let clock = clocks(snapshot).find(|clock| number(clock, clock_snapshot::clock::CLOCK_ID) == Some(id))?;
    number(clock, clock_snapshot::clock::TIMESTAMP).map(|value| value as i64)
}

/// The statistics of all traces.
#[derive(Debug, Default)]
struct Stats {
    message: Vec<u8>,
    buffers: u64,
    has_any: bool,
}

impl Stats {
    fn add(&mut self, look: &Look, numbers: &Numbers) {
        let mut buffers = 0;
        if let Some(stats) = &look.stats {
            let mut message = Message::new(&mut self.message);
            for part in Fields::new(stats).map_while(Result::ok) {
                match (part.number, part.value) {
                    (trace_stats::BUFFER_STATS, _) => {
                        buffers += 1;
                        message.raw(part.raw);
                    }
                    (trace_stats::WRITER_STATS, Value::Bytes(writer)) => {
                        let mut new = message.nested(trace_stats::WRITER_STATS);
                        write_writer(writer, numbers, self.buffers, &mut new);
                    }
                    // Of the rest the first one's count.
                    _ if !self.has_any => message.raw(part.raw),
                    _ => {}
                }
            }
            self.has_any = true;
        }
        self.buffers += look.buffers.max(buffers);
    }

    fn packet(&self) -> Option<Vec<u8>> {
        let mut packet = Vec::new();
        Message::new(&mut packet).bytes(trace_packet::TRACE_STATS, &self.message);
        self.has_any.then_some(packet)
    }
}

fn write_writer(writer: &[u8], numbers: &Numbers, buffers: u64, new: &mut Message<'_, Vec<u8>>) {
    let mut buffer = 0;
    for part in Fields::new(writer).map_while(Result::ok) {
        match (part.number, part.value.as_u64()) {
            (writer_stats::SEQUENCE_ID, Some(sequence)) => {
                let given = numbers.sequences.get(&(0, sequence as u32)).copied();
                new.varint(writer_stats::SEQUENCE_ID, given.map_or(sequence, u64::from));
            }
            (writer_stats::BUFFER, Some(number)) => buffer = number,
            _ => new.raw(part.raw),
        }
    }
    new.varint(writer_stats::BUFFER, buffer.saturating_add(buffers));
}

impl Merged {
    fn count(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl Source for Bytes {
        fn open(&self) -> io::Result<Box<dyn io::Read + '_>> {
            Ok(Box::new(self.0.as_slice()))
        }

        fn file_bytes(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }

    fn packet(out: &mut Vec<u8>, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
        fill(&mut Message::new(out).nested(1));
    }

    fn timed(packet: &mut Message<'_, Vec<u8>>, sequence: u32, machine: u32) {
        packet.varint(trace_packet::TIMESTAMP, 5);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, u64::from(sequence));
        packet.varint(trace_packet::MACHINE_ID, u64::from(machine));
    }

    /// With the numbers compared machine by machine this takes minutes.
    #[test]
    fn a_free_number_is_found_at_once_however_many_machines_there_are() {
        let mut trace = Vec::new();
        (1..MAX_MACHINES as u32).for_each(|machine| packet(&mut trace, |packet| timed(packet, 1, machine)));
        (1..=100_000).for_each(|sequence| packet(&mut trace, |packet| timed(packet, sequence, 0)));
        let trace = Bytes(trace);
        let looks = [look(&trace).unwrap(), look(&trace).unwrap()];
        let mut taken = Taken::default();
        let first = taken.give(&looks[0], true);
        let second = taken.give(&looks[1], true);
        assert!(first.sequences.iter().all(|((_, old), new)| old == new));
        let of_host = second.sequences.iter().filter(|((machine, _), _)| *machine == 0);
        let anew: HashSet<u32, RandomState> = of_host.map(|(_, new)| *new).collect();
        assert_eq!(anew.len(), 100_000);
        assert!(anew.iter().all(|number| *number > 100_000));
    }

    #[test]
    fn what_clocks_showed_is_kept_for_so_many_bytes_and_none_is_lost() {
        let padding = vec![0; 1 << 20];
        let mut trace = Vec::new();
        for boot in 1..=40 {
            packet(&mut trace, |packet| {
                let mut snapshot = packet.nested(trace_packet::CLOCK_SNAPSHOT);
                let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
                clock.varint(clock_snapshot::clock::CLOCK_ID, BOOTTIME);
                clock.varint(clock_snapshot::clock::TIMESTAMP, boot);
                drop(clock);
                snapshot.bytes(900, &padding);
            });
        }
        let sources = [Bytes(trace)];
        let look = look(&sources[0]).unwrap();
        assert_eq!(look.snapshots.len(), 15);
        assert!(look.snapshots.iter().map(|(_, packet)| packet.len()).sum::<usize>() <= MAX_SNAPSHOT_BYTES);
        let mut out = Vec::new();
        let merged = merge(&sources, Machines::One, &mut out).unwrap();
        assert_eq!((merged.packets, merged.left_out), (40, 0));
    }
}
