//! Scheduling, states of threads, and frequencies of processors, as the kernel's events.
//!
//! Each row of `sched` is a switch to its thread, from what ran on its processor before; where nothing did for a while, the idle task ran. A
//! row of `thread_state` that somebody woke the thread for is a wake-up, and why a thread was blocked comes with the switch that blocked it.
//! States that no switch and no wake-up explains, as Chrome's JSON may have them, are left out.
//!
//! Events of the same time are in the order of the rows that they make.

use ferretto_protos::fields::trace_packet::FTRACE_EVENTS;
use ferretto_protos::fields::{ftrace_event, ftrace_event_bundle as bundle, interned_data};
use ferretto_protozero::Message;
use ferretto_trace_model::ftrace::numbers::{
    cpu_frequency, cpu_idle, sched_blocked_reason, sched_switch, sched_waking,
};
use ferretto_trace_model::task_state::TaskState;
use ferretto_trace_tables::{Str, Tables, TrackId, Ucpu, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::number;
use super::sequence::Sequence;
use crate::Error;
use crate::owners::tid;
use crate::packets::Sink;

/// A machine's processors have so many numbers.
const CPUS_OF_A_MACHINE: u32 = 4096;
/// Events, of all processors, after which others go into packets of their own.
const EVENTS_AT_ONCE: usize = 4096;
/// What the kernel gives threads that nobody has asked otherwise for.
const USUAL_PRIORITY: i32 = 120;
/// An event whose row is not known is after those of its time.
const LAST: u32 = u32::MAX;

/// An event of the kernel.
#[derive(Clone, Copy, Debug)]
struct Event {
    ts: i64,
    /// The row that it makes.
    order: u32,
    cpu: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Switch { prev: Task, prev_state: Option<Str>, next: Task },
    Waking { waker: Utid, wakee: Utid },
    Blocked { utid: Utid, io_wait: u32, function: Option<Str> },
    Counter { number: u32, value: f64 },
}

/// A thread; nothing is the idle task.
#[derive(Clone, Copy, Debug)]
struct Task {
    utid: Option<Utid>,
    prio: i32,
}

const IDLE: Task = Task { utid: None, prio: USUAL_PRIORITY };

/// The processor and the event of a track of frequencies, or of how deep processors idle.
pub(super) fn is_of_processor(tables: &Tables, track: TrackId) -> Option<(u32, u32)> {
    let type_ = tables.track.type_.get(track.index()).copied().flatten()?;
    let cpu = tables.track.cpu.get(track.index())?;
    match tables.strings.get(type_) {
        "cpu_frequency" => Some((cpu, cpu_frequency::NUMBER)),
        "cpu_idle" => Some((cpu, cpu_idle::NUMBER)),
        _ => None,
    }
}

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let states = States::of(tables);
    let mut events = Vec::new();
    let blocked_on = add_switches(tables, &states, &mut events);
    add_states(tables, &blocked_on, &mut events);
    add_counters(tables, &mut events);
    events.sort_by_key(|event: &Event| (event.ts, event.order));
    let mut sequence = Sequence::new(number::KERNEL);
    let mut bytes = Vec::new();
    for together in events.chunks_mut(EVENTS_AT_ONCE) {
        // Stable: those of a processor stay in order.
        together.sort_by_key(|event| event.cpu);
        for of_cpu in together.chunk_by(|one, other| one.cpu == other.cpu) {
            let Some(first) = of_cpu.first() else { continue };
            bytes.clear();
            let mut message = Message::new(&mut bytes);
            message.varint(bundle::CPU, first.cpu.into());
            for event in of_cpu {
                event.write(tables, &mut sequence, &mut message.nested(bundle::EVENT));
            }
            drop(message);
            sequence.put(Some(first.ts), FTRACE_EVENTS, &bytes, sink)?;
        }
    }
    Ok(())
}

type Moment = (i64, Utid);

/// Rows of `thread_state` by when they began.
struct States {
    running: HashMap<Moment, u32, RandomState>,
    /// Those that nobody woke the thread for.
    other: HashMap<Moment, u32, RandomState>,
}

impl States {
    fn of(tables: &Tables) -> Self {
        let table = &tables.thread_state;
        let running = tables.strings.find("Running");
        let mut states = Self { running: HashMap::default(), other: HashMap::default() };
        for row in 0..table.len() {
            let moment = (table.ts.at(row), table.utid.at(row));
            if table.state.at(row) == running {
                states.running.entry(moment).or_insert(row as u32);
            } else if table.waker_utid.get(row).is_none() {
                states.other.entry(moment).or_insert(row as u32);
            }
        }
        states
    }
}

/// What runs on a processor.
struct Running {
    task: Task,
    /// When it ends, if that is known.
    end: Option<i64>,
    state: Option<Str>,
}

/// Switches, by processor in the order of time. Gives the processor of each moment in which a thread was switched out.
fn add_switches(
    tables: &Tables,
    states: &States,
    events: &mut Vec<Event>,
) -> HashMap<Moment, u32, RandomState> {
    let table = &tables.sched;
    let mut rows: Vec<usize> = (0..table.len()).collect();
    rows.sort_by_key(|row| (table.ts.at(*row), *row));
    let ends = |row: usize| {
        Some(table.dur.at(row)).filter(|dur| *dur >= 0).map(|dur| table.ts.at(row).saturating_add(dur))
    };
    let mut switched_out = HashMap::<Moment, u32, RandomState>::default();
    for row in 0..table.len() {
        if let Some(end) = ends(row) {
            switched_out.insert((end, table.utid.at(row)), cpu_of(table.ucpu.at(row)));
        }
    }
    // Who ran before the first switch of a processor left no row but that of what it did then.
    let mut unexplained = HashMap::<i64, Vec<Utid>, RandomState>::default();
    let mut others: Vec<_> =
        states.other.iter().filter(|(moment, _)| !switched_out.contains_key(*moment)).collect();
    others.sort_unstable_by_key(|(_, row)| std::cmp::Reverse(**row));
    for ((ts, utid), _) in others {
        unexplained.entry(*ts).or_default().push(*utid);
    }
    let mut running = HashMap::<u32, Running, RandomState>::default();
    for row in rows {
        let (ts, utid, cpu) = (table.ts.at(row), table.utid.at(row), cpu_of(table.ucpu.at(row)));
        let before = running.remove(&cpu).unwrap_or_else(|| {
            let utid = unexplained.get_mut(&ts).and_then(Vec::pop);
            if let Some(utid) = utid {
                switched_out.insert((ts, utid), cpu);
            }
            let state = utid.and_then(|utid| state_of(tables, states, ts, utid));
            Running { task: Task { utid, prio: USUAL_PRIORITY }, end: Some(ts), state }
        });
        let next = Task { utid: Some(utid), prio: table.priority.at(row) };
        let prev = leave(states, before, ts, cpu, events);
        events.push(switch(states, ts, cpu, prev, next));
        let end = ends(row);
        let state = table.end_state.at(row).or_else(|| state_of(tables, states, end?, utid));
        running.insert(cpu, Running { task: next, end, state });
    }
    let mut last: Vec<_> = running.into_iter().filter(|(_, it)| it.end.is_some()).collect();
    last.sort_unstable_by_key(|(cpu, _)| *cpu);
    for (cpu, it) in last {
        if let Some(end) = it.end {
            events.push(switch(states, end, cpu, (it.task, it.state), IDLE));
        }
    }
    switched_out
}

/// Who is switched out at a time; if it ended before, that was a switch to the idle task.
fn leave(
    states: &States,
    before: Running,
    ts: i64,
    cpu: u32,
    events: &mut Vec<Event>,
) -> (Task, Option<Str>) {
    match before.end {
        Some(end) if end < ts => {
            events.push(switch(states, end, cpu, (before.task, before.state), IDLE));
            (IDLE, None)
        }
        Some(_) => (before.task, before.state),
        // Nobody knows when it ended: a switch from another thread leaves that so.
        None => (IDLE, None),
    }
}

fn switch(states: &States, ts: i64, cpu: u32, (prev, prev_state): (Task, Option<Str>), next: Task) -> Event {
    let row = |rows: &HashMap<Moment, u32, RandomState>, task: Task| rows.get(&(ts, task.utid?)).copied();
    let order = row(&states.other, prev).or_else(|| row(&states.running, next)).unwrap_or(0);
    Event { ts, order, cpu, kind: Kind::Switch { prev, prev_state, next } }
}

fn state_of(tables: &Tables, states: &States, ts: i64, utid: Utid) -> Option<Str> {
    let row = states.other.get(&(ts, utid))?;
    tables.thread_state.state.at(*row as usize)
}

fn cpu_of(ucpu: Ucpu) -> u32 {
    ucpu.0 % CPUS_OF_A_MACHINE
}

/// Wake-ups, and why threads were blocked.
fn add_states(tables: &Tables, blocked_on: &HashMap<Moment, u32, RandomState>, events: &mut Vec<Event>) {
    let table = &tables.thread_state;
    let cpu_of_waker = |row: Option<usize>| row.and_then(|row| table.ucpu.get(row)).map_or(0, cpu_of);
    for row in 0..table.len() {
        let (ts, utid, order) = (table.ts.at(row), table.utid.at(row), row as u32);
        if let Some(waker) = table.waker_utid.get(row) {
            let cpu = cpu_of_waker(table.waker_id.get(row).map(|id| id.index()));
            events.push(Event { ts, order, cpu, kind: Kind::Waking { waker, wakee: utid } });
        }
        let (io_wait, function) = (table.io_wait.get(row), table.blocked_function.at(row));
        if let (true, Some(cpu)) = (io_wait.is_some() || function.is_some(), blocked_on.get(&(ts, utid))) {
            let kind = Kind::Blocked { utid, io_wait: io_wait.unwrap_or(0), function };
            events.push(Event { ts, order, cpu: *cpu, kind });
        }
    }
    let spurious = &tables.spurious_sched_wakeup;
    for row in 0..spurious.len() {
        let kind = Kind::Waking { waker: spurious.waker_utid.at(row), wakee: spurious.utid.at(row) };
        events.push(Event { ts: spurious.ts.at(row), order: LAST, cpu: 0, kind });
    }
}

fn add_counters(tables: &Tables, events: &mut Vec<Event>) {
    let counters = &tables.counter;
    for row in 0..counters.len() {
        if let Some((cpu, number)) = is_of_processor(tables, counters.track_id.at(row)) {
            let kind = Kind::Counter { number, value: counters.value.at(row) };
            events.push(Event { ts: counters.ts.at(row), order: LAST, cpu, kind });
        }
    }
}

impl Event {
    fn write(&self, tables: &Tables, sequence: &mut Sequence, event: &mut Message<'_, Vec<u8>>) {
        let number = |utid: Option<Utid>| utid.map_or(0, |utid| tid(tables, utid)).cast_unsigned();
        let comm = |utid: Option<Utid>| {
            let name = utid.and_then(|utid| tables.thread.name.get(utid.index()).copied().flatten());
            name.map(|name| tables.strings.get(name))
        };
        event.varint(ftrace_event::TIMESTAMP, self.ts.cast_unsigned());
        match self.kind {
            Kind::Switch { prev, prev_state, next } => {
                use sched_switch as field;
                event.varint(ftrace_event::PID, number(prev.utid));
                let mut switch = event.nested(field::NUMBER);
                comm(prev.utid).into_iter().for_each(|comm| switch.string(field::PREV_COMM, comm));
                switch.varint(field::PREV_PID, number(prev.utid));
                switch.int(field::PREV_PRIO, prev.prio.into());
                let state =
                    prev_state.map_or(0, |state| TaskState::parse(tables.strings.get(state)).to_raw());
                switch.varint(field::PREV_STATE, state.into());
                comm(next.utid).into_iter().for_each(|comm| switch.string(field::NEXT_COMM, comm));
                switch.varint(field::NEXT_PID, number(next.utid));
                switch.int(field::NEXT_PRIO, next.prio.into());
            }
            Kind::Waking { waker, wakee } => {
                use sched_waking as field;
                event.varint(ftrace_event::PID, number(Some(waker)));
                let mut waking = event.nested(field::NUMBER);
                comm(Some(wakee)).into_iter().for_each(|comm| waking.string(field::COMM, comm));
                waking.varint(field::PID, number(Some(wakee)));
                waking.int(field::PRIO, USUAL_PRIORITY.into());
                waking.varint(field::SUCCESS, 1);
                waking.varint(field::TARGET_CPU, self.cpu.into());
            }
            Kind::Blocked { utid, io_wait, function } => {
                use sched_blocked_reason as field;
                let symbols = interned_data::KERNEL_SYMBOLS;
                let caller = function.map(|function| sequence.text(symbols, function, &tables.strings));
                event.varint(ftrace_event::PID, number(Some(utid)));
                let mut reason = event.nested(field::NUMBER);
                reason.varint(field::PID, number(Some(utid)));
                reason.varint(field::CALLER, caller.unwrap_or(0));
                reason.varint(field::IO_WAIT, io_wait.into());
            }
            Kind::Counter { number, value } => {
                // The fields of both events are the same.
                use cpu_frequency as field;
                event.varint(ftrace_event::PID, 0);
                let mut counter = event.nested(number);
                // As the kernel says that a processor does not idle.
                counter.varint(field::STATE, u64::from(if value < 0.0 { u32::MAX } else { value as u32 }));
                counter.varint(field::CPU_ID, self.cpu.into());
            }
        }
    }
}
