//! Threads and processes: which is who, their names, their ends.
//!
//! The kernel's numbers come again, so each lifetime is a row of its own: `utid` for threads, `upid` for processes (upstream:
//! process_tracker.cc).

use ferretto_trace_tables::tables::{ProcessRow, Tables, ThreadRow};
use ferretto_trace_tables::{MachineId, Str, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

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

/// The threads and processes of one machine.
#[derive(Debug, Default)]
pub struct Processes {
    machine: MachineId,
    /// Living threads of a number, the latest last.
    tids: HashMap<i64, Vec<Utid>, RandomState>,
    pids: HashMap<i64, Upid, RandomState>,
    thread_names: HashMap<Utid, ThreadName, RandomState>,
    process_names: HashMap<Upid, ProcessName, RandomState>,
}

impl Processes {
    /// Those of a machine.
    #[must_use]
    pub fn new(machine: MachineId) -> Self {
        Self { machine, ..Self::default() }
    }

    /// The thread of this number that lives now, or a new one.
    pub fn thread(&mut self, tables: &mut Tables, tid: i64) -> Utid {
        if let Some(living) = self.tids.get(&tid)
            && let Some(utid) = living.iter().rev().find(|utid| self.is_alive(tables, **utid))
        {
            return *utid;
        }
        self.new_thread(tables, tid)
    }

    /// The thread of this number that belongs to this process.
    pub fn thread_of(&mut self, tables: &mut Tables, tid: i64, pid: i64) -> Utid {
        let upid = self.process(tables, pid);
        let candidates = self.tids.get(&tid).cloned().unwrap_or_default();
        let fits = |utid: &Utid| {
            let mine = tables.thread.upid.get(utid.index());
            self.is_alive(tables, *utid) && mine.is_none_or(|mine| mine == upid)
        };
        let utid = candidates.into_iter().rev().find(fits);
        let utid = utid.unwrap_or_else(|| self.new_thread(tables, tid));
        associate(tables, utid, upid);
        if let Some(living) = self.tids.get_mut(&tid) {
            living.retain(|other| *other != utid);
            living.push(utid);
        }
        utid
    }

    /// The process of this number that lives now, or a new one, with its main thread.
    pub fn process(&mut self, tables: &mut Tables, pid: i64) -> Upid {
        if let Some(upid) = self.pids.get(&pid) {
            return *upid;
        }
        let row = ProcessRow { pid, machine_id: Some(self.machine), ..ProcessRow::default() };
        let upid = Upid(tables.process.push(row));
        self.pids.insert(pid, upid);
        let main = self.thread(tables, pid);
        associate(tables, main, upid);
        upid
    }

    /// Names a thread, if no better source has.
    pub fn name_thread(&mut self, tables: &mut Tables, utid: Utid, name: Str, source: ThreadName) {
        let best = self.thread_names.entry(utid).or_default();
        if source >= *best
            && let Some(cell) = tables.thread.name.get_mut(utid.index())
        {
            *best = source;
            *cell = Some(name);
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

    fn new_thread(&mut self, tables: &mut Tables, tid: i64) -> Utid {
        let row = ThreadRow { tid, machine_id: Some(self.machine), ..ThreadRow::default() };
        let utid = Utid(tables.thread.push(row));
        self.tids.entry(tid).or_default().push(utid);
        utid
    }

    /// It has not ended, nor has its process, nor has another process that process's number now.
    fn is_alive(&self, tables: &Tables, utid: Utid) -> bool {
        if tables.thread.end_ts.get(utid.index()).is_some() {
            return false;
        }
        let Some(upid) = tables.thread.upid.get(utid.index()) else { return true };
        let pid = tables.process.pid.get(upid.index());
        tables.process.end_ts.get(upid.index()).is_none()
            && pid.and_then(|pid| self.pids.get(pid)) == Some(&upid)
    }
}

fn associate(tables: &mut Tables, utid: Utid, upid: Upid) {
    tables.thread.upid.set(utid.index(), Some(upid));
    let tid = tables.thread.tid.get(utid.index());
    let is_main = tid.is_some() && tid == tables.process.pid.get(upid.index());
    tables.thread.is_main_thread.set(utid.index(), Some(is_main));
}
