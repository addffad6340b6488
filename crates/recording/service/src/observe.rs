//! ObserveEvents: telling a consumer how its data sources start and stop, and when to clone its session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ferretto_protos::observable_events::{
    CloneTriggerHit, DataSourceInstanceState, DataSourceInstanceStateChange, Type,
};
use ferretto_protos::{ObservableEvents, ObserveEventsRequest, ObserveEventsResponse};

use crate::ids::{ConsumerConn, SessionId, Token};
use crate::instance_set::{InstanceKey, InstanceState};
use crate::limits;
use crate::now::Now;
use crate::output::Reply;
use crate::query::ELEMENT_OVERHEAD;
use crate::registry::Consumer;
use crate::service::Service;
use crate::session::Session;
use crate::stopping::FAR_INSTANCE_COST;
use crate::triggers::ReceivedTrigger;
use crate::work::{Budget, Job};

impl Service {
    /// A new call ends the stream of the one before; one that asks for nothing only does that.
    pub(crate) fn observe_events(
        &mut self,
        from: ConsumerConn,
        token: Token,
        request: &ObserveEventsRequest,
        now: &Now,
    ) {
        let Some(consumer) = self.consumers.get_mut(&from) else { return };
        let old = consumer.observing.take();
        let mask = request.events_to_observe.iter().fold(0u32, |mask, kind| mask | *kind as u32);
        consumer.observing = (mask != 0).then(|| Observing::new(token, mask));
        let session = consumer.session;
        if let Some(old) = old {
            self.answer_consumer(from, old.token, &ObserveEventsResponse::default());
        }
        if mask == 0 {
            return self.answer_consumer(from, token, &ObserveEventsResponse::default());
        }
        if let Some(session) = session {
            self.report_current_states(session, now);
        }
    }

    /// What happened before somebody looked is told, too.
    fn report_current_states(&mut self, session_id: SessionId, now: &Now) {
        match self.observer_of_instances(session_id) {
            Some(_) => self.begin(Job::Report { session: session_id, after: None }, now),
            None => self.report_all_started(session_id),
        }
    }

    fn report_all_started(&mut self, session_id: SessionId) {
        if self.sessions.get(&session_id).is_some_and(|session| session.all_started_reported) {
            self.observe_all_started(session_id);
        }
    }

    /// Goes on with how all instances are, after this one; the last one is given back if there are more.
    pub(crate) fn step_of_report(
        &mut self,
        session_id: SessionId,
        mut after: Option<InstanceKey>,
        budget: &mut Budget,
    ) -> Option<InstanceKey> {
        let session = self.sessions.get(&session_id)?;
        let observing = observer(session, &mut self.consumers, Type::DataSourcesInstances)?;
        self.have_news.extend(session.owner);
        while let Some(next) = session.instances.next(after) {
            if budget.is_spent() {
                return after;
            }
            observing.note(&next.producer_name, &next.source_name, next.state);
            after = Some(next.key());
            budget.spend(FAR_INSTANCE_COST);
        }
        self.report_all_started(session_id);
        None
    }

    /// Who wants to know of such events. There will be some.
    fn observer(&mut self, session_id: SessionId, kind: Type) -> Option<&mut Observing> {
        let session = self.sessions.get(&session_id)?;
        let observing = observer(session, &mut self.consumers, kind)?;
        self.have_news.extend(session.owner);
        Some(observing)
    }

    pub(crate) fn observe_instance(
        &mut self,
        session_id: SessionId,
        producer_name: &Arc<str>,
        source_name: &Arc<str>,
        state: InstanceState,
    ) {
        if reported(state).is_some()
            && let Some(observing) = self.observer(session_id, Type::DataSourcesInstances)
        {
            observing.note(producer_name, source_name, state);
        }
    }

    /// Who is told when data sources of a session start and stop.
    pub(crate) fn observer_of_instances(&self, session_id: SessionId) -> Option<ConsumerConn> {
        let owner = self.sessions.get(&session_id)?.owner?;
        let observing = self.consumers.get(&owner)?.observing.as_ref()?;
        observing.wants(Type::DataSourcesInstances).then_some(owner)
    }

    /// Tells so of many that have stopped, named by their producers and data sources.
    pub(crate) fn observe_stopped(&mut self, observer: ConsumerConn, names: &[(Arc<str>, Arc<str>)]) {
        let observing = self.consumers.get_mut(&observer).and_then(|consumer| consumer.observing.as_mut());
        let observing = observing.filter(|found| found.wants(Type::DataSourcesInstances));
        if let Some(observing) = observing.filter(|_| !names.is_empty()) {
            let stopped = InstanceState::Stopped;
            names.iter().for_each(|(producer, source)| observing.note(producer, source, stopped));
            self.have_news.insert(observer);
        }
    }

    pub(crate) fn observe_all_started(&mut self, session_id: SessionId) {
        if let Some(observing) = self.observer(session_id, Type::AllDataSourcesStarted) {
            observing.all_started = true;
        }
    }

    /// Tells the consumer to clone its session. In a message of its own, for it can hold one trigger only.
    pub(crate) fn observe_snapshot_trigger(&mut self, session_id: SessionId, trigger: &ReceivedTrigger) {
        let Some(owner) = self.sessions.get(&session_id).and_then(|session| session.owner) else { return };
        let observing = self.consumers.get_mut(&owner).and_then(|consumer| consumer.observing.as_mut());
        let Some(observing) = observing.filter(|found| found.wants(Type::CloneTriggerHit)) else {
            return;
        };
        let hit = CloneTriggerHit {
            tracing_session_id: Some(session_id.0.cast_signed()),
            trigger_name: Some(trigger.name.as_ref().to_owned()),
            producer_name: Some(trigger.producer_name.as_ref().to_owned()),
            producer_uid: Some(trigger.producer_uid),
            boot_time_ns: Some(trigger.boottime_ns),
            trigger_delay_ms: Some(trigger.delay_ms),
        };
        if let Some(reply) = observing.hit(hit) {
            self.reply_consumer(owner, reply);
        }
    }

    /// A consumer is to read what it was sent before it is told more of what happens, as it takes it ([`poll_read`](Self::poll_read)).
    pub fn hold_events(&mut self, consumer: ConsumerConn) {
        let observing = self.consumers.get_mut(&consumer).and_then(|consumer| consumer.observing.as_mut());
        if let Some(observing) = observing {
            observing.is_held = true;
        }
    }

    /// Sends what an input has brought about, in one message a consumer; what that has no room for, as the consumer takes it
    /// ([`poll_read`](Self::poll_read)). At the end of each `handle_*`.
    pub(crate) fn flush_observed_events(&mut self) {
        for conn in std::mem::take(&mut self.have_news) {
            let observing = self.consumers.get_mut(&conn).and_then(|consumer| consumer.observing.as_mut());
            let Some(observing) = observing else { continue };
            if observing.is_too_far_behind() {
                self.reject_observer(conn);
            } else if observing.is_held {
                observing.is_behind = true;
            } else if !observing.is_behind
                && let Some(part) = observing.next_part()
            {
                self.reply_consumer(conn, part);
            }
        }
    }

    fn reject_observer(&mut self, conn: ConsumerConn) {
        let observing = self.consumers.get_mut(&conn).and_then(|consumer| consumer.observing.take());
        if let Some(observing) = observing {
            tracing::warn!(consumer = %conn, "ObserveEvents is rejected: more data sources have started and stopped than are remembered");
            self.reply_consumer(conn, Reply::rejected(observing.token));
        }
    }

    /// The next part of what a consumer was not told yet.
    pub(crate) fn continue_observed(&mut self, from: ConsumerConn) -> Option<Reply> {
        let observing = self.consumers.get_mut(&from)?.observing.as_mut()?;
        if observing.is_behind { observing.next_part() } else { None }
    }
}

/// An ObserveEvents call: the events that a consumer wants, and those that it was not told of yet.
#[derive(Debug)]
pub(crate) struct Observing {
    token: Token,
    mask: u32,
    changes: VecDeque<Change>,
    /// Of the changes.
    bytes: usize,
    /// After them.
    all_started: bool,
    /// Triggers by which it is to clone its session, of which it was not told.
    hits: VecDeque<CloneTriggerHit>,
    /// It has not read what it was told.
    is_held: bool,
    /// It has been told a part, and takes the rest as fast as it likes.
    is_behind: bool,
}

/// A data source that has started or stopped.
#[derive(Debug)]
struct Change {
    producer_name: Arc<str>,
    source_name: Arc<str>,
    state: DataSourceInstanceState,
}

impl Change {
    /// In a message, at most; it takes less here, as long as somebody else has the names too.
    fn size(&self) -> usize {
        self.producer_name.len() + self.source_name.len() + 3 * ELEMENT_OVERHEAD
    }
}

impl Observing {
    fn new(token: Token, mask: u32) -> Self {
        Self {
            token,
            mask,
            changes: VecDeque::new(),
            bytes: 0,
            all_started: false,
            hits: VecDeque::new(),
            is_held: false,
            is_behind: false,
        }
    }

    fn wants(&self, kind: Type) -> bool {
        self.mask & kind as u32 != 0
    }

    /// If it is something to tell of.
    fn note(&mut self, producer_name: &Arc<str>, source_name: &Arc<str>, state: InstanceState) {
        if let Some(state) = reported(state) {
            let (producer_name, source_name) = (producer_name.clone(), source_name.clone());
            self.push(Change { producer_name, source_name, state });
        }
    }

    fn push(&mut self, change: Change) {
        // What comes too late is not kept: the call is about to be rejected.
        if !self.is_too_far_behind() {
            self.bytes += change.size();
            self.changes.push_back(change);
        }
    }

    fn is_too_far_behind(&self) -> bool {
        self.bytes > limits::MAX_OBSERVED_BYTES
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Tells of a trigger at once, unless something waits.
    fn hit(&mut self, hit: CloneTriggerHit) -> Option<Reply> {
        if !self.is_held && !self.is_behind {
            return Some(self.reply(ObservableEvents { clone_trigger_hit: Some(hit), ..Default::default() }));
        }
        if self.hits.len() < limits::MAX_PENDING_SNAPSHOTS {
            self.hits.push_back(hit);
        } else {
            tracing::debug!("a trigger is passed over: its consumer has not read of those before it");
        }
        self.is_behind = true;
        None
    }

    fn reply(&self, events: ObservableEvents) -> Reply {
        Reply::more(self.token, &ObserveEventsResponse { events: Some(events) })
    }

    /// As much as a reply has room for.
    fn next_part(&mut self) -> Option<Reply> {
        self.is_held = false;
        if let Some(hit) = self.hits.pop_front() {
            self.is_behind = true;
            return Some(self.reply(ObservableEvents { clone_trigger_hit: Some(hit), ..Default::default() }));
        }
        let mut events = ObservableEvents::default();
        let mut size = 0;
        let has_room = |size: usize, change: &Change| size + change.size() <= limits::QUERY_REPLY_BYTES;
        while self.changes.front().is_some_and(|change| has_room(size, change))
            && let Some(change) = self.changes.pop_front()
        {
            size += change.size();
            events.instance_state_changes.push(DataSourceInstanceStateChange {
                producer_name: Some(change.producer_name.to_string()),
                data_source_name: Some(change.source_name.to_string()),
                state: Some(change.state as i32),
            });
        }
        self.bytes -= size;
        self.is_behind = !self.changes.is_empty();
        if !self.is_behind {
            self.changes = VecDeque::new();
            events.all_data_sources_started = std::mem::take(&mut self.all_started).then_some(true);
        }
        let is_something = events != ObservableEvents::default();
        is_something.then(|| self.reply(events))
    }
}

/// Who has this session and wants to know of such events.
fn observer<'a>(
    session: &Session,
    consumers: &'a mut BTreeMap<ConsumerConn, Consumer>,
    kind: Type,
) -> Option<&'a mut Observing> {
    let observing = consumers.get_mut(&session.owner?)?.observing.as_mut()?;
    observing.wants(kind).then_some(observing)
}

/// What is told of a state, if anything.
fn reported(state: InstanceState) -> Option<DataSourceInstanceState> {
    match state {
        InstanceState::Started => Some(DataSourceInstanceState::Started),
        InstanceState::Stopped => Some(DataSourceInstanceState::Stopped),
        InstanceState::Configured | InstanceState::Starting | InstanceState::Stopping => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_observer_is_behind_with_is_bounded() {
        let mut observing = Observing::new(Token(1), 1);
        let (producer_name, source_name): (Arc<str>, Arc<str>) = ("p".into(), "s".repeat(4000).into());
        for _ in 0..2 * limits::MAX_OBSERVED_BYTES / source_name.len() {
            let state = DataSourceInstanceState::Started;
            let (producer_name, source_name) = (producer_name.clone(), source_name.clone());
            observing.push(Change { producer_name, source_name, state });
        }
        assert!(observing.is_too_far_behind());
        assert!(observing.bytes < limits::MAX_OBSERVED_BYTES + 5000);
        let held: usize = observing.changes.iter().map(Change::size).sum();
        assert_eq!(held, observing.bytes);
    }
}
