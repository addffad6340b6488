//! A consumer that records a session, reads it back and checks it, or leaves in the middle.

use std::collections::BTreeSet;

use bytes::Bytes;
use ferretto_ipc::client::{Event, RequestId};
use ferretto_protos as protos;
use ferretto_protos::trace_config::buffer_config::FillPolicy;
use ferretto_protos::trace_config::{BufferConfig, DataSource};
use prost::Message;

use crate::link::Link;
use crate::producer::DATA_SOURCE;
use crate::rng::Rng;
use crate::trace::{Checker, Stream};

/// A buffer that nothing in a world of this size can fill.
const AMPLE_KB: u32 = 8 * 1024;
/// What hostile consumers detach their sessions under.
pub(crate) const DETACH_KEY: &str = "key";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting,
    Recording,
    /// The service has said that the session is over.
    Ended,
    Reading,
    Done,
}

pub(crate) struct Consumer {
    pub(crate) link: Link,
    pub(crate) phase: Phase,
    pub(crate) is_hostile: bool,
    /// The session's buffer cannot overflow and the whole of it is read in the end.
    pub(crate) is_ample: bool,
    pub(crate) checker: Checker,
    /// The users of producers whose packets mean nothing.
    pub(crate) hostile_uids: BTreeSet<u32>,
    /// What was acknowledged to honest producers when the service said that the session was over.
    pub(crate) acknowledged: Vec<(Stream, u64)>,
    /// The error that the session ended with.
    pub(crate) error: Option<String>,
    enabled: Option<RequestId>,
    read: Option<RequestId>,
    packet: Vec<u8>,
}

impl Consumer {
    pub(crate) fn new(is_hostile: bool) -> Self {
        Self {
            link: Link::consumer(),
            phase: Phase::Connecting,
            is_hostile,
            is_ample: false,
            checker: Checker::default(),
            hostile_uids: BTreeSet::new(),
            acknowledged: Vec::new(),
            error: None,
            enabled: None,
            read: None,
            packet: Vec::new(),
        }
    }

    pub(crate) fn act(&mut self, rng: &mut Rng) {
        self.receive();
        if self.is_hostile && rng.one_in(6) {
            return self.misbehave(rng);
        }
        match self.phase {
            Phase::Connecting if self.link.client.is_bound() => self.enable(rng),
            Phase::Recording => self.steer(rng),
            Phase::Ended => self.start_reading(),
            Phase::Connecting | Phase::Reading | Phase::Done => {}
        }
    }

    /// Brings the session to its end.
    pub(crate) fn settle(&mut self) {
        self.receive();
        match self.phase {
            Phase::Recording => {
                self.call("DisableTracing", &protos::DisableTracingRequest::default());
            }
            Phase::Ended => self.start_reading(),
            Phase::Connecting | Phase::Reading | Phase::Done => {}
        }
    }

    fn call(&mut self, method: &str, args: &impl Message) -> Option<RequestId> {
        self.link.client.invoke(method, args, None, true).ok()
    }

    fn enable(&mut self, rng: &mut Rng) {
        // The largest chunk fits into the smallest: one that does not is dropped, and only counted (`abi_violations`).
        let size_kb = rng.pick(&[36, 48, 64, AMPLE_KB, AMPLE_KB]);
        let policy = rng.pick(&[FillPolicy::RingBuffer, FillPolicy::Discard, FillPolicy::Unspecified]);
        self.is_ample = size_kb == AMPLE_KB;
        let buffer =
            BufferConfig { size_kb: Some(size_kb), fill_policy: Some(policy as i32), ..Default::default() };
        let config = protos::DataSourceConfig { name: Some(DATA_SOURCE.to_owned()), ..Default::default() };
        let source = DataSource { config: Some(config), ..Default::default() };
        let trace_config = protos::TraceConfig {
            buffers: vec![buffer],
            data_sources: vec![source],
            duration_ms: if rng.one_in(3) { Some(1 + rng.below(2000) as u32) } else { None },
            deferred_start: if rng.one_in(4) { Some(true) } else { None },
            flush_period_ms: if rng.one_in(3) { Some(100) } else { None },
            flush_timeout_ms: Some(200),
            data_source_stop_timeout_ms: Some(300),
            ..Default::default()
        };
        let request = protos::EnableTracingRequest {
            trace_config: Some(trace_config.encode_to_vec().into()),
            ..Default::default()
        };
        self.enabled = self.call("EnableTracing", &request);
        self.phase = Phase::Recording;
    }

    fn steer(&mut self, rng: &mut Rng) {
        match rng.below(40) {
            0 => {
                self.call("DisableTracing", &protos::DisableTracingRequest::default());
            }
            1 | 2 => {
                self.call("Flush", &protos::FlushRequest { timeout_ms: Some(100), ..Default::default() });
            }
            3 | 4 => {
                self.call("StartTracing", &protos::StartTracingRequest::default());
            }
            5 => {
                self.call("GetTraceStats", &protos::GetTraceStatsRequest::default());
            }
            6 => {
                self.call("QueryServiceState", &protos::QueryServiceStateRequest::default());
            }
            // Reading while recording is allowed.
            7 => self.start_reading(),
            _ => {}
        }
    }

    fn start_reading(&mut self) {
        if self.read.is_none() {
            self.read = self.call("ReadBuffers", &protos::ReadBuffersRequest::default());
            if self.phase == Phase::Ended {
                self.phase = Phase::Reading;
            }
        }
    }

    fn receive(&mut self) {
        while let Some(event) = self.link.poll_event() {
            let Event::Reply { request, body, has_more } = event else { continue };
            if Some(request) == self.enabled {
                self.ended(body);
            } else if Some(request) == self.read {
                self.slices(body, has_more);
            }
        }
    }

    fn ended(&mut self, body: Option<Bytes>) {
        self.enabled = None;
        let response =
            body.and_then(|body| protos::EnableTracingResponse::decode(body).ok()).unwrap_or_default();
        self.error = response.error.filter(|error| !error.is_empty());
        self.phase = if self.error.is_some() { Phase::Done } else { Phase::Ended };
    }

    fn slices(&mut self, body: Option<Bytes>, has_more: bool) {
        let response =
            body.and_then(|body| protos::ReadBuffersResponse::decode(body).ok()).unwrap_or_default();
        for slice in response.slices {
            self.packet.extend_from_slice(slice.data());
            if slice.last_slice_for_packet() {
                let hostile = &self.hostile_uids;
                self.checker.packet(&std::mem::take(&mut self.packet), |uid| hostile.contains(&uid));
            }
        }
        if has_more {
            return;
        }
        self.read = None;
        if self.phase == Phase::Reading {
            self.phase = Phase::Done;
        }
    }

    fn misbehave(&mut self, rng: &mut Rng) {
        match rng.below(5) {
            0 => {
                let garbage = rng.bytes(200);
                self.link.send_garbage(&garbage);
            }
            1 => {
                let config = Some(Bytes::from(rng.bytes(100)));
                self.call(
                    "EnableTracing",
                    &protos::EnableTracingRequest { trace_config: config, ..Default::default() },
                );
            }
            2 => {
                self.call("FreeBuffers", &protos::FreeBuffersRequest::default());
            }
            3 => {
                self.call("Detach", &protos::DetachRequest { key: Some(DETACH_KEY.to_owned()) });
                self.call("Attach", &protos::AttachRequest { key: Some(DETACH_KEY.to_owned()) });
            }
            _ => {
                let request = protos::ObserveEventsRequest { events_to_observe: vec![1, 2, 4] };
                self.call("ObserveEvents", &request);
            }
        }
    }
}
