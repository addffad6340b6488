//! CloneSession: a copy of what a running session has so far, to be read while it goes on (upstream: `FlushAndCloneSession`).

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::tracing_service_event::EventType;
use ferretto_protos::{CloneSessionRequest, CloneSessionResponse};

use crate::buffers::{AtOnce, Replacement};
use crate::clone_steps::{Asked, BufferCopy, Cloning, Copying};
use crate::file_output::FileOutput;
use crate::flush::{AfterFlush, FLUSH_FOR_BUGREPORT, FlushReason};
use crate::ids::{BufferId, ConsumerConn, FileHandle, SessionId, Token};
use crate::limits;
use crate::now::{Deadline, Now};
use crate::producers::truncated;
use crate::query::may_see;
use crate::registry::next_free_id;
use crate::service::Service;
use crate::session::{FinalFlush, Session, State};
use crate::triggers::ReceivedTrigger;
use crate::work::Job;

/// Selects the session with the best bugreport score (upstream: `kBugreportSessionId`).
const BUGREPORT_SESSION_ID: u64 = u64::MAX;
const BUGREPORT_SELECTOR: Selector = Selector::SessionId(BUGREPORT_SESSION_ID);

const HAS_SESSION: &str = "this consumer has a tracing session already";
const FILE_IS_COMPLETE: &str = "the session's file takes no more, it is complete or full: take that";

/// A clone that waits for its flush.
#[derive(Debug)]
pub(crate) struct CloneRequest {
    from: ConsumerConn,
    token: Token,
    /// The trigger that the consumer was told of.
    trigger: Option<ReceivedTrigger>,
    /// Whoever asks for a bug report gets all of the trace.
    skip_trace_filter: bool,
    /// Where the clone goes if its source writes into a file.
    pub(crate) file: Option<FileHandle>,
    /// What may still be done with buffers in the turn in which it was asked for: the flush may be over at once.
    at_once: AtOnce,
    asked_at_ns: u64,
    /// So long for a packet that its source is filtering.
    pub(crate) waits_until: Deadline,
}

impl CloneRequest {
    pub(crate) fn consumer(&self) -> ConsumerConn {
        self.from
    }

    pub(crate) fn is_from(&self, consumer: ConsumerConn) -> bool {
        self.from == consumer
    }
}

const NOTHING_TO_CLONE: &str = "the tracing session to be cloned was not found, or is another user's";

impl Service {
    pub(crate) fn clone_session(&mut self, asked: Asked, now: &Now) {
        let Asked { from, token, ref request, file } = asked;
        let is_bugreport = request.selector == Some(Selector::SessionId(BUGREPORT_SESSION_ID));
        let skip_trace_filter = request.skip_trace_filter() || is_bugreport;
        let trigger = trigger_of(request);
        let (at_once, asked_at_ns) = (AtOnce::default(), now.clocks.monotonic);
        let waits_until = now.after_ms(limits::CLONE_WAITS_MS);
        let mut clone =
            CloneRequest { from, token, trigger, skip_trace_filter, file, at_once, asked_at_ns, waits_until };
        let session_id = match self.find_to_clone(from, request) {
            Ok(session_id) => session_id,
            Err(error) => return self.refuse_clone(clone, error),
        };
        if self.is_being_cloned(session_id) {
            return self.work.wait(session_id, Cloning::Asked { source: session_id, asked });
        }
        let Some(session) = self.sessions.get(&session_id) else { return };
        if session.file.is_none() {
            // It is read back by its consumer, who could not know before.
            let unneeded = clone.file.take();
            self.close_files(unneeded);
        } else if let Err(error) = self.check_clone_file(clone.file) {
            return self.refuse_clone(clone, &error);
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        match session.state {
            State::Started => {}
            // Ours: upstream's clone lacks what programs hold that have crashed or are about to stop.
            State::Stopping { .. } => {
                return self.flush_without_asking(session_id, AfterFlush::Clone(clone), now);
            }
            State::Configured | State::Disabled | State::ClonedReadOnly => {
                return self.finish_cloning(session_id, clone, true, now);
            }
        }
        // A waiting clone keeps nothing of the source; it starts with what comes from here on.
        let cleared: Vec<usize> = (0..)
            .zip(&session.config.buffers)
            .filter(|(_, spec)| spec.clear_before_clone)
            .map(|(i, _)| i)
            .collect();
        let at_once = &mut clone.at_once;
        if !cleared.into_iter().all(|index| self.empty_buffer(session_id, index, at_once)) {
            return self.refuse_clone(clone, "no memory for an empty buffer");
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
            return Err(HAS_SESSION);
        }
        // One that is another's does not stand before one's own: not for root either, who may have those of all.
        let nearness =
            |session: &&Session| (consumer.peer.is_user(session.owner_uid), may_see(consumer.peer, session));
        let mut sessions = self.sessions.values().filter(|session| session.state != State::ClonedReadOnly);
        let found = match &request.selector {
            Some(Selector::SessionId(BUGREPORT_SESSION_ID)) => sessions
                .filter(|session| session.config.bugreport_score > 0 && session.state == State::Started)
                // Of equal ones the oldest.
                .max_by_key(|session| {
                    (nearness(session), session.config.bugreport_score, std::cmp::Reverse(session.id))
                }),
            Some(Selector::SessionId(id)) => sessions.find(|session| session.id.0 == *id),
            Some(Selector::UniqueSessionName(name)) => {
                let named = sessions.filter(|session| session.config.claims.unique_name == *name);
                named.max_by_key(|session| (nearness(session), std::cmp::Reverse(session.id)))
            }
            None => None,
        };
        // Nobody learns in this way what sessions others have.
        let session = found.filter(|session| may_see(consumer.peer, session)).ok_or(NOTHING_TO_CLONE)?;
        if session.wrote_into_file || session.file.as_ref().is_some_and(FileOutput::is_full) {
            return Err(FILE_IS_COMPLETE);
        }
        self.check_room_for_clone(consumer.peer.uid)?;
        Ok(session.id)
    }

    fn check_room_for_clone(&self, uid: u32) -> Result<(), &'static str> {
        let of_uid = self.sessions.values().filter(|other| other.owner_uid == uid).count();
        match self.sessions.len() < limits::max_sessions(uid) && of_uid < limits::MAX_SESSIONS_PER_UID {
            true => Ok(()),
            false => Err("too many concurrent tracing sessions"),
        }
    }

    fn check_clone_file(&mut self, file: Option<FileHandle>) -> Result<(), String> {
        let file = file.ok_or("a clone of a session that writes into a file needs a file descriptor")?;
        let checked = self.environment.check_file(file);
        checked.map_err(|error| format!("the clone cannot go into the file that was passed: {error}"))
    }

    pub(crate) fn refuse_clone(&mut self, clone: CloneRequest, error: &str) {
        let response = CloneSessionResponse {
            success: Some(false),
            error: Some(error.to_owned()),
            ..Default::default()
        };
        self.answer_consumer(clone.from, clone.token, &response);
        self.close_files(clone.file);
    }

    /// The clone is complete and the consumer's from here on; unless that has got itself a session meanwhile.
    pub(crate) fn hand_over_clone(
        &mut self,
        id: SessionId,
        clone: CloneRequest,
        was_into_file: bool,
        now: &Now,
    ) {
        let (Some(session), Some(consumer)) =
            (self.sessions.get_mut(&id), self.consumers.get_mut(&clone.from))
        else {
            return;
        };
        if consumer.session.is_some() {
            self.erase_session(id, now);
            return self.refuse_clone(clone, HAS_SESSION);
        }
        // Of one that an exclusive session has ended meanwhile there is the file, and nothing else.
        if !session.is_leaving() {
            session.owner = Some(clone.from);
            consumer.session = Some(id);
        }
        let response = CloneSessionResponse {
            success: Some(true),
            uuid_msb: Some(session.uuid.0),
            uuid_lsb: Some(session.uuid.1),
            was_write_into_file: Some(was_into_file),
            ..Default::default()
        };
        self.answer_consumer(clone.from, clone.token, &response);
    }

    /// The consumer that wanted clones is gone.
    pub(crate) fn forget_clones_for(&mut self, consumer: ConsumerConn) {
        let mut files = Vec::new();
        let flushes = self.sessions.values_mut().flat_map(|session| {
            let ended = session.scrapes.flushes_mut().map(|ended| &mut ended.flush);
            session.flushes.values_mut().chain(ended)
        });
        for flush in flushes {
            if let AfterFlush::Clone(clone) = &flush.after
                && clone.is_from(consumer)
            {
                files.extend(clone.file);
                flush.after = AfterFlush::Nothing;
            }
        }
        self.close_files(files);
    }

    /// After the flush, successful or not: what is there is cloned (upstream clones after a failed flush too).
    pub(crate) fn finish_cloning(
        &mut self,
        source: SessionId,
        mut clone: CloneRequest,
        success: bool,
        now: &Now,
    ) {
        if self.is_being_cloned(source) {
            return self.work.wait(source, Cloning::Flushed { source, clone, success });
        }
        if self.waits_for_packet(source, &clone, now) {
            return self.work.wait(source, Cloning::Flushed { source, clone, success });
        }
        self.note_clone(source, now);
        let mut at_once = std::mem::take(&mut clone.at_once);
        if now.clocks.monotonic != clone.asked_at_ns {
            at_once = AtOnce::default();
        }
        let (id, copies) = match self.make_clone(source, &clone, success, &mut at_once, now) {
            Ok(made) => made,
            Err(error) => return self.refuse_clone(clone, &error),
        };
        let clone = match clone.file.take() {
            Some(file) => {
                self.copy_file(source, id, file, clone);
                None
            }
            None => Some(clone),
        };
        self.begin(Job::Clone(Cloning::Copying(Copying { source, id, clone, copies })), now);
    }

    /// Either all is done or nothing: without memory for each buffer, the source keeps what it has.
    fn make_clone(
        &mut self,
        source: SessionId,
        clone: &CloneRequest,
        success: bool,
        at_once: &mut AtOnce,
        now: &Now,
    ) -> Result<(SessionId, Vec<BufferCopy>), String> {
        let consumer = self.consumers.get(&clone.from).ok_or("the consumer is gone")?;
        if consumer.session.is_some() {
            return Err(HAS_SESSION.to_owned());
        }
        let uid = consumer.peer.uid;
        self.check_room_for_clone(uid)?;
        let original = self.sessions.get(&source).ok_or("the session to be cloned is gone")?;
        // The packet that did not fit is lost, and nobody would say so in front of what comes after it.
        if clone.file.is_some() && original.file.as_ref().is_none_or(FileOutput::is_full) {
            return Err(FILE_IS_COMPLETE.to_owned());
        }
        let (buffers, copies) = self.copy_buffers(source, at_once)?;
        let original = self.sessions.get(&source).ok_or("the session to be cloned is gone")?;
        self.last_session += 1;
        let id = SessionId(self.last_session);
        let mut session = Session::new(id, original.config.clone(), uid, None);
        session.state = State::ClonedReadOnly;
        session.start_realtime_ns = original.start_realtime_ns;
        session.counters = original.counters.clone();
        session.counters.final_flush = FinalFlush::of(success);
        session.losses = original.losses.clone();
        session.clocks = original.clocks.clone();
        session.events = original.events.clone();
        session.machines = original.machines.unwritten();
        session.concurrent = original.concurrent.clone();
        session.sequences = original.sequences.clone();
        if let Some(filtering) = original.filtering.as_ref().filter(|_| clone.file.is_some()) {
            session.carried = filtering.small_packet();
            session.losses.large_packets += u64::from(filtering.is_within_large_packet());
        }
        if clone.skip_trace_filter {
            session.filtering = None;
        }
        session.stats_armed = true;
        // A new trace, recognisably of the same recording.
        session.uuid = (self.environment.random_u64() as i64, original.uuid.1);
        session.record_event(EventType::CloneStarted(true), now);
        for index in 0..buffers.len() {
            session.record_event(EventType::BufferCloned(u32::try_from(index).unwrap_or(u32::MAX)), now);
        }
        session.record_event(EventType::TracingDisabled(true), now);
        session.buffers = buffers;
        if let Some(original) = self.sessions.get_mut(&source) {
            session.triggers = original.triggers.for_clone(original.trigger_mode(), clone.trigger.clone());
        }
        self.sessions.insert(id, session);
        self.announce_state(id, now);
        Ok((id, copies))
    }

    /// The buffers that a clone gets: those that are taken away are there, of the others copies are begun. Nothing is taken before all is
    /// there that can be missing.
    fn copy_buffers(
        &mut self,
        source: SessionId,
        at_once: &mut AtOnce,
    ) -> Result<(Vec<BufferId>, Vec<BufferCopy>), String> {
        let session = self.sessions.get(&source).ok_or("the session to be cloned is gone")?;
        let ids = self.free_buffer_ids(session.buffers.len()).ok_or("no buffer is left")?;
        let (mut taken, mut copies): (Vec<(BufferId, BufferId, Replacement)>, Vec<BufferCopy>) =
            Default::default();
        for (index, (from, to)) in session.buffers.iter().copied().zip(ids.iter().copied()).enumerate() {
            let Some(buffer) = self.buffers.get_mut(&from) else { continue };
            let transfers = session.config.buffers.get(index).is_some_and(|spec| spec.transfer_on_clone);
            if let Some(Ok(replacement)) = transfers.then(|| buffer.replacement(at_once)) {
                taken.push((from, to, replacement));
                continue;
            }
            match buffer.begin_clone() {
                Ok(vms) => copies.push(BufferCopy { from, to, vms }),
                Err(error) => {
                    let begun = session.buffers.iter();
                    begun.for_each(|id| {
                        if let Some(buffer) = self.buffers.get_mut(id) {
                            drop(buffer.trace.abandon_clone());
                        }
                    });
                    return Err(error.to_string());
                }
            }
        }
        for (from, to, replacement) in taken {
            if let Some(buffer) = self.buffers.get_mut(&from) {
                let taken = buffer.replace(replacement, at_once);
                self.buffers.insert(to, taken);
            }
        }
        self.last_buffer = ids.last().map_or(self.last_buffer, |id| id.0);
        // The first is copied first.
        copies.reverse();
        Ok((ids, copies))
    }

    /// Says whether there was memory for it.
    fn empty_buffer(&mut self, session_id: SessionId, index: usize, at_once: &mut AtOnce) -> bool {
        let id = self.sessions.get(&session_id).and_then(|session| session.buffers.get(index));
        let Some(buffer) = id.and_then(|id| self.buffers.get_mut(id)) else { return false };
        let Ok(replacement) = buffer.replacement(at_once) else { return false };
        let emptied = buffer.replace(replacement, at_once);
        // There may be a hundred of them.
        if emptied.trace.used_size() > limits::LARGE_BYTES / 16 {
            self.environment.dispose(Box::new(emptied));
        }
        true
    }

    /// Ids that no buffer has, and that no clone waits for.
    pub(crate) fn free_buffer_ids(&self, count: usize) -> Option<Vec<BufferId>> {
        let mut ids: Vec<BufferId> = Vec::with_capacity(count);
        let mut last = self.last_buffer;
        while ids.len() < count {
            let is_used = |id| {
                let mut sessions = self.sessions.values();
                let id = BufferId(id);
                self.buffers.contains_key(&id)
                    || ids.contains(&id)
                    || sessions.any(|session| session.buffers.contains(&id))
            };
            last = next_free_id(last, is_used)?;
            ids.push(BufferId(last));
        }
        Some(ids)
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
