//! Work that may take longer than others should wait: done in steps, between which the driver serves everybody else.
//!
//! The first step is taken at once, and mostly it is the only one: whoever has a few data sources sees no difference. What is left
//! waits for [`Service::handle_timeout`], which is due at once while there is some. The client that asked for it is busy until then ([`Service::is_busy`]): its next request finds
//! everything as if there were no steps. Users take turns ([`work_queue`](crate::work_queue)).

use std::num::NonZeroUsize;

use crate::clone_steps::Cloning;
use crate::ids::{ConsumerConn, ProducerId, SessionId};
use crate::instance_set::InstanceKey;
use crate::instances::{Join, SetUp};
use crate::limits;
use crate::now::Now;
use crate::producers::Leaving;
use crate::registry::Peer;
use crate::scrape::SessionScrape;
use crate::service::Service;
use crate::stopping::Stopping;
use crate::telling::Telling;
use crate::work_queue::Holds;

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Job {
    /// Instances of all that is registered and wanted.
    SetUp(SetUp),
    /// The same of what was registered since.
    Join(Join),
    /// Triggers that a producer has called out.
    Triggers { producer: ProducerId },
    /// StartDataSource for all instances that are set up, from this one on.
    Start { session: SessionId, after: Option<InstanceKey> },
    /// How instances are, told to who observes the session, from the one after this on.
    Report { session: SessionId, after: Option<InstanceKey> },
    /// StopDataSource for all instances of a session.
    Stop(Stopping),
    /// A look at what producers hold, before flushes or a session are over.
    Scrape(SessionScrape),
    /// The end of a producer, or of one of its data sources.
    Leave(Leaving),
    /// The buffers of a clone.
    Clone(Cloning),
    /// Something that all producers of a session are told.
    Tell(Telling),
}

/// What is left of a step. It may end below nothing by the last thing that was done.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    spent: usize,
}

impl Budget {
    /// Takes what something costs. Says whether there is something left.
    pub(crate) fn spend(&mut self, cost: usize) -> bool {
        self.left = self.left.saturating_sub(cost);
        self.spent = self.spent.saturating_add(cost);
        self.left > 0
    }

    pub(crate) fn of(left: usize) -> Self {
        Self { left, spent: 0 }
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }
}

impl Job {
    fn session(&self) -> Option<SessionId> {
        match self {
            Self::SetUp(set_up) => Some(set_up.session),
            Self::Join(join) => Some(join.session),
            Self::Start { session, .. } | Self::Report { session, .. } => Some(*session),
            Self::Stop(stopping) => stopping.session(),
            Self::Scrape(_) | Self::Leave(_) | Self::Clone(_) | Self::Tell(_) | Self::Triggers { .. } => None,
        }
    }

    /// Who or what has to wait for its end.
    pub(crate) fn holds(&self) -> [Option<Holds>; 2] {
        match self {
            Self::Clone(cloning) => [cloning.consumer().map(Holds::Consumer), Some(cloning.holds())],
            Self::Tell(telling) => [telling.consumer().map(Holds::Consumer), None],
            job => [job.session().map(Holds::Session), None],
        }
    }
}

impl Service {
    /// Takes the first step of something, and keeps the rest for later.
    pub(crate) fn begin(&mut self, job: Job, now: &Now) {
        let user = self.user_of_job(&job);
        self.begin_for(user, job, now);
    }

    /// The same, for this user.
    pub(crate) fn begin_for(&mut self, user: u32, job: Job, now: &Now) {
        let (rest, _) = self.step(job, now);
        if let Some(job) = rest {
            self.work.push(user, job);
        }
    }

    /// The same of what nobody waits for, and only if nothing else is being done in steps: several may be due at one time.
    pub(crate) fn begin_in_turn(&mut self, job: Job, now: &Now) {
        match self.has_work() {
            true => self.work.push(self.user_of_job(&job), job),
            false => self.begin(job, now),
        }
    }

    /// Whose turn is taken for it.
    pub(crate) fn user_of_job(&self, job: &Job) -> u32 {
        let session = |id| self.sessions.get(&id).map(|session| session.owner_uid);
        let consumer = |conn| self.consumers.get(&conn).map(|consumer| consumer.peer.uid);
        let user = match job {
            Job::Clone(Cloning::Copying(copying)) => session(copying.id),
            Job::Clone(cloning) => cloning.consumer().and_then(consumer),
            Job::Scrape(scrape) => session(scrape.session),
            Job::Tell(telling) => session(telling.session),
            Job::Leave(leaving) => Some(self.whose(leaving.producer).local_uid()),
            Job::Triggers { producer } => Some(self.whose(*producer).local_uid()),
            job => job.session().and_then(session),
        };
        user.unwrap_or(Peer::UNKNOWN_UID)
    }

    /// Whether something is being done in steps.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Does a step of what waits: a millisecond's work or two.
    pub(crate) fn do_some_work(&mut self, now: &Now) {
        let Some((user, job)) = self.work.next() else { return };
        let (rest, cost) = self.step(job, now);
        match rest {
            Some(job) => self.work.push(user, job),
            None => self.work.note_end(),
        }
        self.work.charge(user, cost);
    }

    /// How many pieces of work have ended: a consumer that [is busy](Self::is_busy) stays so at least until there is one more, or until
    /// it has read what it asked for.
    pub fn work_ended(&self) -> u64 {
        self.work.ended()
    }

    /// Whether what a consumer asked for is still being done. A driver does not hand in its next request before that.
    pub fn is_busy(&self, consumer: ConsumerConn) -> bool {
        let found = self.consumers.get(&consumer);
        if found.is_some_and(|consumer| consumer.query.is_some())
            || self.work.holds(Holds::Consumer(consumer))
        {
            return true;
        }
        let session = found.and_then(|consumer| consumer.session);
        let scrapes = session.and_then(|session| self.sessions.get(&session)).map(|session| &session.scrapes);
        scrapes.is_some_and(|scrapes| scrapes.is_waited_for_by(consumer))
            || session.is_some_and(|session| self.work.holds(Holds::Session(session)))
    }

    /// What one step may cost.
    pub(crate) fn step_cost(&self) -> usize {
        self.options.step_cost.map_or(limits::STEP_COST, NonZeroUsize::get)
    }

    pub(crate) fn budget(&self) -> Budget {
        Budget::of(self.step_cost())
    }

    /// What is left of it, and what the step cost.
    fn step(&mut self, job: Job, now: &Now) -> (Option<Job>, usize) {
        let mut budget = self.budget();
        let rest = match job {
            Job::SetUp(set_up) => self.step_of_set_up(set_up, &mut budget, now).map(Job::SetUp),
            Job::Join(join) => self.step_of_join(join, &mut budget, now).map(Job::Join),
            Job::Triggers { producer } => {
                self.step_of_triggers(producer, &mut budget, now).then_some(Job::Triggers { producer })
            }
            Job::Start { session, after } => self
                .start_instances(session, after, &mut budget, now)
                .map(|after| Job::Start { session, after: Some(after) }),
            Job::Report { session, after } => self
                .step_of_report(session, after, &mut budget)
                .map(|after| Job::Report { session, after: Some(after) }),
            Job::Stop(stopping) => self.step_of_stop(stopping, &mut budget, now).map(Job::Stop),
            Job::Scrape(scrape) => self.step_of_session_scrape(scrape, &mut budget, now).map(Job::Scrape),
            Job::Leave(leaving) => self.step_of_leaving(leaving, &mut budget, now).map(Job::Leave),
            Job::Clone(cloning) => self.step_of_clone(cloning, &mut budget, now).map(Job::Clone),
            Job::Tell(telling) => self.step_of_telling(telling, &mut budget).map(Job::Tell),
        };
        // One that found little to do was looked at, too.
        (rest, budget.spent.max(1))
    }
}
