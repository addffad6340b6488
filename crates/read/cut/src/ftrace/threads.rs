//! All threads, by their numbers.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::run::Wake;
use crate::ftrace::thread::Thread;
use crate::range::Range;

/// Threads whose states are followed. Ours: a machine's tables of processes are smaller; those of further threads may be missing at the ends
/// of the range, which is counted.
const MAX_THREADS: usize = 1 << 18;
/// Threads of which some hundred wakings may wait. Ours: 27 MB for them; there are hardly more that wait for a processor at a time and are woken
/// nevertheless.
const MAX_CROWDS: usize = 512;
/// Threads of the first machine that are found without a search. Ours: Linux numbers threads up to four million, but rarely so far.
const MAX_DIRECT: usize = 1 << 20;

/// All threads, by their numbers here.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    all: Vec<Thread>,
    keys: Vec<(u32, i32)>,
    marks: Vec<Mark>,
    numbers: HashMap<(u32, i32), u32, RandomState>,
    /// The same of the first machine: one more than the number, or 0.
    direct: Vec<u32>,
    /// Threads of which more wakings may wait than of others.
    crowds: usize,
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

    /// Which thread has a number.
    pub(crate) fn key(&self, number: usize) -> Option<(u32, i32)> {
        self.keys.get(number).copied()
    }

    #[inline]
    pub(crate) fn by_number(&mut self, number: usize) -> Option<&mut Thread> {
        self.all.get_mut(number)
    }

    /// It is woken.
    #[inline]
    pub(crate) fn wake(&mut self, number: usize, wake: Wake, range: Range) {
        let Some(thread) = self.all.get_mut(number) else { return };
        if thread.is_crowded() && self.crowds < MAX_CROWDS {
            self.crowds += 1;
            thread.make_room();
        }
        thread.wake(wake, range);
    }

    /// Notes that a thread is met at this place of a bundle; says where it was met there last.
    #[inline]
    pub(crate) fn meet(&mut self, number: usize, bundle: u64, at: usize) -> Option<usize> {
        let mark = self.marks.get_mut(number)?;
        let last = std::mem::replace(mark, Mark { bundle, at });
        (last.bundle == bundle).then_some(last.at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u32, i32), &Thread)> {
        self.keys.iter().copied().zip(&self.all)
    }

    #[inline]
    pub(super) fn known(&self, machine: u32, tid: i32) -> Option<usize> {
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
