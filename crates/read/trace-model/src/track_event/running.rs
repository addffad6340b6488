//! What events of a sequence count on from: old ways of saying times, and counters that say differences.
//!
//! It holds until what is interned is cleared or packets are missing (upstream: track_event_sequence_state.h).

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::resolve::synthetic_tid;

/// The sums so far.
#[derive(Debug, Default)]
pub struct Running {
    /// A `ThreadDescriptor` has said where times begin.
    is_valid: bool,
    ts: i64,
    thread_ts: i64,
    instructions: i64,
    counters: HashMap<u64, f64, RandomState>,
}

/// The thread that a sequence's events are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub tid: i64,
    /// The number is only that of the process's sandbox.
    pub is_sandboxed: bool,
}

impl Thread {
    /// Its number, or one made of both.
    #[must_use]
    pub fn tid(&self) -> i64 {
        match self.is_sandboxed {
            true => synthetic_tid(self.tid, i64::from(self.pid)),
            false => self.tid,
        }
    }
}

impl Running {
    /// Where times begin.
    pub(super) fn begin(&mut self, ts: i64, thread_ts: i64, instructions: i64) {
        self.is_valid = true;
        (self.ts, self.thread_ts, self.instructions) = (ts, thread_ts, instructions);
    }

    /// The time, so much later than the last one.
    pub(crate) fn ts_after(&mut self, delta: i64) -> Option<i64> {
        self.ts = self.ts.saturating_add(delta);
        self.is_valid.then_some(self.ts)
    }

    /// The thread's processor time.
    pub(super) fn thread_ts_after(&mut self, delta: i64) -> Option<i64> {
        self.thread_ts = self.thread_ts.saturating_add(delta);
        self.is_valid.then_some(self.thread_ts)
    }

    /// The thread's instructions.
    pub(super) fn instructions_after(&mut self, delta: i64) -> Option<i64> {
        self.instructions = self.instructions.saturating_add(delta);
        self.is_valid.then_some(self.instructions)
    }

    /// The sum of a counter that says differences.
    pub(super) fn counter_after(&mut self, uuid: u64, delta: f64) -> f64 {
        let sum = self.counters.entry(uuid).or_default();
        *sum += delta;
        *sum
    }
}

/// The thread that the events of a generation are of. Who reads an event in its turn sees the last one.
pub type ThreadCell = std::cell::Cell<Option<Thread>>;
