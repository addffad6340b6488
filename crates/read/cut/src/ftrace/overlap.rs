//! Finds threads that two CPUs run at once, as their events say it: CPUs' clocks do not agree, or a switch was lost. What that leaves open is
//! told by a further pass ([`crate::ftrace::doubts`]).
//!
//! Bundles come CPU by CPU, so that what is at once is far apart in the file. The runs of a bundle are held until all CPUs have come past
//! them. Only threads that two CPUs have run meanwhile are compared run by run.
//!
//! Memory: [`MAX_RUNS`], [`MAX_BATCHES`], and 8 bytes a thread.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::sched::CpuKey;

/// Runs that are held. Ours, 24 bytes each: more than all CPUs hand over at once.
const MAX_RUNS: usize = 1 << 16;
/// Bundles that are held. Ours, some 100 bytes each: a CPU hands over some hundreds at once, and one that runs the same thread for long does
/// not come past those of others.
const MAX_BATCHES: usize = 1 << 10;
/// Bundles one after the other that a thread ran in before one that comes: then all are. Ours: CPUs hand over theirs in turn.
const MAX_STALE: usize = 16;
/// Bundles whose memory is kept for others. Ours.
const MAX_FREE: usize = 64;
/// No run, or no visit.
const NONE: u32 = u32::MAX;

/// The begin and the end of a run of which not both are known: it is at once with none.
pub(super) const UNKNOWN: i64 = i64::MAX;

/// A run from its begin to its end.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: i64,
    end: i64,
    /// The one before of the same thread in its batch.
    before: u32,
}

/// That a thread ran in a batch.
#[derive(Clone, Copy, Debug)]
struct Visit {
    thread: u32,
    /// The last of its runs there.
    last: u32,
    /// Its visit before, and the last one of another CPU.
    before: Head,
    elsewhere: Head,
}

/// The last visit of a thread: a batch's number, and where it is there.
#[derive(Clone, Copy, Debug)]
struct Head {
    batch: u32,
    visit: u32,
}

/// The runs that end in a bundle.
#[derive(Debug, Default)]
struct Batch {
    cpu: CpuKey,
    begin: i64,
    end: i64,
    spans: Vec<Span>,
    visits: Vec<Visit>,
}

impl Batch {
    fn clear(&mut self) {
        self.spans.clear();
        self.visits.clear();
    }
}

/// Runs that may be at once with some that come later.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    batches: VecDeque<Batch>,
    /// The number of the first of them.
    first: u32,
    /// The one that is being filled.
    open: Batch,
    /// Those whose memory serves the next ones.
    free: Vec<Batch>,
    /// By numbers of threads.
    heads: Vec<Head>,
    /// Of each CPU the time that it has come past.
    past: HashMap<CpuKey, i64, RandomState>,
    runs: usize,
}

impl Overlaps {
    /// Of these CPUs.
    pub(super) fn new(cpus: impl IntoIterator<Item = CpuKey>) -> Self {
        Self { past: cpus.into_iter().map(|cpu| (cpu, i64::MIN)).collect(), ..Self::default() }
    }

    /// The next run of a bundle: [`UNKNOWN`] are the times of one whose begin or end is not known.
    #[inline]
    pub(super) fn push(&mut self, thread: usize, start: i64, end: i64) {
        if self.heads.len() <= thread {
            self.heads.resize(thread + 1, Head { batch: NONE, visit: NONE });
        }
        let Some(head) = self.heads.get_mut(thread) else { return };
        let number = self.first.wrapping_add(self.batches.len() as u32);
        let Batch { spans, visits, .. } = &mut self.open;
        let at = spans.len() as u32;
        let known = visits.get_mut(head.visit as usize).filter(|_| head.batch == number);
        let before = match known {
            Some(visit) => std::mem::replace(&mut visit.last, at),
            None => {
                let before = std::mem::replace(head, Head { batch: number, visit: visits.len() as u32 });
                visits.push(Visit { thread: thread as u32, last: at, before, elsewhere: before });
                NONE
            }
        };
        spans.push(Span { start, end, before });
    }

    /// The next run is of a thread that has no number.
    pub(super) fn skip(&mut self) {
        self.open.spans.push(Span { start: UNKNOWN, end: UNKNOWN, before: NONE });
    }

    /// The number in the bundle of a thread's last run there.
    #[inline]
    pub(super) fn last_in_bundle(&self, thread: usize) -> Option<usize> {
        let head = self.heads.get(thread)?;
        let is_open = head.batch == self.first.wrapping_add(self.batches.len() as u32);
        let visit = self.open.visits.get(head.visit as usize).filter(|_| is_open)?;
        Some(visit.last as usize)
    }

    /// The threads of the bundle and the number of the last run of each.
    pub(super) fn in_bundle(&self, at: usize) -> Option<(usize, usize)> {
        let visit = self.open.visits.get(at)?;
        Some((visit.thread as usize, visit.last as usize))
    }

    /// The bundle has ended; `current` is since when its CPU runs what it runs, `idle` the thread that all CPUs may run. Calls `each` with the numbers of threads that were on two CPUs at
    /// once.
    pub(super) fn finish(&mut self, cpu: CpuKey, current: i64, idle: Option<usize>, each: impl FnMut(usize)) {
        let spans = || self.open.spans.iter().filter(|span| span.end != UNKNOWN);
        let (Some(first), Some(last)) = (spans().next(), spans().next_back()) else {
            return self.open.clear();
        };
        (self.open.cpu, self.open.begin, self.open.end) = (cpu, first.start, last.end);
        self.skip_own(idle);
        self.compare(each);
        self.past.insert(cpu, current);
        self.runs += self.open.spans.len();
        let next = self.free.pop().unwrap_or_default();
        self.batches.push_back(std::mem::replace(&mut self.open, next));
        let past = self.past.values().copied().min().unwrap_or(i64::MIN);
        while self
            .batches
            .front()
            .is_some_and(|first| first.end < past || self.runs > MAX_RUNS || self.batches.len() > MAX_BATCHES)
        {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let Some(mut batch) = self.batches.pop_front() else { return };
        self.runs -= batch.spans.len();
        self.first = self.first.wrapping_add(1);
        if self.free.len() < MAX_FREE {
            batch.clear();
            self.free.push(batch);
        }
    }

    /// Finds of each visit the last one of another CPU.
    fn skip_own(&mut self, idle: Option<usize>) {
        let Self { batches, first, open, .. } = self;
        for visit in &mut open.visits {
            if Some(visit.thread as usize) == idle {
                visit.elsewhere = Head { batch: NONE, visit: NONE };
            } else if let Some((batch, before)) = visit_at(batches, *first, visit.before)
                && batch.cpu == open.cpu
            {
                visit.elsewhere = before.elsewhere;
            }
        }
    }

    fn compare(&self, mut each: impl FnMut(usize)) {
        for visit in &self.open.visits {
            let (mut at, mut stale) = (visit.elsewhere, 0);
            while stale < MAX_STALE
                && let Some((batch, other)) = visit_at(&self.batches, self.first, at)
            {
                if batch.cpu == self.open.cpu {
                    at = other.elsewhere;
                    continue;
                }
                stale = if batch.end < self.open.begin { stale + 1 } else { 0 };
                let may_be = stale == 0 && self.open.end >= batch.begin;
                if may_be && are_at_once((&self.open.spans, visit.last), (&batch.spans, other.last)) {
                    each(visit.thread as usize);
                    break;
                }
                at = other.before;
            }
        }
    }
}

fn visit_at(batches: &VecDeque<Batch>, first: u32, at: Head) -> Option<(&Batch, &Visit)> {
    let batch = batches.get(at.batch.wrapping_sub(first) as usize)?;
    Some((batch, batch.visits.get(at.visit as usize)?))
}

/// Some of the runs of a thread that are in both.
fn are_at_once((one, mut last): (&[Span], u32), (other, mut other_last): (&[Span], u32)) -> bool {
    while let (Some(a), Some(b)) = (one.get(last as usize), other.get(other_last as usize)) {
        if a.start > b.end {
            last = a.before;
        } else if b.start > a.end {
            other_last = b.before;
        } else {
            return true;
        }
    }
    false
}
