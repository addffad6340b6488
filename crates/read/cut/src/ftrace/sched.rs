//! Who ran where, and which states are open at the ends of a range.
//!
//! A row of `sched` or `thread_state` begins with one event and ends with another (upstream: ftrace_sched_event_tracker.cc,
//! thread_state_tracker.cc). Those that reach into the range begin before it or end after it, and their events must be in the cut, as true as
//! they were:
//!
//! * of each thread the last *run* (from its switch in to its switch out) before the range, and the waking after it;
//! * of each CPU the last switch before the range and the first after it;
//! * of each thread what comes first after the range: the end of its run, or its waking and its next run.
//!
//! The runs of a CPU do not overlap, so together they are a row of switches that makes sense; between them the CPU is said to be idle, which
//! is not always true, but is outside of the range.
//!
//! Events come in the order of each CPU, not in that of time: a thread's last run is the one that began last, whenever its bundle comes.
//!
//! Memory: some 300 bytes a thread; [`MAX_THREADS`], [`MAX_CPUS`].

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::When;
use crate::names::{Name, Names};
use crate::range::Range;

/// Threads whose states are followed. Ours: a machine's tables of processes are smaller; those of further threads may be missing at the ends
/// of the range, which is counted.
const MAX_THREADS: usize = 1 << 18;
/// CPUs of all machines. Ours.
const MAX_CPUS: usize = 1 << 14;
/// Wakings that are kept until it is known which came first after the thread's last run. Ours: as many as bundles may be out of step.
const MAX_WAKES: usize = 64;
/// Threads that one has woken while it runs, of which it is remembered when it ran. Ours.
const MAX_WOKEN: usize = 256;
/// `TASK_RUNNING`: not blocked, so that wakings do not count.
const RUNNABLE: i64 = 0;

/// A CPU of a machine.
pub(crate) type CpuKey = (u32, u32);

/// A thread on a CPU without a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    pub(crate) prio: i32,
    pub(crate) comm: Name,
    /// Its name when it was switched away from.
    pub(crate) end_comm: Name,
    /// When it was switched to; absent if that was not seen, or did not count.
    pub(crate) start: Option<When>,
    /// When it was switched away from, and in which state.
    pub(crate) end: Option<(When, i64)>,
}

/// A waking that must be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) when: When,
    pub(crate) cpu: u32,
    pub(crate) waker: i32,
    pub(crate) tid: i32,
    pub(crate) target_cpu: i32,
    pub(crate) prio: i32,
    pub(crate) comm: Name,
    pub(crate) common_flags: Option<u64>,
    /// It was written in the compact form: only that says whether it came out of an interrupt, and does not say the waker.
    pub(crate) is_compact: bool,
    /// When the waker ran.
    pub(crate) waker_run: Option<Run>,
}

/// The thread that a switch names as the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prev {
    pub(crate) tid: i32,
    pub(crate) prio: i32,
    pub(crate) comm: Name,
}

/// A switch before which the CPU's thread is not known: it makes no rows, but what follows relies on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    pub(crate) when: When,
    pub(crate) state: i64,
    pub(crate) prev: Option<Run>,
    pub(crate) next: Run,
    pub(crate) is_compact: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    current: Option<Run>,
    anchor: Option<Anchor>,
    last_before: Option<[Run; 2]>,
    first_after: Option<[Run; 2]>,
    /// Whom its thread has woken since it runs.
    woken: Vec<(i32, When)>,
}

#[derive(Debug)]
struct Thread {
    /// It was there before the end of the range.
    was_there: bool,
    comm: Name,
    before: Upto,
    /// The end, after the range, of a run that began before that.
    close: Option<Run>,
    after: Option<Run>,
    wake_after: Option<Wake>,
    /// A run whose begin was not seen, and what was before its end. That state stays open for ever (upstream's rule for lost data).
    left: Option<Box<(Option<Run>, Upto)>>,
    /// The run after the range that has brought its last name.
    renamed: Option<Run>,
}

/// What opens a thread's state at a time.
#[derive(Debug)]
struct Upto {
    at: i64,
    run: Option<Run>,
    created: Option<i64>,
    wakes: VecDeque<Wake>,
}

/// Follows the scheduling of all machines.
#[derive(Debug)]
pub(crate) struct Sched {
    range: Range,
    /// Earlier switches make no rows: some CPU's data begins only here.
    counts_from: i64,
    cpus: HashMap<CpuKey, Cpu, RandomState>,
    threads: HashMap<(u32, i32), Thread, RandomState>,
    pub(crate) names: Names,
    /// Threads and CPUs beyond the bounds.
    pub(crate) beyond: u64,
}

impl Sched {
    /// `first_leaves` are the threads that the first switch of each CPU leaves, and when.
    pub(crate) fn new(range: Range, counts_from: i64, first_leaves: &[(u32, i32, i64)]) -> Self {
        let mut threads = HashMap::default();
        for (machine, tid, at) in first_leaves.iter().filter(|(_, _, at)| *at < range.from) {
            let mut thread = Thread::new(range);
            thread.left = Some(Box::new((None, Upto::new(*at))));
            threads.insert((*machine, *tid), thread);
        }
        Self { range, counts_from, cpus: HashMap::default(), threads, names: Names::default(), beyond: 0 }
    }

    /// A switch. The compact form does not say who was before.
    #[inline]
    pub(crate) fn switch(
        &mut self,
        (machine, number): CpuKey,
        when: When,
        prev: Option<Prev>,
        state: i64,
        next: Run,
    ) {
        let Some(cpu) = entry(&mut self.cpus, (machine, number), MAX_CPUS, Cpu::default) else {
            self.beyond += 1;
            return;
        };
        let before = match (prev, cpu.current) {
            (Some(prev), Some(current)) if current.tid == prev.tid => {
                Some(Run { end_comm: prev.comm, ..current })
            }
            (Some(Prev { tid, prio, comm }), _) => {
                Some(Run { tid, cpu: number, prio, comm, end_comm: comm, start: None, end: None })
            }
            (None, current) => current,
        };
        let Some(before) = before.filter(|_| when.ts >= self.counts_from) else {
            cpu.current = Some(Run { start: None, ..next });
            if when.ts < self.range.from {
                cpu.anchor = Some(Anchor { when, state, prev: before, next, is_compact: prev.is_none() });
            }
            return;
        };
        cpu.current = Some(next);
        let woken = std::mem::take(&mut cpu.woken);
        let ended = Run { end: Some((when, state)), ..before };
        if when.ts < self.range.from {
            cpu.last_before = Some([ended, next]);
        } else if when.ts >= self.range.to {
            match &mut cpu.first_after {
                None => cpu.first_after = Some([ended, next]),
                Some([_, first]) if first.start == before.start => *first = ended,
                Some(_) => {}
            }
        }
        let threads = &mut self.threads;
        for (tid, when) in &woken {
            if let Some(thread) = threads.get_mut(&(machine, *tid)) {
                thread.waker_has_run(*when, ended);
            }
        }
        let range = self.range;
        let new = || Thread::new(range);
        let (Some(()), Some(())) = (
            entry(threads, (machine, ended.tid), MAX_THREADS, new)
                .map(|thread| thread.leave(ended, when, range)),
            entry(threads, (machine, next.tid), MAX_THREADS, new)
                .map(|thread| thread.enter(next, when, range)),
        ) else {
            self.beyond += 1;
            return;
        };
        if let Some(cpu) = self.cpus.get_mut(&(machine, number)).filter(|_| !woken.is_empty()) {
            // Its memory serves the next ones.
            cpu.woken = woken;
            cpu.woken.clear();
        }
    }

    /// A waking. The waker of one in the compact form is the CPU's thread.
    pub(crate) fn wake(&mut self, machine: u32, mut wake: Wake) {
        let cpu = self.cpus.get_mut(&(machine, wake.cpu));
        let current = cpu.as_ref().and_then(|cpu| cpu.current);
        match current {
            Some(current) if wake.is_compact => wake.waker = current.tid,
            None if wake.is_compact => return,
            _ => {}
        }
        if wake.when.ts < self.counts_from {
            return;
        }
        wake.waker_run = current.filter(|current| current.tid == wake.waker);
        let is_outside = !self.range.has(wake.when.ts);
        if let Some(cpu) = cpu.filter(|cpu| is_outside && cpu.woken.len() < MAX_WOKEN) {
            cpu.woken.push((wake.tid, wake.when));
        }
        let (threads, range) = (&mut self.threads, self.range);
        let Some(thread) = entry(threads, (machine, wake.tid), MAX_THREADS, || Thread::new(range)) else {
            self.beyond += 1;
            return;
        };
        thread.was_there |= wake.when.ts < range.to;
        thread.each_upto(|upto| upto.wake(wake));
        if wake.when.ts >= range.to && thread.wake_after.is_none_or(|first| wake.when < first.when) {
            thread.wake_after = Some(wake);
        }
    }

    /// A thread has a new name. Most give it to themselves.
    pub(crate) fn renamed(&mut self, cpu: CpuKey, tid: i32, comm: Name) {
        let current = self.cpus.get_mut(&cpu).and_then(|cpu| cpu.current.as_mut());
        if let Some(current) = current.filter(|current| current.tid == tid) {
            current.end_comm = comm;
        }
    }

    /// A thread was made.
    pub(crate) fn created(&mut self, machine: u32, tid: i32, when: When) {
        let (threads, range) = (&mut self.threads, self.range);
        if let Some(thread) = entry(threads, (machine, tid), MAX_THREADS, || Thread::new(range)) {
            thread.was_there |= when.ts < range.to;
            thread.each_upto(|upto| {
                if when.ts < upto.at {
                    upto.created = upto.created.max(Some(when.ts));
                }
            });
        }
    }

    /// Whether it was there before the end of the range.
    pub(crate) fn was_there(&self, machine: u32, tid: i32) -> bool {
        self.threads.get(&(machine, tid)).is_some_and(|thread| thread.was_there)
    }

    /// What must be kept from before the range and from after it.
    pub(crate) fn needed(&self) -> Needed {
        let mut needed = Needed::default();
        for ((machine, number), cpu) in &self.cpus {
            match cpu.last_before {
                Some(runs) => needed.before.extend(runs.map(|run| (*machine, run))),
                None => needed.anchors.extend(cpu.anchor.map(|anchor| ((*machine, *number), anchor))),
            }
            if let Some([ended, next]) = cpu.first_after {
                needed.after.extend([(*machine, ended), (*machine, next)]);
            }
        }
        for ((machine, tid), thread) in &self.threads {
            if *tid == 0 {
                continue;
            }
            let left = thread.left.iter().filter_map(|left| left.0.map(|run| (run, &left.1)));
            for (run, upto) in left {
                needed.before.push((*machine, run));
                needed.add(*machine, upto);
            }
            needed.add(*machine, &thread.before);
            if thread.was_there {
                let after = thread.close.or(thread.after);
                needed.after.extend(after.map(|run| (*machine, run)));
                needed.after.extend(thread.renamed.map(|run| (*machine, run)));
                needed.wakes.extend(thread.wake_after.map(|wake| (*machine, wake)));
            }
        }
        for (machine, wake) in &needed.wakes {
            let runs = if wake.when.ts < self.range.from { &mut needed.before } else { &mut needed.after };
            runs.extend(wake.waker_run.map(|run| (*machine, run)));
        }
        needed
    }
}

/// What [`Sched::needed`] says.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    pub(crate) anchors: Vec<(CpuKey, Anchor)>,
    pub(crate) before: Vec<(u32, Run)>,
    pub(crate) after: Vec<(u32, Run)>,
    pub(crate) wakes: Vec<(u32, Wake)>,
}

impl Needed {
    fn add(&mut self, machine: u32, upto: &Upto) {
        self.before.extend(upto.run.map(|run| (machine, run)));
        self.wakes.extend(upto.first_wake().map(|wake| (machine, wake)));
    }
}

impl Thread {
    fn new(range: Range) -> Self {
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

    #[inline]
    fn each_upto(&mut self, mut each: impl FnMut(&mut Upto)) {
        each(&mut self.before);
        if let Some(left) = &mut self.left {
            each(&mut left.1);
        }
    }

    #[inline]
    fn enter(&mut self, run: Run, when: When, range: Range) {
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
    fn leave(&mut self, run: Run, when: When, range: Range) {
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

    fn waker_has_run(&mut self, when: When, run: Run) {
        let left = self.left.iter_mut().flat_map(|left| &mut left.1.wakes);
        let wakes = self.before.wakes.iter_mut().chain(&mut self.wake_after).chain(left);
        for wake in wakes.filter(|wake| wake.when == when && wake.waker == run.tid && wake.cpu == run.cpu) {
            wake.waker_run = Some(run);
        }
    }
}

impl Upto {
    fn new(at: i64) -> Self {
        Self { at, run: None, created: None, wakes: VecDeque::new() }
    }

    #[inline]
    fn enter(&mut self, run: Run, when: When) {
        if when.ts < self.at && self.run.is_none_or(|last| last.start < run.start) {
            self.run = Some(run);
            while self.wakes.front().is_some_and(|wake| wake.when <= when) {
                self.wakes.pop_front();
            }
        }
    }

    #[inline]
    fn leave(&mut self, run: Run, when: When) {
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

    fn wake(&mut self, wake: Wake) {
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
    fn first_wake(&self) -> Option<Wake> {
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

/// The entry of `key`, if there is one or may be one more.
fn entry<K: std::hash::Hash + Eq, V>(
    map: &mut HashMap<K, V, RandomState>,
    key: K,
    most: usize,
    new: impl FnOnce() -> V,
) -> Option<&mut V> {
    if map.len() >= most && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_insert_with(new))
}
