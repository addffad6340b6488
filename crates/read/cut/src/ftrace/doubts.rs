//! States of threads that the first pass cannot tell, as what it drops would tell them: threads that two CPUs ran at once, and numbers that
//! more than one thread had.
//!
//! A state that is open for ever reaches into every range after it (upstream: thread_state_tracker.cc): the one that a thread has when another
//! gets its number; and the one that a thread has that is left though it does not run. A further pass takes all that happened to these threads
//! before the range, in the order of time, and follows their states as readers do.
//!
//! Memory: [`MAX_EVENTS`].

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::When;
use crate::ftrace::lives::ThreadKey;
use crate::ftrace::run::{Run, Wake};
use crate::ftrace::sched::Needed;
use crate::ftrace::thread::RUNNABLE;
use crate::names::Name;

/// Events that wait to be put in order. Ours, 136 bytes each: if they are more, the first half of each thread's is taken to be complete.
const MAX_EVENTS: usize = 1 << 18;
/// Fewer of one thread are left waiting.
const FEW_EVENTS: usize = 64;
/// The last of a thread's events, among which are those that a later one says more of.
const RECENT: usize = 32;

/// The threads in doubt, and since when their numbers were others'.
pub(crate) type Doubtful = BTreeMap<ThreadKey, Vec<i64>>;

/// What happens to a thread.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Its number is another's from now on.
    Bound,
    Enters(Run),
    Leaves(Run),
    Wakes(Wake),
    IsNamed(Name),
    /// Another makes it.
    Begins(Wake),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    when: When,
    what: What,
}

/// Follows the threads in doubt.
#[derive(Debug)]
pub(crate) struct Doubts {
    until: i64,
    threads: HashMap<ThreadKey, Life, RandomState>,
    waiting: usize,
    needed: Needed,
}

/// The states of a thread.
#[derive(Debug, Default)]
struct Life {
    waiting: Vec<Event>,
    state: Option<State>,
    name: Name,
}

impl Life {
    /// The name that it has when a run ends may come from another one.
    fn name(&mut self, what: &mut What) {
        match what {
            What::Enters(run) => self.name = run.comm,
            What::IsNamed(name) => self.name = *name,
            What::Leaves(run) => {
                if run.end_comm == run.comm && self.name != 0 {
                    run.end_comm = self.name;
                }
                self.name = run.end_comm;
            }
            What::Bound | What::Begins(_) => self.name = 0,
            What::Wakes(_) => {}
        }
    }
}

/// The state that a thread is in, and what has brought it there.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    runs: bool,
    /// Its last run, or the one it is in.
    run: Option<Run>,
    wake: Option<Wake>,
}

impl Doubts {
    /// Before a time.
    pub(crate) fn new(until: i64, doubtful: Doubtful) -> Self {
        let life = |bounds: Vec<i64>| {
            let bound = |ts: i64| Event { when: When { ts, raw: 0 }, what: What::Bound };
            Life { waiting: bounds.into_iter().map(bound).collect(), ..Life::default() }
        };
        let threads = doubtful.into_iter().map(|(key, bounds)| (key, life(bounds))).collect();
        Self { until, threads, waiting: 0, needed: Needed::default() }
    }

    /// One thread is left, and another entered.
    pub(crate) fn switch(&mut self, machine: u32, when: When, ended: Run, next: Run) {
        self.add((machine, ended.tid), when, What::Leaves(ended));
        self.add((machine, next.tid), when, What::Enters(next));
    }

    /// A thread is woken, or made.
    pub(crate) fn wake(&mut self, machine: u32, wake: Wake) {
        let what = if wake.is_creation() { What::Begins(wake) } else { What::Wakes(wake) };
        self.add((machine, wake.tid), wake.when, what);
    }

    /// Whoever has woken a thread has run until now.
    pub(crate) fn waker_has_run(&mut self, thread: ThreadKey, when: When, run: Run) {
        let Some(life) = self.threads.get_mut(&thread) else { return };
        for event in life.waiting.iter_mut().rev().take(RECENT) {
            if let What::Wakes(wake) | What::Begins(wake) = &mut event.what
                && (wake.when, wake.waker, wake.cpu) == (when, run.tid, run.cpu())
            {
                wake.waker_run = Some(run);
            }
        }
        if let Some(wake) = life.state.as_mut().and_then(|state| state.wake.as_mut())
            && (wake.when, wake.waker, wake.cpu) == (when, run.tid, run.cpu())
        {
            wake.waker_run = Some(run);
        }
    }

    /// A thread has a new name.
    pub(crate) fn renamed(&mut self, thread: ThreadKey, when: When, comm: Name) {
        self.add(thread, when, What::IsNamed(comm));
    }

    /// The threads, and what the states need that are open when the range begins.
    pub(crate) fn finish(mut self) -> (BTreeSet<ThreadKey>, Needed) {
        for ((machine, _), life) in &mut self.threads {
            life.settle_all(*machine, &mut self.needed);
            if let Some(state) = life.state {
                self.needed.add_state(*machine, state);
            }
        }
        (self.threads.into_keys().collect(), self.needed)
    }

    fn add(&mut self, thread: ThreadKey, when: When, what: What) {
        if when.ts >= self.until {
            return;
        }
        let Some(life) = self.threads.get_mut(&thread) else { return };
        life.waiting.push(Event { when, what });
        self.waiting += 1;
        if self.waiting > MAX_EVENTS {
            self.settle_half();
        }
    }

    /// If all threads have few that wait, none is left waiting.
    #[cold]
    fn settle_half(&mut self) {
        for is_half in [true, false] {
            self.waiting = 0;
            for ((machine, _), life) in &mut self.threads {
                let rest = if is_half { FEW_EVENTS.max(life.waiting.len() / 2) } else { 0 };
                life.settle(*machine, rest, &mut self.needed);
                self.waiting += life.waiting.len();
            }
            if self.waiting <= MAX_EVENTS / 2 {
                return;
            }
        }
        // The rest are bounds, which were not counted.
        self.waiting = 0;
    }
}

impl Life {
    /// Takes all events but the last ones, in the order of time.
    fn settle(&mut self, machine: u32, rest: usize, needed: &mut Needed) {
        self.waiting.sort_by_key(|event| event.when.ts);
        // Bounds are all known, but not what happens before them.
        let last = self.waiting.iter().rposition(|event| !matches!(event.what, What::Bound));
        let count = self.waiting.len().saturating_sub(rest).min(last.map_or(0, |last| last + 1));
        self.take(machine, count, needed);
    }

    fn settle_all(&mut self, machine: u32, needed: &mut Needed) {
        self.waiting.sort_by_key(|event| event.when.ts);
        self.take(machine, self.waiting.len(), needed);
    }

    /// Takes so many events.
    fn take(&mut self, machine: u32, count: usize, needed: &mut Needed) {
        let rest = self.waiting.split_off(count);
        for Event { mut what, .. } in std::mem::replace(&mut self.waiting, rest) {
            self.name(&mut what);
            if let Some(lost) = take(&mut self.state, what) {
                needed.add_state(machine, lost);
                if let What::Leaves(run) = what {
                    needed.before.push((machine, run));
                }
            }
        }
    }
}

/// Something happens; returns the state that stays open because of it.
fn take(state: &mut Option<State>, what: What) -> Option<State> {
    match what {
        What::Bound => state.take(),
        What::IsNamed(_) => None,
        What::Enters(run) => {
            *state = Some(State { runs: true, run: Some(run), wake: None });
            None
        }
        What::Leaves(run) => {
            let before = state.replace(State { runs: false, run: Some(run), wake: None });
            before.filter(|before| !before.runs)
        }
        What::Begins(wake) => state.replace(State { wake: Some(wake), ..State::default() }),
        What::Wakes(wake) => {
            match state {
                None => *state = Some(State { wake: Some(wake), ..State::default() }),
                Some(state) if state.is_blocked() => state.wake = Some(wake),
                Some(_) => {}
            }
            None
        }
    }
}

impl State {
    /// Only then wakings count.
    fn is_blocked(&self) -> bool {
        !self.runs && self.wake.is_none() && self.run.is_some_and(|run| run.state() != RUNNABLE)
    }
}

impl Needed {
    fn add_state(&mut self, machine: u32, state: State) {
        self.before.extend(state.run.map(|run| (machine, run)));
        self.wakes.extend(state.wake.map(|wake| (machine, wake)));
    }
}
