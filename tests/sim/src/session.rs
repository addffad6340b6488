//! A session as the world knows it: what it was asked to be, what must come of it and when it must end.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_protos::trace_config::trigger_config::TriggerMode;
use ferretto_service::ConsumerConn;

use crate::plan::Plan;
use crate::trace::{Checker, Stream};

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// The clocks that time-outs go by, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) monotonic: u64,
    pub(crate) boottime: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Deferred.
    Configured,
    Running,
    /// The consumer was told so; or it is a copy.
    Ended,
    /// Only its file is still to be written.
    Freed,
}

/// How far a session's end has come. Each step is due when the service handles time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Nothing,
    Duration {
        until: u64,
    },
    /// The last flush, at the end of the duration.
    Flush {
        until: u64,
    },
    Stop {
        until: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Session {
    /// None if a consumer made it from garbage: then little can be said about it.
    pub(crate) plan: Option<Plan>,
    /// Whose data it holds: its plan's; a copy has the original's.
    pub(crate) serial: u32,
    pub(crate) is_copy: bool,
    pub(crate) uid: u32,
    pub(crate) owner: Option<ConsumerConn>,
    /// Under which it is detached.
    pub(crate) key: Option<String>,
    /// It was, and may have ended meanwhile for reasons that nobody was told.
    pub(crate) was_detached: bool,
    /// A copy that was being written while a session that wants to be alone began: it may be nothing but its file.
    pub(crate) may_be_file_only: bool,
    pub(crate) filter: Vec<String>,
    pub(crate) state: State,
    /// Its file is open.
    pub(crate) is_writing: bool,
    pub(crate) checker: Checker,
    pub(crate) is_read: bool,
    /// What must be in the trace, once that is sure.
    pub(crate) promised: Option<BTreeMap<Stream, u64>>,
    /// The trigger that it waits for has been called out.
    pub(crate) was_triggered: bool,
    /// Before anybody asked for the end: what comes later may find a file that was finished without it.
    pub(crate) was_triggered_in_time: bool,
    /// Somebody asked for its end, or it may end by itself.
    pub(crate) is_stopping: bool,
    pub(crate) watch: Watch,
    /// Instances that were told to stop and have not said that they did.
    pub(crate) stop_waits: BTreeSet<u64>,
}

impl Session {
    pub(crate) fn new(plan: Option<Plan>, serial: u32, uid: u32, owner: ConsumerConn) -> Self {
        let is_deferred = plan.as_ref().is_some_and(|plan| plan.is_deferred);
        let has_events = plan.as_ref().is_some_and(|plan| plan.has_events);
        let folds = plan.as_ref().is_some_and(|plan| plan.folds);
        let is_filtered = plan.as_ref().is_some_and(|plan| plan.is_filtered);
        let trigger = plan.as_ref().and_then(|plan| plan.trigger.as_ref());
        // When it starts or ends by a trigger, or for want of one, is not foretold.
        let (has_trigger, starts_by_trigger) =
            (trigger.is_some(), trigger.is_some_and(|trigger| trigger.mode == TriggerMode::StartTracing));
        Self {
            serial,
            is_copy: false,
            uid,
            owner: Some(owner),
            key: None,
            was_detached: false,
            may_be_file_only: false,
            filter: plan.as_ref().map(|plan| plan.filter.clone()).unwrap_or_default(),
            is_writing: plan.as_ref().is_some_and(|plan| plan.file.is_some()),
            plan,
            state: if is_deferred || starts_by_trigger { State::Configured } else { State::Running },
            checker: Checker::new(serial, has_events, folds, is_filtered),
            is_read: false,
            promised: None,
            is_stopping: has_trigger,
            was_triggered: false,
            was_triggered_in_time: false,
            watch: Watch::Nothing,
            stop_waits: BTreeSet::new(),
        }
    }

    /// What a consumer gets of another session.
    pub(crate) fn copy_of(source: &Self, uid: u32, owner: ConsumerConn) -> Self {
        let mut copy = Self::new(source.plan.clone(), source.serial, uid, owner);
        copy.is_writing = false;
        copy.is_copy = true;
        // Of the service's events, it has those that the original had not given out.
        copy.checker.has_names = false;
        copy.checker.is_copy = true;
        copy.checker.emptied = source.checker.emptied + u64::from(source.is_read);
        copy
    }

    /// The session starts now: its duration begins.
    pub(crate) fn start(&mut self, clocks: Clocks) {
        self.state = State::Running;
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.duration_ms > 0) else { return };
        let from = if plan.counts_suspend { clocks.boottime } else { clocks.monotonic };
        self.watch = Watch::Duration { until: from + u64::from(plan.duration_ms) * NS_PER_MS };
    }

    /// Somebody asks for the end.
    pub(crate) fn stop(&mut self, clocks: Clocks) {
        self.is_stopping = true;
        if let (Some(plan), State::Running) = (&self.plan, self.state)
            && !matches!(self.watch, Watch::Stop { .. })
        {
            self.watch =
                Watch::Stop { until: clocks.monotonic + u64::from(plan.stop_timeout_ms) * NS_PER_MS };
        }
    }

    /// Time-outs are about to be handled. True if the duration is over: the last flush begins.
    pub(crate) fn is_duration_over(&mut self, clocks: Clocks) -> bool {
        let (Some(plan), Watch::Duration { until }) = (&self.plan, self.watch) else { return false };
        let now = if plan.counts_suspend { clocks.boottime } else { clocks.monotonic };
        let is_over = now >= until;
        if is_over {
            self.is_stopping = true;
            self.watch =
                Watch::Flush { until: clocks.monotonic + u64::from(plan.flush_timeout_ms) * NS_PER_MS };
        }
        is_over
    }

    /// Time-outs were handled. True if the session must be over.
    pub(crate) fn is_time_over(&mut self, clocks: Clocks) -> bool {
        let Some(plan) = &self.plan else { return false };
        match self.watch {
            Watch::Flush { until } if clocks.monotonic >= until => {
                let until = clocks.monotonic + u64::from(plan.stop_timeout_ms) * NS_PER_MS;
                self.watch = Watch::Stop { until };
                false
            }
            Watch::Stop { until } => clocks.monotonic >= until,
            Watch::Flush { .. } | Watch::Duration { .. } | Watch::Nothing => false,
        }
    }

    /// Everything that was acknowledged must be in the trace: nothing may be lost from its buffers or its file.
    pub(crate) fn is_lossless(&self) -> bool {
        let is_unlimited = |plan: &Plan| plan.file.as_ref().is_none_or(|file| file.max_bytes.is_none());
        let is_ample = self.plan.as_ref().is_some_and(|plan| plan.is_ample() && is_unlimited(plan));
        is_ample && self.checker.emptied == 0 && !self.may_lack_trigger()
    }

    /// Nothing of it can be read yet, if ever: without its trigger there is no trace, and a session for snapshots is read through its
    /// clones only.
    pub(crate) fn waits_for_trigger(&self) -> bool {
        self.is_without_trigger(self.was_triggered)
    }

    /// The same, perhaps.
    fn may_lack_trigger(&self) -> bool {
        self.is_without_trigger(self.was_triggered_in_time)
    }

    fn is_without_trigger(&self, was_triggered: bool) -> bool {
        let Some(trigger) = self.plan.as_ref().and_then(|plan| plan.trigger.as_ref()) else { return false };
        !self.is_copy && (trigger.mode == TriggerMode::CloneSnapshot || !was_triggered)
    }

    /// A session without a consumer may free itself.
    pub(crate) fn may_be_gone(&self) -> bool {
        let has_end = self.plan.as_ref().is_none_or(|plan| plan.duration_ms > 0 || plan.trigger.is_some());
        let is_left_alone = self.owner.is_none() && self.state != State::Freed && !self.is_copy;
        is_left_alone && has_end || self.may_be_file_only
    }
}
