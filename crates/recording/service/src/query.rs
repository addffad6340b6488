//! What a consumer can ask about the service itself.

use std::ops::Bound;

use ferretto_protos::observable_events::Type;
use ferretto_protos::tracing_service_state::{DataSource, Producer, TracingSession};
use ferretto_protos::{
    QueryCapabilitiesResponse, QueryServiceStateResponse, SaveTraceForBugreportResponse,
    TracingServiceCapabilities, TracingServiceState,
};
use prost::Message;

use crate::ids::{ConsumerConn, ProducerId, Token};
use crate::limits;
use crate::output::Reply;
use crate::producers::truncated;
use crate::registry::{self, Peer, SourceSerial};
use crate::service::Service;
use crate::session::{Session, State};

/// What a repeated message adds to its own bytes, at most: its tag and its length.
pub(crate) const ELEMENT_OVERHEAD: usize = 8;

impl Service {
    pub(crate) fn query_capabilities(&mut self, from: ConsumerConn, token: Token) {
        let capabilities = TracingServiceCapabilities {
            has_query_capabilities: Some(true),
            observable_events: vec![
                Type::DataSourcesInstances as i32,
                Type::AllDataSourcesStarted as i32,
                Type::CloneTriggerHit as i32,
            ],
            has_trace_config_output_path: Some(true),
            has_clone_session: Some(true),
        };
        self.answer_consumer(from, token, &QueryCapabilitiesResponse { capabilities: Some(capabilities) });
    }

    /// Deprecated upstream too, where it always fails.
    pub(crate) fn refuse_save_for_bugreport(&mut self, from: ConsumerConn, token: Token) {
        let response = SaveTraceForBugreportResponse {
            success: Some(false),
            msg: Some("SaveTraceForBugreport is deprecated, use CloneSession".to_owned()),
        };
        self.answer_consumer(from, token, &response);
    }

    /// The state, in as many replies as its size takes: the first at once, the others as the consumer takes them
    /// ([`poll_read`](Self::poll_read)).
    pub(crate) fn query_service_state(&mut self, from: ConsumerConn, token: Token, sessions_only: bool) {
        let Some(consumer) = self.consumers.get_mut(&from) else { return };
        let peer = consumer.peer;
        // Of a driver that does not wait for the end of the one before.
        if let Some(old) = consumer.query.take() {
            self.reply_consumer(from, Reply::rejected(old.token));
        }
        let first = self.general_state(peer);
        let next = if sessions_only { None } else { Some(Place::Producers { after: ProducerId(0) }) };
        let reply = self.answer_query(from, token, first, next);
        self.reply_consumer(from, reply);
    }

    /// The next part of what a consumer asked for.
    pub(crate) fn continue_query(&mut self, from: ConsumerConn) -> Option<Reply> {
        let query = self.consumers.get_mut(&from)?.query.take()?;
        Some(self.answer_query(from, query.token, TracingServiceState::default(), Some(query.next)))
    }

    fn answer_query(
        &mut self,
        from: ConsumerConn,
        token: Token,
        first: TracingServiceState,
        next: Option<Place>,
    ) -> Reply {
        let mut part = Part { size: first.encoded_len(), state: first };
        let next = next.and_then(|next| self.fill(&mut part, next));
        if let Some(consumer) = self.consumers.get_mut(&from) {
            consumer.query = next.map(|next| Query { token, next });
        }
        let response = QueryServiceStateResponse { service_state: Some(part.state) };
        Reply { has_more: next.is_some(), ..Reply::last(token, &response) }
    }

    /// Adds what there is room for; what is left begins at the place that is given back. Producers and data sources that come or go
    /// meanwhile are told of or not.
    fn fill(&self, part: &mut Part, next: Place) -> Option<Place> {
        let (mut after, first_serial) = match next {
            Place::Producers { after } => match self.fill_producers(part, after) {
                Some(place) => return Some(place),
                None => (ProducerId(0), SourceSerial(0)),
            },
            Place::Sources { after, serial } => (after, serial),
        };
        let mut serial = first_serial;
        for (id, producer) in self.producers.range(after..) {
            if *id != after {
                (after, serial) = (*id, SourceSerial(0));
            }
            for source in producer.sources_after(serial) {
                if !part.has_room(source.raw.len() + 16) {
                    return Some(Place::Sources { after, serial });
                }
                serial = source.serial;
                part.state.data_sources.push(DataSource {
                    ds_descriptor: Some(source.raw.clone()),
                    producer_id: Some(i32::from(id.0)),
                });
            }
        }
        None
    }

    fn fill_producers(&self, part: &mut Part, after: ProducerId) -> Option<Place> {
        let mut last = after;
        for (id, producer) in self.connected_producers(after) {
            // Not said of the service's own (upstream: `QueryServiceState`).
            let machine = producer.machine.as_ref();
            let machine_name_len = machine.map_or(0, |machine| machine.name.len());
            if !part.has_room(producer.name.len() + producer.sdk_version.len() + machine_name_len + 64) {
                return Some(Place::Producers { after: last });
            }
            last = *id;
            part.state.producers.push(Producer {
                id: Some(i32::from(id.0)),
                name: Some(producer.name.to_string()),
                uid: Some(producer.peer.uid as i32),
                pid: Some(producer.peer.pid),
                sdk_version: Some(producer.sdk_version.clone()),
                machine_id: machine.map(|machine| machine.id),
                machine_name: machine.map(|machine| machine.name.clone()),
                ..Default::default()
            });
        }
        None
    }

    /// Those after this one. Of some that are gone there is only what is still to be taken of their memory.
    pub(crate) fn connected_producers(
        &self,
        after: ProducerId,
    ) -> impl Iterator<Item = (&ProducerId, &registry::Producer)> {
        let producers = self.producers.range((Bound::Excluded(after), Bound::Unbounded));
        producers.filter(|(_, producer)| self.links.contains_key(&producer.conn))
    }

    fn general_state(&self, peer: Peer) -> TracingServiceState {
        let count = |n: usize| Some(i32::try_from(n).unwrap_or(i32::MAX));
        let started = self.sessions.values().filter(|session| session.state == State::Started).count();
        let visible = self.sessions.values().filter(|session| may_see(peer, session));
        TracingServiceState {
            num_sessions: count(self.sessions.len()),
            num_sessions_started: count(started),
            tracing_service_version: Some(self.options.version.clone()),
            tracing_sessions: visible.map(describe).collect(),
            supports_tracing_sessions: Some(true),
            ..Default::default()
        }
    }
}

/// Sessions are shown to root and to their user: those who may clone them.
pub(crate) fn may_see(peer: Peer, session: &Session) -> bool {
    may_see_sessions_of(peer.uid, session.owner_uid)
}

/// Root all, others their own; nobody in particular has none.
pub(crate) fn may_see_sessions_of(viewer_uid: u32, owner_uid: u32) -> bool {
    viewer_uid == 0 || viewer_uid == owner_uid && owner_uid != Peer::UNKNOWN_UID
}

fn describe(session: &Session) -> TracingSession {
    let config = &session.config;
    TracingSession {
        id: Some(session.id.0),
        consumer_uid: Some(session.owner_uid as i32),
        state: Some(session.state.name().to_owned()),
        unique_session_name: Some(truncated(&config.claims.unique_name)),
        buffer_size_kb: config.buffers.iter().map(|buffer| buffer.size_kb).collect(),
        duration_ms: Some(config.duration_ms),
        num_data_sources: Some(u32::try_from(session.instances.len()).unwrap_or(u32::MAX)),
        start_realtime_ns: Some(session.start_realtime_ns as i64),
        bugreport_score: (config.bugreport_score != 0).then_some(config.bugreport_score),
        bugreport_filename: (!config.bugreport_filename.is_empty())
            .then(|| truncated(&config.bugreport_filename)),
        is_started: Some(session.state == State::Started),
    }
}

/// A QueryServiceState call that is not answered to the end.
#[derive(Debug)]
pub(crate) struct Query {
    token: Token,
    next: Place,
}

/// Where a part begins.
#[derive(Debug, Clone, Copy)]
enum Place {
    Producers { after: ProducerId },
    Sources { after: ProducerId, serial: SourceSerial },
}

/// A part of the state, which fits into a reply; a client merges them.
struct Part {
    state: TracingServiceState,
    size: usize,
}

impl Part {
    /// Takes the room for an element. There is always some for the first, which is bounded.
    fn has_room(&mut self, size: usize) -> bool {
        let size = self.size + size + ELEMENT_OVERHEAD;
        let has_room = self.size == 0 || size <= limits::QUERY_REPLY_BYTES;
        if has_room {
            self.size = size;
        }
        has_room
    }
}
