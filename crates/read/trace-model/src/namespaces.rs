//! What processes are called within their namespaces (upstream: process_tracker.cc, ResolveNamespacedTid).

use ferretto_trace_tables::MachineId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// All processes that are in a namespace of their own.
#[derive(Debug, Default)]
pub struct Namespaces {
    processes: HashMap<(MachineId, i64), Process, RandomState>,
}

#[derive(Debug, Default)]
struct Process {
    /// From the outermost to its own.
    pids: Vec<i64>,
    /// Its threads by their numbers in its own namespace, as far as those were said.
    threads: HashMap<i64, i64, RandomState>,
}

impl Namespaces {
    /// What a process is called, from the outermost namespace to its own; the first but one is that of the machine.
    pub fn add_process(&mut self, machine: MachineId, pid: i64, pids: Vec<i64>) {
        self.processes.insert((machine, pid), Process { pids, ..Process::default() });
    }

    /// The same of one of its threads. Whether the process is known.
    pub fn add_thread(&mut self, machine: MachineId, pid: i64, tid: i64, tids: Vec<i64>) -> bool {
        let Some(process) = self.processes.get_mut(&(machine, pid)) else { return false };
        if let Some(inner) = process.pids.len().checked_sub(1).and_then(|level| tids.get(level)) {
            process.threads.insert(*inner, tid);
        }
        true
    }

    /// The machine's number of a thread that a process calls `tid`; nothing if the process is in no namespace, or the thread not known.
    #[must_use]
    pub fn outer_tid(&self, machine: MachineId, pid: i64, tid: i64) -> Option<i64> {
        let process = self.processes.get(&(machine, pid)).filter(|_| pid > 0)?;
        if process.pids.last() == Some(&tid) {
            return Some(pid);
        }
        process.threads.get(&tid).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_by_their_numbers_within() {
        let here = MachineId(0);
        let mut namespaces = Namespaces::default();
        assert!(!namespaces.add_thread(here, 100, 101, vec![5]));
        namespaces.add_process(here, 100, vec![1]);
        assert!(namespaces.add_thread(here, 100, 101, vec![5]));
        assert_eq!(namespaces.outer_tid(here, 100, 1), Some(100));
        assert_eq!(namespaces.outer_tid(here, 100, 5), Some(101));
        assert_eq!(namespaces.outer_tid(here, 100, 6), None);
        assert_eq!(namespaces.outer_tid(here, 101, 1), None);
    }
}
