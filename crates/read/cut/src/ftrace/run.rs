//! A thread on a CPU without a pause, and what wakes a thread.
//!
//! There are some of both for each thread of a trace: they are as small as they can be.

use crate::ftrace::bundle::When;
use crate::names::Name;

/// A thread on a CPU without a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) tid: i32,
    pub(crate) prio: i32,
    pub(crate) comm: Name,
    /// Its name when it was switched away from.
    pub(crate) end_comm: Name,
    started: When,
    ended: When,
    state: i32,
    cpu: u16,
    has_started: bool,
    has_ended: bool,
}

/// A thread as a switch names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) tid: i32,
    pub(crate) prio: i32,
    pub(crate) comm: Name,
}

impl Run {
    /// Without `start`, its begin was not seen or did not count.
    #[inline]
    pub(crate) fn new(Who { tid, prio, comm }: Who, cpu: u32, start: Option<When>) -> Self {
        Self {
            tid,
            prio,
            comm,
            end_comm: comm,
            started: start.unwrap_or_default(),
            ended: When::default(),
            state: 0,
            // Bundles of higher numbers are not read.
            cpu: cpu as u16,
            has_started: start.is_some(),
            has_ended: false,
        }
    }

    /// The same run, of which the end is known: when, and in which state the thread was left.
    #[inline]
    pub(crate) fn with_end(mut self, when: When, state: i64) -> Self {
        // Readers take the lower 16 bits (upstream: task_state.cc).
        (self.ended, self.state, self.has_ended) = (when, state as i32, true);
        self
    }

    #[inline]
    pub(crate) fn without_start(mut self) -> Self {
        self.has_started = false;
        self
    }

    #[inline]
    pub(crate) fn cpu(&self) -> u32 {
        u32::from(self.cpu)
    }

    /// When it was switched to.
    #[inline]
    pub(crate) fn start(&self) -> Option<When> {
        self.has_started.then_some(self.started)
    }

    /// When it was switched away from.
    #[inline]
    pub(crate) fn end(&self) -> Option<When> {
        self.has_ended.then_some(self.ended)
    }

    /// The state that it was left in; 0 without an end.
    #[inline]
    pub(crate) fn state(&self) -> i64 {
        i64::from(self.state)
    }

    /// Learns its end from another record of the same run.
    #[inline]
    pub(crate) fn learn_end(&mut self, other: &Self) {
        (self.ended, self.state, self.has_ended) = (other.ended, other.state, other.has_ended);
        self.end_comm = other.end_comm;
    }
}

/// A waking that must be kept, or a thread's creation, which counts as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) when: When,
    /// When the waker ran.
    pub(crate) waker_run: Option<Run>,
    pub(crate) cpu: u32,
    pub(crate) waker: i32,
    pub(crate) tid: i32,
    pub(crate) target_cpu: i32,
    pub(crate) prio: i32,
    pub(crate) comm: Name,
    pub(crate) common_flags: Option<u32>,
    pub(crate) source: WakeSource,
}

impl Wake {
    pub(crate) fn is_creation(&self) -> bool {
        self.source == WakeSource::Creation
    }
}

/// What says that a thread is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeSource {
    Event,
    /// The compact form: only that says whether it came out of an interrupt, and does not say the waker.
    Compact,
    /// `task_newtask`, which is kept anyway.
    Creation,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of a million threads have up to four runs and two wakings each.
    #[test]
    fn they_are_small() {
        assert!(size_of::<Option<Run>>() <= 56);
        assert!(size_of::<Wake>() <= 112);
    }
}
