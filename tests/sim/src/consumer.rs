//! A consumer: records a session, reads it, frees it and begins anew; or detaches, attaches, clones, leaves in the middle.

use bytes::Bytes;
use ferretto_ipc::client::{Event, RequestId};
use ferretto_protos as protos;
use ferretto_protos::clone_session_request::Selector;
use prost::Message;

use crate::fate::Fate;
use crate::link::Link;
use crate::plan::{Plan, producer_name, serial_of};

/// What sessions are detached under; both sides guess.
const KEYS: [&str; 2] = ["this", "that"];
/// What stands for the session with the highest bugreport score.
const BUGREPORT: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// A session is asked for and may run.
    Recording,
    /// An Attach, CloneSession or Detach is on its way.
    Asking,
    /// The session is over, or a copy.
    Ended,
    Reading,
    Done,
    /// At the end of the world: everything is read and freed.
    Over,
}

pub(crate) struct Consumer {
    pub(crate) link: Link,
    pub(crate) phase: Phase,
    pub(crate) is_hostile: bool,
    uid: u32,
    plan: Option<Plan>,
    enable: Option<RequestId>,
    read: Option<RequestId>,
    asking: Option<RequestId>,
    query: Option<RequestId>,
    disables: bool,
    /// Sessions that it has heard of.
    known: Vec<u64>,
}

impl Consumer {
    pub(crate) fn new(uid: u32, is_hostile: bool) -> Self {
        Self {
            link: Link::consumer(),
            phase: Phase::Idle,
            is_hostile,
            uid,
            plan: None,
            enable: None,
            read: None,
            asking: None,
            query: None,
            disables: false,
            known: Vec::new(),
        }
    }

    /// One thing that a consumer may do. New plans are added to those of the world.
    pub(crate) fn act(&mut self, plans: &mut Vec<Plan>, fate: &mut Fate) {
        self.receive(plans);
        if !self.link.is_bound() {
            return;
        }
        if self.is_hostile && fate.one_in(6) {
            return self.misbehave(plans, fate);
        }
        match self.phase {
            Phase::Idle => self.begin(plans, fate),
            Phase::Recording => self.steer(fate),
            Phase::Ended => self.start_reading(),
            Phase::Done => self.free(Phase::Idle),
            Phase::Asking | Phase::Reading | Phase::Over => {}
        }
    }

    /// Brings the session to its end. One with a duration may find it by itself.
    pub(crate) fn settle(&mut self, plans: &[Plan]) {
        self.receive(plans);
        let ends_by_itself = self.plan.as_ref().is_some_and(|plan| plan.duration_ms > 0 && !plan.is_deferred);
        match self.phase {
            Phase::Idle => self.phase = Phase::Over,
            Phase::Recording if !self.disables && !ends_by_itself => {
                self.disables = true;
                self.call("DisableTracing", &protos::DisableTracingRequest::default());
            }
            Phase::Ended => self.start_reading(),
            Phase::Done => self.free(Phase::Over),
            Phase::Recording | Phase::Asking | Phase::Reading | Phase::Over => {}
        }
    }

    fn call(&mut self, method: &str, args: &impl Message) -> Option<RequestId> {
        self.link.call(method, args, true)
    }

    fn begin(&mut self, plans: &mut Vec<Plan>, fate: &mut Fate) {
        match fate.below(10) {
            0 => self.attach(fate),
            1 | 2 => self.clone_session(plans.len(), fate),
            3 => self.query = self.call("QueryServiceState", &protos::QueryServiceStateRequest::default()),
            _ => self.enable(plans, fate),
        }
    }

    fn enable(&mut self, plans: &mut Vec<Plan>, fate: &mut Fate) {
        let plan = Plan::new(u32::try_from(plans.len() + 1).unwrap_or(0), self.uid, fate);
        let request = protos::EnableTracingRequest {
            trace_config: Some(plan.config().encode_to_vec().into()),
            ..Default::default()
        };
        plans.push(plan.clone());
        self.plan = Some(plan);
        self.disables = false;
        self.enable = self.call("EnableTracing", &request);
        self.phase = Phase::Recording;
        if fate.one_in(3) {
            self.observe();
        }
    }

    fn observe(&mut self) {
        let request = protos::ObserveEventsRequest { events_to_observe: vec![1, 2] };
        self.call("ObserveEvents", &request);
    }

    fn attach(&mut self, fate: &mut Fate) {
        let request = protos::AttachRequest { key: Some(fate.pick(&KEYS).to_owned()) };
        self.asking = self.call("Attach", &request);
        self.phase = Phase::Asking;
    }

    fn clone_session(&mut self, plans: usize, fate: &mut Fate) {
        let selector = match fate.below(3) {
            0 => Selector::SessionId(BUGREPORT),
            1 if !self.known.is_empty() => Selector::SessionId(fate.pick(&self.known)),
            _ => Selector::UniqueSessionName(format!("s{}", plans.saturating_sub(fate.below(4)))),
        };
        let request = protos::CloneSessionRequest { selector: Some(selector), ..Default::default() };
        self.asking = self.call("CloneSession", &request);
        self.phase = Phase::Asking;
    }

    fn steer(&mut self, fate: &mut Fate) {
        let times = if fate.one_in(10) { 2 } else { 1 };
        let what = fate.below(40);
        if times == 2 && what < 10 {
            fate.saw("a consumer calls twice");
        }
        for _ in 0..times {
            match what {
                0 => {
                    self.call("DisableTracing", &protos::DisableTracingRequest::default());
                }
                1 | 2 => {
                    let timeout_ms = fate.pick(&[None, Some(0), Some(100)]);
                    self.call("Flush", &protos::FlushRequest { timeout_ms, ..Default::default() });
                }
                3 | 4 => {
                    self.call("StartTracing", &protos::StartTracingRequest::default());
                }
                5 => {
                    self.call("GetTraceStats", &protos::GetTraceStatsRequest::default());
                }
                6 => {
                    self.query = self.call("QueryServiceState", &protos::QueryServiceStateRequest::default());
                }
                // Reading while recording is allowed.
                7 => self.start_reading(),
                8 => self.widen(fate),
                9 => self.observe(),
                _ => {}
            }
        }
        if what == 10 && fate.one_in(3) {
            let request = protos::DetachRequest { key: Some(fate.pick(&KEYS).to_owned()) };
            self.asking = self.call("Detach", &request);
            self.phase = Phase::Asking;
        }
    }

    fn widen(&mut self, fate: &mut Fate) {
        let Some(plan) = &self.plan else { return };
        let config = plan.widened(&producer_name(fate.below(8)));
        let request = protos::ChangeTraceConfigRequest { trace_config: Some(config.encode_to_vec().into()) };
        self.call("ChangeTraceConfig", &request);
    }

    fn start_reading(&mut self) {
        if self.read.is_none() {
            self.read = self.call("ReadBuffers", &protos::ReadBuffersRequest::default());
            if self.phase == Phase::Ended {
                self.phase = Phase::Reading;
            }
        }
    }

    fn free(&mut self, next: Phase) {
        self.call("FreeBuffers", &protos::FreeBuffersRequest::default());
        self.phase = next;
        self.plan = None;
        self.enable = None;
    }

    fn receive(&mut self, plans: &[Plan]) {
        while let Some(event) = self.link.poll_event() {
            let Event::Reply { request, body, has_more } = event else { continue };
            let request = Some(request);
            if request == self.enable {
                self.enable = None;
                self.end();
            } else if request == self.read {
                self.take_read(has_more);
            } else if request == self.asking {
                self.take_answer(body, plans);
            } else if request == self.query {
                self.take_state(body);
            }
        }
    }

    fn end(&mut self) {
        if self.phase == Phase::Recording {
            self.phase = Phase::Ended;
        }
    }

    fn take_read(&mut self, has_more: bool) {
        if has_more {
            return;
        }
        self.read = None;
        if self.phase == Phase::Reading {
            self.phase = Phase::Done;
        }
    }

    /// Of Attach, Detach or CloneSession. Whatever it was: something is ours now, or nothing is.
    fn take_answer(&mut self, body: Option<Bytes>, plans: &[Plan]) {
        self.asking = None;
        if self.plan.take_if(|_| body.is_some()).is_some() {
            // Detached: its end is told to whoever attaches.
            self.enable = None;
            self.phase = Phase::Idle;
        } else if self.plan.is_some() {
            // Not detached; it may be over by now.
            self.phase = if self.enable.is_some() { Phase::Recording } else { Phase::Ended };
        } else if let Some(attached) = body.as_ref().and_then(|body| attached_plan(body, plans)) {
            self.plan = Some(attached);
            self.disables = false;
            let request =
                protos::EnableTracingRequest { attach_notification_only: Some(true), ..Default::default() };
            self.enable = self.call("EnableTracing", &request);
            self.phase = Phase::Recording;
        } else {
            self.phase = Phase::Ended;
        }
    }

    fn take_state(&mut self, body: Option<Bytes>) {
        self.query = None;
        let response = body.and_then(|body| protos::QueryServiceStateResponse::decode(body).ok());
        let state = response.and_then(|response| response.service_state).unwrap_or_default();
        self.known = state.tracing_sessions.iter().map(|session| session.id()).collect();
    }

    fn misbehave(&mut self, plans: &mut Vec<Plan>, fate: &mut Fate) {
        match fate.below(6) {
            0 if fate.one_in(3) => {
                fate.saw("a consumer sends garbage");
                let garbage = fate.bytes(200);
                self.link.send_garbage(&garbage);
            }
            0 | 1 => {
                let config = Some(Bytes::from(fate.bytes(100)));
                let request = protos::EnableTracingRequest { trace_config: config, ..Default::default() };
                self.call("EnableTracing", &request);
            }
            2 => {
                self.call("FreeBuffers", &protos::FreeBuffersRequest::default());
            }
            3 => {
                let key = Some(fate.pick(&KEYS).to_owned());
                self.call("Detach", &protos::DetachRequest { key: key.clone() });
                self.call("Attach", &protos::AttachRequest { key });
            }
            4 => self.enable(plans, fate),
            _ => {
                let request = protos::ObserveEventsRequest { events_to_observe: vec![1, 2, 4] };
                self.call("ObserveEvents", &request);
            }
        }
    }
}

/// The plan behind the answer to Attach.
fn attached_plan(body: &Bytes, plans: &[Plan]) -> Option<Plan> {
    let response = protos::AttachResponse::decode(body.clone()).ok()?;
    let serial = serial_of(&response.trace_config?)?;
    plans.get(usize::try_from(serial).ok()?.checked_sub(1)?).cloned()
}
