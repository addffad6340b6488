//! What threads are called.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Threads whose names are known at a time. With more all are forgotten, and those that are still sampled are asked for again.
const MAX_THREADS: usize = 256 << 10;

/// The names of those that were met.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    names: HashMap<u32, Box<[u8]>, RandomState>,
}

impl Threads {
    /// It has this name from now on.
    pub(crate) fn name(&mut self, tid: u32, name: &[u8]) {
        if self.names.len() >= MAX_THREADS {
            self.names.clear();
        }
        self.names.insert(tid, name.into());
    }

    /// It is called what the one that has started it is called, until it says something else.
    pub(crate) fn inherit(&mut self, tid: u32, parent_tid: u32) -> Option<&[u8]> {
        let name = self.names.get(&parent_tid)?.clone();
        self.name(tid, &name);
        self.names.get(&tid).map(AsRef::as_ref)
    }

    /// What `/proc` calls it, if it is a new one. Nothing of one that is gone already.
    pub(crate) fn adopt(&mut self, pid: u32, tid: u32) -> Option<&[u8]> {
        if self.names.contains_key(&tid) {
            return None;
        }
        let read = std::fs::read(format!("/proc/{pid}/task/{tid}/comm"));
        let name = read.as_ref().map(|name| name.strip_suffix(b"\n").unwrap_or(name)).unwrap_or_default();
        self.name(tid, name);
        self.names.get(&tid).map(AsRef::as_ref).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_called_what_those_are_called_that_started_them() {
        let mut threads = Threads::default();
        threads.name(1, b"main");
        assert_eq!(threads.inherit(2, 1), Some(&b"main"[..]));
        threads.name(2, b"worker");
        assert_eq!(threads.inherit(3, 2), Some(&b"worker"[..]));
        assert_eq!(threads.inherit(4, 9), None);
        assert_eq!(threads.adopt(1, 1), None);
    }

    #[test]
    fn one_that_runs_already_is_asked_for_once() {
        let mut threads = Threads::default();
        let (pid, tid) =
            (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let own = std::fs::read("/proc/thread-self/comm").unwrap();
        assert_eq!(threads.adopt(pid, tid), Some(own.trim_ascii_end()));
        assert_eq!(threads.adopt(pid, tid), None);
        assert_eq!(threads.adopt(u32::MAX, u32::MAX), None);
    }
}
