//! The consumer: calls, events, and waiting for answers.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_ipc::address::{Address, default_consumer};
use ferretto_ipc::client::{self, RequestId};
use ferretto_ipc::link::{ClientLink, LinkError};
use ferretto_ipc::socket::Stream;
use ferretto_protos::{
    AttachRequest, AttachResponse, ChangeTraceConfigRequest, CloneSessionRequest, CloneSessionResponse,
    DetachRequest, DisableTracingRequest, EnableTracingRequest, EnableTracingResponse, FlushRequest,
    FreeBuffersRequest, GetTraceStatsRequest, GetTraceStatsResponse, ObservableEvents, ObserveEventsRequest,
    ObserveEventsResponse, QueryCapabilitiesRequest, QueryCapabilitiesResponse, QueryServiceStateRequest,
    QueryServiceStateResponse, ReadBuffersRequest, ReadBuffersResponse, StartTracingRequest, TraceStats,
    TracingServiceCapabilities, TracingServiceState,
};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::error::{CallError, ConnectError, ReadError};
use crate::packets::Reassembly;

/// A service answers its bind and its cheap calls in microseconds; one that takes this long hangs.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Buffers may be read from a service that waits for its own disk or compresses; this is for silence, not for the whole.
const READ_SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// On top of a flush's own time-out, for the answer to come back.
const FLUSH_SLACK: Duration = Duration::from_secs(5);

/// What the service uses for a flush with a time-out of 0 (upstream: `kDefaultFlushTimeoutMs`).
const DEFAULT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Packets held for a caller that does not take events: no more are received then, and the service waits.
const MAX_QUEUED_PACKET_BYTES: usize = 4 * 1024 * 1024;

/// Other events held for a caller that does not take them.
const MAX_QUEUED_EVENTS: usize = 16 * 1024;

/// Receives a turn: a service that sends without end must not keep a poll loop from its other work.
const MAX_RECEIVES_PER_TURN: usize = 16;

/// Whoever cannot take packets any more throws away what is still on its way, for as long as this: a service may send without end.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// A service's state comes in parts. A thousand producers with long descriptors stay far below.
const MAX_SERVICE_STATE_BYTES: usize = 64 * 1024 * 1024;

/// Its producers, data sources and sessions, all together: each takes some hundred bytes here, and may be two on its way. Four for each
/// producer that a service can have.
const MAX_SERVICE_STATE_ENTRIES: usize = 256 * 1024;

/// Why and by whom a flush was asked for, combined with `|` (upstream: flush_flags.h).
pub mod flush_flags {
    /// Somebody asked for it.
    pub const REASON_EXPLICIT: u64 = 4;
    /// By the command line.
    pub const INITIATOR_COMMAND_LINE: u64 = 2 << 4;
    /// By a program that uses the library.
    pub const INITIATOR_CONSUMER_SDK: u64 = 3 << 4;
}

/// Kinds of events for [`Consumer::observe`], combined with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observe(u32);

impl Observe {
    /// Nothing: ends the observation.
    pub const NOTHING: Self = Self(0);
    /// Data source instances that start and stop.
    pub const DATA_SOURCE_INSTANCES: Self = Self(1);
    /// The moment when all data sources have started.
    pub const ALL_DATA_SOURCES_STARTED: Self = Self(2);
    /// A trigger that wants this session cloned.
    pub const CLONE_TRIGGER_HIT: Self = Self(4);

    fn types(self) -> Vec<i32> {
        [1_i32, 2, 4].into_iter().filter(|kind| self.0 & kind.unsigned_abs() != 0).collect()
    }
}

impl std::ops::BitOr for Observe {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Names a call whose answer comes as an [`Event::Answer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(RequestId);

/// What the service said.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Calls can be made now. Only after [`Consumer::start`].
    Connected,
    /// The session that was enabled has ended: stopped, expired, or refused. The buffers can be read.
    TracingDisabled {
        /// Why the service refused or gave up.
        error: Option<String>,
    },
    /// Whole packets, in order.
    Packets {
        /// The [`Consumer::begin_read_buffers`] that they answer.
        call: CallId,
        /// Serialised `TracePacket`s.
        packets: Vec<Bytes>,
    },
    /// Something that [`Consumer::observe`] asked for.
    Observed(ObservableEvents),
    /// The answer to a call made with a `begin_` method; the last event of that call.
    Answer {
        /// The call.
        call: CallId,
        /// What came back.
        answer: Result<Answer, CallError>,
    },
    /// The connection ended; nothing follows. Calls that waited have been answered with [`CallError::Disconnected`].
    Disconnected {
        /// Why.
        reason: String,
    },
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It was done.
    Done,
    /// All packets have been handed out.
    Read(ReadSummary),
    /// For [`Consumer::begin_stats`].
    Stats(Box<TraceStats>),
    /// For [`Consumer::begin_query_service_state`].
    ServiceState(Box<TracingServiceState>),
    /// For [`Consumer::begin_query_capabilities`].
    Capabilities(TracingServiceCapabilities),
    /// For [`Consumer::begin_attach`]: the config of the session, as raw bytes.
    Attached(Bytes),
    /// For [`Consumer::begin_clone_session`].
    Cloned(CloneSessionResponse),
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadSummary {
    /// Packets handed out.
    pub packets: u64,
    /// Their bytes, without framing.
    pub bytes: u64,
    /// Packets dropped because they were larger than [`MAX_PACKET_SIZE`](crate::MAX_PACKET_SIZE).
    pub oversized_packets: u64,
    /// The service ended in the middle of a packet; its beginning was dropped.
    pub torn: bool,
}

/// A call that waits for its answer.
#[derive(Debug)]
enum Call {
    Enable,
    Observe,
    Read(Reassembly, ReadSummary),
    State(Box<TracingServiceState>, usize),
    Plain(&'static str),
}

impl Call {
    fn method(&self) -> &'static str {
        match self {
            Self::Enable => "EnableTracing",
            Self::Observe => "ObserveEvents",
            Self::Read(..) => "ReadBuffers",
            Self::State(..) => "QueryServiceState",
            Self::Plain(method) => method,
        }
    }
}

/// A connection to a tracing service, with at most one tracing session.
///
/// Methods named `begin_…` return at once and their answer comes as an [`Event::Answer`]; those without wait for it (and keep other events
/// for [`next_event`](Self::next_event)).
#[derive(Debug)]
pub struct Consumer {
    link: ClientLink,
    calls: HashMap<RequestId, Call>,
    observing: Option<RequestId>,
    events: VecDeque<Event>,
    queued_packet_bytes: usize,
    bind_failed: bool,
    /// Why the connection ended.
    ended: Option<String>,
}

/// Connecting.
impl Consumer {
    /// Connects to the socket that the environment names, or to the default one.
    pub fn connect_default() -> Result<Self, ConnectError> {
        Self::connect(&default_consumer()?)
    }

    /// Connects and waits until calls can be made.
    pub fn connect(address: &Address) -> Result<Self, ConnectError> {
        let stream = Stream::connect_within(address, REPLY_TIMEOUT)
            .map_err(|source| ConnectError::NoService { address: address.clone(), source })?;
        Self::over(stream)
    }

    /// Takes a connected stream and waits until calls can be made.
    pub fn over(stream: Stream) -> Result<Self, ConnectError> {
        let mut consumer = Self::start(stream);
        let deadline = Deadline::after(REPLY_TIMEOUT);
        loop {
            match consumer.events.pop_front() {
                Some(Event::Connected) => return Ok(consumer),
                Some(Event::Disconnected { .. }) if consumer.bind_failed => {
                    return Err(ConnectError::Refused);
                }
                Some(Event::Disconnected { reason }) => {
                    return Err(ConnectError::Link(LinkError::Io(io::Error::other(reason))));
                }
                Some(_) => continue,
                None => {}
            }
            if deadline.is_over() {
                return Err(ConnectError::TimedOut { after: REPLY_TIMEOUT });
            }
            consumer.turn(Some(deadline.left()));
        }
    }

    /// Takes a connected stream; [`Event::Connected`] says when calls can be made.
    pub fn start(stream: Stream) -> Self {
        Self {
            link: ClientLink::new(stream, "ConsumerPort"),
            calls: HashMap::new(),
            observing: None,
            events: VecDeque::new(),
            queued_packet_bytes: 0,
            bind_failed: false,
            ended: None,
        }
    }
}

/// Being driven by a poll loop.
impl Consumer {
    /// What to poll (level-triggered): for reading, and for writing while [`wants_write`](Self::wants_write).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    /// Whether bytes wait that the socket did not take.
    pub fn wants_write(&self) -> bool {
        self.ended.is_none() && self.link.wants_write()
    }

    /// The service's user, where the kernel says (Unix sockets).
    pub fn service_uid(&self) -> Option<u32> {
        self.link.stream().peer_credentials().ok().flatten().map(|peer| peer.uid)
    }

    /// Whether the connection has ended. Events may still wait.
    pub fn is_disconnected(&self) -> bool {
        self.ended.is_some()
    }

    /// Sends and receives what is possible without waiting. Nothing is received while the caller leaves many events untaken.
    pub fn handle_ready(&mut self) {
        if self.ended.is_some() {
            return;
        }
        if let Err(error) = self.link.flush() {
            // Answers that came before the end are still worth reading.
            self.receive();
            self.end(&error.to_string());
            return;
        }
        self.receive();
    }

    /// What happened next.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.forget_packets(&event);
        Some(event)
    }

    /// The next event, waiting for it at most this long (`None`: without limit). After [`Event::Disconnected`] there are none, and it
    /// returns at once.
    pub fn poll(&mut self, timeout: Option<Duration>) -> Option<Event> {
        let deadline = timeout.map(Deadline::after);
        loop {
            if let Some(event) = self.next_event() {
                return Some(event);
            }
            if self.ended.is_some() {
                return None;
            }
            self.turn(deadline.as_ref().map(Deadline::left));
            if self.events.is_empty() && deadline.as_ref().is_some_and(Deadline::is_over) {
                return None;
            }
        }
    }

    /// Sends, waits for the socket, receives.
    fn turn(&mut self, timeout: Option<Duration>) {
        self.handle_ready();
        if !self.events.is_empty() || self.ended.is_some() {
            return;
        }
        self.wait_for_socket(timeout);
        self.handle_ready();
    }

    fn wait_for_socket(&self, timeout: Option<Duration>) {
        let flags = if self.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let fd = self.link.fd();
        // A signal or a failure shows in the next receive.
        let _ = rustix::event::poll(&mut [PollFd::new(&fd, flags)], timeout.as_ref());
    }

    fn receive(&mut self) {
        for _ in 0..MAX_RECEIVES_PER_TURN {
            if self.queued_packet_bytes > MAX_QUEUED_PACKET_BYTES || self.events.len() > MAX_QUEUED_EVENTS {
                return;
            }
            let received = self.link.receive();
            while let Some(event) = self.link.connection().poll_event() {
                self.handle_event(event);
            }
            match received {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.end(&error.to_string()),
            }
        }
    }

    fn end(&mut self, reason: &str) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(reason.to_owned());
        let mut calls: Vec<(RequestId, Call)> = self.calls.drain().collect();
        calls.sort_unstable_by_key(|(id, _)| *id);
        for (id, call) in calls {
            // The end of tracing and of observations is told by Disconnected.
            if !matches!(call, Call::Enable | Call::Observe) {
                let error = CallError::Disconnected { method: call.method(), reason: reason.to_owned() };
                self.events.push_back(Event::Answer { call: CallId(id), answer: Err(error) });
            }
        }
        self.events.push_back(Event::Disconnected { reason: reason.to_owned() });
    }

    fn forget_packets(&mut self, event: &Event) {
        if let Event::Packets { packets, .. } = event {
            self.queued_packet_bytes = self.queued_packet_bytes.saturating_sub(total_len(packets));
        }
    }
}

/// Understanding answers.
impl Consumer {
    fn handle_event(&mut self, event: client::Event) {
        match event {
            client::Event::Bound => self.events.push_back(Event::Connected),
            client::Event::BindFailed => {
                self.bind_failed = true;
                self.end("the service refused ConsumerPort");
            }
            client::Event::Reply { request, has_more, body } => self.handle_reply(request, has_more, body),
        }
    }

    fn handle_reply(&mut self, id: RequestId, has_more: bool, body: Option<Bytes>) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        let method = call.method();
        let Some(body) = body else {
            return self.handle_rejection(id, &call);
        };
        match self.handle_body(id, call, has_more, body) {
            Ok(Some(call)) => {
                self.calls.insert(id, call);
            }
            Ok(None) => {}
            Err(what) => self.answer(id, Err(CallError::BadReply { method, what })),
        }
    }

    fn handle_rejection(&mut self, id: RequestId, call: &Call) {
        match call {
            Call::Enable => {
                let error = "the tracing service rejected the request to trace".to_owned();
                self.events.push_back(Event::TracingDisabled { error: Some(error) });
            }
            Call::Observe => self.observing = None,
            _ => self.answer(id, Err(CallError::Rejected { method: call.method() })),
        }
    }

    /// Gives the call back if more answers to it are expected.
    fn handle_body(
        &mut self,
        id: RequestId,
        call: Call,
        has_more: bool,
        body: Bytes,
    ) -> Result<Option<Call>, String> {
        match call {
            Call::Enable => {
                let error = decode::<EnableTracingResponse>(body)?.error.filter(|error| !error.is_empty());
                self.events.push_back(Event::TracingDisabled { error });
                Ok(None)
            }
            Call::Observe => {
                let events = decode::<ObserveEventsResponse>(body)?.events.unwrap_or_default();
                self.events.push_back(Event::Observed(events));
                Ok(has_more.then_some(Call::Observe))
            }
            Call::Read(reassembly, summary) => self.handle_packets(id, reassembly, summary, has_more, body),
            Call::State(state, bytes) => self.handle_state(id, state, bytes, has_more, body),
            Call::Plain(method) => {
                let answer = plain_answer(method, body)?;
                self.answer(id, Ok(answer));
                Ok(None)
            }
        }
    }

    fn handle_packets(
        &mut self,
        id: RequestId,
        mut reassembly: Reassembly,
        mut summary: ReadSummary,
        has_more: bool,
        body: Bytes,
    ) -> Result<Option<Call>, String> {
        let packets = reassembly.take(decode::<ReadBuffersResponse>(body)?);
        let bytes = total_len(&packets);
        summary.packets = summary.packets.saturating_add(packets.len() as u64);
        summary.bytes = summary.bytes.saturating_add(bytes as u64);
        if !packets.is_empty() {
            self.queued_packet_bytes = self.queued_packet_bytes.saturating_add(bytes);
            self.events.push_back(Event::Packets { call: CallId(id), packets });
        }
        if has_more {
            return Ok(Some(Call::Read(reassembly, summary)));
        }
        summary.oversized_packets = reassembly.oversized;
        summary.torn = reassembly.is_torn();
        self.answer(id, Ok(Answer::Read(summary)));
        Ok(None)
    }

    /// The parts of a state are parts of one message: merging them is what protobuf does with concatenated messages.
    fn handle_state(
        &mut self,
        id: RequestId,
        mut state: Box<TracingServiceState>,
        bytes: usize,
        has_more: bool,
        body: Bytes,
    ) -> Result<Option<Call>, String> {
        let bytes = bytes.saturating_add(body.len());
        if bytes > MAX_SERVICE_STATE_BYTES {
            return Err(format!("it is larger than {MAX_SERVICE_STATE_BYTES} bytes"));
        }
        let part = decode::<QueryServiceStateResponse>(body)?.service_state.unwrap_or_default();
        state.merge(part.encode_to_vec().as_slice()).map_err(|error| error.to_string())?;
        let entries = state.producers.len() + state.data_sources.len() + state.tracing_sessions.len();
        if entries > MAX_SERVICE_STATE_ENTRIES {
            return Err(format!(
                "it has more than {MAX_SERVICE_STATE_ENTRIES} producers, data sources and sessions"
            ));
        }
        if has_more {
            return Ok(Some(Call::State(state, bytes)));
        }
        self.answer(id, Ok(Answer::ServiceState(state)));
        Ok(None)
    }

    fn answer(&mut self, id: RequestId, answer: Result<Answer, CallError>) {
        self.events.push_back(Event::Answer { call: CallId(id), answer });
    }
}

/// Calls that return at once.
impl Consumer {
    /// Whether the service has this method of ConsumerPort.
    pub fn has_method(&self, method: &str) -> bool {
        self.link.connection_ref().has_method(method)
    }

    /// Sets up a session with this serialised `TraceConfig`, and starts it unless the config defers that. The end of the session, and a
    /// config that the service refuses, come as [`Event::TracingDisabled`]. A config with `write_into_file` and without
    /// `output_path` needs the file.
    pub fn enable_tracing(
        &mut self,
        config: impl Into<Bytes>,
        file: Option<OwnedFd>,
    ) -> Result<(), CallError> {
        let request = EnableTracingRequest { trace_config: Some(config.into()), ..Default::default() };
        self.call(Call::Enable, &request, file).map(|_| ())
    }

    /// After [`attach`](Self::attach): asks to be told by [`Event::TracingDisabled`] when the session ends.
    pub fn notify_when_disabled(&mut self) -> Result<(), CallError> {
        let request = EnableTracingRequest { attach_notification_only: Some(true), ..Default::default() };
        self.call(Call::Enable, &request, None).map(|_| ())
    }

    /// Asks for events of these kinds as [`Event::Observed`], instead of those asked for before.
    pub fn observe(&mut self, kinds: Observe) -> Result<(), CallError> {
        let request = ObserveEventsRequest { events_to_observe: kinds.types() };
        let CallId(id) = self.call(Call::Observe, &request, None)?;
        if let Some(previous) = self.observing.replace(id) {
            self.calls.remove(&previous);
        }
        Ok(())
    }

    /// Starts a session whose config has `deferred_start`.
    pub fn begin_start(&mut self) -> Result<CallId, CallError> {
        self.call(Call::Plain("StartTracing"), &StartTracingRequest::default(), None)
    }

    /// Stops the session. The buffers are complete when [`Event::TracingDisabled`] comes, not when this is answered.
    pub fn begin_disable(&mut self) -> Result<CallId, CallError> {
        self.call(Call::Plain("DisableTracing"), &DisableTracingRequest::default(), None)
    }

    /// Asks all data sources to commit what they hold, see [`flush_flags`]. A time-out of 0 is the service's default, 5 s.
    pub fn begin_flush(&mut self, timeout: Duration, flags: u64) -> Result<CallId, CallError> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let request = FlushRequest { timeout_ms: Some(timeout_ms), flags: Some(flags) };
        self.call(Call::Plain("Flush"), &request, None)
    }

    /// Reads all buffers; what is read is gone from them. Packets come as [`Event::Packets`], then [`Answer::Read`].
    pub fn begin_read_buffers(&mut self) -> Result<CallId, CallError> {
        let call = Call::Read(Reassembly::default(), ReadSummary::default());
        self.call(call, &ReadBuffersRequest::default(), None)
    }

    /// Ends the session and frees its buffers; another one can be enabled.
    pub fn begin_free(&mut self) -> Result<CallId, CallError> {
        self.call(Call::Plain("FreeBuffers"), &FreeBuffersRequest::default(), None)
    }

    /// Asks for the session's statistics.
    pub fn begin_stats(&mut self) -> Result<CallId, CallError> {
        self.call(Call::Plain("GetTraceStats"), &GetTraceStatsRequest::default(), None)
    }

    /// Asks for producers, data sources and sessions, or only for sessions.
    pub fn begin_query_service_state(&mut self, sessions_only: bool) -> Result<CallId, CallError> {
        let request = QueryServiceStateRequest { sessions_only: Some(sessions_only) };
        self.call(Call::State(Box::default(), 0), &request, None)
    }

    /// Asks what the service can do.
    pub fn begin_query_capabilities(&mut self) -> Result<CallId, CallError> {
        self.call(Call::Plain("QueryCapabilities"), &QueryCapabilitiesRequest::default(), None)
    }

    /// Leaves the session running under a key, so that this connection may end.
    pub fn begin_detach(&mut self, key: &str) -> Result<CallId, CallError> {
        self.call(Call::Plain("Detach"), &DetachRequest { key: Some(key.to_owned()) }, None)
    }

    /// Takes over a session that was left under a key.
    pub fn begin_attach(&mut self, key: &str) -> Result<CallId, CallError> {
        self.call(Call::Plain("Attach"), &AttachRequest { key: Some(key.to_owned()) }, None)
    }

    /// Makes a read-only copy of another session the session of this connection, and writes it to `file` if there is one.
    pub fn begin_clone_session(
        &mut self,
        request: &CloneSessionRequest,
        file: Option<OwnedFd>,
    ) -> Result<CallId, CallError> {
        self.call(Call::Plain("CloneSession"), request, file)
    }

    /// Changes the running session's config; services honour only further producer name filters.
    pub fn begin_change_trace_config(&mut self, config: impl Into<Bytes>) -> Result<CallId, CallError> {
        let request = ChangeTraceConfigRequest { trace_config: Some(config.into()) };
        self.call(Call::Plain("ChangeTraceConfig"), &request, None)
    }

    fn call(&mut self, call: Call, args: &impl Message, fd: Option<OwnedFd>) -> Result<CallId, CallError> {
        if let Some(reason) = &self.ended {
            return Err(CallError::Disconnected { method: call.method(), reason: reason.clone() });
        }
        let id = self.link.connection().invoke(call.method(), args, fd.map(Arc::new), true)?;
        self.calls.insert(id, call);
        // What the socket does not take goes out when it is ready; a failure shows in the next receive.
        if let Err(error) = self.link.flush() {
            tracing::debug!(%error, "the call could not be sent");
        }
        Ok(CallId(id))
    }
}

/// Calls that wait for their answer.
impl Consumer {
    /// See [`begin_start`](Self::begin_start).
    pub fn start_tracing(&mut self) -> Result<(), CallError> {
        let call = self.begin_start()?;
        self.wait(call, "StartTracing", REPLY_TIMEOUT).map(|_| ())
    }

    /// See [`begin_disable`](Self::begin_disable).
    pub fn disable(&mut self) -> Result<(), CallError> {
        let call = self.begin_disable()?;
        self.wait(call, "DisableTracing", REPLY_TIMEOUT).map(|_| ())
    }

    /// See [`begin_flush`](Self::begin_flush).
    pub fn flush(&mut self, timeout: Duration, flags: u64) -> Result<(), CallError> {
        let call = self.begin_flush(timeout, flags)?;
        let own = if timeout.is_zero() { DEFAULT_FLUSH_TIMEOUT } else { timeout };
        self.wait(call, "Flush", own.saturating_add(FLUSH_SLACK)).map(|_| ())
    }

    /// Reads all buffers and hands out each packet (a serialised `TracePacket`). If `sink` fails, the rest is read and thrown away, for ten
    /// seconds at most: then the service may still be sending.
    ///
    /// [`write_packet`](crate::write_packet) writes a packet as a trace file holds it.
    pub fn read_buffers(
        &mut self,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<ReadSummary, ReadError> {
        let call = self.begin_read_buffers()?;
        let mut result = Ok(());
        let mut deadline = Deadline::after(READ_SILENCE_TIMEOUT);
        loop {
            for packet in self.take_packets(call) {
                if result.is_ok() {
                    result = sink(&packet);
                    let timeout = if result.is_ok() { READ_SILENCE_TIMEOUT } else { DISCARD_TIMEOUT };
                    deadline = Deadline::after(timeout);
                }
            }
            if let Some(answer) = self.take_answer(call) {
                let Answer::Read(summary) = answer? else {
                    return Ok(ReadSummary::default());
                };
                return result.map(|()| summary).map_err(Into::into);
            }
            if let Err(error) = self.wait_turn(call, "ReadBuffers", &deadline, READ_SILENCE_TIMEOUT) {
                return result.map_err(Into::into).and(Err(error.into()));
            }
        }
    }

    /// See [`begin_free`](Self::begin_free).
    pub fn free(&mut self) -> Result<(), CallError> {
        let call = self.begin_free()?;
        self.wait(call, "FreeBuffers", REPLY_TIMEOUT).map(|_| ())
    }

    /// See [`begin_stats`](Self::begin_stats).
    pub fn stats(&mut self) -> Result<TraceStats, CallError> {
        let call = self.begin_stats()?;
        match self.wait(call, "GetTraceStats", REPLY_TIMEOUT)? {
            Answer::Stats(stats) => Ok(*stats),
            _ => Ok(TraceStats::default()),
        }
    }

    /// See [`begin_query_service_state`](Self::begin_query_service_state).
    pub fn query_service_state(&mut self, sessions_only: bool) -> Result<TracingServiceState, CallError> {
        let call = self.begin_query_service_state(sessions_only)?;
        match self.wait(call, "QueryServiceState", REPLY_TIMEOUT)? {
            Answer::ServiceState(state) => Ok(*state),
            _ => Ok(TracingServiceState::default()),
        }
    }

    /// See [`begin_query_capabilities`](Self::begin_query_capabilities).
    pub fn query_capabilities(&mut self) -> Result<TracingServiceCapabilities, CallError> {
        let call = self.begin_query_capabilities()?;
        match self.wait(call, "QueryCapabilities", REPLY_TIMEOUT)? {
            Answer::Capabilities(capabilities) => Ok(capabilities),
            _ => Ok(TracingServiceCapabilities::default()),
        }
    }

    /// See [`begin_detach`](Self::begin_detach).
    pub fn detach(&mut self, key: &str) -> Result<(), CallError> {
        let call = self.begin_detach(key)?;
        self.wait(call, "Detach", REPLY_TIMEOUT).map(|_| ())
    }

    /// See [`begin_attach`](Self::begin_attach). Gives the session's config.
    pub fn attach(&mut self, key: &str) -> Result<Bytes, CallError> {
        let call = self.begin_attach(key)?;
        match self.wait(call, "Attach", REPLY_TIMEOUT)? {
            Answer::Attached(config) => Ok(config),
            _ => Ok(Bytes::new()),
        }
    }

    /// See [`begin_clone_session`](Self::begin_clone_session). The service flushes the other session first.
    pub fn clone_session(
        &mut self,
        request: &CloneSessionRequest,
        file: Option<OwnedFd>,
    ) -> Result<CloneSessionResponse, CallError> {
        let call = self.begin_clone_session(request, file)?;
        match self.wait(call, "CloneSession", READ_SILENCE_TIMEOUT)? {
            Answer::Cloned(response) => Ok(response),
            _ => Ok(CloneSessionResponse::default()),
        }
    }

    /// See [`begin_change_trace_config`](Self::begin_change_trace_config).
    pub fn change_trace_config(&mut self, config: impl Into<Bytes>) -> Result<(), CallError> {
        let call = self.begin_change_trace_config(config)?;
        self.wait(call, "ChangeTraceConfig", REPLY_TIMEOUT).map(|_| ())
    }

    fn wait(&mut self, call: CallId, method: &'static str, timeout: Duration) -> Result<Answer, CallError> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(answer) = self.take_answer(call) {
                return answer;
            }
            self.wait_turn(call, method, &deadline, timeout)?;
        }
    }

    /// Receives something, or fails if it is too late. Unlike [`turn`](Self::turn) it waits although other events are queued.
    fn wait_turn(
        &mut self,
        call: CallId,
        method: &'static str,
        deadline: &Deadline,
        timeout: Duration,
    ) -> Result<(), CallError> {
        if let Some(reason) = &self.ended {
            return Err(CallError::Disconnected { method, reason: reason.clone() });
        }
        if deadline.is_over() {
            self.calls.remove(&call.0);
            let after_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            return Err(CallError::TimedOut { method, after_ms });
        }
        self.wait_for_socket(Some(deadline.left()));
        self.handle_ready();
        Ok(())
    }

    fn take_answer(&mut self, call: CallId) -> Option<Result<Answer, CallError>> {
        let index = self
            .events
            .iter()
            .position(|event| matches!(event, Event::Answer { call: id, .. } if *id == call))?;
        match self.events.remove(index)? {
            Event::Answer { answer, .. } => Some(answer),
            _ => None,
        }
    }

    fn take_packets(&mut self, call: CallId) -> Vec<Bytes> {
        let mut taken = Vec::new();
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Packets { call: id, packets } if id == call => {
                    self.queued_packet_bytes = self.queued_packet_bytes.saturating_sub(total_len(&packets));
                    taken.extend(packets);
                }
                other => self.events.push_back(other),
            }
        }
        taken
    }
}

/// A moment that may be too far to be written down.
#[derive(Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    fn left(&self) -> Duration {
        self.0.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

fn plain_answer(method: &str, body: Bytes) -> Result<Answer, String> {
    Ok(match method {
        "GetTraceStats" => {
            Answer::Stats(Box::new(decode::<GetTraceStatsResponse>(body)?.trace_stats.unwrap_or_default()))
        }
        "QueryCapabilities" => {
            Answer::Capabilities(decode::<QueryCapabilitiesResponse>(body)?.capabilities.unwrap_or_default())
        }
        "Attach" => Answer::Attached(decode::<AttachResponse>(body)?.trace_config.unwrap_or_default()),
        "CloneSession" => Answer::Cloned(decode::<CloneSessionResponse>(body)?),
        _ => Answer::Done,
    })
}

fn decode<M: Message + Default>(body: Bytes) -> Result<M, String> {
    M::decode(body).map_err(|error| error.to_string())
}

fn total_len(packets: &[Bytes]) -> usize {
    packets.iter().map(Bytes::len).sum()
}
