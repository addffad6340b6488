//! Threads and processes: which is who, their names, their ends.
//!
//! The kernel's numbers come again, so each lifetime is a row of its own: `utid` for threads, `upid` for processes (upstream:
//! process_tracker.cc). A machine's first rows are those of its idle task, whose numbers are 0.
//!
//! Memory: some tens of bytes a thread. A number is looked up in one step; what is asked by number and process, among the latest
//! `MAX_THREADS_OF_TID` of that number.

use ferretto_trace_tables::tables::{ProcessRow, Tables, ThreadRow};
use ferretto_trace_tables::{MachineId, Str, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{Arg, ArgLists, ArgValue};
use crate::stats::{Stat, Stats};

/// Threads of one number that are kept apart: of more, the oldest cannot be asked for any more. Ours: it bounds each search, and a number
/// has one living thread, or one of each process of a namespace that was mistaken for it.
const MAX_THREADS_OF_TID: usize = 64;

/// How far the source of a thread's name is to be trusted: a new name wins if it is not below the present one's. The order is upstream's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadName {
    /// Nothing has named it, or some other format.
    #[default]
    Other,
    /// The kernel's events.
    Ftrace,
    /// The list of processes.
    ProcessTree,
    /// Chrome's types of threads, and its old events.
    ChromeType,
    /// What the program says.
    TrackDescriptor,
    /// `swapper`.
    Constant,
}

/// The same for processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessName {
    /// Nothing has named it, or some other format.
    #[default]
    Other,
    /// Chrome's label.
    ChromeLabel,
    /// What the program says.
    TrackDescriptor,
    /// Chrome's label of what it renders.
    ChromeRendererLabel,
    /// What the system says.
    System,
}

/// Threads that live, by number. Scheduling asks for the same ones all the time: those of the lower numbers are found without a hash.
#[derive(Debug, Default)]
struct Living {
    low: Vec<Option<Utid>>,
    others: HashMap<i64, Utid, RandomState>,
}

/// Numbers below this: those that Linux gives unless it is told to give more (`PID_MAX_DEFAULT`).
const LOW_TIDS: usize = 32 << 10;

impl Living {
    /// The place of a number that has one.
    #[inline]
    fn low(tid: i64) -> Option<usize> {
        usize::try_from(tid).ok().filter(|tid| *tid < LOW_TIDS)
    }

    #[inline]
    fn get(&self, tid: i64) -> Option<Utid> {
        match Self::low(tid) {
            Some(place) => self.low.get(place).copied().flatten(),
            None => self.others.get(&tid).copied(),
        }
    }

    fn insert(&mut self, tid: i64, utid: Utid) {
        let Some(place) = Self::low(tid) else {
            self.others.insert(tid, utid);
            return;
        };
        if self.low.len() <= place {
            self.low.resize(place + 1, None);
        }
        if let Some(there) = self.low.get_mut(place) {
            *there = Some(utid);
        }
    }

    fn remove(&mut self, tid: i64) {
        match Self::low(tid).map(|place| self.low.get_mut(place)) {
            Some(Some(there)) => *there = None,
            Some(None) => {}
            None => _ = self.others.remove(&tid),
        }
    }
}

/// The threads and processes of one machine.
#[derive(Debug, Default)]
pub struct Processes {
    machine: MachineId,
    idle: Utid,
    /// Threads of a number that have not ended, the latest last.
    tids: HashMap<i64, Vec<Utid>, RandomState>,
    /// The one of them that lives.
    living: Living,
    pids: HashMap<i64, Upid, RandomState>,
    /// The threads of a process.
    members: HashMap<Upid, Vec<Utid>, RandomState>,
    /// Threads that are of one process with this one, whichever that is.
    of_one_process: HashMap<Utid, Vec<Utid>, RandomState>,
    /// Processes that this thread's process has started, whichever that is.
    started_by: HashMap<Utid, Vec<Upid>, RandomState>,
    /// By utid.
    thread_names: Vec<ThreadName>,
    process_names: HashMap<Upid, ProcessName, RandomState>,
    process_args: HashMap<Upid, Vec<Arg>, RandomState>,
    thread_args: HashMap<Utid, Vec<Arg>, RandomState>,
}

impl Processes {
    /// Those of a machine: so far, its idle task.
    #[must_use]
    pub fn new(machine: MachineId, tables: &mut Tables) -> Self {
        let process = ProcessRow { machine_id: Some(machine), ..ProcessRow::default() };
        let upid = Upid(tables.process.push(process));
        let thread = ThreadRow {
            upid: Some(upid),
            is_main_thread: Some(true),
            is_idle: true,
            machine_id: Some(machine),
            ..ThreadRow::default()
        };
        let idle = Utid(tables.thread.push(thread));
        let mut processes = Self { machine, idle, ..Self::default() };
        processes.tids.insert(0, vec![idle]);
        processes.living.insert(0, idle);
        processes.pids.insert(0, upid);
        let name = tables.strings.intern("swapper");
        processes.name_thread(tables, idle, name, ThreadName::Constant);
        processes
    }

    /// Formats that know no idle task have threads and processes of the number 0 like any others. The rows stay, without a name.
    pub fn disown_idle(&mut self, tables: &mut Tables) {
        self.tids.remove(&0);
        self.living.remove(0);
        self.pids.remove(&0);
        if let Some(name) = tables.thread.name.get_mut(self.idle.index()) {
            *name = None;
        }
    }

    /// The idle task.
    #[must_use]
    pub fn idle(&self) -> Utid {
        self.idle
    }

    /// The thread of this number that lives now, if one was seen.
    #[inline]
    #[must_use]
    pub fn find_thread(&self, tid: i64) -> Option<Utid> {
        self.living.get(tid)
    }

    /// The thread of this number that lives now, or a new one.
    #[inline]
    pub fn thread(&mut self, tables: &mut Tables, tid: i64) -> Utid {
        match self.find_thread(tid) {
            Some(utid) => utid,
            None => self.start_thread(tables, tid, None),
        }
    }

    /// The thread of this number that belongs to this process.
    pub fn thread_of(&mut self, tables: &mut Tables, tid: i64, pid: i64) -> Utid {
        let upid = self.process(tables, pid);
        self.thread_in(tables, tid, upid, tid == pid)
    }

    /// The process of this number that lives now, if one was seen.
    #[must_use]
    pub fn find_process(&self, pid: i64) -> Option<Upid> {
        self.pids.get(&pid).copied()
    }

    /// The process of this number that lives now, or a new one, with its main thread.
    pub fn process(&mut self, tables: &mut Tables, pid: i64) -> Upid {
        if let Some(upid) = self.find_process(pid) {
            return upid;
        }
        let upid = self.process_alone(tables, pid);
        self.thread_in(tables, pid, upid, true);
        upid
    }

    /// The same without its main thread: not every kernel has one of the process's number.
    pub fn process_alone(&mut self, tables: &mut Tables, pid: i64) -> Upid {
        if let Some(upid) = self.find_process(pid) {
            return upid;
        }
        let row = ProcessRow { pid, machine_id: Some(self.machine), ..ProcessRow::default() };
        let upid = Upid(tables.process.push(row));
        self.pids.insert(pid, upid);
        upid
    }

    /// The thread of this number that belongs to this process, and is not its main thread as far as is known.
    pub fn thread_of_process(&mut self, tables: &mut Tables, tid: i64, upid: Upid) -> Utid {
        self.thread_in(tables, tid, upid, false)
    }

    /// A new thread, whatever was of that number before.
    pub fn start_thread(&mut self, tables: &mut Tables, tid: i64, start_ts: Option<i64>) -> Utid {
        let row = ThreadRow { tid, start_ts, machine_id: Some(self.machine), ..ThreadRow::default() };
        let utid = Utid(tables.thread.push(row));
        let others = self.tids.entry(tid).or_default();
        if others.len() >= MAX_THREADS_OF_TID {
            others.remove(0);
        }
        others.push(utid);
        self.living.insert(tid, utid);
        utid
    }

    /// A new process and its main thread, whatever was of that number before; `name` is that of both.
    pub fn start_process(
        &mut self,
        tables: &mut Tables,
        pid: i64,
        start_ts: Option<i64>,
        name: Option<Str>,
        source: ThreadName,
    ) -> Upid {
        let before = self.pids.remove(&pid);
        self.tids.remove(&pid);
        self.living.remove(pid);
        let main = self.start_thread(tables, pid, start_ts);
        if let Some(name) = name {
            self.name_thread(tables, main, name, source);
        }
        let upid = self.process(tables, pid);
        if start_ts.is_some() {
            tables.process.start_ts.set(upid.index(), start_ts);
        }
        if let Some(name) = name {
            self.name_process(tables, upid, name, ProcessName::System);
        }
        if let Some(before) = before {
            self.forget_members(tables, before);
        }
        upid
    }

    /// The thread of this number has ended; if it is its process's main thread, so has the process.
    pub fn end_thread(&mut self, tables: &mut Tables, tid: i64, ts: i64) {
        let Some(utid) = self.find_thread(tid) else { return };
        tables.thread.end_ts.set(utid.index(), Some(ts));
        if let Some(others) = self.tids.get_mut(&tid) {
            others.retain(|other| *other != utid);
        }
        self.refresh(tables, tid);
        let Some(upid) = tables.thread.upid.get(utid.index()) else { return };
        if tables.process.pid.get(upid.index()) != Some(&tid) {
            return;
        }
        tables.process.end_ts.set(upid.index(), Some(ts));
        self.pids.remove(&tid);
        self.forget_members(tables, upid);
    }

    /// Two threads are of one process, whether that is known now or later.
    pub fn tie(&mut self, tables: &mut Tables, stats: &mut Stats, one: Utid, other: Utid) {
        let of = |utid: Utid| tables.thread.upid.get(utid.index());
        match (of(one), of(other)) {
            (Some(upid), None) => self.associate_and_resolve(tables, other, upid),
            (None, Some(upid)) => self.associate_and_resolve(tables, one, upid),
            (None, None) => {
                self.of_one_process.entry(one).or_default().push(other);
                self.of_one_process.entry(other).or_default().push(one);
            }
            (Some(first), Some(second)) if first != second => stats.count(Stat::ProcessTrackerErrors),
            (Some(_), Some(_)) => {}
        }
    }

    /// A process was started by that of a thread, whether that is known now or later.
    pub fn set_parent_thread(&mut self, tables: &mut Tables, upid: Upid, parent: Utid) {
        match tables.thread.upid.get(parent.index()) {
            Some(parent) => tables.process.parent_upid.set(upid.index(), Some(parent)),
            None => self.started_by.entry(parent).or_default().push(upid),
        }
    }

    /// A process's parent. One that changes is the one that adopted an orphan; the first one stays.
    pub fn set_parent(&mut self, tables: &mut Tables, stats: &mut Stats, upid: Upid, parent: Upid) {
        match tables.process.parent_upid.get(upid.index()) {
            None => tables.process.parent_upid.set(upid.index(), Some(parent)),
            Some(before) if before != parent => stats.count(Stat::ProcessTrackerParentPidChanged),
            Some(_) => {}
        }
    }

    /// Names a thread, if no better source has.
    #[inline]
    pub fn name_thread(&mut self, tables: &mut Tables, utid: Utid, name: Str, source: ThreadName) {
        if self.thread_names.len() <= utid.index() {
            self.thread_names.resize(utid.index() + 1, ThreadName::Other);
        }
        if let Some(best) = self.thread_names.get_mut(utid.index())
            && source >= *best
            && let Some(cell) = tables.thread.name.get_mut(utid.index())
        {
            *best = source;
            *cell = Some(name);
        }
    }

    /// Names a thread, and its process if it is the main one.
    pub fn name_thread_and_process(
        &mut self,
        tables: &mut Tables,
        utid: Utid,
        name: Str,
        source: ThreadName,
    ) {
        self.name_thread(tables, utid, name, source);
        let Some(upid) = tables.thread.upid.get(utid.index()) else { return };
        if tables.process.pid.get(upid.index()) == tables.thread.tid.get(utid.index()) {
            self.name_process(tables, upid, name, ProcessName::System);
        }
    }

    /// Names a process, if no better source has.
    pub fn name_process(&mut self, tables: &mut Tables, upid: Upid, name: Str, source: ProcessName) {
        let best = self.process_names.entry(upid).or_default();
        if source >= *best
            && let Some(cell) = tables.process.name.get_mut(upid.index())
        {
            *best = source;
            *cell = Some(name);
        }
    }

    /// It has not ended, nor has its process, nor has another process that process's number now.
    #[must_use]
    pub fn is_alive(&self, tables: &Tables, utid: Utid) -> bool {
        if tables.thread.end_ts.get(utid.index()).is_some() {
            return false;
        }
        let Some(upid) = tables.thread.upid.get(utid.index()) else { return true };
        let now = tables.process.pid.get(upid.index()).and_then(|pid| self.pids.get(pid));
        tables.process.end_ts.get(upid.index()).is_none() && now.is_none_or(|now| *now == upid)
    }

    /// Says more of a process.
    pub fn add_process_arg(&mut self, tables: &mut Tables, upid: Upid, key: &str, value: ArgValue) {
        let key = tables.strings.intern(key);
        self.process_args.entry(upid).or_default().push(Arg { flat_key: key, key, value });
    }

    /// Says more of a thread.
    pub fn add_thread_arg(&mut self, tables: &mut Tables, utid: Utid, key: &str, value: ArgValue) {
        let key = tables.strings.intern(key);
        self.thread_args.entry(utid).or_default().push(Arg { flat_key: key, key, value });
    }

    /// Nothing more comes: what was said of threads and processes is written.
    pub fn finish(&mut self, tables: &mut Tables, args: &mut ArgLists) {
        let mut of_processes: Vec<_> = self.process_args.drain().collect();
        of_processes.sort_by_key(|(upid, _)| *upid);
        for (upid, list) in of_processes {
            let list = args.intern(&list);
            let set = args.write(list, tables);
            tables.process.arg_set_id.set(upid.index(), set);
        }
        let mut of_threads: Vec<_> = self.thread_args.drain().collect();
        of_threads.sort_by_key(|(utid, _)| *utid);
        for (utid, list) in of_threads {
            let list = args.intern(&list);
            let set = args.write(list, tables);
            tables.thread.arg_set_id.set(utid.index(), set);
        }
    }

    fn thread_in(&mut self, tables: &mut Tables, tid: i64, upid: Upid, is_main: bool) -> Utid {
        let pid = tables.process.pid.get(upid.index()).copied().unwrap_or_default();
        let utid = match self.find_thread_of(tables, tid, pid) {
            Some(utid) => {
                self.living.insert(tid, utid);
                if let Some(others) = self.tids.get_mut(&tid)
                    && others.last() != Some(&utid)
                {
                    others.retain(|other| *other != utid);
                    others.push(utid);
                }
                utid
            }
            None => self.start_thread(tables, tid, None),
        };
        match tables.thread.upid.get(utid.index()) {
            None => {
                self.associate(tables, utid, upid, is_main);
                self.resolve(tables, utid, upid);
            }
            Some(upid) => self.resolve(tables, utid, upid),
        }
        utid
    }

    /// The latest living thread of a number whose process has this number, or is not known.
    fn find_thread_of(&self, tables: &Tables, tid: i64, pid: i64) -> Option<Utid> {
        let fits = |utid: &&Utid| {
            let upid = tables.thread.upid.get(utid.index());
            self.is_alive(tables, **utid)
                && upid.is_none_or(|upid| tables.process.pid.get(upid.index()) == Some(&pid))
        };
        self.tids.get(&tid)?.iter().rev().find(fits).copied()
    }

    fn associate_and_resolve(&mut self, tables: &mut Tables, utid: Utid, upid: Upid) {
        let is_main = tables.thread.tid.get(utid.index()) == tables.process.pid.get(upid.index());
        self.associate(tables, utid, upid, is_main);
        self.resolve(tables, utid, upid);
    }

    fn associate(&mut self, tables: &mut Tables, utid: Utid, upid: Upid, is_main: bool) {
        tables.thread.upid.set(utid.index(), Some(upid));
        tables.thread.is_main_thread.set(utid.index(), Some(is_main));
        self.members.entry(upid).or_default().push(utid);
    }

    /// What waited for this thread's process.
    fn resolve(&mut self, tables: &mut Tables, utid: Utid, upid: Upid) {
        if self.of_one_process.is_empty() && self.started_by.is_empty() {
            return;
        }
        let mut known = vec![utid];
        while let Some(utid) = known.pop() {
            for child in self.started_by.remove(&utid).unwrap_or_default() {
                tables.process.parent_upid.set(child.index(), Some(upid));
            }
            for other in self.of_one_process.remove(&utid).unwrap_or_default() {
                if tables.thread.upid.get(other.index()).is_none() {
                    let is_main =
                        tables.thread.tid.get(other.index()) == tables.process.pid.get(upid.index());
                    self.associate(tables, other, upid, is_main);
                }
                known.push(other);
            }
        }
    }

    /// Finds anew which thread of a number lives.
    fn refresh(&mut self, tables: &Tables, tid: i64) {
        let others = self.tids.get(&tid).map(Vec::as_slice).unwrap_or_default();
        match others.iter().rev().find(|utid| self.is_alive(tables, **utid)).copied() {
            Some(utid) => self.living.insert(tid, utid),
            None => self.living.remove(tid),
        }
    }

    /// A process is no more: its threads are dead, too.
    fn forget_members(&mut self, tables: &Tables, upid: Upid) {
        for utid in self.members.remove(&upid).unwrap_or_default() {
            if let Some(tid) = tables.thread.tid.get(utid.index()) {
                self.refresh(tables, *tid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> (Tables, Processes) {
        let mut tables = Tables::default();
        let processes = Processes::new(MachineId(0), &mut tables);
        (tables, processes)
    }

    #[test]
    fn the_idle_task_is_row_0_of_both_tables() {
        let (mut tables, mut processes) = new();
        assert_eq!(processes.thread(&mut tables, 0), Utid(0));
        assert_eq!(processes.process(&mut tables, 0), Upid(0));
        assert_eq!((tables.thread.len(), tables.process.len()), (1, 1));
        assert_eq!(tables.thread.name[0].map(|name| tables.strings.get(name)), Some("swapper"));
    }

    #[test]
    fn a_number_that_comes_again_is_another_row() {
        let (mut tables, mut processes) = new();
        let first = processes.thread_of(&mut tables, 7, 7);
        let other = processes.thread_of(&mut tables, 8, 7);
        processes.end_thread(&mut tables, 7, 100);
        assert_eq!(tables.process.end_ts.get(1), Some(100));
        assert_eq!(processes.find_thread(8), None, "its process has ended");
        let again = processes.thread_of(&mut tables, 7, 7);
        assert_ne!(first, again);
        assert_ne!(processes.thread(&mut tables, 8), other);
        let upid = processes.start_process(&mut tables, 7, Some(200), None, ThreadName::Ftrace);
        assert_ne!(processes.thread(&mut tables, 7), again);
        assert_eq!(tables.process.start_ts.get(upid.index()), Some(200));
    }

    #[test]
    fn threads_that_are_tied_get_their_process_when_it_is_known_of_one() {
        let (mut tables, mut processes) = new();
        let mut stats = Stats::default();
        let threads: Vec<Utid> = (1..=4).map(|tid| processes.thread(&mut tables, tid)).collect();
        for two in threads.windows(2) {
            processes.tie(&mut tables, &mut stats, two[0], two[1]);
        }
        let child = processes.start_process(&mut tables, 50, None, None, ThreadName::Ftrace);
        processes.set_parent_thread(&mut tables, child, threads[3]);
        processes.thread_of(&mut tables, 2, 1);
        let upid = processes.find_process(1);
        let found: Vec<_> = threads.iter().map(|utid| tables.thread.upid.get(utid.index())).collect();
        assert_eq!(found, [upid; 4]);
        assert_eq!(tables.thread.is_main_thread.get(threads[0].index()), Some(true));
        assert_eq!(tables.process.parent_upid.get(child.index()), upid);
        processes.tie(&mut tables, &mut stats, threads[0], Utid(0));
        assert_eq!(stats.get(Stat::ProcessTrackerErrors, None), 1);
    }

    #[test]
    fn a_better_source_names_and_a_worse_one_does_not() {
        let (mut tables, mut processes) = new();
        let utid = processes.thread(&mut tables, 5);
        let names: Vec<Str> = ["a", "b", "c"].iter().map(|name| tables.strings.intern(name)).collect();
        processes.name_thread(&mut tables, utid, names[0], ThreadName::Ftrace);
        processes.name_thread(&mut tables, utid, names[1], ThreadName::ProcessTree);
        processes.name_thread(&mut tables, utid, names[2], ThreadName::Ftrace);
        assert_eq!(tables.thread.name[utid.index()], Some(names[1]));
    }
}
