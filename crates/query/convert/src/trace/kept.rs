//! Which arguments mean the same when they are read again: those that are numbers of threads and processes do if these get their numbers again.

use ferretto_trace_tables::{Tables, Upid};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

/// Arguments that are numbers of threads.
const OF_THREADS: [&str; 2] = ["utid", "legacy_event.passthrough_utid"];
/// Arguments that are numbers of processes.
const OF_PROCESSES: [&str; 1] = ["upid"];

/// What has the same numbers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    threads: bool,
    processes: bool,
}

impl Kept {
    /// A reader gives numbers in the order in which descriptors come (`tracks`), which is that of rows: a thread each, and a process with its
    /// main thread. The idle task, 0, is there before.
    pub(super) fn of(tables: &Tables) -> Self {
        let mut kept = Self { threads: tables.machine.len() <= 1, processes: true };
        let mut tids = HashSet::<i64, RandomState>::default();
        let mut next = Upid(1);
        for (row, tid) in tables.thread.tid.iter().enumerate().skip(1) {
            kept.threads &= tids.insert(*tid);
            match tables.thread.upid.get(row) {
                // It is in no descriptor, or becomes a process of its own.
                None => kept = Self { threads: false, processes: false },
                Some(upid) if upid.0 >= next.0 => {
                    let is_main = tables.process.pid.get(upid.index()) == Some(tid);
                    kept.threads &= is_main;
                    kept.processes &= upid == next;
                    next = Upid(upid.0 + 1);
                }
                Some(_) => {}
            }
        }
        Self { processes: kept.processes && kept.threads, ..kept }
    }

    /// Whether an argument of this key means the same again.
    pub(super) fn has(self, key: &str) -> bool {
        (self.threads || !OF_THREADS.contains(&key)) && (self.processes || !OF_PROCESSES.contains(&key))
    }

    /// Whether all do.
    pub(super) fn has_all(self) -> bool {
        self.threads && self.processes
    }

    /// Whether an argument is such a number.
    pub(super) fn is_number(key: &str) -> bool {
        OF_THREADS.contains(&key) || OF_PROCESSES.contains(&key)
    }
}
