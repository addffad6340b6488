//! What a consumer can ask about the service itself.

use ferretto_protos::observable_events::Type;
use ferretto_protos::tracing_service_state::{DataSource, Producer, TracingSession};
use ferretto_protos::{
    QueryCapabilitiesResponse, QueryServiceStateResponse, SaveTraceForBugreportResponse,
    TracingServiceCapabilities, TracingServiceState,
};
use prost::Message;

use crate::ids::{ConsumerConn, Token};
use crate::limits;
use crate::output::Reply;
use crate::registry::Peer;
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

    /// The state, in as many replies as its size takes.
    pub(crate) fn query_service_state(&mut self, from: ConsumerConn, token: Token, sessions_only: bool) {
        let Some(peer) = self.consumers.get(&from).map(|consumer| consumer.peer) else { return };
        let mut parts = Parts::new(self.general_state(peer));
        if !sessions_only {
            for (id, producer) in &self.producers {
                // Not said of the service's own (upstream: `QueryServiceState`).
                let machine = producer.machine.as_ref();
                let machine_name_len = machine.map_or(0, |machine| machine.name.len());
                let size = producer.name.len() + producer.sdk_version.len() + machine_name_len + 64;
                parts.room_for(size).producers.push(Producer {
                    id: Some(i32::from(id.0)),
                    name: Some(producer.name.clone()),
                    uid: Some(producer.peer.uid as i32),
                    pid: Some(producer.peer.pid),
                    sdk_version: Some(producer.sdk_version.clone()),
                    machine_id: machine.map(|machine| machine.id),
                    machine_name: machine.map(|machine| machine.name.clone()),
                    ..Default::default()
                });
            }
            for (id, producer) in &self.producers {
                for source in &producer.data_sources {
                    parts.room_for(source.raw.len() + 16).data_sources.push(DataSource {
                        ds_descriptor: Some(source.raw.clone()),
                        producer_id: Some(i32::from(id.0)),
                    });
                }
            }
        }
        let states = parts.finish();
        let last = states.len() - 1;
        for (index, state) in states.into_iter().enumerate() {
            let response = QueryServiceStateResponse { service_state: Some(state) };
            let reply = Reply { has_more: index != last, ..Reply::last(token, &response) };
            self.reply_consumer(from, reply);
        }
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
    peer.uid == 0 || peer.is_user(session.owner_uid)
}

fn describe(session: &Session) -> TracingSession {
    let config = &session.config;
    TracingSession {
        id: Some(session.id.0),
        consumer_uid: Some(session.owner_uid as i32),
        state: Some(session.state.name().to_owned()),
        unique_session_name: Some(config.claims.unique_name.clone()),
        buffer_size_kb: config.buffers.iter().map(|buffer| buffer.size_kb).collect(),
        duration_ms: Some(config.duration_ms),
        num_data_sources: Some(u32::try_from(session.instances.len()).unwrap_or(u32::MAX)),
        start_realtime_ns: Some(session.start_realtime_ns as i64),
        bugreport_score: (config.bugreport_score != 0).then_some(config.bugreport_score),
        bugreport_filename: (!config.bugreport_filename.is_empty())
            .then(|| config.bugreport_filename.clone()),
        is_started: Some(session.state == State::Started),
    }
}

/// The state in parts that each fit into a reply; a client merges them.
struct Parts {
    finished: Vec<TracingServiceState>,
    current: TracingServiceState,
    size: usize,
}

impl Parts {
    fn new(first: TracingServiceState) -> Self {
        Self { finished: Vec::new(), size: first.encoded_len(), current: first }
    }

    fn room_for(&mut self, size: usize) -> &mut TracingServiceState {
        let size = size + ELEMENT_OVERHEAD;
        if self.size + size > limits::QUERY_REPLY_BYTES {
            self.finished.push(std::mem::take(&mut self.current));
            self.size = 0;
        }
        self.size += size;
        &mut self.current
    }

    fn finish(mut self) -> Vec<TracingServiceState> {
        self.finished.push(self.current);
        self.finished
    }
}
