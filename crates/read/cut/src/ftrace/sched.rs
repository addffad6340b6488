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
//! Switches in columns name threads even before they make rows. Of a thread without rows the last of those is needed, wherever it is.
//!
//! Memory: that of [`crate::ftrace::thread`]; [`MAX_CPUS`], [`MAX_EARLY`], [`MAX_UNENDED`], [`MAX_WITHOUT_BEGIN`].

use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::ftrace::bundle::When;
use crate::ftrace::doubts::Doubts;
use crate::ftrace::lives::ThreadKey;
use crate::ftrace::overlap::Overlaps;
use crate::ftrace::run::{Run, Wake, WakeSource, Who};
use crate::ftrace::thread::{Thread, Upto};
use crate::ftrace::threads::Threads;
use crate::names::{Name, Names};
use crate::range::Range;

/// CPUs of all machines. Ours.
const MAX_CPUS: usize = 1 << 14;
/// Threads that one has woken while it runs, of which it is remembered when it ran. Ours.
pub(super) const MAX_WOKEN: usize = 256;
/// Threads that are named by switches that make no rows. Ours, as threads whose states are followed; some 200 bytes each.
const MAX_EARLY: usize = 1 << 18;
/// Runs whose end was not seen. Ours: each is an accident.
const MAX_UNENDED: usize = 1 << 16;
/// Runs before the range whose begin was not seen. Ours, as those; some 150 bytes each, and wakings.
const MAX_WITHOUT_BEGIN: usize = 1 << 17;
/// A CPU of a machine.
pub(crate) type CpuKey = (u32, u32);

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
pub(super) struct Cpu {
    pub(super) current: Option<Run>,
    anchor: Option<Anchor>,
    pub(super) last_before: Option<[Run; 2]>,
    pub(super) first_after: Option<[Run; 2]>,
    /// Whom its thread has woken since it runs.
    pub(super) woken: Vec<(i32, When)>,
}

/// All CPUs: mostly the same is asked for as before.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    all: Vec<(CpuKey, Cpu)>,
    numbers: HashMap<CpuKey, usize, RandomState>,
    last: usize,
}

impl Cpus {
    /// The CPU, if there is one or may be one more.
    pub(super) fn entry(&mut self, key: CpuKey) -> Option<&mut Cpu> {
        let number = match self.number(key) {
            Some(number) => number,
            None => self.add(key)?,
        };
        self.last = number;
        self.all.get_mut(number).map(|(_, cpu)| cpu)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: &CpuKey) -> Option<&mut Cpu> {
        self.last = self.number(*key)?;
        self.all.get_mut(self.last).map(|(_, cpu)| cpu)
    }

    #[cold]
    fn add(&mut self, key: CpuKey) -> Option<usize> {
        let number = self.all.len();
        if number >= MAX_CPUS {
            return None;
        }
        self.numbers.insert(key, number);
        self.all.push((key, Cpu::default()));
        Some(number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(CpuKey, Cpu)> {
        self.all.iter()
    }

    #[inline]
    fn number(&self, key: CpuKey) -> Option<usize> {
        if self.all.get(self.last).is_some_and(|(last, _)| *last == key) {
            return Some(self.last);
        }
        self.numbers.get(&key).copied()
    }
}

/// Follows the scheduling of all machines.
#[derive(Debug)]
pub(crate) struct Sched {
    pub(super) range: Range,
    /// Earlier switches make no rows: some CPU's data begins only here.
    counts_from: i64,
    /// From here on switches have no rules of their own.
    pub(super) orderly_from: i64,
    pub(super) cpus: Cpus,
    pub(super) threads: Threads,
    /// The last switch of each thread that names it and makes no row: of which CPU, and that.
    early: HashMap<(u32, i32), (CpuKey, Anchor), RandomState>,
    /// Outside of the range: a run of which the end was not seen, and that whose end came next on its CPU, of which the begin was not. The first
    /// one stays open for ever, and readers count it (upstream: ftrace_sched_event_tracker.cc, `mismatched_sched_switch_tids`).
    unended: Vec<(u32, [Run; 2])>,
    /// How many runs before the range have no begin.
    without_begin: usize,
    pub(super) overlaps: Overlaps,
    /// Threads whose states before the range a further pass has to follow.
    doubtful: BTreeSet<ThreadKey>,
    /// In the further pass: they, and nothing else.
    pub(super) doubts: Option<Doubts>,
    /// What it has found they need.
    settled: Option<(BTreeSet<ThreadKey>, Needed)>,
    pub(crate) names: Names,
    /// Bundles that were taken at once.
    pub(super) bundles: u64,
    /// Threads and CPUs beyond the bounds.
    pub(crate) beyond: u64,
}

impl Sched {
    /// `first_leaves` are the threads that the first switch of each CPU leaves, and when.
    pub(crate) fn new(
        range: Range,
        counts_from: i64,
        first_leaves: &[(u32, i32, i64)],
        cpus: impl IntoIterator<Item = CpuKey>,
    ) -> Self {
        let mut threads = Threads::default();
        let mut orderly_from = counts_from;
        for (machine, tid, at) in first_leaves.iter().filter(|(_, _, at)| *at < range.from) {
            if let Some(thread) = threads.entry(*machine, *tid, range) {
                thread.expect_left(*at);
            }
            orderly_from = orderly_from.max(at.saturating_add(1));
        }
        Self {
            range,
            counts_from,
            orderly_from,
            cpus: Cpus::default(),
            threads,
            early: HashMap::default(),
            unended: Vec::new(),
            without_begin: 0,
            overlaps: Overlaps::new(cpus),
            doubtful: BTreeSet::new(),
            doubts: None,
            settled: None,
            names: Names::default(),
            bundles: 0,
            beyond: 0,
        }
    }

    /// Who runs on a CPU, as far as its events were taken.
    pub(super) fn current(&mut self, cpu: CpuKey) -> Option<Run> {
        self.cpus.get_mut(&cpu)?.current
    }

    /// A switch. The compact form does not say who was before.
    #[inline]
    pub(crate) fn switch(
        &mut self,
        (machine, number): CpuKey,
        when: When,
        prev: Option<Who>,
        state: i64,
        next: Run,
    ) {
        let Some(cpu) = self.cpus.entry((machine, number)) else {
            self.beyond += 1;
            return;
        };
        let before = match (prev, cpu.current) {
            (Some(prev), Some(mut current)) if current.tid == prev.tid => {
                current.end_comm = prev.comm;
                Some(current)
            }
            (Some(prev), _) => Some(Run::new(prev, number, None)),
            (None, current) => current,
        };
        let Some(before) = before.filter(|_| when.ts >= self.counts_from) else {
            let is_compact = prev.is_none();
            let anchor = Anchor { when, state, prev: before, next, is_compact };
            cpu.current = Some(next.without_start());
            if when.ts < self.range.from {
                cpu.anchor = Some(anchor);
            }
            if is_compact {
                self.name_early((machine, number), anchor);
            }
            return;
        };
        let unended = cpu.current.filter(|current| current.tid != before.tid);
        cpu.current = Some(next);
        let ended = before.with_end(when, state);
        if let Some(doubts) = &mut self.doubts {
            for (tid, when) in cpu.woken.drain(..) {
                doubts.waker_has_run((machine, tid), when, ended);
            }
            doubts.switch(machine, when, ended, next);
            return;
        }
        let has_woken = !cpu.woken.is_empty();
        if when.ts < self.range.from {
            cpu.last_before = Some([ended, next]);
        } else if when.ts >= self.range.to {
            cpu.left_after(ended, next);
        }
        if let Some(unended) = unended {
            self.leave_open(machine, unended, ended);
        }
        if ended.start().is_none() && ended.tid != 0 && when.ts < self.range.from {
            self.leave_without_begin(machine, ended, when);
        }
        if has_woken {
            self.resolve_woken((machine, number), ended);
        }
        self.count_run(machine, ended, next, when);
    }

    /// A run ends, and the next one of its CPU begins.
    #[inline]
    fn count_run(&mut self, machine: u32, ended: Run, next: Run, when: When) {
        let Self { threads, range, .. } = self;
        let range = *range;
        if let Some(start) = ended.start().filter(|_| when.ts < range.from && ended.tid != 0)
            && let Some(number) = threads.number(machine, ended.tid, range)
        {
            self.overlaps.push(number, start.ts, when.ts);
        }
        let left = threads.entry(machine, ended.tid, range).map(|thread| thread.leave(ended, when, range));
        let entered = threads.entry(machine, next.tid, range).map(|thread| thread.enter(next, when, range));
        self.beyond += u64::from(left.and(entered).is_none());
    }

    /// Whom the CPU's thread has woken learns when that ran.
    pub(super) fn resolve_woken(&mut self, key: CpuKey, ended: Run) {
        let Some(cpu) = self.cpus.get_mut(&key) else { return };
        for (tid, when) in cpu.woken.drain(..) {
            if let Some(thread) = self.threads.get_mut(key.0, tid) {
                thread.waker_has_run(when, ended);
            }
        }
    }

    /// A bundle has ended.
    pub(super) fn end_bundle(&mut self, key: CpuKey) {
        let current = self.cpus.get_mut(&key).and_then(|cpu| cpu.current).and_then(|run| run.start());
        let Some(current) = current else { return };
        let Self { overlaps, threads, doubtful, .. } = self;
        let idle = threads.known(key.0, 0);
        overlaps.finish(key, current.ts, idle, |number| doubtful.extend(threads.key(number)));
    }

    /// The threads whose states before the range a further pass has to follow, of those that the switches tell of: where events were lost, all.
    pub(super) fn take_doubtful(&mut self, has_losses: bool) -> BTreeSet<ThreadKey> {
        let mut doubtful = std::mem::take(&mut self.doubtful);
        if has_losses {
            let threads = self.threads.iter().filter(|((_, tid), _)| *tid != 0);
            doubtful.extend(threads.filter(|(_, thread)| thread.last_before().is_some()).map(|(key, _)| key));
        }
        doubtful
    }

    /// The last moment before the range at which something happened to a thread.
    pub(super) fn last_before(&self, (machine, tid): ThreadKey) -> Option<i64> {
        self.threads.get(machine, tid)?.last_before()
    }

    /// What it has found they need.
    pub(super) fn settle(&mut self, threads: BTreeSet<ThreadKey>, needed: Needed) {
        self.settled = Some((threads, needed));
    }

    /// The switch that ends a run was lost.
    #[cold]
    fn leave_open(&mut self, machine: u32, unended: Run, ended: Run) {
        let is_before = ended.end().is_some_and(|end| end.ts < self.range.from);
        let is_after = unended.start().is_some_and(|start| start.ts >= self.range.to);
        if unended.start().is_none() || !(is_before || is_after) {
            return;
        }
        match self.unended.len() < MAX_UNENDED {
            true => self.unended.push((machine, [unended, ended])),
            false => self.beyond += 1,
        }
    }

    /// The switch that begins a run was lost, or is none that counts.
    #[cold]
    fn leave_without_begin(&mut self, machine: u32, ended: Run, when: When) {
        if self.without_begin >= MAX_WITHOUT_BEGIN {
            self.beyond += 1;
        } else if let Some(thread) = self.threads.entry(machine, ended.tid, self.range) {
            self.without_begin += usize::from(thread.leave_without_begin(ended, when));
        }
    }

    /// A switch that makes no row names a thread.
    #[cold]
    fn name_early(&mut self, (machine, cpu): CpuKey, anchor: Anchor) {
        let thread = (machine, anchor.next.tid);
        if self.early.len() >= MAX_EARLY && !self.early.contains_key(&thread) {
            self.beyond += 1;
            return;
        }
        let last = self.early.entry(thread).or_insert(((machine, cpu), anchor));
        if last.1.when <= anchor.when {
            *last = ((machine, cpu), anchor);
        }
    }

    /// A waking, or a creation. The waker of one in the compact form is the CPU's thread.
    pub(crate) fn wake(&mut self, machine: u32, mut wake: Wake) {
        let cpu = self.cpus.get_mut(&(machine, wake.cpu));
        let current = cpu.as_ref().and_then(|cpu| cpu.current);
        match current {
            Some(current) if wake.source == WakeSource::Compact => wake.waker = current.tid,
            None if wake.source == WakeSource::Compact => return,
            _ => {}
        }
        if wake.when.ts < self.counts_from {
            return;
        }
        wake.waker_run = wake.waker_run.or(current).filter(|run| run.tid == wake.waker);
        let runs_on = wake.waker_run.is_none_or(|run| run.end().is_none());
        let is_told = runs_on && !self.range.has(wake.when.ts);
        if let Some(cpu) = cpu.filter(|cpu| is_told && cpu.woken.len() < MAX_WOKEN) {
            cpu.woken.push((wake.tid, wake.when));
        }
        if let Some(doubts) = &mut self.doubts {
            return doubts.wake(machine, wake);
        }
        match self.threads.number(machine, wake.tid, self.range) {
            Some(number) => self.threads.wake(number, wake, self.range),
            None => self.beyond += 1,
        }
    }

    /// A thread has a new name. Most give it to themselves. Switches in the compact form are known before the events of their bundle, so that the
    /// run may be over.
    pub(crate) fn renamed(&mut self, cpu: CpuKey, tid: i32, when: When, comm: Name) {
        if let Some(doubts) = &mut self.doubts {
            doubts.renamed((cpu.0, tid), when, comm);
        }
        let current = self.cpus.get_mut(&cpu).and_then(|cpu| cpu.current.as_mut());
        let thread = self.threads.get_mut(cpu.0, tid);
        for run in thread.into_iter().flat_map(Thread::runs).chain(current) {
            let is_in =
                run.start().is_none_or(|start| start <= when) && run.end().is_none_or(|end| when <= end);
            if run.tid == tid && is_in {
                run.end_comm = comm;
            }
        }
    }

    /// Something else that a thread did.
    #[inline]
    pub(crate) fn did(&mut self, machine: u32, tid: i32, when: When) {
        if when.ts < self.range.to
            && let Some(thread) = self.threads.entry(machine, tid, self.range)
        {
            thread.was_there = true;
        }
    }

    /// Whether it was there before the end of the range.
    pub(crate) fn was_there(&self, machine: u32, tid: i32) -> bool {
        self.threads.get(machine, tid).is_some_and(|thread| thread.was_there)
    }

    /// What must be kept from before the range and from after it.
    pub(crate) fn needed(&self) -> Needed {
        let mut needed = Needed::default();
        for ((machine, _), cpu) in self.cpus.iter() {
            needed.before.extend(cpu.last_before.into_iter().flatten().map(|run| (*machine, run)));
            if let Some([ended, next]) = cpu.first_after {
                needed.after.extend([(*machine, ended), (*machine, next)]);
            }
        }
        for (machine, runs) in &self.unended {
            let is_before = runs[1].end().is_some_and(|end| end.ts < self.range.from);
            let side = if is_before { &mut needed.before } else { &mut needed.after };
            side.extend(runs.iter().map(|run| (*machine, *run)));
        }
        if let Some((_, settled)) = &self.settled {
            needed.before.extend_from_slice(&settled.before);
            needed.wakes.extend_from_slice(&settled.wakes);
        }
        for ((machine, tid), thread) in self.threads.iter().filter(|((_, tid), _)| *tid != 0) {
            if let Some(after) = thread.after().filter(|_| thread.was_there) {
                needed.after.extend(after.run.map(|run| (machine, run)));
                needed.after.extend(after.renamed.map(|run| (machine, run)));
                needed.wakes.extend(after.wake.map(|wake| (machine, wake)));
            }
            if self.settled.as_ref().is_some_and(|(settled, _)| settled.contains(&(machine, tid))) {
                continue;
            }
            for left in thread.left() {
                let Some(run) = left.run else { continue };
                needed.before.push((machine, run));
                needed.add(machine, &left.before);
            }
            needed.add(machine, &thread.before);
        }
        for (machine, wake) in &needed.wakes {
            let runs = if wake.when.ts < self.range.from { &mut needed.before } else { &mut needed.after };
            runs.extend(wake.waker_run.map(|run| (*machine, run)));
        }
        self.add_anchors(&mut needed);
        needed
    }

    /// What remains of it once that is known.
    pub(crate) fn into_names(self) -> Names {
        self.names
    }

    /// Each CPU whose thread would not be known without its first switch: when the range begins, or when it woke somebody.
    fn add_anchors(&self, needed: &mut Needed) {
        let woke_first = needed.wakes.iter().filter(|(_, wake)| {
            wake.source == WakeSource::Compact && wake.waker_run.is_none_or(|run| run.start().is_none())
        });
        let woke_first: HashSet<CpuKey, RandomState> =
            woke_first.map(|(machine, wake)| (*machine, wake.cpu)).collect();
        let cpus =
            self.cpus.iter().filter(|(key, cpu)| cpu.last_before.is_none() || woke_first.contains(key));
        needed.anchors.extend(cpus.filter_map(|(key, cpu)| Some((*key, cpu.anchor?))));
        self.add_early(needed);
    }

    /// What names threads that nothing else names, and is not in the range.
    fn add_early(&self, needed: &mut Needed) {
        let has_run = |machine, tid| self.threads.get(machine, tid).is_some_and(Thread::has_run);
        let known: HashSet<(CpuKey, When), RandomState> =
            needed.anchors.iter().map(|(cpu, anchor)| (*cpu, anchor.when)).collect();
        for ((machine, tid), (cpu, anchor)) in &self.early {
            let is_there = self.range.has(anchor.when.ts) || known.contains(&(*cpu, anchor.when));
            if !is_there && !has_run(*machine, *tid) {
                needed.anchors.push((*cpu, *anchor));
            }
        }
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
