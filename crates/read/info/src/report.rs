//! What there is to say of a trace, as plain data: the largest first, and what is left in one row.

use std::cmp::Reverse;

use ferretto_trace_read::End;

use crate::events::{Events, Named};
use crate::info::Info;
use crate::machine::Machine;
use crate::names::{ByNumber, Name, Weight};
use crate::people::{OTHERS, People, Process, Thread};
use crate::sched::Cpu;
use crate::tally::Tally;

/// Rows of a table. All others are one more row: nobody reads further, and it bounds the report.
const MAX_ROWS: usize = 1000;

/// All of it. What the trace does not say is empty. Texts are the trace's: whoever shows them takes out what steers terminals.
#[derive(Debug, Default)]
pub struct Report {
    /// How the bytes ended.
    pub end: End,
    /// All packets with their framing, those of batches unpacked.
    pub unpacked_bytes: u64,
    /// Packets out of batches of compressed ones.
    pub packed_packets: u64,
    /// The first and the last event.
    pub span: Option<TimeSpan>,
    /// Machines that say what they are.
    pub machines: Vec<Machine>,
    /// `TraceConfig`, as it was written but for parts that are too large.
    pub config: Option<Vec<u8>>,
    /// A copy of what a recording had until then.
    pub is_clone: bool,
    /// A tracing service or program has written it.
    pub is_signed: bool,
    /// Counts, and what was lost.
    pub tally: Tally,
    /// Sequences of packets: writers, which are threads and the service.
    pub sequences: u64,
    /// By the field number of the data in `TracePacket`; 0 for none.
    pub kinds: Table<u32>,
    /// Names and stacks that packets bring beside their data.
    pub interned: Weight,
    /// By process that wrote them.
    pub writers: Table<Who>,
    /// Packets of which it is not said who wrote them.
    pub unknown_writers: Weight,
    /// Events of programs by their categories.
    pub categories: Table<Option<String>>,
    /// Events of programs by their names, with the ends of slices, and with how long slices were.
    pub events: Table<Option<String>, Spent>,
    /// Events of the kernel by the number of their field in `FtraceEvent`; 0 for others.
    pub kernel: Table<u32>,
    /// Processes by how long they ran.
    pub processes: Vec<Ran>,
    /// Threads by how long they ran.
    pub threads: Vec<Ran>,
    /// Switches between threads that are not there, as those around them say: lost, or not told by the kernel. Who ran meanwhile is not known.
    pub missing_switches: u64,
    /// The longest slices.
    pub longest: Vec<Slice>,
    /// Slices without an end, ends without a beginning, and slices for which there was no room.
    pub incomplete: Incomplete,
}

/// The first and the last event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// On the trace's clock.
    pub begin_ns: i64,
    /// On the trace's clock.
    pub end_ns: i64,
    /// The beginning in nanoseconds since 1970, UTC.
    pub wall_ns: Option<i64>,
}

/// Rows by size, and what all further ones are in sum.
#[derive(Clone, Debug)]
pub struct Table<K, M = ()> {
    /// The largest first.
    pub rows: Vec<Row<K, M>>,
    /// How many rows are left out. Those that could not be told apart are one.
    pub others: usize,
    /// What they are in sum.
    pub others_weight: Weight,
}

impl<K, M> Default for Table<K, M> {
    fn default() -> Self {
        Self { rows: Vec::new(), others: 0, others_weight: Weight::default() }
    }
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Row<K, M = ()> {
    /// What was counted.
    pub what: K,
    /// How many and how large.
    pub weight: Weight,
    /// More about it.
    pub more: M,
}

/// How long slices of one name were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Those that have ended.
    pub slices: u64,
    /// In sum.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

/// A process or a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// 0 is the service's own.
    pub machine: u32,
    /// The process's number, if it is known.
    pub pid: Option<i32>,
    /// The thread's number, if it is one.
    pub tid: Option<i32>,
    /// What the process is called.
    pub process: Option<String>,
    /// What the thread is called.
    pub thread: Option<String>,
}

/// How long somebody ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Who.
    pub who: Who,
    /// How long.
    pub ns: u64,
}

/// A slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// What it is called.
    pub name: Option<String>,
    /// Its categories.
    pub category: Option<String>,
    /// When it began, on the trace's clock.
    pub begin_ns: i64,
    /// How long it was.
    pub ns: u64,
    /// Where.
    pub who: Who,
    /// What the track is called that it is on.
    pub track: Option<String>,
}

/// Slices that do not count, as a part of them is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// Had not ended when the trace did.
    pub open: u64,
    /// Ends whose beginnings are not in the trace, or stand behind them.
    pub stray_ends: u64,
    /// Began when there was no room.
    pub left_out: u64,
}

impl Report {
    pub(crate) fn of(mut info: Info, end: End) -> Self {
        let processes = busy_processes(&mut info.people);
        let Info { tally, kinds, interned, kernel, events, people, machines, config, span, cpus, .. } = info;
        let has_span = span.begin_ns <= span.end_ns;
        Self {
            end,
            unpacked_bytes: info.bytes,
            packed_packets: info.packed.count,
            span: has_span.then(|| TimeSpan {
                begin_ns: span.begin_ns,
                end_ns: span.end_ns,
                wall_ns: tally.readable.wall_ns(span.begin_ns),
            }),
            machines: machines.all(),
            config,
            is_clone: info.is_clone,
            is_signed: info.is_signed,
            sequences: tally.readable.sequences() as u64,
            kinds: by_number(&kinds),
            interned,
            writers: writers(&people),
            unknown_writers: people.unknown_writers,
            categories: categories(&events),
            events: names(&events),
            kernel: by_number(&kernel),
            processes,
            threads: busy_threads(&people),
            missing_switches: cpus.values().map(Cpu::missing_switches).sum(),
            longest: longest(&events, &people),
            incomplete: Incomplete {
                open: events.slices.open(),
                stray_ends: events.slices.stray_ends,
                left_out: events.slices.left_out,
            },
            tally,
        }
    }
}

impl<K, M> Table<K, M> {
    /// The largest rows; `apart` is what could not be told apart.
    fn of(mut rows: Vec<Row<K, M>>, apart: Weight) -> Self {
        rows.retain(|row| row.weight != Weight::default());
        rows.sort_by_key(|row| Reverse((row.weight.bytes, row.weight.count)));
        let mut table = Self { rows, others: usize::from(apart.count > 0), others_weight: apart };
        table.keep(MAX_ROWS);
        table
    }

    /// Leaves so many rows, and adds what they are to the others.
    pub fn keep(&mut self, rows: usize) {
        for row in self.rows.drain(rows.min(self.rows.len())..) {
            self.others += 1;
            self.others_weight.count += row.weight.count;
            self.others_weight.bytes += row.weight.bytes;
        }
    }

    /// All of it in sum.
    #[must_use]
    pub fn total(&self) -> Weight {
        self.rows.iter().fold(self.others_weight, |sum, row| Weight {
            count: sum.count + row.weight.count,
            bytes: sum.bytes + row.weight.bytes,
        })
    }
}

fn by_number(weights: &ByNumber<Weight>) -> Table<u32> {
    let rows = weights.iter().map(|(number, weight)| Row { what: number as u32, weight: *weight, more: () });
    Table::of(rows.collect(), Weight::default())
}

/// Nothing for what has no name.
fn text(events: &Events, name: Name) -> Option<String> {
    (name != Name::NONE).then(|| String::from_utf8_lossy(events.names.get(name)).into_owned())
}

fn categories(events: &Events) -> Table<Option<String>> {
    let mut apart = Weight::default();
    let mut rows = Vec::new();
    for (number, weight) in events.by_category.iter() {
        match Name(number as u32) {
            Name::OTHERS => apart = *weight,
            name => rows.push(Row { what: text(events, name), weight: *weight, more: () }),
        }
    }
    Table::of(rows, apart)
}

fn names(events: &Events) -> Table<Option<String>, Spent> {
    let mut apart = Weight::default();
    let mut rows = Vec::new();
    for (number, Named { weight, slices, total_ns, longest_ns }) in events.by_name.iter() {
        let more = Spent { slices: *slices, total_ns: *total_ns, longest_ns: *longest_ns };
        match Name(number as u32) {
            Name::OTHERS => apart = *weight,
            name => rows.push(Row { what: text(events, name), weight: *weight, more }),
        }
    }
    Table::of(rows, apart)
}

fn who(people: &People, machine: u32, pid: Option<i32>, tid: Option<i32>) -> Who {
    let thread = tid.and_then(|tid| people.find_thread(machine, tid)).map(|row| people.thread_name(row));
    Who {
        machine,
        pid,
        tid,
        process: pid.and_then(|pid| people.process_name(machine, pid)),
        thread: thread
            .filter(|name| !name.is_empty())
            .map(|name| String::from_utf8_lossy(&name).into_owned()),
    }
}

fn writers(people: &People) -> Table<Who> {
    let mut rows = people.rows().iter().enumerate();
    let apart = rows.next().map_or(Weight::default(), |(_, others)| others.wrote);
    let rows = rows.map(|(_, Process { machine, pid, wrote, .. })| Row {
        what: (*machine, *pid),
        weight: *wrote,
        more: (),
    });
    let table = Table::of(rows.collect(), apart);
    let named = |row: Row<(u32, i32)>| Row {
        what: who(people, row.what.0, Some(row.what.1), None),
        weight: row.weight,
        more: (),
    };
    Table {
        rows: table.rows.into_iter().map(named).collect(),
        others: table.others,
        others_weight: table.others_weight,
    }
}

/// The idle task is nobody, and what could not be told apart is not one.
fn busiest(ran: impl Iterator<Item = (u64, (u32, i32))>) -> Vec<(u64, (u32, i32))> {
    let mut ran: Vec<_> = ran.filter(|(ns, (_, number))| *ns > 0 && *number != 0).collect();
    ran.sort_by_key(|(ns, number)| (Reverse(*ns), *number));
    ran.truncate(MAX_ROWS);
    ran
}

fn busy_processes(people: &mut People) -> Vec<Ran> {
    let rows = people.processes().iter().skip(OTHERS + 1);
    let ran = busiest(rows.map(|Process { machine, pid, ran_ns, .. }| (*ran_ns, (*machine, *pid))));
    ran.into_iter()
        .map(|(ns, (machine, pid))| Ran { who: who(people, machine, Some(pid), None), ns })
        .collect()
}

fn busy_threads(people: &People) -> Vec<Ran> {
    let rows = people.threads().iter().skip(OTHERS + 1);
    let ran = busiest(rows.map(|Thread { machine, tid, ran_ns, .. }| (*ran_ns, (*machine, *tid))));
    let named = |(ns, (machine, tid))| {
        let pid = people.find_thread(machine, tid).and_then(|row| people.process_of(row));
        Ran { who: who(people, machine, pid, Some(tid)), ns }
    };
    ran.into_iter().map(named).collect()
}

fn longest(events: &Events, people: &People) -> Vec<Slice> {
    let slice = |slice: &crate::events::Long| {
        let (pid, tid, track) = events.place_of(slice.track);
        Slice {
            name: text(events, slice.name),
            category: text(events, slice.category),
            begin_ns: slice.time_ns,
            ns: u64::try_from(slice.ns).unwrap_or(0),
            who: who(people, slice.machine, pid, tid),
            track: text(events, track).filter(|name| !name.is_empty()),
        }
    };
    events.longest().iter().map(slice).collect()
}
