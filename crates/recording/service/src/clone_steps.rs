//! Clones get their buffers step by step: hundreds of megabytes are not copied while everybody waits.
//!
//! A clone is of the time at which its flush ended. Its session is there from then on, nobody's; what the buffers of its source held then is
//! copied part by part while they go on, and when all is there it is handed over. Of one session there is one such clone at a time: what
//! else wants to clone it waits beside it, and comes back to its turn when that is whole.

use ferretto_protos::CloneSessionRequest;
use ferretto_protos::clone_session_request::Selector;
use ferretto_trace_buffer::TraceBuffer;

use crate::buffers::Buffer;
use crate::cloning::CloneRequest;
use crate::filtering::Filtering;
use crate::ids::{BufferId, ConsumerConn, FileHandle, SessionId, Token};
use crate::limits;
use crate::now::Now;
use crate::producers::truncated;
use crate::protovms::ProtoVms;
use crate::service::Service;
use crate::work::{Budget, Job};
use crate::work_queue::Holds;

/// A clone on its way.
#[derive(Debug)]
pub(crate) enum Cloning {
    /// Asked for while another clone of the session is not whole yet.
    Asked { source: SessionId, asked: Asked },
    /// Flushed for, likewise.
    Flushed { source: SessionId, clone: CloneRequest, success: bool },
    /// The clone is there, and gets its buffers.
    Copying(Copying),
}

/// CloneSession, as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) from: ConsumerConn,
    pub(crate) token: Token,
    pub(crate) request: Box<CloneSessionRequest>,
    pub(crate) file: Option<FileHandle>,
}

/// A session that gets copies of another's buffers.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) source: SessionId,
    pub(crate) id: SessionId,
    /// Whoever wants it; if it is written into a file, that knows.
    pub(crate) clone: Option<CloneRequest>,
    /// What is not whole yet; the last one is copied first.
    pub(crate) copies: Vec<BufferCopy>,
}

/// A buffer that is copied. The states of its ProtoVMs have been, for they are small: see
/// [`MAX_PROTOVM_MEMORY_KB`](crate::limits::MAX_PROTOVM_MEMORY_KB).
#[derive(Debug)]
pub(crate) struct BufferCopy {
    pub(crate) from: BufferId,
    pub(crate) to: BufferId,
    pub(crate) vms: ProtoVms,
}

/// Of a clone's beginning, which for many buffers and writers may take a while, in [`Budget`]'s units.
const CLONE_COST: usize = 100;
/// Sequences that are cloned in the time of one of [`Budget`]'s units.
const SEQUENCES_PER_COST: usize = 64;
/// Bytes of ProtoVMs' states, likewise.
const STATE_BYTES_PER_COST: usize = 4096;
/// What is known in a ring that folds, which may be some megabytes, likewise.
const FOLD_COST: usize = 500;
/// Bytes that are folded, or that ProtoVMs take, likewise: 8 MiB of the dearest packets take 15 ms.
const TAKEN_BYTES_PER_COST: usize = 512;
/// Of [`TraceBuffer::CLONE_PART_BYTES`], in [`Budget`]'s units: memory that is new is as slow as this.
const PART_COST: usize = TraceBuffer::CLONE_PART_BYTES / 2048;

impl Cloning {
    /// Who waits for it, and for nothing but it.
    pub(crate) fn consumer(&self) -> Option<ConsumerConn> {
        match self {
            Self::Asked { asked, .. } => Some(asked.from),
            Self::Flushed { clone, .. } => Some(clone.consumer()),
            Self::Copying(copying) => copying.clone.as_ref().map(CloneRequest::consumer),
        }
    }

    pub(crate) fn is_for(&self, consumer: ConsumerConn) -> bool {
        self.consumer() == Some(consumer)
    }

    fn source(&self) -> SessionId {
        match self {
            Self::Asked { source, .. } | Self::Flushed { source, .. } => *source,
            Self::Copying(copying) => copying.source,
        }
    }

    /// What other clones have to wait for.
    pub(crate) fn holds(&self) -> Holds {
        match self {
            Self::Asked { source, .. } | Self::Flushed { source, .. } => Holds::Returned(*source),
            Self::Copying(copying) => Holds::Source(copying.source),
        }
    }

    /// What is kept of it while it waits: thousands may, and a request may be as large as a frame.
    pub(crate) fn kept_small(mut self) -> Self {
        if let Self::Asked { source, asked } = &mut self {
            asked.keep_little(*source);
        }
        self
    }

    fn into_file(self) -> Option<FileHandle> {
        match self {
            Self::Asked { asked, .. } => asked.file,
            Self::Flushed { clone, .. } => clone.file,
            Self::Copying(_) => None,
        }
    }
}

impl Asked {
    /// The source has been found, and of other names no more than this goes into the trace.
    fn keep_little(&mut self, source: SessionId) {
        let request = &mut self.request;
        if let Some(Selector::UniqueSessionName(_)) = request.selector {
            request.selector = Some(Selector::SessionId(source.0));
        }
        for name in [&mut request.clone_trigger_name, &mut request.clone_trigger_producer_name] {
            *name = name.as_deref().map(truncated);
        }
    }
}

impl Service {
    /// Whether buffers of this session are being copied.
    pub(crate) fn is_being_cloned(&self, source: SessionId) -> bool {
        self.work.holds(Holds::Source(source))
    }

    /// A clone whose flush is over. Where several flushes end together, as many clones go on at once as make up a step.
    pub(crate) fn clone_in_turn(&mut self, source: SessionId, clone: CloneRequest, success: bool, now: &Now) {
        let job = Job::Clone(Cloning::Flushed { source, clone, success });
        let before = self.cost_of_clones_at(now);
        if before > 0 && before + self.cost_of_clone(source) > self.step_cost() {
            return self.work.push(self.user_of_job(&job), job);
        }
        self.begin(job, now);
    }

    /// A clone begins now, however it came to that.
    pub(crate) fn note_clone(&mut self, source: SessionId, now: &Now) {
        let with_this = self.cost_of_clones_at(now).saturating_add(self.cost_of_clone(source));
        self.cloned_at_once = (now.clocks.monotonic, with_this);
    }

    fn cost_of_clones_at(&self, now: &Now) -> usize {
        let (at_ns, cost) = self.cloned_at_once;
        if at_ns == now.clocks.monotonic { cost } else { 0 }
    }

    /// What a clone does before its buffers are copied: it copies what is known of sequences, whether somebody has read them or not, and the
    /// states of ProtoVMs and of rings that fold; and of buffers that it clears, what is to become of what is in them.
    fn cost_of_clone(&self, source: SessionId) -> usize {
        let Some(session) = self.sessions.get(&source) else { return CLONE_COST };
        let of_buffer = |(index, id): (usize, &BufferId)| {
            let buffer = self.buffers.get(id)?;
            let folds = buffer.trace.folds_overwritten();
            let is_cleared = session.config.buffers.get(index).is_some_and(|spec| spec.transfer_on_clone);
            let used_up = is_cleared && (folds || !buffer.vms.is_empty());
            let taken_bytes =
                if used_up { buffer.trace.used_size().min(limits::FOLD_AT_ONCE_BYTES) } else { 0 };
            Some(
                buffer.trace.writer_slots() / SEQUENCES_PER_COST
                    + buffer.vms.memory_bytes() / STATE_BYTES_PER_COST
                    + taken_bytes / TAKEN_BYTES_PER_COST
                    + if folds { FOLD_COST } else { 0 },
            )
        };
        let of_buffers: usize = session.buffers.iter().enumerate().filter_map(of_buffer).sum();
        CLONE_COST + session.sequences.len() / SEQUENCES_PER_COST + of_buffers
    }

    /// The next of the clones that waited for one of this session, or for a packet of it, has its turn. Those behind it wait for that one.
    pub(crate) fn resume_waiting(&mut self, source: SessionId, now: &Now) {
        if let Some(job) = self.next_waiting(source, now) {
            self.work.push(self.user_of_job(&job), job);
        }
    }

    /// The packet of a session is done that was being filtered: a clone that waited for it is of the time before the next one.
    pub(crate) fn clone_behind_packet(&mut self, source: SessionId, now: &Now) {
        if self.work.has_waiting(source)
            && let Some(job) = self.next_waiting(source, now)
        {
            self.begin(job, now);
            // Its consumer may wait no longer.
            self.work.note_end();
        }
    }

    fn next_waiting(&mut self, source: SessionId, now: &Now) -> Option<Job> {
        if self.is_being_cloned(source) || self.work.holds(Holds::Returned(source)) {
            return None;
        }
        let next = self.work.next_waiting(source)?;
        // Nobody looks at it again before there is a reason to.
        if let Cloning::Flushed { clone, .. } = &next
            && self.waits_for_packet(source, clone, now)
        {
            self.work.put_back(source, next);
            return None;
        }
        Some(Job::Clone(next))
    }

    /// Whether a clone that goes into a file waits: what is being filtered for the source's file is in its buffers no more and not in the file.
    pub(crate) fn waits_for_packet(&mut self, source: SessionId, clone: &CloneRequest, now: &Now) -> bool {
        let Some(session) = self.sessions.get_mut(&source) else { return false };
        let is_within = session.filtering.as_ref().is_some_and(Filtering::is_within_large_packet);
        if clone.file.is_none() || !is_within || now.is_over(clone.waits_until) {
            return false;
        }
        // The first of them is the next to go on.
        session.timers.clone.get_or_insert(clone.waits_until);
        true
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_clone(
        &mut self,
        cloning: Cloning,
        budget: &mut Budget,
        now: &Now,
    ) -> Option<Cloning> {
        match cloning {
            // They wait again, should somebody have begun another one meanwhile.
            Cloning::Asked { source, asked } => {
                budget.spend(CLONE_COST);
                self.clone_session(asked, now);
                self.resume_waiting(source, now);
                None
            }
            Cloning::Flushed { source, clone, success } => {
                budget.spend(self.cost_of_clone(source));
                self.finish_cloning(source, clone, success, now);
                self.resume_waiting(source, now);
                None
            }
            Cloning::Copying(copying) => self.copy_some(copying, budget, now).map(Cloning::Copying),
        }
    }

    fn copy_some(&mut self, mut copying: Copying, budget: &mut Budget, now: &Now) -> Option<Copying> {
        while self.sessions.contains_key(&copying.id)
            && let Some(copy) = copying.copies.last()
        {
            if budget.is_spent() {
                return Some(copying);
            }
            budget.spend(PART_COST);
            // As long as it is copied it is there.
            let Some(source) = self.buffers.get_mut(&copy.from) else { break };
            if let Some(trace) = source.trace.continue_clone()
                && let Some(BufferCopy { from, to, vms }) = copying.copies.pop()
            {
                self.buffers.insert(to, Buffer::of_clone(trace, vms));
                self.forget_if_nobodys(from);
            }
        }
        self.finish_copying(copying, now);
        None
    }

    /// All is there, or the clone is gone.
    fn finish_copying(&mut self, copying: Copying, now: &Now) {
        let is_whole = copying.copies.is_empty();
        for copy in copying.copies {
            let source = self.buffers.get_mut(&copy.from);
            if let Some(released) = source.and_then(|source| source.trace.abandon_clone()) {
                self.environment.dispose(Box::new(released));
            }
            self.forget_if_nobodys(copy.from);
        }
        match copying.clone {
            Some(clone) if !is_whole || !self.sessions.contains_key(&copying.id) => {
                self.refuse_clone(
                    clone,
                    "the clone was ended before it was whole, by a session that wants to be alone",
                );
            }
            Some(clone) => self.hand_over_clone(copying.id, clone, false, now),
            None => self.start_final_write(copying.id),
        }
        self.resume_waiting(copying.source, now);
        self.flush_observed_events();
    }

    /// A buffer that had to stay for a copy, and whose session has gone meanwhile.
    fn forget_if_nobodys(&mut self, id: BufferId) {
        if !self.sessions.values().any(|session| session.buffers.contains(&id)) {
            self.environment.dispose(Box::new(self.buffers.remove(&id)));
        }
    }

    /// The consumer that wanted clones is gone.
    pub(crate) fn stop_cloning_for(&mut self, consumer: ConsumerConn, now: &Now) {
        for cloning in self.work.remove_clones_for(consumer) {
            let source = cloning.source();
            match cloning {
                Cloning::Copying(mut copying) => {
                    copying.clone = None;
                    self.erase_session(copying.id, now);
                    self.finish_copying(copying, now);
                }
                cloning => self.close_files(cloning.into_file()),
            }
            self.resume_waiting(source, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::limits::MAX_NAME_BYTES;
    use crate::work_queue::WorkQueue;

    #[test]
    fn of_what_waits_little_is_kept() {
        let name = || "n".repeat(100_000);
        let request = CloneSessionRequest {
            selector: Some(Selector::UniqueSessionName(name())),
            clone_trigger_name: Some(name()),
            clone_trigger_producer_name: Some(name()),
            skip_trace_filter: Some(true),
            ..Default::default()
        };
        let asked = Asked { from: ConsumerConn(1), token: Token(2), request: Box::new(request), file: None };
        let (source, mut queue) = (SessionId(3), WorkQueue::default());
        queue.wait(source, Cloning::Asked { source, asked });
        let Some(Cloning::Asked { asked: Asked { request, .. }, .. }) = queue.next_waiting(source) else {
            panic!("it waits as it was asked for");
        };
        assert!(request.encoded_len() < 2 * MAX_NAME_BYTES + 32, "{} bytes", request.encoded_len());
        assert_eq!(
            (request.selector.as_ref(), request.skip_trace_filter()),
            (Some(&Selector::SessionId(3)), true)
        );
    }
}
