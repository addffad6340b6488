//! CloneSession: a copy of what a running session has so far, to be read while it goes on (upstream: `FlushAndCloneSession`).

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::tracing_service_event::EventType;
use ferretto_protos::{CloneSessionRequest, CloneSessionResponse};

use crate::buffers::Buffer;
use crate::flush::{AfterFlush, FLUSH_FOR_BUGREPORT, FlushReason};
use crate::ids::{BufferId, ConsumerConn, FileHandle, SessionId, Token};
use crate::limits;
use crate::now::Now;
use crate::producers::truncated;
use crate::query::may_see;
use crate::registry::next_free_id;
use crate::service::Service;
use crate::session::{FinalFlush, Session, State};
use crate::triggers::ReceivedTrigger;

/// Selects the session with the best bugreport score (upstream: `kBugreportSessionId`).
const BUGREPORT_SESSION_ID: u64 = u64::MAX;
const BUGREPORT_SELECTOR: Selector = Selector::SessionId(BUGREPORT_SESSION_ID);

/// A clone that waits for its flush.
#[derive(Debug)]
pub(crate) struct CloneRequest {
    from: ConsumerConn,
    token: Token,
    /// The trigger that the consumer was told of.
    trigger: Option<ReceivedTrigger>,
    /// Whoever asks for a bug report gets all of the trace.
    skip_trace_filter: bool,
}

impl Service {
    pub(crate) fn clone_session(
        &mut self,
        from: ConsumerConn,
        token: Token,
        request: &CloneSessionRequest,
        file: Option<FileHandle>,
        now: &Now,
    ) {
        // Only a session that writes into a file would need it, and such a one cannot be cloned yet.
        self.close_files(file);
        let is_bugreport = request.selector == Some(Selector::SessionId(BUGREPORT_SESSION_ID));
        let skip_trace_filter = request.skip_trace_filter() || is_bugreport;
        let clone = CloneRequest { from, token, trigger: trigger_of(request), skip_trace_filter };
        let session_id = match self.find_to_clone(from, request) {
            Ok(session_id) => session_id,
            Err(error) => return self.refuse_clone(clone, error),
        };
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if session.state != State::Started {
            return self.finish_cloning(session_id, clone, true, now);
        }
        // A waiting clone keeps nothing of the source; it starts with what comes from here on.
        let cleared: Vec<usize> = (0..)
            .zip(&session.config.buffers)
            .filter(|(_, spec)| spec.clear_before_clone)
            .map(|(i, _)| i)
            .collect();
        for index in cleared {
            self.replace_buffer(session_id, index);
        }
        let for_bugreport = request.for_bugreport() || request.selector == Some(BUGREPORT_SELECTOR);
        let target = if for_bugreport { FLUSH_FOR_BUGREPORT } else { 0 };
        let flags = FlushReason::TraceClone.by_service() | target;
        self.flush(session_id, None, flags, AfterFlush::Clone(clone), now);
    }

    fn find_to_clone(
        &self,
        from: ConsumerConn,
        request: &CloneSessionRequest,
    ) -> Result<SessionId, &'static str> {
        let consumer = self.consumers.get(&from).ok_or("the consumer is gone")?;
        if consumer.session.is_some() {
            return Err("this consumer has a tracing session already");
        }
        let mut sessions = self.sessions.values().filter(|session| session.state != State::ClonedReadOnly);
        let found = match &request.selector {
            Some(Selector::SessionId(BUGREPORT_SESSION_ID)) => sessions
                .filter(|session| session.config.bugreport_score > 0 && session.state == State::Started)
                // Of equal ones the oldest.
                .max_by_key(|session| (session.config.bugreport_score, std::cmp::Reverse(session.id))),
            Some(Selector::SessionId(id)) => sessions.find(|session| session.id.0 == *id),
            Some(Selector::UniqueSessionName(name)) => {
                sessions.find(|session| session.config.claims.unique_name == *name)
            }
            None => None,
        };
        let session = found.ok_or("the tracing session to be cloned was not found")?;
        if !may_see(consumer.peer, session) {
            return Err("not allowed to clone the session of another user");
        }
        if session.file.is_some() || session.wrote_into_file {
            return Err("cloning a session with write_into_file is not supported by this service yet");
        }
        let of_uid = self.sessions.values().filter(|other| other.owner_uid == consumer.peer.uid).count();
        if self.sessions.len() >= limits::MAX_SESSIONS || of_uid >= limits::MAX_SESSIONS_PER_UID {
            return Err("too many concurrent tracing sessions");
        }
        Ok(session.id)
    }

    pub(crate) fn refuse_clone(&mut self, clone: CloneRequest, error: &str) {
        let response = CloneSessionResponse {
            success: Some(false),
            error: Some(error.to_owned()),
            ..Default::default()
        };
        self.answer_consumer(clone.from, clone.token, &response);
    }

    /// The consumer that wanted clones is gone.
    pub(crate) fn forget_clones_for(&mut self, consumer: ConsumerConn) {
        for session in self.sessions.values_mut() {
            for flush in session.flushes.values_mut() {
                if matches!(&flush.after, AfterFlush::Clone(clone) if clone.from == consumer) {
                    flush.after = AfterFlush::Nothing;
                }
            }
        }
    }

    /// After the flush, successful or not: what is there is cloned (upstream clones after a failed flush too).
    pub(crate) fn finish_cloning(
        &mut self,
        source: SessionId,
        clone: CloneRequest,
        success: bool,
        now: &Now,
    ) {
        match self.make_clone(source, &clone, success, now) {
            Ok(uuid) => {
                let response = CloneSessionResponse {
                    success: Some(true),
                    uuid_msb: Some(uuid.0),
                    uuid_lsb: Some(uuid.1),
                    was_write_into_file: Some(false),
                    ..Default::default()
                };
                self.answer_consumer(clone.from, clone.token, &response);
            }
            Err(error) => self.refuse_clone(clone, &error),
        }
    }

    fn make_clone(
        &mut self,
        source: SessionId,
        clone: &CloneRequest,
        success: bool,
        now: &Now,
    ) -> Result<(i64, i64), String> {
        let from = clone.from;
        let consumer = self.consumers.get(&from).ok_or("the consumer is gone")?;
        if consumer.session.is_some() {
            return Err("this consumer has a tracing session already".to_owned());
        }
        let uid = consumer.peer.uid;
        let original = self.sessions.get(&source).ok_or("the session to be cloned is gone")?;
        let config = original.config.clone();
        let count = original.buffers.len();
        self.last_session += 1;
        let id = SessionId(self.last_session);
        let mut session = Session::new(id, config, uid, Some(from));
        session.state = State::ClonedReadOnly;
        session.start_realtime_ns = original.start_realtime_ns;
        session.counters = original.counters.clone();
        session.counters.final_flush = FinalFlush::of(success);
        session.clocks = original.clocks.clone();
        session.events = original.events.clone();
        session.machines = original.machines.unwritten();
        session.concurrent = original.concurrent.clone();
        session.sequences = original.sequences.clone();
        if clone.skip_trace_filter {
            session.filtering = None;
        }
        session.stats_armed = true;
        // A new trace, recognisably of the same recording.
        session.uuid = (self.environment.random_u64() as i64, original.uuid.1);
        session.record_event(EventType::CloneStarted(true), now);
        let mut buffers = Vec::new();
        for index in 0..count {
            let buffer = self.take_or_copy(source, index)?;
            let is_used = |id| self.buffers.contains_key(&BufferId(id));
            let buffer_id = BufferId(next_free_id(self.last_buffer, is_used).ok_or("no buffer is left")?);
            self.last_buffer = buffer_id.0;
            self.buffers.insert(buffer_id, buffer);
            buffers.push(buffer_id);
            session.record_event(EventType::BufferCloned(u32::try_from(index).unwrap_or(u32::MAX)), now);
        }
        session.record_event(EventType::TracingDisabled(true), now);
        session.buffers = buffers;
        if let Some(original) = self.sessions.get_mut(&source) {
            session.triggers = original.triggers.for_clone(original.trigger_mode(), clone.trigger.clone());
        }
        let uuid = session.uuid;
        self.sessions.insert(id, session);
        self.announce_state(id, now);
        if let Some(consumer) = self.consumers.get_mut(&from) {
            consumer.session = Some(id);
        }
        Ok(uuid)
    }

    fn take_or_copy(&mut self, source: SessionId, index: usize) -> Result<Buffer, String> {
        let session = self.sessions.get(&source).ok_or("the session to be cloned is gone")?;
        let id = *session.buffers.get(index).ok_or("a buffer of the session is gone")?;
        let transfers = session.config.buffers.get(index).is_some_and(|spec| spec.transfer_on_clone);
        if transfers && let Some(buffer) = self.replace_buffer(source, index) {
            return Ok(buffer);
        }
        let buffer = self.buffers.get(&id).ok_or("a buffer of the session is gone")?;
        buffer.clone_read_only().map_err(|error| error.to_string())
    }

    /// Puts an empty buffer in the place of a session's.
    fn replace_buffer(&mut self, session_id: SessionId, index: usize) -> Option<Buffer> {
        let id = self.sessions.get(&session_id)?.buffers.get(index)?;
        self.buffers.get_mut(id)?.replace().ok()
    }
}

/// Which trigger the consumer clones for, if it says so.
fn trigger_of(request: &CloneSessionRequest) -> Option<ReceivedTrigger> {
    (!request.clone_trigger_name().is_empty()).then(|| ReceivedTrigger {
        boottime_ns: request.clone_trigger_boot_time_ns(),
        name: truncated(request.clone_trigger_name()).into(),
        producer_name: truncated(request.clone_trigger_producer_name()).into(),
        producer_uid: request.clone_trigger_trusted_producer_uid().cast_unsigned(),
        delay_ms: request.clone_trigger_delay_ms(),
    })
}
