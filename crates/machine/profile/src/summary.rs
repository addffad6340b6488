//! Where the time went: functions by the samples that they were in, for the terminal.

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

/// Functions and threads that are told apart. Beyond, they are all one.
const MAX_NAMES: usize = 1 << 20;
const OTHERS: &str = "(others)";

/// What was sampled, by names.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How they came about, in words: behind "so many samples".
    pub sampled: String,
    /// Samples.
    pub samples: u64,
    /// Of them such whose stack is not there to its root.
    pub incomplete: u64,
    /// Bytes of its stack that a sample has at most.
    pub stack_bytes: usize,
    /// The kernel's part of the time is there, too.
    pub with_kernel: bool,
    functions: HashMap<String, Counts, RandomState>,
    threads: HashMap<(u32, u32), u64, RandomState>,
    thread_names: HashMap<u32, String, RandomState>,
}

/// In how many samples something was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// It was what ran.
    pub own: u64,
    /// It ran, or what it had called did.
    pub total: u64,
}

impl Summary {
    /// Counts a sample: the names of its frames, outermost first.
    pub fn count(&mut self, (pid, tid): (u32, u32), names: &[&str], is_whole: bool) {
        self.samples += 1;
        self.incomplete += u64::from(!is_whole);
        *self.threads.entry((pid, tid)).or_default() += 1;
        // What calls itself is there once.
        let different: HashSet<&str, RandomState> = names.iter().copied().collect();
        for name in different {
            self.counts(name).total += 1;
        }
        if let Some(name) = names.last() {
            self.counts(name).own += 1;
        }
    }

    fn counts(&mut self, name: &str) -> &mut Counts {
        let is_room = self.functions.len() < MAX_NAMES || self.functions.contains_key(name);
        self.functions.entry_ref(if is_room { name } else { OTHERS }).or_default()
    }

    /// A thread has a name from now on.
    pub fn name_thread(&mut self, tid: u32, name: &[u8]) {
        if self.thread_names.len() < MAX_NAMES {
            self.thread_names.insert(tid, String::from_utf8_lossy(name).into_owned());
        }
    }

    /// The functions in which most samples were themselves, or with what they had called, most of them first.
    #[must_use]
    pub fn hottest(&self, by: impl Fn(&Counts) -> u64, count: usize) -> Vec<(&str, Counts)> {
        let mut all: Vec<_> = self.functions.iter().map(|(name, counts)| (name.as_str(), *counts)).collect();
        all.retain(|(_, counts)| by(counts) > 0);
        all.sort_by(|(a, ac), (b, bc)| by(bc).cmp(&by(ac)).then(a.cmp(b)));
        all.truncate(count);
        all
    }

    /// The threads in which most samples were, by their names, with how many threads that were.
    #[must_use]
    pub fn busiest_threads(&self, count: usize) -> Vec<(&str, u64, usize)> {
        let mut by_name: HashMap<&str, (u64, usize), RandomState> = HashMap::default();
        for ((_, tid), samples) in &self.threads {
            let name = self.thread_names.get(tid).map_or("?", String::as_str);
            let entry = by_name.entry(name).or_default();
            *entry = (entry.0 + samples, entry.1 + 1);
        }
        let mut all: Vec<_> =
            by_name.into_iter().map(|(name, (samples, threads))| (name, samples, threads)).collect();
        all.sort_by(|(a, an, _), (b, bn, _)| bn.cmp(an).then(a.cmp(b)));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_itself_is_counted_once_in_a_sample() {
        let mut summary = Summary::default();
        summary.count((1, 1), &["main", "f", "f", "g"], true);
        summary.count((1, 2), &["main", "f"], false);
        summary.count((1, 3), &[], true);
        summary.name_thread(1, b"main");
        summary.name_thread(2, b"worker");
        summary.name_thread(3, b"worker");
        assert_eq!((summary.samples, summary.incomplete), (3, 1));
        let counts = |own, total| Counts { own, total };
        assert_eq!(summary.hottest(|counts| counts.total, 2), [("f", counts(1, 2)), ("main", counts(0, 2))]);
        assert_eq!(summary.hottest(|counts| counts.own, 9), [("f", counts(1, 2)), ("g", counts(1, 1))]);
        assert_eq!(summary.busiest_threads(9), [("worker", 2, 2), ("main", 1, 1)]);
    }
}
