//! What becomes of the other sessions, for traces that want to know (upstream: `SetSessionState`, `EmitConcurrentSessionEvents`).

use ferretto_protos::{ConcurrentSessionEvent, concurrent_session_event};

use crate::ids::SessionId;
use crate::limits;
use crate::now::Now;
use crate::producers::truncated;
use crate::query::may_see_sessions_of;
use crate::service::Service;
use crate::session::{Session, State};

/// Another session came into a state.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrentEvent {
    pub(crate) boottime_ns: u64,
    pub(crate) event: ConcurrentSessionEvent,
}

/// Events that wait for the next read-back.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConcurrentEvents(Vec<ConcurrentEvent>);

impl ConcurrentEvents {
    /// What comes when there are too many is left out.
    fn push(&mut self, event: ConcurrentEvent) {
        if self.0.len() < limits::MAX_CONCURRENT_SESSION_EVENTS {
            self.0.push(event);
        }
    }

    /// In the order of time: the states in which a session found others are older than it.
    pub(crate) fn take(&mut self) -> Vec<ConcurrentEvent> {
        self.0.sort_by_key(|event| event.boottime_ns);
        std::mem::take(&mut self.0)
    }
}

impl Service {
    /// The way into a state; the others hear of it.
    pub(crate) fn set_state(&mut self, session_id: SessionId, state: State, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.state = state;
        self.announce_state(session_id, now);
    }

    /// The session has just come into its state.
    pub(crate) fn announce_state(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.state_since_ns = now.clocks.boottime;
        let (event, of) = (session.as_seen_by_its_user(), session.owner_uid);
        let others = self.sessions.values_mut().filter(|other| other.id != session_id && other.is_active());
        for other in others.filter(|other| other.config.builtin.concurrent_sessions) {
            other.concurrent.push(event.as_seen_by(other.owner_uid, of));
        }
    }

    /// A new session hears who is there, and since when in which state.
    pub(crate) fn introduce_others(&mut self, session_id: SessionId) {
        let others = self.sessions.values().filter(|other| other.id != session_id);
        let events: Vec<_> = others.map(|other| (other.as_seen_by_its_user(), other.owner_uid)).collect();
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if session.config.builtin.concurrent_sessions {
            let seen = |(event, of): (ConcurrentEvent, u32)| event.as_seen_by(session.owner_uid, of);
            events.into_iter().map(seen).for_each(|event| session.concurrent.push(event));
        }
    }
}

impl ConcurrentEvent {
    /// Of other users' sessions it is known that they are there, and neither what they are called nor whose they are (upstream tells all).
    fn as_seen_by(&self, viewer_uid: u32, owner_uid: u32) -> Self {
        let mut seen = self.clone();
        if !may_see_sessions_of(viewer_uid, owner_uid) {
            seen.event.session_name = None;
            seen.event.consumer_uid = None;
        }
        seen
    }
}

impl Session {
    fn as_seen_by_its_user(&self) -> ConcurrentEvent {
        let state = match self.state {
            State::Configured => concurrent_session_event::State::Configured,
            State::Started => concurrent_session_event::State::Started,
            State::Stopping { .. } => concurrent_session_event::State::DisablingWaitingStopAcks,
            State::Disabled => concurrent_session_event::State::Disabled,
            State::ClonedReadOnly => concurrent_session_event::State::ClonedReadOnly,
        };
        let name = &self.config.claims.unique_name;
        ConcurrentEvent {
            boottime_ns: self.state_since_ns,
            event: ConcurrentSessionEvent {
                state: Some(state as i32),
                // It is kept by everybody who is told.
                session_name: (!name.is_empty()).then(|| truncated(name)),
                session_id: Some(self.id.0),
                consumer_uid: Some(self.owner_uid as i32),
                num_data_sources: Some(u32::try_from(self.instances.len()).unwrap_or(u32::MAX)),
            },
        }
    }
}
