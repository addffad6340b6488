//! Gives chunks of the shared memory to writers, takes them back, and tells the service.
//!
//! Writers on any thread meet here, and only when a chunk is full. The client's thread is woken to send what they leave; a writer that
//! waits for a chunk sends it itself, so that nobody waits for a thread that waits. Upstream: `shared_memory_arbiter_impl.cc`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ferretto_ipc::log;
use ferretto_protos::fields::{register_trace_writer_request, unregister_trace_writer_request};
use ferretto_protozero::control::Writer;
use ferretto_shm::{
    CHUNK_HEADER_LEN, ChunkError, ChunkFlags, ChunkHeader, ChunkIndex, ChunkWriter, NewChunk, PageLayout,
    PageSize, ProducerView, SharedMemory, ViewError,
};

use crate::commit::{CommitQueue, FinishedChunk, Place};
use crate::link::{LinkGuard, SharedLink};
use crate::patch_list::PatchList;
use crate::policy::{ExhaustedPolicy, Waits};
use crate::stall::{Outlook, Stall, Takers};
use crate::startup::{
    GroupState, Groups, StartupEnd, StartupId, StartupLoss, StartupVolume, StartupWriters, Target, Waiting,
};
use crate::wake::Waker;
use crate::writer::TraceWriter;

/// Ids are 15 bits on the wire of the service's buffer (upstream: `kMaxWriterID`).
const MAX_WRITER_ID: u16 = 32767;
/// After a commit the client's thread looks again so much later, and need not be woken meanwhile: waking it for each chunk of a writer
/// without pause takes longer than a tenth of what writing the chunk does.
const PACE: Duration = Duration::from_millis(1);
/// It is woken nevertheless when this part of the memory is finished.
const PACED_PART: usize = 8;
/// Bytes of copied chunks that may wait in the socket's queue. While there are more, chunks stay in memory and writers find it full.
const MAX_QUEUED_COPIES: usize = 1024 * 1024;

pub(crate) struct ArbiterOptions {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) page_size: PageSize,
    /// Unfinished chunks are to be sent at a flush, if the service cannot look for them itself.
    pub(crate) scraping: bool,
    pub(crate) batch_duration: Duration,
    pub(crate) waker: Arc<Waker>,
}

/// The service that takes what is committed.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) link: Arc<SharedLink>,
    /// The service cannot see the memory.
    pub(crate) emulated: bool,
    pub(crate) direct_patching: bool,
}

/// The meeting point of a connection's writers. Lives as long as one of them, but gives out nothing once the connection has ended.
#[derive(Debug)]
pub struct Arbiter {
    view: ProducerView,
    /// None before there is a session, if the memory is this process's own: then only [`StartupWriters`] write.
    attached: OnceLock<Attachment>,
    scraping: bool,
    /// Pending bytes that are committed without delay: half of the memory (upstream's rule).
    urgent_bytes: usize,
    batch_duration: Duration,
    waker: Arc<Waker>,
    takers: Takers,
    is_shut_down: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: CommitQueue,
    /// When the oldest entry of the queue came.
    pending_since: Option<Instant>,
    /// When the client's thread looks without being woken: a while after a commit.
    paced_until: Option<Instant>,
    is_urgent: bool,
    /// The socket takes no more copies of chunks: there is nothing to do before it does.
    is_blocked: bool,
    ids: WriterIds,
    /// Writers that the service does not know yet, and their buffers.
    registered: Vec<(u16, u16)>,
    unregistered: Vec<u16>,
    groups: Groups,
}

impl Arbiter {
    pub(crate) fn new(options: ArbiterOptions) -> Result<Arc<Self>, ViewError> {
        let urgent_bytes = options.memory.len() / 2;
        let view = ProducerView::new(options.memory, options.page_size)?;
        Ok(Arc::new(Self {
            urgent_bytes,
            view,
            attached: OnceLock::new(),
            scraping: options.scraping,
            batch_duration: options.batch_duration,
            waker: options.waker,
            takers: Takers::default(),
            is_shut_down: AtomicBool::new(false),
            state: Mutex::default(),
        }))
    }

    /// A writer of a new sequence into this buffer of the service (`DataSourceConfig.target_buffer`). Writes into the void once the
    /// connection has ended, or if there are 32767 others.
    pub fn create_writer(self: &Arc<Self>, target_buffer: u16, policy: ExhaustedPolicy) -> TraceWriter {
        self.create_writer_that_waits(target_buffer, policy, Waits::default())
    }

    /// As [`create_writer`](Self::create_writer), one that waits for memory, if it does that, until its session has ended at most.
    pub fn create_writer_that_waits(
        self: &Arc<Self>,
        target_buffer: u16,
        policy: ExhaustedPolicy,
        waits: Waits,
    ) -> TraceWriter {
        let mut state = self.state();
        let target = Target::Buffer(target_buffer);
        let id = if self.is_shut_down() { None } else { state.ids.allocate(target) };
        let Some(new) = id else {
            return TraceWriter::null();
        };
        state.registered.push((new.writer_id, target_buffer));
        drop(state);
        // Before it writes: of a process that dies the service copies the chunks of those that it knows.
        self.send(false);
        TraceWriter::new(Arc::clone(self), new, target, policy, waits)
    }

    /// Whether the connection has ended: writers made here write into the void.
    pub fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// Sends all finished chunks now, on the calling thread.
    pub fn commit(&self) {
        self.send(true);
    }

    /// Sends word of new writers and, if it `commits`, all finished chunks.
    #[inline(never)]
    fn send(&self, commits: bool) {
        let Some(attached) = self.attached.get() else {
            return;
        };
        let mut link = attached.link.lock();
        if commits {
            self.commit_to(&mut link, attached.emulated);
        } else {
            self.register_writers(&mut link);
        }
        // An error shows up again on the client's thread, which ends the connection.
        let _ = link.flush();
        if link.link().wants_write() {
            self.waker.wake();
        }
    }

    /// The size of a chunk's payload.
    pub fn chunk_capacity(&self) -> usize {
        Self::LAYOUT.chunk_len(self.view.page_size()).saturating_sub(CHUNK_HEADER_LEN)
    }

    /// One chunk a page, as upstream's clients: fewest commits.
    const LAYOUT: PageLayout = PageLayout::Div1;

    pub(crate) fn memory(&self) -> &Arc<SharedMemory> {
        self.view.memory()
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.view.page_size()
    }

    /// From now on there is somebody to commit to.
    #[inline(never)]
    pub(crate) fn attach(&self, attachment: Attachment) {
        // There is one connection for each arbiter.
        let _ = self.attached.set(attachment);
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.attached.get().is_some()
    }

    pub(crate) fn shut_down(&self) {
        self.is_shut_down.store(true, Ordering::Release);
        let mut state = self.state();
        state.groups.clear();
        state.queue.clear();
        state.pending_since = None;
    }

    /// The next commit, if it need not be now.
    pub(crate) fn commit_deadline(&self) -> Option<Instant> {
        let state = self.state();
        match state.pending_since {
            Some(_) if state.is_blocked => None,
            Some(since) if state.is_urgent => Some(since),
            Some(since) => Some(self.batch_end(&state, since)),
            None => state.paced_until,
        }
    }

    pub(crate) fn commit_if_due(&self, now: Instant) {
        let mut state = self.state();
        let is_due = match state.pending_since {
            Some(since) => state.is_urgent || state.is_blocked || self.batch_end(&state, since) <= now,
            // A writer's end waits for its chunks: the service would not look for them any more.
            None => !state.unregistered.is_empty(),
        };
        if is_due {
            state.paced_until = (state.queue.bytes > 0).then(|| now + PACE);
        } else if state.paced_until.is_some_and(|until| until <= now) {
            state.paced_until = None;
        }
        drop(state);
        if is_due {
            self.commit();
        }
    }

    /// When what came first at this time is to be sent.
    fn batch_end(&self, state: &State, since: Instant) -> Instant {
        let end = since + self.batch_duration;
        state.paced_until.map_or(end, |until| until.max(end))
    }

    pub(crate) fn acknowledge_flush(&self, request_id: u64) {
        let mut state = self.scraped();
        state.queue.acknowledge_flush(request_id);
        drop(state);
        self.commit();
    }

    /// Commits all that there is; `false` if something is left as the socket takes no more.
    pub(crate) fn hand_over(&self) -> bool {
        drop(self.scraped());
        self.commit();
        self.state().queue.is_empty()
    }

    /// With copies of what is still being written in the queue, if the service cannot look for it itself.
    #[inline(never)]
    fn scraped(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if self.scraping && self.attached.get().is_some_and(|attached| attached.emulated) {
            self.scrape(&mut state);
        }
        state
    }

    /// A free chunk, or `None` if there is none and the policy does not wait (any longer).
    pub(crate) fn acquire_chunk(
        &self,
        new: NewChunk,
        target: Target,
        policy: ExhaustedPolicy,
        waits: &Waits,
    ) -> Option<ChunkWriter> {
        if let Target::Group(id) = target
            && !self.may_group_take(id)
        {
            return None;
        }
        let mut stall = Stall::new(self.takers.taken());
        loop {
            if self.is_shut_down() {
                return None;
            }
            if let Some(chunk) = self.view.try_acquire(Self::LAYOUT, new) {
                self.takers.take();
                if policy.stalls() && self.state().queue.bytes >= self.urgent_bytes {
                    self.commit();
                }
                return Some(chunk);
            }
            if !policy.stalls() || waits.are_over() {
                break;
            }
            // The chunks that this writer waits for may be in the queue, and the client's thread may be this one.
            self.commit();
            if self.attached.get().is_some_and(|attached| attached.link.is_hung_up()) {
                break;
            }
            let Some(pause) = stall.next_pause(self.outlook(), &self.takers) else {
                break;
            };
            std::thread::sleep(pause);
        }
        self.make_urgent();
        None
    }

    /// Who could give a chunk back, of those that there are just after a commit.
    #[inline(never)]
    fn outlook(&self) -> Outlook {
        let state = self.state();
        let (is_queued, waiting) = (!state.queue.is_empty(), state.groups.complete_chunks());
        drop(state);
        if is_queued || self.view.chunks_without_writer(waiting + 1) > waiting {
            Outlook::Service
        } else if waiting > 0 || !self.takers.are_this_thread() {
            Outlook::Threads
        } else {
            Outlook::Nobody
        }
    }

    /// Takes a chunk from its writer, with what the writer knows about earlier ones.
    pub(crate) fn return_chunk(
        &self,
        mut chunk: ChunkWriter,
        writer: WriterIdentity,
        chunk_id: u32,
        used: usize,
        patches: &mut PatchList,
    ) {
        let size = chunk.len_with_header();
        let needs_patching = patches.has_chunk(chunk_id);
        if needs_patching {
            chunk.set_flags(ChunkFlags::NEEDS_PATCHING);
        }
        let mut state = self.state();
        if self.is_shut_down() {
            return;
        }
        let Some(Route { queue, target_buffer, waits }) = state.route(writer.target) else {
            patches.take_patched();
            return self.free(chunk.complete());
        };
        // What waits for a session nobody can look at, so it can be patched here whatever the service knows of that.
        let place = if needs_patching && (waits || self.patches_directly()) {
            Place::Held(chunk)
        } else {
            match chunk.complete() {
                Ok(index) => Place::Complete(index),
                Err(error) => return lost_chunk(&error),
            }
        };
        let writer_id = writer.writer_id;
        queue.push_chunk(FinishedChunk { writer_id, chunk_id, target_buffer, used, place }, size);
        self.push_patches(&mut state, writer, patches);
        self.announce(state);
    }

    /// Takes the patches that can be sent.
    pub(crate) fn send_patches(&self, writer: WriterIdentity, patches: &mut PatchList) {
        let mut state = self.state();
        if self.is_shut_down() {
            return;
        }
        self.push_patches(&mut state, writer, patches);
        self.announce(state);
    }

    /// The next commit is not to wait for others.
    pub(crate) fn make_urgent(&self) {
        let mut state = self.state();
        if !state.queue.is_empty() {
            state.is_urgent = true;
        }
        drop(state);
        self.waker.wake();
    }

    /// The writer is gone, having given its chunks the ids before this one; its id is free once the service knows, or has never heard of
    /// it.
    pub(crate) fn release_writer(&self, writer: WriterIdentity, next_chunk_id: u32) {
        let WriterIdentity { writer_id, target } = writer;
        let mut state = self.state();
        state.ids.end(writer_id, next_chunk_id);
        let group = match target {
            Target::Buffer(_) => None,
            Target::Group(id) => state.groups.state(id),
        };
        match group {
            Some(GroupState::Waiting(waiting)) => waiting.ended_writers.push(writer_id),
            Some(GroupState::Ended(_)) => state.ids.release(writer_id),
            Some(GroupState::Bound(_)) | None => {
                state.unregistered.push(writer_id);
                drop(state);
                self.waker.wake();
            }
        }
    }

    /// Whether this writer will never write anything again.
    pub(crate) fn is_over(&self, target: Target) -> bool {
        self.is_shut_down()
            || matches!(target, Target::Group(id) if self.state().route(Target::Group(id)).is_none())
    }

    /// Writers for a session that is still to come; `None` if there are too many of such groups.
    pub(crate) fn add_group(self: &Arc<Self>) -> Option<StartupWriters> {
        let id = self.state().groups.add()?;
        Some(StartupWriters { arbiter: Arc::clone(self), id })
    }

    pub(crate) fn create_startup_writer(self: &Arc<Self>, group: StartupId) -> TraceWriter {
        let mut state = self.state();
        let id = match state.groups.state(group) {
            Some(GroupState::Waiting(_)) if !self.is_shut_down() => state.ids.allocate(Target::Group(group)),
            Some(&mut GroupState::Bound(buffer)) => {
                drop(state);
                return self.create_writer(buffer, ExhaustedPolicy::Drop);
            }
            _ => None,
        };
        match id {
            Some(new) => {
                let (target, policy) = (Target::Group(group), ExhaustedPolicy::Drop);
                TraceWriter::new(Arc::clone(self), new, target, policy, Waits::default())
            }
            None => TraceWriter::null(),
        }
    }

    /// Whether the group waits for a session.
    pub(crate) fn is_group_waiting(&self, id: StartupId) -> bool {
        matches!(self.state().groups.state(id), Some(GroupState::Waiting(_)))
    }

    /// The group's chunks go to this buffer from now on, those that wait as well.
    pub(crate) fn bind_group(&self, id: StartupId, target_buffer: u16) -> bool {
        let mut guard = self.state();
        if self.is_shut_down() || !self.is_attached() {
            return false;
        }
        let state = &mut *guard;
        let Some(waiting) = state.groups.settle(id, GroupState::Bound(target_buffer)) else {
            return false;
        };
        let Waiting { queue, ended_writers, dropped_packets: _ } = waiting;
        let writers = state.ids.writers_for(Target::Group(id));
        state.registered.extend(writers.map(|writer| (writer, target_buffer)));
        state.unregistered.extend(ended_writers);
        state.queue.adopt(queue, target_buffer, self.patches_directly());
        state.is_urgent |= !state.queue.is_empty();
        self.announce(guard);
        self.send(false);
        true
    }

    /// Frees what the group has written, if it waits; how many chunks. The service has never heard of it.
    pub(crate) fn abort_group(&self, id: StartupId, reason: StartupEnd) -> Option<usize> {
        let mut state = self.state();
        let loss = StartupLoss { reason, volume: self.volume_in(&mut state, id) };
        let Waiting { queue, ended_writers, .. } = state.groups.settle(id, GroupState::Ended(loss))?;
        for writer in ended_writers {
            state.ids.release(writer);
        }
        Some(queue.discard(|index| self.free(Ok(index))))
    }

    pub(crate) fn group_volume(&self, id: StartupId) -> StartupVolume {
        self.volume_in(&mut self.state(), id)
    }

    pub(crate) fn group_loss(&self, id: StartupId) -> Option<StartupLoss> {
        match self.state().groups.state(id) {
            Some(GroupState::Ended(loss)) => Some(*loss),
            _ => None,
        }
    }

    /// A writer found no memory for so many packets.
    pub(crate) fn count_dropped(&self, target: Target, packets: u64) {
        if let Target::Group(id) = target
            && let Some(GroupState::Waiting(waiting)) = self.state().groups.state(id)
        {
            waiting.dropped_packets = waiting.dropped_packets.saturating_add(packets);
        }
    }

    /// What waits, in chunks that are finished and in those that writers hold.
    #[inline(never)]
    fn volume_in(&self, state: &mut State, id: StartupId) -> StartupVolume {
        let mut volume = StartupVolume::default();
        if let Some(GroupState::Waiting(waiting)) = state.groups.state(id) {
            volume.dropped_packets = waiting.dropped_packets;
            let is_wanted = |writer| state.ids.target_of(writer) == Some(Target::Group(id));
            self.each_chunk(&is_wanted, &mut |header, payload, is_complete| {
                volume.add_chunk(header, payload, is_complete);
            });
        }
        volume
    }

    /// Shows the chunks of these writers that are finished or being written to.
    #[inline(never)]
    fn each_chunk(&self, is_wanted: &dyn Fn(u16) -> bool, each: &mut dyn FnMut(ChunkHeader, &[u8], bool)) {
        self.view.scrape(is_wanted, |_, header, payload, is_complete| each(header, payload, is_complete));
    }

    /// Whether a writer of this group may have another chunk. Sessions that do not adopt it write into the same memory: they find some.
    #[inline(never)]
    fn may_group_take(&self, id: StartupId) -> bool {
        let mut state = self.state();
        match state.groups.state(id) {
            Some(GroupState::Waiting(_)) => {
                let most = self.view.memory().len() / 4 * 3;
                state.groups.waiting_bytes() < most
            }
            Some(GroupState::Bound(_)) => true,
            Some(GroupState::Ended(_)) | None => false,
        }
    }

    fn patches_directly(&self) -> bool {
        self.attached.get().is_some_and(|attached| attached.direct_patching)
    }

    /// Takes a complete chunk back, of which the service was not told.
    #[inline(never)]
    fn free(&self, index: Result<ChunkIndex, ChunkError>) {
        let freed = index.and_then(|index| self.view.take_complete(index, &mut Vec::new()));
        if let Err(error) = freed {
            lost_chunk(&error);
        }
    }

    #[inline(never)]
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(never)]
    fn push_patches(&self, state: &mut State, writer: WriterIdentity, patches: &mut PatchList) {
        let mut needs_service = false;
        for ready in patches.take_patched() {
            if let Some(Route { queue, target_buffer, waits }) = state.route(writer.target) {
                needs_service |= queue.push_patches(writer.writer_id, target_buffer, ready) && !waits;
            }
        }
        // The service keeps the sequence unreadable until it has them.
        state.is_urgent |= needs_service;
    }

    /// Wakes the client's thread if it has something new to do that it does not come to by itself: the first entry starts the time of
    /// batching, an urgent one ends it.
    #[inline(never)]
    fn announce(&self, mut state: MutexGuard<'_, State>) {
        state.is_urgent |= state.queue.bytes >= self.urgent_bytes;
        let is_first = state.pending_since.is_none() && !state.queue.is_empty();
        if is_first {
            state.pending_since = Some(Instant::now());
        }
        let ends_pace =
            state.queue.bytes >= self.view.memory().len() / PACED_PART && state.paced_until.take().is_some();
        if ends_pace || state.is_urgent || is_first && state.paced_until.is_none() {
            drop(state);
            self.waker.wake();
        }
    }

    /// Copies what writers have finished in chunks that they still hold; upstream's service leaves such chunks alone if they have fewer
    /// than two packets, since the last is never taken.
    fn scrape(&self, state: &mut State) {
        let State { queue, ids, groups, .. } = state;
        let buffer_of = |writer: u16| match ids.target_of(writer)? {
            Target::Buffer(buffer) => Some(buffer),
            Target::Group(id) => groups.buffer_of(id),
        };
        let is_known = |writer: u16| buffer_of(writer).is_some();
        self.each_chunk(&is_known, &mut |header, payload, is_complete| {
            if let (false, 2.., Some(target)) =
                (is_complete, header.packet_count, buffer_of(header.writer_id))
            {
                queue.push_unfinished(target, with_header(header, payload));
            }
        });
    }

    #[inline(never)]
    fn register_writers(&self, link: &mut LinkGuard<'_>) {
        let registered = std::mem::take(&mut self.state().registered);
        for (id, target_buffer) in registered {
            let mut request = Writer::new();
            request
                .integer(register_trace_writer_request::TRACE_WRITER_ID, id.into())
                .integer(register_trace_writer_request::TARGET_BUFFER, target_buffer.into());
            link.call("RegisterTraceWriter", request.into_bytes());
        }
    }

    fn commit_to(&self, link: &mut LinkGuard<'_>, emulated: bool) {
        self.register_writers(link);
        let is_blocked = emulated && link.link().connection_ref().queued_bytes() > MAX_QUEUED_COPIES;
        let mut state = self.state();
        state.is_blocked = is_blocked;
        if is_blocked {
            return;
        }
        let unregistered = std::mem::take(&mut state.unregistered);
        let view = emulated.then_some(&self.view);
        let requests = state.queue.take_requests(view.map(|view| |index, used| copy_out(view, index, used)));
        state.pending_since = None;
        state.is_urgent = false;
        for id in &unregistered {
            state.ids.release(*id);
        }
        drop(state);
        for request in requests {
            link.call("CommitData", request);
        }
        for id in unregistered {
            let mut request = Writer::new();
            request.integer(unregister_trace_writer_request::TRACE_WRITER_ID, id.into());
            link.call("UnregisterTraceWriter", request.into_bytes());
        }
    }
}

/// Whose chunks and patches these are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterIdentity {
    pub(crate) writer_id: u16,
    pub(crate) target: Target,
}

/// Where chunks and patches of a writer are to be put.
struct Route<'a> {
    queue: &'a mut CommitQueue,
    target_buffer: u16,
    /// They wait for a session; the buffer is not known.
    waits: bool,
}

impl State {
    /// `None` if nobody wants them any more.
    #[inline(never)]
    fn route(&mut self, target: Target) -> Option<Route<'_>> {
        let buffer = match target {
            Target::Buffer(buffer) => buffer,
            Target::Group(id) => match self.groups.state(id)? {
                GroupState::Waiting(waiting) => {
                    return Some(Route { queue: &mut waiting.queue, target_buffer: 0, waits: true });
                }
                GroupState::Bound(buffer) => *buffer,
                GroupState::Ended(_) => return None,
            },
        };
        Some(Route { queue: &mut self.queue, target_buffer: buffer, waits: false })
    }
}

/// Ids in use; a free one is looked for behind the one given out last, so that an id is not used again soon.
#[derive(Debug, Default)]
struct WriterIds {
    /// The writers' ids and where they write to, in the order of the ids. A process has about as many as threads.
    targets: Vec<(u16, Target)>,
    last: u16,
    /// By the id: where the chunks' ids of the next one to bear it begin.
    next_chunk_ids: Vec<u32>,
}

/// Of a writer that has written nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewWriter {
    pub(crate) writer_id: u16,
    /// The service may still have chunks of the last bearer of the id, and does not take two with the same number.
    pub(crate) first_chunk_id: u32,
}

impl WriterIds {
    fn allocate(&mut self, target: Target) -> Option<NewWriter> {
        // After the last one, so that an id is not soon used again.
        let mut id = self.last;
        for _ in 0..MAX_WRITER_ID {
            id = if id == MAX_WRITER_ID { 1 } else { id + 1 };
            if let Err(place) = self.find(id) {
                self.targets.insert(place, (id, target));
                self.last = id;
                let first_chunk_id = self.next_chunk_ids.get(usize::from(id)).copied().unwrap_or(0);
                return Some(NewWriter { writer_id: id, first_chunk_id });
            }
        }
        None
    }

    fn end(&mut self, id: u16, next_chunk_id: u32) {
        let index = usize::from(id);
        if self.next_chunk_ids.len() <= index {
            self.next_chunk_ids.resize(index + 1, 0);
        }
        if let Some(next) = self.next_chunk_ids.get_mut(index) {
            *next = next_chunk_id;
        }
    }

    fn release(&mut self, id: u16) {
        if let Ok(place) = self.find(id) {
            self.targets.remove(place);
        }
    }

    fn target_of(&self, id: u16) -> Option<Target> {
        let place = self.find(id).ok()?;
        self.targets.get(place).map(|(_, target)| *target)
    }

    fn writers_for(&self, target: Target) -> impl Iterator<Item = u16> {
        self.targets.iter().filter(move |(_, other)| *other == target).map(|(id, _)| *id)
    }

    /// Where the id is, or where it would be.
    fn find(&self, id: u16) -> Result<usize, usize> {
        self.targets.binary_search_by_key(&id, |(id, _)| *id)
    }
}

/// A complete chunk as it goes over a transport that shares no memory, without what was not written. The chunk is free then.
fn copy_out(view: &ProducerView, index: ChunkIndex, used: usize) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    let header = view.take_complete(index, &mut payload).ok()?;
    payload.truncate(used);
    Some(with_header(header, &payload))
}

fn with_header(header: ChunkHeader, payload: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(CHUNK_HEADER_LEN + payload.len());
    chunk.extend_from_slice(&header.to_bytes());
    chunk.extend_from_slice(payload);
    chunk
}

/// The other process, the service, wrote where only this one may.
fn lost_chunk(error: &ChunkError) {
    log::warn(format_args!(
        "lost a chunk of trace data: the shared memory was changed from outside: {error}"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_ids_are_used_again_only_when_they_must() {
        let mut ids = WriterIds::default();
        let mut next = || ids.allocate(Target::Buffer(1)).map(|new| (new.writer_id, new.first_chunk_id));
        let all: Vec<(u16, u32)> = std::iter::from_fn(&mut next).collect();
        assert_eq!(all, (1..=MAX_WRITER_ID).map(|id| (id, 0)).collect::<Vec<_>>());
        ids.end(7, 3);
        ids.release(7);
        ids.release(9);
        let mut next = || ids.allocate(Target::Buffer(1)).map(|new| (new.writer_id, new.first_chunk_id));
        assert_eq!((next(), next(), next()), (Some((7, 3)), Some((9, 0)), None));
    }
}
