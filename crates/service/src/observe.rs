//! ObserveEvents: telling a consumer how its data sources start and stop, and when to clone its session.

use ferretto_protos::observable_events::{
    CloneTriggerHit, DataSourceInstanceState, DataSourceInstanceStateChange, Type,
};
use ferretto_protos::{ObservableEvents, ObserveEventsRequest, ObserveEventsResponse};

use crate::ids::{ConsumerConn, SessionId, Token};
use crate::instance_set::InstanceState;
use crate::output::Reply;
use crate::registry::Observing;
use crate::service::Service;
use crate::triggers::ReceivedTrigger;

impl Service {
    /// A new call ends the stream of the one before; one that asks for nothing only does that.
    pub(crate) fn observe_events(
        &mut self,
        from: ConsumerConn,
        token: Token,
        request: &ObserveEventsRequest,
    ) {
        let Some(consumer) = self.consumers.get_mut(&from) else { return };
        let old = consumer.observing.take();
        let mask = request.events_to_observe.iter().fold(0u32, |mask, kind| mask | *kind as u32);
        consumer.observing =
            (mask != 0).then(|| Observing { token, mask, events: ObservableEvents::default() });
        let session = consumer.session;
        if let Some(old) = old {
            self.answer_consumer(from, old.token, &ObserveEventsResponse::default());
        }
        if mask == 0 {
            return self.answer_consumer(from, token, &ObserveEventsResponse::default());
        }
        if let Some(session) = session {
            self.report_current_states(session);
        }
    }

    /// What happened before somebody looked is told at once.
    fn report_current_states(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        let reportable = |state| matches!(state, InstanceState::Started | InstanceState::Stopped);
        let instances = session.instances.iter().filter(|instance| reportable(instance.state));
        let states: Vec<_> = instances
            .map(|instance| (instance.producer_name.clone(), instance.source_name.clone(), instance.state))
            .collect();
        let all_started = session.all_started_reported;
        for (producer_name, source_name, state) in states {
            self.observe_instance(session_id, &producer_name, &source_name, state);
        }
        if all_started {
            self.observe_all_started(session_id);
        }
    }

    fn observer(&mut self, session_id: SessionId, kind: Type) -> Option<&mut ObservableEvents> {
        let owner = self.sessions.get(&session_id)?.owner?;
        let observing = self.consumers.get_mut(&owner)?.observing.as_mut()?;
        (observing.mask & kind as u32 != 0).then_some(&mut observing.events)
    }

    pub(crate) fn observes_instances(&mut self, session_id: SessionId) -> bool {
        self.observer(session_id, Type::DataSourcesInstances).is_some()
    }

    pub(crate) fn observe_instance(
        &mut self,
        session_id: SessionId,
        producer_name: &str,
        source_name: &str,
        state: InstanceState,
    ) {
        let state = match state {
            InstanceState::Started => DataSourceInstanceState::Started,
            InstanceState::Stopped => DataSourceInstanceState::Stopped,
            InstanceState::Configured | InstanceState::Starting | InstanceState::Stopping => return,
        };
        if let Some(events) = self.observer(session_id, Type::DataSourcesInstances) {
            events.instance_state_changes.push(DataSourceInstanceStateChange {
                producer_name: Some(producer_name.to_owned()),
                data_source_name: Some(source_name.to_owned()),
                state: Some(state as i32),
            });
        }
    }

    pub(crate) fn observe_all_started(&mut self, session_id: SessionId) {
        if let Some(events) = self.observer(session_id, Type::AllDataSourcesStarted) {
            events.all_data_sources_started = Some(true);
        }
    }

    /// Tells the consumer to clone its session. In a message of its own, for it can hold one trigger only.
    pub(crate) fn observe_snapshot_trigger(&mut self, session_id: SessionId, trigger: &ReceivedTrigger) {
        let Some(owner) = self.sessions.get(&session_id).and_then(|session| session.owner) else { return };
        let observing = self.consumers.get(&owner).and_then(|consumer| consumer.observing.as_ref());
        let Some(observing) = observing.filter(|found| found.mask & Type::CloneTriggerHit as u32 != 0) else {
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
        let events = ObservableEvents { clone_trigger_hit: Some(hit), ..Default::default() };
        let reply = Reply::more(observing.token, &ObserveEventsResponse { events: Some(events) });
        self.reply_consumer(owner, reply);
    }

    /// Sends what an input has brought about, in one message a consumer. At the end of each `handle_*`.
    pub(crate) fn flush_observed_events(&mut self) {
        let mut replies = Vec::new();
        for (conn, consumer) in &mut self.consumers {
            if let Some(observing) = &mut consumer.observing
                && observing.events != ObservableEvents::default()
            {
                let events = Some(std::mem::take(&mut observing.events));
                replies.push((*conn, Reply::more(observing.token, &ObserveEventsResponse { events })));
            }
        }
        for (conn, reply) in replies {
            self.reply_consumer(conn, reply);
        }
    }
}
