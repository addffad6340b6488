//! Work that may take longer than others should wait: done in steps, between which the driver serves everybody else.
//!
//! The first step is taken at once, and mostly it is the only one: whoever has a few data sources sees no difference. What is left
//! waits for [`Service::handle_timeout`], which is due at once while there is some. The client that asked for it is busy until then ([`Service::is_busy`]): its next request finds
//! everything as if there were no steps.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use crate::clone_steps::Cloning;
use crate::ids::{ConsumerConn, SessionId};
use crate::instance_set::InstanceKey;
use crate::instances::SetUp;
use crate::limits;
use crate::now::Now;
use crate::service::Service;

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Job {
    /// Instances of all that is registered and wanted.
    SetUp(SetUp),
    /// StartDataSource for all instances that are set up, from this one on.
    Start { session: SessionId, after: Option<InstanceKey> },
    /// StopDataSource for these, whose session may be gone; the last one first.
    Stop { instances: Vec<InstanceKey> },
    /// The buffers of a clone.
    Clone(Cloning),
}

/// What is left of a step. It may end below nothing by the last thing that was done.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    /// Takes what something costs. Says whether there is something left.
    pub(crate) fn spend(&mut self, cost: usize) -> bool {
        self.left = self.left.saturating_sub(cost);
        self.left > 0
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }
}

impl Job {
    fn session(&self) -> Option<SessionId> {
        match self {
            Self::SetUp(set_up) => Some(set_up.session),
            Self::Start { session, .. } => Some(*session),
            Self::Stop { .. } | Self::Clone(_) => None,
        }
    }

    fn is_clone_for(&self, consumer: ConsumerConn) -> bool {
        matches!(self, Self::Clone(cloning) if cloning.is_for(consumer))
    }
}

impl Service {
    /// Takes the first step of something, and keeps the rest for later.
    pub(crate) fn begin(&mut self, job: Job, now: &Now) {
        let rest = self.step(job, now);
        self.work.extend(rest);
    }

    /// Whether something is being done in steps.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Does a step of what waits: a millisecond's work or two.
    pub(crate) fn do_some_work(&mut self, now: &Now) {
        let Some(job) = self.work.pop_front() else { return };
        // They take turns.
        let rest = self.step(job, now);
        self.work.extend(rest);
        if self.work.is_empty() {
            self.work = VecDeque::new();
        }
    }

    /// Whether what a consumer asked for is still being done. A driver does not hand in its next request before that.
    pub fn is_busy(&self, consumer: ConsumerConn) -> bool {
        let found = self.consumers.get(&consumer);
        if found.is_some_and(|consumer| consumer.query.is_some())
            || self.work.iter().any(|job| job.is_clone_for(consumer))
        {
            return true;
        }
        let session = found.and_then(|consumer| consumer.session);
        session.is_some() && self.work.iter().any(|job| job.session() == session)
    }

    fn step(&mut self, job: Job, now: &Now) -> Option<Job> {
        let mut budget = Budget { left: self.options.step_cost.map_or(limits::STEP_COST, NonZeroUsize::get) };
        match job {
            Job::SetUp(set_up) => self.step_of_set_up(set_up, &mut budget, now).map(Job::SetUp),
            Job::Start { session, after } => self
                .start_instances(session, after, &mut budget, now)
                .map(|after| Job::Start { session, after: Some(after) }),
            Job::Stop { mut instances } => {
                self.tell_to_stop(&mut instances, &mut budget);
                (!instances.is_empty()).then_some(Job::Stop { instances })
            }
            Job::Clone(cloning) => self.step_of_clone(cloning, &mut budget, now).map(Job::Clone),
        }
    }
}
