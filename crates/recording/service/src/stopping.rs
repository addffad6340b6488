//! Stopping the data sources of a session. There may be tens of thousands, and each is a message to its producer: so it is done in steps.

use ferretto_protos::get_async_command_response::{self as command, Cmd};

use crate::ids::{ConsumerConn, ProducerId, SessionId};
use crate::instance_set::{InstanceKey, InstanceSet, InstanceState};
use crate::limits;
use crate::now::Now;
use crate::registry::Peer;
use crate::service::Service;
use crate::session::Session;
use crate::telling::TELL_COST;
use crate::work::{Budget, Job};

/// What it costs to look at an instance that nobody has looked at for long, and to tell somebody of it: its memory is far away.
pub(crate) const FAR_INSTANCE_COST: usize = 5;

/// Data sources that are told to stop, and how far that is.
#[derive(Debug)]
pub(crate) enum Stopping {
    /// Those of a session that waits for their end, from the one after this on.
    Session { id: SessionId, after: Option<InstanceKey> },
    /// Those that are left of one which is gone.
    Gone {
        instances: Box<InstanceSet>,
        /// Who had it, and is still told that they stopped.
        observer: Option<ConsumerConn>,
        after: Option<InstanceKey>,
    },
}

impl Stopping {
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self {
            Self::Session { id, .. } => Some(*id),
            Self::Gone { .. } => None,
        }
    }
}

impl Session {
    /// All that it has has stopped, or need not be waited for.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.is_being_stopped && (self.stops_at_once || self.instances.all_are(InstanceState::Stopped))
    }
}

impl Service {
    /// Takes the first step for a session that goes on until its data sources have stopped. What is left is given back.
    pub(crate) fn begin_to_stop(&mut self, id: SessionId) -> Option<Stopping> {
        let session = self.sessions.get_mut(&id)?;
        session.is_being_stopped = true;
        let mut budget = self.budget();
        self.stop_those_after(id, None, &mut budget).map(|after| Stopping::Session { id, after: Some(after) })
    }

    /// Keeps the rest for later.
    pub(crate) fn stop_on(&mut self, rest: Stopping) {
        let job = Job::Stop(rest);
        self.work.push(self.user_of_job(&job), job);
    }

    /// For a session that is about to be gone.
    pub(crate) fn stop_gone(&mut self, id: SessionId, now: &Now) {
        let observer = self.observer_of_instances(id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let instances = Box::new(std::mem::take(&mut session.instances));
        let user = self.sessions.get(&id).map_or(Peer::UNKNOWN_UID, |session| session.owner_uid);
        self.begin_for(user, Job::Stop(Stopping::Gone { instances, observer, after: None }), now);
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_stop(
        &mut self,
        stopping: Stopping,
        budget: &mut Budget,
        now: &Now,
    ) -> Option<Stopping> {
        match stopping {
            Stopping::Session { id, after } => {
                let rest = self.stop_those_after(id, after, budget);
                if rest.is_none() {
                    self.after_stop(id, now);
                }
                rest.map(|after| Stopping::Session { id, after: Some(after) })
            }
            Stopping::Gone { instances, observer, after } => {
                let rest = self.stop_those_left(&instances, observer, after, budget);
                if rest.is_some() {
                    return Some(Stopping::Gone { instances, observer, after: rest });
                }
                if instances.len() > limits::MANY_INSTANCES {
                    self.environment.dispose(instances);
                }
                None
            }
        }
    }

    /// Gives the last one back that was told, if there are more.
    fn stop_those_after(
        &mut self,
        id: SessionId,
        mut after: Option<InstanceKey>,
        budget: &mut Budget,
    ) -> Option<InstanceKey> {
        let observer = self.observer_of_instances(id);
        let mut stopped = Vec::new();
        let rest = loop {
            let Some(session) = self.sessions.get_mut(&id) else { break None };
            let Some(next) = session.instances.next(after) else {
                session.is_being_stopped = false;
                break None;
            };
            if budget.is_spent() {
                break after;
            }
            let key = next.key();
            if next.state == InstanceState::Starting {
                session.losses.note_slow_to_start(next);
            }
            // One that was never started has nothing to say of its end.
            let waits =
                next.will_notify_on_stop && !session.stops_at_once && next.state != InstanceState::Configured;
            if observer.is_some() && !waits {
                stopped.push((next.producer_name.clone(), next.source_name.clone()));
            }
            let state = if waits { InstanceState::Stopping } else { InstanceState::Stopped };
            session.instances.set_state(key, state);
            self.tell_to_stop(key, after.map(|(producer, _)| producer), budget);
            after = Some(key);
        };
        observer.into_iter().for_each(|observer| self.observe_stopped(observer, &stopped));
        rest
    }

    /// As [`stop_those_after`](Self::stop_those_after).
    fn stop_those_left(
        &mut self,
        instances: &InstanceSet,
        observer: Option<ConsumerConn>,
        mut after: Option<InstanceKey>,
        budget: &mut Budget,
    ) -> Option<InstanceKey> {
        let mut stopped = Vec::new();
        let rest = loop {
            let Some(next) = instances.next(after) else { break None };
            if budget.is_spent() {
                break after;
            }
            let last = after.replace(next.key()).map(|(producer, _)| producer);
            // It was told already.
            if matches!(next.state, InstanceState::Stopping | InstanceState::Stopped) {
                budget.spend(1);
                continue;
            }
            self.tell_to_stop(next.key(), last, budget);
            if observer.is_some() {
                stopped.push((next.producer_name.clone(), next.source_name.clone()));
            }
        };
        observer.into_iter().for_each(|observer| self.observe_stopped(observer, &stopped));
        rest
    }

    fn tell_to_stop(&mut self, key: InstanceKey, last: Option<ProducerId>, budget: &mut Budget) {
        let (producer, instance) = key;
        let stop = command::StopDataSource { instance_id: Some(instance.0) };
        self.command(producer, Cmd::StopDataSource(stop));
        budget.spend(if last == Some(producer) { FAR_INSTANCE_COST } else { FAR_INSTANCE_COST + TELL_COST });
    }
}
