//! Whose a track is: what formats show that know threads and processes, but no tracks.

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{TrackId, Upid, Utid};

/// Whose a track is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A thread's own: slices on it lie within each other as calls do.
    Thread(Utid),
    /// A process's.
    Process(Upid),
    /// A processor's.
    Cpu(u32),
    /// Nobody's.
    Trace,
}

impl Owner {
    pub(crate) fn of(tables: &Tables, track: TrackId) -> Self {
        let row = track.index();
        if let Some(utid) = tables.track.utid.get(row) {
            return Self::Thread(utid);
        }
        if let Some(upid) = tables.track.upid.get(row) {
            return Self::Process(upid);
        }
        tables.track.cpu.get(row).map_or(Self::Trace, Self::Cpu)
    }

    /// The numbers of its process and thread, as the kernel has them; 0 where there is none.
    pub(crate) fn pid_tid(self, tables: &Tables) -> (i64, i64) {
        match self {
            Self::Thread(utid) => {
                let tid = tid(tables, utid);
                let pid = tables.thread.upid.get(utid.index()).map(|upid| pid(tables, upid));
                (pid.unwrap_or(tid), tid)
            }
            Self::Process(upid) => {
                let pid = pid(tables, upid);
                (pid, pid)
            }
            Self::Cpu(_) | Self::Trace => (0, 0),
        }
    }
}

pub(crate) fn tid(tables: &Tables, utid: Utid) -> i64 {
    tables.thread.tid.get(utid.index()).copied().unwrap_or(0)
}

pub(crate) fn pid(tables: &Tables, upid: Upid) -> i64 {
    tables.process.pid.get(upid.index()).copied().unwrap_or(0)
}

/// The name of a thread, or what stands for it.
pub(crate) fn thread_name(tables: &Tables, utid: Utid) -> String {
    match tables.thread.name.get(utid.index()).copied().flatten() {
        Some(name) => tables.strings.get(name).to_owned(),
        None => format!("thread {}", tid(tables, utid)),
    }
}

/// The name of a process, or what stands for it.
pub(crate) fn process_name(tables: &Tables, upid: Upid) -> String {
    match tables.process.name.get(upid.index()).copied().flatten() {
        Some(name) => tables.strings.get(name).to_owned(),
        None => format!("process {}", pid(tables, upid)),
    }
}
