//! What a batch of events says to the other data sources: threads seen, born and renamed, files mentioned, kernel addresses to name.

use std::collections::{HashMap, HashSet};

use ferretto_protos::fields::{ftrace_event, task_newtask_ftrace_event, task_rename_ftrace_event};

use super::clock_pair::ClockPair;
use super::plan::EventPlan;
use crate::pids::PidSet;

/// Kernel addresses by the index that stands for them in the trace: addresses themselves would disclose the kernel's layout.
#[derive(Debug, Default)]
pub(crate) struct SymbolIndex {
    by_address: HashMap<u64, u32>,
    addresses: Vec<u64>,
    /// How many of `addresses` have had their names written.
    written: usize,
}

impl SymbolIndex {
    /// The address's index, counted from 1 in order of appearance.
    #[inline]
    pub(crate) fn index(&mut self, address: u64) -> u32 {
        let next = self.addresses.len() as u32 + 1;
        *self.by_address.entry(address).or_insert_with(|| {
            self.addresses.push(address);
            next
        })
    }

    /// Whether no name has been written since the start or the last [`clear`](Self::clear).
    pub(crate) fn is_fresh(&self) -> bool {
        self.written == 0
    }

    /// The addresses whose names have not been written, with their indices.
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.addresses.iter().enumerate().skip(self.written).map(|(i, &address)| (i as u32 + 1, address))
    }

    pub(crate) fn mark_written(&mut self) {
        self.written = self.addresses.len();
    }

    pub(crate) fn clear(&mut self) {
        self.by_address.clear();
        self.addresses.clear();
        self.written = 0;
    }
}

/// A thread with a new name, because it is new or has changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) pid: i32,
    /// With zeroes behind it, as the kernel has it.
    pub(crate) comm: [u8; COMM_BYTES],
    /// When, by the buffer's clock; what [`Metadata::give`] gives is by the boot clock.
    pub(crate) time_ns: u64,
    /// Only of new threads.
    pub(crate) birth: Option<Birth>,
}

/// Where a thread comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birth {
    /// The thread that made it.
    pub(crate) parent: i32,
    /// A thread of its parent's process; otherwise the first of a new process.
    pub(crate) is_thread: bool,
}

/// The kernel's bound for a thread's name and its final zero (TASK_COMM_LEN).
pub(crate) const COMM_BYTES: usize = 16;

/// The flag of clone(2) that makes a thread, not a process (linux/sched.h).
const CLONE_THREAD: u32 = 0x0001_0000;

impl Named {
    /// What an event says of the thread that is born or renamed with it; `pid` is the thread that the event happened on.
    pub(crate) fn from_event(plan: &EventPlan, pid: i32, time_ns: u64, payload: &[u8]) -> Option<Self> {
        let at = |number| {
            let field = plan.fields.iter().find(|field| field.number == number)?;
            payload.get(usize::from(field.offset)..)
        };
        match plan.field_id {
            // The thread that renames itself is the one renamed, in all cases that matter here (upstream: cpu_reader.cc).
            ftrace_event::TASK_RENAME => {
                let comm = *at(task_rename_ftrace_event::NEWCOMM)?.first_chunk()?;
                Some(Self { pid, comm, time_ns, birth: None })
            }
            ftrace_event::TASK_NEWTASK => {
                use task_newtask_ftrace_event as field;
                let comm = *at(field::COMM)?.first_chunk()?;
                // The low half of 64 bits, where those of clone(2) are.
                let flags = u32::from_le_bytes(*at(field::CLONE_FLAGS)?.first_chunk()?);
                let birth = Birth { parent: pid, is_thread: flags & CLONE_THREAD != 0 };
                let pid = i32::from_le_bytes(*at(field::PID)?.first_chunk()?);
                Some(Self { pid, comm, time_ns, birth: Some(birth) })
            }
            _ => None,
        }
    }

    /// Its name, without what lies behind the final zero.
    pub(crate) fn name(&self) -> &[u8] {
        self.comm.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// A file as events and `stat` number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Files kept between two rounds of reading. Whoever uses more in a tenth of a second mentions them again.
const MAX_FILES: usize = 16 << 10;

/// The files that events mention, if somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The thread that looks for files, and whose own events are not to give it more to look for.
    wanted_by: Option<i32>,
    seen: HashSet<FileId>,
}

impl Files {
    pub(crate) fn set_wanted_by(&mut self, thread: Option<i32>) {
        self.wanted_by = thread;
    }

    /// Whether the files in events of this thread are of use.
    #[inline]
    pub(crate) fn are_wanted_of(&self, pid: Option<i32>) -> bool {
        self.wanted_by.is_some() && self.wanted_by != pid
    }

    pub(crate) fn insert(&mut self, file: FileId) {
        if self.seen.len() < MAX_FILES {
            self.seen.insert(file);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = FileId> + '_ {
        self.seen.iter().copied()
    }
}

/// Gathered for one session, and handed on after each round of reading.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) pids: PidSet,
    /// In the order of the events of each CPU.
    pub(crate) named: Vec<Named>,
    /// The buffer's clock, if it is not the boot clock.
    pub(crate) clock: Option<ClockPair>,
    pub(crate) files: Files,
    pub(crate) symbols: SymbolIndex,
}

impl Metadata {
    pub(crate) fn clear(&mut self) {
        self.pids.clear();
        self.named.clear();
        self.files.seen.clear();
        self.symbols.clear();
    }

    /// Gives all of it, the threads named in the order of time, and forgets it.
    pub(crate) fn give(&mut self, to: impl FnOnce(&Self)) {
        if let Some(clock) = self.clock {
            for named in &mut self.named {
                named.time_ns = named.time_ns.wrapping_sub(clock.ftrace_ns).wrapping_add(clock.boot_ns);
            }
        }
        self.named.sort_by_key(|named| named.time_ns);
        to(self);
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_if_wanted_each_once_and_not_without_end() {
        let mut metadata = Metadata::default();
        assert!(!metadata.files.are_wanted_of(Some(7)));
        metadata.files.set_wanted_by(Some(8));
        assert!(metadata.files.are_wanted_of(Some(7)) && !metadata.files.are_wanted_of(Some(8)));
        for inode in (0..=MAX_FILES as u64).chain([0]) {
            metadata.files.insert(FileId { device: 1, inode });
        }
        assert_eq!(metadata.files.iter().count(), MAX_FILES);
        metadata.clear();
        assert_eq!(metadata.files.iter().count(), 0);
        assert!(metadata.files.are_wanted_of(Some(7)));
    }

    #[test]
    fn symbols_are_numbered_from_one_in_order() {
        let mut symbols = SymbolIndex::default();
        assert_eq!([symbols.index(9), symbols.index(4), symbols.index(9)], [1, 2, 1]);
        assert_eq!(symbols.unwritten().collect::<Vec<_>>(), [(1, 9), (2, 4)]);
        symbols.mark_written();
        assert_eq!(symbols.index(5), 3);
        assert_eq!(symbols.unwritten().collect::<Vec<_>>(), [(3, 5)]);
    }
}
