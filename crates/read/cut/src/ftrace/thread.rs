//! Of each thread what opens and closes its state at the ends of the range.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::When;
use crate::ftrace::sched::{Run, Wake};
use crate::names::Name;
use crate::range::Range;

/// Threads whose states are followed. Ours: a machine's tables of processes are smaller; those of further threads may be missing at the ends
/// of the range, which is counted.
const MAX_THREADS: usize = 1 << 18;
/// Threads of the first machine that are found without a search. Ours: Linux numbers threads up to four million, but rarely so far.
const MAX_DIRECT: usize = 1 << 20;
/// Wakings that are kept until it is known which came first after the thread's last run. Ours: as many as bundles may be out of step.
const MAX_WAKES: usize = 64;
/// `TASK_RUNNING`: not blocked, so that wakings do not count.
const RUNNABLE: i64 = 0;

/// All threads, by their numbers here.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    all: Vec<Thread>,
    keys: Vec<(u32, i32)>,
    marks: Vec<Mark>,
    numbers: HashMap<(u32, i32), u32, RandomState>,
    /// The same of the first machine: one more than the number, or 0.
    direct: Vec<u32>,
}

/// Where a thread was last met in a bundle.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    bundle: u64,
    at: usize,
}

impl Threads {
    /// The number of a thread, if it has one or there may be one more.
    #[inline]
    pub(crate) fn number(&mut self, machine: u32, tid: i32, range: Range) -> Option<usize> {
        match self.known(machine, tid) {
            None => self.add(machine, tid, range),
            number => number,
        }
    }

    #[inline]
    pub(crate) fn get(&self, machine: u32, tid: i32) -> Option<&Thread> {
        self.all.get(self.known(machine, tid)?)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, machine: u32, tid: i32) -> Option<&mut Thread> {
        let number = self.known(machine, tid)?;
        self.all.get_mut(number)
    }

    #[inline]
    pub(crate) fn entry(&mut self, machine: u32, tid: i32, range: Range) -> Option<&mut Thread> {
        let number = self.number(machine, tid, range)?;
        self.all.get_mut(number)
    }

    #[inline]
    pub(crate) fn by_number(&mut self, number: usize) -> Option<&mut Thread> {
        self.all.get_mut(number)
    }

    /// Notes that a thread is met at this place of a bundle; says where it was met there last.
    #[inline]
    pub(crate) fn meet(&mut self, number: usize, bundle: u64, at: usize) -> Option<usize> {
        let mark = self.marks.get_mut(number)?;
        let last = std::mem::replace(mark, Mark { bundle, at });
        (last.bundle == bundle).then_some(last.at)
    }

    /// Where a thread was last met in this bundle.
    #[inline]
    pub(crate) fn met(&self, number: usize, bundle: u64) -> Option<usize> {
        let mark = self.marks.get(number)?;
        (mark.bundle == bundle).then_some(mark.at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u32, i32), &Thread)> {
        self.keys.iter().copied().zip(&self.all)
    }

    #[inline]
    fn known(&self, machine: u32, tid: i32) -> Option<usize> {
        if machine == 0
            && let Some(number) = self.direct.get(tid as usize)
        {
            return (*number as usize).checked_sub(1);
        }
        self.numbers.get(&(machine, tid)).map(|number| *number as usize)
    }

    #[cold]
    fn add(&mut self, machine: u32, tid: i32, range: Range) -> Option<usize> {
        let number = self.all.len();
        if number >= MAX_THREADS {
            return None;
        }
        self.all.push(Thread::new(range));
        self.keys.push((machine, tid));
        self.marks.push(Mark::default());
        let at = tid as usize;
        if machine != 0 || at >= MAX_DIRECT {
            self.numbers.insert((machine, tid), number as u32);
            return Some(number);
        }
        if self.direct.len() <= at {
            self.direct.resize(at + 1, 0);
        }
        if let Some(slot) = self.direct.get_mut(at) {
            *slot = number as u32 + 1;
        }
        Some(number)
    }
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Thread {
    /// It was there before the end of the range.
    pub(crate) was_there: bool,
    pub(crate) comm: Name,
    pub(crate) before: Upto,
    /// The end, after the range, of a run that began before that.
    pub(crate) close: Option<Run>,
    pub(crate) after: Option<Run>,
    pub(crate) wake_after: Option<Wake>,
    /// A run whose begin was not seen, and what was before its end. That state stays open for ever (upstream's rule for lost data).
    pub(crate) left: Option<Box<(Option<Run>, Upto)>>,
    /// The run after the range that has brought its last name.
    pub(crate) renamed: Option<Run>,
}

/// What opens a thread's state at a time.
#[derive(Debug)]
pub(crate) struct Upto {
    pub(crate) at: i64,
    pub(crate) run: Option<Run>,
    pub(crate) created: Option<i64>,
    pub(crate) wakes: VecDeque<Wake>,
}

impl Thread {
    pub(crate) fn new(range: Range) -> Self {
        Self {
            was_there: false,
            comm: 0,
            before: Upto::new(range.from),
            close: None,
            after: None,
            wake_after: None,
            left: None,
            renamed: None,
        }
    }

    /// All that may have to be kept.
    pub(crate) fn runs(&mut self) -> impl Iterator<Item = &mut Run> {
        let left = self.left.as_deref_mut().into_iter().flat_map(|(run, upto)| [run, &mut upto.run]);
        let own = [&mut self.before.run, &mut self.close, &mut self.after, &mut self.renamed];
        own.into_iter().chain(left).flatten()
    }

    #[inline]
    pub(crate) fn each_upto(&mut self, mut each: impl FnMut(&mut Upto)) {
        each(&mut self.before);
        if let Some(left) = &mut self.left {
            each(&mut left.1);
        }
    }

    #[inline]
    pub(crate) fn enter(&mut self, run: Run, when: When, range: Range) {
        if when.ts >= range.to {
            if self.after.is_none_or(|first| run.start < first.start) {
                self.after = Some(run);
            }
            if self.comm != run.comm && self.renamed.is_none_or(|last| last.comm != run.comm) {
                self.renamed = Some(run);
            }
            return;
        }
        self.was_there = true;
        self.comm = run.comm;
        self.each_upto(|upto| upto.enter(run, when));
    }

    #[inline]
    pub(crate) fn leave(&mut self, run: Run, when: When, range: Range) {
        self.was_there |= when.ts < range.to;
        if when.ts < range.from {
            if let Some((left, _)) = self.left.as_deref_mut().filter(|left| left.1.at == when.ts) {
                *left = Some(run).filter(|run| run.start.is_none());
            }
            self.each_upto(|upto| upto.leave(run, when));
        } else if when.ts >= range.to {
            if run.start.is_none_or(|start| start.ts < range.to) {
                if self.close.is_none_or(|first| run.end.map(|end| end.0) < first.end.map(|end| end.0)) {
                    self.close = Some(run);
                }
                return;
            }
            for mine in [&mut self.after, &mut self.renamed].into_iter().flatten() {
                if mine.start == run.start {
                    (mine.end, mine.end_comm) = (run.end, run.end_comm);
                }
            }
        }
    }

    pub(crate) fn waker_has_run(&mut self, when: When, run: Run) {
        let left = self.left.iter_mut().flat_map(|left| &mut left.1.wakes);
        let wakes = self.before.wakes.iter_mut().chain(&mut self.wake_after).chain(left);
        for wake in wakes.filter(|wake| wake.when == when && wake.waker == run.tid && wake.cpu == run.cpu) {
            wake.waker_run = Some(run);
        }
    }
}

impl Upto {
    pub(crate) fn new(at: i64) -> Self {
        Self { at, run: None, created: None, wakes: VecDeque::new() }
    }

    #[inline]
    pub(crate) fn enter(&mut self, run: Run, when: When) {
        if when.ts < self.at && self.run.is_none_or(|last| last.start < run.start) {
            self.run = Some(run);
            while self.wakes.front().is_some_and(|wake| wake.when <= when) {
                self.wakes.pop_front();
            }
        }
    }

    #[inline]
    pub(crate) fn leave(&mut self, run: Run, when: When) {
        if when.ts >= self.at {
            return;
        }
        match &mut self.run {
            Some(last) if run.start.is_some() && last.start == run.start => {
                (last.end, last.end_comm) = (run.end, run.end_comm);
            }
            Some(last) if last.start > run.start || last.start.is_some_and(|start| start > when) => {}
            last => *last = Some(run),
        }
    }

    pub(crate) fn wake(&mut self, wake: Wake) {
        let is_past = || self.run.is_some_and(|run| run.start.is_some_and(|start| wake.when < start));
        if wake.when.ts >= self.at || is_past() {
            return;
        }
        if self.wakes.len() >= MAX_WAKES {
            self.wakes.pop_front();
        }
        self.wakes.push_back(wake);
    }

    /// The waking that has opened the state.
    pub(crate) fn first_wake(&self) -> Option<Wake> {
        let blocked_at = match self.run.map(|run| run.end) {
            None => None,
            // It runs, or is not blocked: wakings do not count.
            Some(None | Some((_, RUNNABLE))) => return None,
            Some(Some((end, _))) => Some(end),
        };
        let is_new = |ts| {
            self.created.is_some_and(|created| created <= ts && blocked_at.is_none_or(|at| at.ts < created))
        };
        let after = self.wakes.iter().filter(|wake| blocked_at.is_none_or(|at| at <= wake.when));
        after.min_by_key(|wake| wake.when).copied().filter(|wake| !is_new(wake.when.ts))
    }
}
