//! Whose work is next: of the users, the one whose work has had the least; of a user's, one after another.
//!
//! So whoever has much to be done makes those wait who have as much, and himself. Clones that wait until another of their session is whole
//! take no turns: they lie beside it, and come back one by one when it is.

use std::collections::{BTreeMap, VecDeque};

use crate::clone_steps::Cloning;
use crate::ids::{ConsumerConn, SessionId};
use crate::shares::Shares;
use crate::work::Job;

/// What is waited for as long as there is a job of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holds {
    /// A consumer has asked for something.
    Consumer(ConsumerConn),
    /// So has whoever has this session.
    Session(SessionId),
    /// The buffers of a session are being copied.
    Source(SessionId),
    /// A clone of a session that had to wait is next.
    Returned(SessionId),
}

/// Jobs of all users.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    /// Of each user that has some.
    jobs: BTreeMap<u32, VecDeque<Job>>,
    shares: Shares,
    waiting: BTreeMap<SessionId, VecDeque<Cloning>>,
    /// How many jobs there are of each.
    held: BTreeMap<Holds, usize>,
    ended: u64,
}

impl WorkQueue {
    /// Something to be done for a user.
    pub(crate) fn push(&mut self, user: u32, job: Job) {
        self.hold(job.holds());
        self.shares.wait(user);
        self.jobs.entry(user).or_default().push_back(job);
    }

    /// Whose turn it is, and with what. What that costs is to be [charged](Self::charge), when the rest has been put back.
    pub(crate) fn next(&mut self) -> Option<(u32, Job)> {
        let user = self.shares.next()?;
        let job = self.jobs.get_mut(&user)?.pop_front()?;
        self.let_go(job.holds());
        Some((user, job))
    }

    pub(crate) fn charge(&mut self, user: u32, cost: usize) {
        self.shares.charge(user, u64::try_from(cost).unwrap_or(u64::MAX));
        self.forget_idle();
    }

    /// A job has come to its end.
    pub(crate) fn note_end(&mut self) {
        self.ended += 1;
    }

    /// How many jobs have ended: as long as that stays the same, nobody is waited for less.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn holds(&self, what: Holds) -> bool {
        self.held.contains_key(&what)
    }

    /// A clone of this session waits until the one that is being made is whole.
    pub(crate) fn wait(&mut self, source: SessionId, cloning: Cloning) {
        self.hold([cloning.consumer().map(Holds::Consumer), None]);
        self.waiting.entry(source).or_default().push_back(cloning.kept_small());
    }

    /// The one that has waited the longest.
    pub(crate) fn next_waiting(&mut self, source: SessionId) -> Option<Cloning> {
        let queue = self.waiting.get_mut(&source)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&source);
        }
        let next = next?;
        self.let_go([next.consumer().map(Holds::Consumer), None]);
        Some(next)
    }

    pub(crate) fn has_waiting(&self, source: SessionId) -> bool {
        self.waiting.contains_key(&source)
    }

    /// That one is to wait longer, before all others.
    pub(crate) fn put_back(&mut self, source: SessionId, cloning: Cloning) {
        self.hold([cloning.consumer().map(Holds::Consumer), None]);
        self.waiting.entry(source).or_default().push_front(cloning);
    }

    /// Takes out all that this consumer waits for.
    pub(crate) fn remove_clones_for(&mut self, consumer: ConsumerConn) -> Vec<Cloning> {
        let mut removed = Vec::new();
        if !self.holds(Holds::Consumer(consumer)) {
            return removed;
        }
        // One look at each, for there may be thousands.
        for jobs in self.jobs.values_mut() {
            for job in std::mem::take(jobs) {
                match job {
                    Job::Clone(cloning) if cloning.is_for(consumer) => {
                        let holds = [Holds::Consumer(consumer), cloning.holds()];
                        holds.into_iter().for_each(|held| let_go(&mut self.held, held));
                        removed.push(cloning);
                    }
                    job => jobs.push_back(job),
                }
            }
        }
        for queue in self.waiting.values_mut() {
            for cloning in std::mem::take(queue) {
                match cloning.is_for(consumer) {
                    true => {
                        let_go(&mut self.held, Holds::Consumer(consumer));
                        removed.push(cloning);
                    }
                    false => queue.push_back(cloning),
                }
            }
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        self.forget_idle();
        self.ended += 1;
        removed
    }

    fn forget_idle(&mut self) {
        self.jobs.retain(|_, jobs| !jobs.is_empty());
        self.shares.keep(|user| self.jobs.contains_key(&user));
    }

    fn hold(&mut self, what: [Option<Holds>; 2]) {
        for held in what.into_iter().flatten() {
            *self.held.entry(held).or_default() += 1;
        }
    }

    fn let_go(&mut self, what: [Option<Holds>; 2]) {
        for held in what.into_iter().flatten() {
            let_go(&mut self.held, held);
        }
    }
}

fn let_go(held: &mut BTreeMap<Holds, usize>, what: Holds) {
    if let Some(count) = held.get_mut(&what) {
        *count -= 1;
        if *count == 0 {
            held.remove(&what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = 10;

    fn job(session: u64) -> Job {
        Job::Start { session: SessionId(session), after: None }
    }

    /// Whose jobs got so many steps; each goes on and on.
    fn steps(queue: &mut WorkQueue, count: usize, cost: impl Fn(u32) -> usize) -> Vec<u32> {
        let mut users = Vec::new();
        for _ in 0..count {
            let (user, job) = queue.next().unwrap();
            queue.push(user, job);
            queue.charge(user, cost(user));
            users.push(user);
        }
        users
    }

    #[test]
    fn a_user_with_much_to_do_gets_no_more_than_one_with_little() {
        let mut queue = WorkQueue::default();
        (0..1000).for_each(|session| queue.push(1, job(session)));
        steps(&mut queue, 500, |_| STEP);
        queue.push(2, job(1000));
        let users = steps(&mut queue, 100, |_| STEP);
        assert_eq!(users.iter().filter(|user| **user == 2).count(), 50);
        // Neither does one whose steps are long.
        let users = steps(&mut queue, 110, |user| if user == 1 { 10 * STEP } else { STEP });
        assert!((99..=101).contains(&users.iter().filter(|user| **user == 2).count()), "{users:?}");
    }

    #[test]
    fn who_comes_again_and_again_goes_before_nobody_twice() {
        let mut queue = WorkQueue::default();
        queue.push(1, job(1));
        let mut users = Vec::new();
        for _ in 0..50 {
            queue.push(2, job(2));
            let (user, job) = queue.next().unwrap();
            users.push(user);
            if user == 1 {
                queue.push(1, job);
            }
            queue.charge(user, STEP);
        }
        assert!(users.iter().filter(|user| **user == 1).count() >= 24, "{users:?}");
    }

    #[test]
    fn what_is_held_is_let_go_with_the_last_job() {
        let mut queue = WorkQueue::default();
        let session = Holds::Session(SessionId(1));
        [1, 1, 2].iter().for_each(|id| queue.push(0, job(*id)));
        queue.next();
        assert!(queue.holds(session));
        queue.next();
        assert!(!queue.holds(session) && queue.holds(Holds::Session(SessionId(2))));
        queue.next();
        queue.charge(0, STEP);
        assert!(queue.is_empty() && queue.held.is_empty());
    }
}
