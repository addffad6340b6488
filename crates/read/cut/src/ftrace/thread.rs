//! Of each thread what opens and closes its state at the ends of the range.
//!
//! Memory: some 150 bytes a thread, as many again for what it did after the range, and 104 for each waking that waits ([`MAX_WAKES`]).

use crate::ftrace::bundle::When;
use crate::ftrace::run::{Run, Wake};
use crate::names::Name;
use crate::range::Range;

/// Wakings that are kept until it is known which came first after the thread's last run. Ours: of those that bundles out of step tell of, the
/// last ones matter.
const MAX_WAKES: usize = 16;
/// The same of a thread that is woken again and again while it waits for a busy processor, whose bundle comes after the wakers' one: some hundred in
/// the quarter of a second that lies between two bundles. Ours; so many have the [first threads](super::threads) that are.
const MAX_WAKES_OF_A_CROWD: usize = 512;
/// Runs without a begin about which later packets may tell more. Ours: CPUs' events come some time after those of others.
const RECENT: usize = 16;
/// `TASK_RUNNING`: not blocked, so that wakings do not count.
pub(super) const RUNNABLE: i64 = 0;

/// A thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) before: Upto,
    after: Option<Box<After>>,
    /// Runs without a begin.
    left: Vec<Left>,
    /// Its name at the end of the range.
    pub(crate) comm: Name,
    /// It was there before the end of the range.
    pub(crate) was_there: bool,
}

/// A run before the range whose begin was not seen, and what was before its end. That state stays open for ever: whoever left its CPU did not
/// run, as readers see it (upstream: thread_state_tracker.cc). Events were lost, or the trace begins here.
#[derive(Debug)]
pub(crate) struct Left {
    /// Absent until it is met, if it is known that there will be one.
    pub(crate) run: Option<Run>,
    pub(crate) before: Upto,
}

/// What closes a thread's state after the range, and its last name.
#[derive(Debug, Default)]
pub(crate) struct After {
    /// The first run of which something is after the range: its begin, or only its end.
    pub(crate) run: Option<Run>,
    /// The run that has brought its last name.
    pub(crate) renamed: Option<Run>,
    pub(crate) wake: Option<Wake>,
}

/// What opens a thread's state at a time.
#[derive(Debug)]
pub(crate) struct Upto {
    pub(crate) at: i64,
    pub(crate) run: Option<Run>,
    wakes: Vec<Wake>,
    /// They may be so many.
    most_wakes: u16,
}

impl Thread {
    pub(crate) fn new(range: Range) -> Self {
        Self { before: Upto::new(range.from), after: None, left: Vec::new(), comm: 0, was_there: false }
    }

    /// It will be left at this time, and its begin may not be seen.
    pub(crate) fn expect_left(&mut self, at: i64) {
        self.left.push(Left { run: None, before: Upto::new(at) });
    }

    /// The states that runs without a begin leave open.
    pub(crate) fn left(&self) -> &[Left] {
        &self.left
    }

    /// What was after the range.
    pub(crate) fn after(&self) -> Option<&After> {
        self.after.as_deref()
    }

    /// The last moment before the range at which something happened to it.
    pub(crate) fn last_before(&self) -> Option<i64> {
        let woken = self.before.wakes.iter().map(|wake| wake.when);
        woken.chain(self.before.run.as_ref().and_then(last_moment)).map(|when| when.ts).max()
    }

    /// A run of it was seen that makes a row.
    pub(crate) fn has_run(&self) -> bool {
        self.comm != 0 || self.before.run.is_some() || self.after().is_some_and(|after| after.run.is_some())
    }

    /// All that may have to be kept.
    pub(crate) fn runs(&mut self) -> impl Iterator<Item = &mut Run> {
        let left = self.left.iter_mut().flat_map(|left| [&mut left.run, &mut left.before.run]);
        let after = self.after.as_deref_mut().into_iter();
        let after = after.flat_map(|after| [&mut after.run, &mut after.renamed]);
        std::iter::once(&mut self.before.run).chain(after).chain(left).flatten()
    }

    #[inline]
    pub(crate) fn each_upto(&mut self, mut each: impl FnMut(&mut Upto)) {
        each(&mut self.before);
        self.left.iter_mut().rev().take(RECENT).for_each(|left| each(&mut left.before));
    }

    #[inline]
    pub(crate) fn enter(&mut self, run: Run, when: When, range: Range) {
        if when.ts >= range.to {
            return self.after.get_or_insert_default().enter(run, self.comm, range);
        }
        self.was_there = true;
        self.comm = run.comm;
        self.each_upto(|upto| upto.enter(run, when));
    }

    #[inline]
    pub(crate) fn leave(&mut self, run: Run, when: When, range: Range) {
        if when.ts >= range.to {
            // It ran at the end of the range, seen to begin or not.
            self.was_there |= !has_begun_after(&run, range);
            return self.after.get_or_insert_default().leave(run, self.comm, range);
        }
        self.was_there = true;
        if when.ts < range.from {
            self.each_upto(|upto| upto.leave(run, when));
        }
    }

    /// A run ends whose begin was not seen; says whether that was not expected.
    #[cold]
    pub(crate) fn leave_without_begin(&mut self, run: Run, when: When) -> bool {
        let is_expected = |left: &&mut Left| left.run.is_none() && left.before.at == when.ts;
        if let Some(left) = self.left.iter_mut().find(is_expected) {
            left.run = Some(run);
            return false;
        }
        let before = self.before.until(when);
        self.left.push(Left { run: Some(run), before });
        true
    }

    /// It is woken.
    #[inline]
    pub(crate) fn wake(&mut self, wake: Wake, range: Range) {
        if wake.when.ts >= range.to {
            return self.wake_after(wake);
        }
        self.was_there = true;
        self.each_upto(|upto| upto.wake(wake));
    }

    /// As many wakings wait as may: of those before one cannot be told yet which may be forgotten.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.before.wakes.len() >= MAX_WAKES && usize::from(self.before.most_wakes) == MAX_WAKES
    }

    /// More may wait.
    pub(crate) fn make_room(&mut self) {
        self.before.most_wakes = MAX_WAKES_OF_A_CROWD as u16;
    }

    #[inline]
    fn wake_after(&mut self, wake: Wake) {
        let first = &mut self.after.get_or_insert_default().wake;
        if first.is_none_or(|first| wake.when < first.when) {
            *first = Some(wake);
        }
    }

    pub(crate) fn waker_has_run(&mut self, when: When, run: Run) {
        let left = self.left.iter_mut().rev().take(RECENT).flat_map(|left| &mut left.before.wakes);
        let after = self.after.iter_mut().flat_map(|after| &mut after.wake);
        let wakes = self.before.wakes.iter_mut().chain(after).chain(left);
        let is_it = |wake: &&mut Wake| wake.when == when && wake.waker == run.tid && wake.cpu == run.cpu();
        wakes.filter(is_it).for_each(|wake| wake.waker_run = Some(run));
    }
}

/// Its begin was seen, and is after the range.
#[inline]
fn has_begun_after(run: &Run, range: Range) -> bool {
    run.start().is_some_and(|start| start.ts >= range.to)
}

impl After {
    /// `comm` is the thread's name at the end of the range.
    #[inline]
    fn enter(&mut self, run: Run, comm: Name, range: Range) {
        if self.run.is_none_or(|first| run.start() < first_moment(&first, range)) {
            self.run = Some(run);
        }
        self.rename(run, run.comm, comm);
    }

    #[inline]
    fn leave(&mut self, run: Run, comm: Name, range: Range) {
        if has_begun_after(&run, range) {
            for mine in [&mut self.run, &mut self.renamed].into_iter().flatten() {
                if mine.start() == run.start() {
                    mine.learn_end(&run);
                }
            }
        } else if self.run.is_none_or(|first| run.end() < first_moment(&first, range)) {
            self.run = Some(run);
        }
        if run.end_comm != run.comm {
            self.rename(run, run.end_comm, comm);
        }
    }

    /// A run shows that its name is `new`. Since the last run that has changed it, it is the same.
    #[inline]
    fn rename(&mut self, run: Run, new: Name, at_end_of_range: Name) {
        let last = self.renamed.map_or(at_end_of_range, |run| run.end_comm);
        if new != last && self.renamed.is_none_or(|last| last.start() <= run.start()) {
            self.renamed = Some(run);
        }
    }
}

/// The first moment of a run that is after the range.
#[inline]
fn first_moment(run: &Run, range: Range) -> Option<When> {
    run.start().filter(|start| start.ts >= range.to).or(run.end())
}

/// When a run has last changed the thread's state.
#[inline]
fn last_moment(run: &Run) -> Option<When> {
    run.end().or(run.start())
}

impl Upto {
    pub(crate) fn new(at: i64) -> Self {
        Self { at, run: None, wakes: Vec::new(), most_wakes: MAX_WAKES as u16 }
    }

    #[inline]
    pub(crate) fn enter(&mut self, run: Run, when: When) {
        if when.ts < self.at && self.run.is_none_or(|last| last_moment(&last) < Some(when)) {
            self.run = Some(run);
            self.wakes.retain(|wake| wake.when > when);
        }
    }

    #[inline]
    pub(crate) fn leave(&mut self, run: Run, when: When) {
        if when.ts >= self.at {
            return;
        }
        let start = run.start();
        match &mut self.run {
            Some(last) if start.is_some() && last.start() == start => last.learn_end(&run),
            Some(last) if last_moment(last) > Some(when) => {}
            last => {
                *last = Some(run);
                self.wakes.retain(|wake| wake.when >= when);
            }
        }
    }

    /// What of it was before an earlier time, as far as is known.
    fn until(&self, when: When) -> Self {
        let run = self.run.filter(|run| last_moment(run) < Some(when));
        let wakes = self.wakes.iter().filter(|wake| wake.when < when);
        Self { at: when.ts, run, wakes: wakes.copied().collect(), most_wakes: MAX_WAKES as u16 }
    }

    pub(crate) fn wake(&mut self, wake: Wake) {
        let begun = self.run.and_then(|run| run.start());
        if wake.when.ts >= self.at || begun.is_some_and(|start| wake.when < start) {
            return;
        }
        if self.wakes.len() >= usize::from(self.most_wakes) {
            self.forget_wakes();
        }
        // Mostly there is one, for each of many threads.
        if self.wakes.len() < MAX_WAKES {
            self.wakes.reserve_exact(1);
        }
        self.wakes.push(wake);
    }

    /// The earlier half, for wakings come in the order of the file, which is that of time for each CPU only; but not the one that has opened the
    /// state, as far as is known: where switches were lost, many follow on it.
    #[cold]
    fn forget_wakes(&mut self) {
        self.wakes.sort_by_key(|wake| wake.when);
        let opening = self.first_wake().map(|wake| wake.when);
        let (mut at, half) = (0, self.wakes.len() / 2);
        self.wakes.retain(|wake| {
            at += 1;
            at > half || Some(wake.when) == opening
        });
    }

    /// The waking that has opened the state.
    pub(crate) fn first_wake(&self) -> Option<Wake> {
        let blocked_at = match self.run {
            None => None,
            // It runs, or is not blocked: wakings do not count.
            Some(run) if run.end().is_none() || run.state() == RUNNABLE => return None,
            Some(run) => run.end(),
        };
        let after = self.wakes.iter().filter(|wake| blocked_at.is_none_or(|at| at <= wake.when));
        after.min_by_key(|wake| wake.when).copied()
    }
}
