//! Gives chunks of the shared memory to writers, takes them back, and tells the service.
//!
//! Writers on any thread meet here, and only when a chunk is full. The client's thread is woken to send what they leave; a writer that
//! waits for a chunk sends it itself, so that nobody waits for a thread that waits. Upstream: `shared_memory_arbiter_impl.cc`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_protos::{RegisterTraceWriterRequest, UnregisterTraceWriterRequest};
use ferretto_shm::{
    CHUNK_HEADER_LEN, ChunkFlags, ChunkHeader, ChunkIndex, ChunkWriter, NewChunk, PageLayout, PageSize,
    ProducerView, SharedMemory, ViewError,
};

use crate::commit::{CommitQueue, FinishedChunk, Place};
use crate::link::{LinkGuard, SharedLink};
use crate::patch_list::PatchList;
use crate::policy::ExhaustedPolicy;
use crate::wake::Waker;
use crate::writer::TraceWriter;

/// Ids are 15 bits on the wire of the service's buffer (upstream: `kMaxWriterID`).
const MAX_WRITER_ID: u16 = 32767;
/// How long a writer stalls at most. Upstream waits about as long and aborts the process then.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest pause between looks. Upstream's grow to 100 ms, in which a reader of the kernel's buffers falls behind by more than they
/// hold; a service that is only busy frees chunks within a few milliseconds.
const MAX_PAUSE: Duration = Duration::from_millis(2);
/// Bytes of copied chunks that may wait in the socket's queue. While there are more, chunks stay in memory and writers find it full.
const MAX_QUEUED_COPIES: usize = 1024 * 1024;

pub(crate) struct ArbiterOptions {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) page_size: PageSize,
    /// The service cannot see the memory.
    pub(crate) emulated: bool,
    /// Unfinished chunks are to be sent at a flush, if the service cannot look for them itself.
    pub(crate) scraping: bool,
    pub(crate) direct_patching: bool,
    pub(crate) batch_duration: Duration,
    pub(crate) link: Arc<SharedLink>,
    pub(crate) waker: Arc<Waker>,
}

/// The meeting point of a connection's writers. Lives as long as one of them, but gives out nothing once the connection has ended.
#[derive(Debug)]
pub struct Arbiter {
    view: ProducerView,
    emulated: bool,
    scraping: bool,
    /// Pending bytes that are committed without delay: half of the memory (upstream's rule).
    urgent_bytes: usize,
    direct_patching: bool,
    batch_duration: Duration,
    link: Arc<SharedLink>,
    waker: Arc<Waker>,
    is_shut_down: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: CommitQueue,
    /// When the oldest entry of the queue came.
    pending_since: Option<Instant>,
    is_urgent: bool,
    /// The socket takes no more copies of chunks: there is nothing to do before it does.
    is_blocked: bool,
    ids: WriterIds,
    /// Writers that the service does not know yet, and their buffers.
    registered: Vec<(u16, u16)>,
    unregistered: Vec<u16>,
}

impl Arbiter {
    pub(crate) fn new(options: ArbiterOptions) -> Result<Arc<Self>, ViewError> {
        Ok(Arc::new(Self {
            urgent_bytes: options.memory.len() / 2,
            view: ProducerView::new(options.memory, options.page_size)?,
            emulated: options.emulated,
            scraping: options.scraping,
            direct_patching: options.direct_patching,
            batch_duration: options.batch_duration,
            link: options.link,
            waker: options.waker,
            is_shut_down: AtomicBool::new(false),
            state: Mutex::default(),
        }))
    }

    /// A writer of a new sequence into this buffer of the service (`DataSourceConfig.target_buffer`). Writes into the void once the
    /// connection has ended, or if there are 32767 others.
    pub fn create_writer(self: &Arc<Self>, target_buffer: u16, policy: ExhaustedPolicy) -> TraceWriter {
        let mut state = self.state();
        let id = if self.is_shut_down() { None } else { state.ids.allocate(target_buffer) };
        let Some(id) = id else {
            return TraceWriter::null();
        };
        state.registered.push((id, target_buffer));
        drop(state);
        self.waker.wake();
        TraceWriter::new(Arc::clone(self), id, target_buffer, policy)
    }

    /// Whether the connection has ended: writers made here write into the void.
    pub fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// Sends all finished chunks now, on the calling thread.
    pub fn commit(&self) {
        let mut link = self.link.lock();
        self.commit_to(&mut link);
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

    pub(crate) fn shut_down(&self) {
        self.is_shut_down.store(true, Ordering::Release);
        let mut state = self.state();
        state.queue.clear();
        state.pending_since = None;
    }

    /// The next commit, if it need not be now.
    pub(crate) fn commit_deadline(&self) -> Option<Instant> {
        let state = self.state();
        let since = state.pending_since.filter(|_| !state.is_blocked)?;
        Some(if state.is_urgent { since } else { since + self.batch_duration })
    }

    pub(crate) fn commit_if_due(&self, now: Instant) {
        let state = self.state();
        let is_due = match state.pending_since {
            Some(since) => state.is_urgent || state.is_blocked || since + self.batch_duration <= now,
            // A writer's end waits for its chunks: the service would not look for them any more.
            None => !state.unregistered.is_empty(),
        };
        let has_new_writers = !state.registered.is_empty();
        drop(state);
        if is_due {
            self.commit();
        } else if has_new_writers {
            self.register_writers(&mut self.link.lock());
        }
    }

    pub(crate) fn acknowledge_flush(&self, request_id: u64) {
        let mut state = self.state();
        if self.emulated && self.scraping {
            self.scrape(&mut state);
        }
        state.queue.acknowledge_flush(request_id);
        drop(state);
        self.commit();
    }

    /// A free chunk, or `None` if there is none and the policy does not wait (any longer).
    pub(crate) fn acquire_chunk(&self, new: NewChunk, policy: ExhaustedPolicy) -> Option<ChunkWriter> {
        let (mut pause, mut waited) = (Duration::ZERO, Duration::ZERO);
        while waited < STALL_TIMEOUT {
            if self.is_shut_down() {
                return None;
            }
            if let Some(chunk) = self.view.try_acquire(Self::LAYOUT, new) {
                if policy.stalls() && self.state().queue.bytes >= self.urgent_bytes {
                    self.commit();
                }
                return Some(chunk);
            }
            if !policy.stalls() {
                break;
            }
            // The chunks that this writer waits for may be in the queue, and the client's thread may be this one.
            self.commit();
            std::thread::sleep(pause);
            waited += pause;
            pause = next_pause(pause);
        }
        self.make_urgent();
        None
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
        let place = if needs_patching && self.direct_patching {
            Place::Held(chunk)
        } else {
            match chunk.complete() {
                Ok(index) => Place::Complete(index),
                Err(error) => return lost_chunk(&error),
            }
        };
        let WriterIdentity { writer_id, target_buffer } = writer;
        let mut state = self.state();
        if self.is_shut_down() {
            return;
        }
        state.queue.push_chunk(FinishedChunk { writer_id, chunk_id, target_buffer, used, place }, size);
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

    /// The writer is gone; its id is free once the service knows.
    pub(crate) fn release_writer(&self, writer_id: u16) {
        self.state().unregistered.push(writer_id);
        self.waker.wake();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_patches(&self, state: &mut State, writer: WriterIdentity, patches: &mut PatchList) {
        for ready in patches.take_patched() {
            // The service keeps the sequence unreadable until it has them.
            state.is_urgent |= state.queue.push_patches(writer.writer_id, writer.target_buffer, ready);
        }
    }

    /// Wakes the client's thread if it has something new to do: the first entry starts the time of batching, an urgent one ends it.
    fn announce(&self, mut state: MutexGuard<'_, State>) {
        state.is_urgent |= state.queue.bytes >= self.urgent_bytes;
        let is_first = state.pending_since.is_none() && !state.queue.is_empty();
        if is_first {
            state.pending_since = Some(Instant::now());
        }
        if is_first || state.is_urgent {
            drop(state);
            self.waker.wake();
        }
    }

    /// Copies what writers have finished in chunks that they still hold; upstream's service leaves such chunks alone if they have fewer
    /// than two packets, since the last is never taken.
    fn scrape(&self, state: &mut State) {
        let State { queue, ids, .. } = state;
        let targets = &ids.targets;
        let is_known = |writer: u16| targets.contains_key(&writer);
        self.view.scrape(is_known, |index, header, payload, is_complete| {
            if let (false, 2.., Some(target)) =
                (is_complete, header.packet_count, targets.get(&header.writer_id))
            {
                queue.push_unfinished(index, *target, with_header(header, payload));
            }
        });
    }

    fn register_writers(&self, link: &mut LinkGuard<'_>) {
        let registered = std::mem::take(&mut self.state().registered);
        for (id, target_buffer) in registered {
            let request = RegisterTraceWriterRequest {
                trace_writer_id: Some(id.into()),
                target_buffer: Some(target_buffer.into()),
            };
            link.call("RegisterTraceWriter", &request);
        }
    }

    fn commit_to(&self, link: &mut LinkGuard<'_>) {
        self.register_writers(link);
        let is_blocked = self.emulated && link.link().connection_ref().queued_bytes() > MAX_QUEUED_COPIES;
        let mut state = self.state();
        state.is_blocked = is_blocked;
        if is_blocked {
            return;
        }
        let unregistered = std::mem::take(&mut state.unregistered);
        let view = self.emulated.then_some(&self.view);
        let requests = state.queue.take_requests(view.map(|view| |index, used| copy_out(view, index, used)));
        state.pending_since = None;
        state.is_urgent = false;
        for id in &unregistered {
            state.ids.release(*id);
        }
        drop(state);
        for request in requests {
            link.call("CommitData", &request);
        }
        for id in unregistered {
            let request = UnregisterTraceWriterRequest { trace_writer_id: Some(id.into()) };
            link.call("UnregisterTraceWriter", &request);
        }
    }
}

/// Whose chunks and patches these are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterIdentity {
    pub(crate) writer_id: u16,
    pub(crate) target_buffer: u16,
}

/// Ids in use; a free one is looked for behind the one given out last, so that an id is not used again soon.
#[derive(Debug, Default)]
struct WriterIds {
    /// The buffers of the writers.
    targets: BTreeMap<u16, u16>,
    last: u16,
}

impl WriterIds {
    fn allocate(&mut self, target_buffer: u16) -> Option<u16> {
        let later = (self.last + 1)..=MAX_WRITER_ID;
        let earlier = 1..=self.last;
        let id = later.chain(earlier).find(|id| !self.targets.contains_key(id))?;
        self.targets.insert(id, target_buffer);
        self.last = id;
        Some(id)
    }

    fn release(&mut self, id: u16) {
        self.targets.remove(&id);
    }
}

/// Upstream's ladder, but not as high: 0, 8 µs, 72 µs, 584 µs, [`MAX_PAUSE`].
fn next_pause(pause: Duration) -> Duration {
    ((pause + Duration::from_micros(1)) * 8).min(MAX_PAUSE)
}

/// A complete chunk as it goes over a transport that shares no memory, without what was not written. The chunk is free then.
fn copy_out(view: &ProducerView, index: ChunkIndex, used: usize) -> Option<Bytes> {
    let mut payload = Vec::new();
    let header = view.take_complete(index, &mut payload).ok()?;
    payload.truncate(used);
    Some(with_header(header, &payload))
}

fn with_header(header: ChunkHeader, payload: &[u8]) -> Bytes {
    [&header.to_bytes(), payload].concat().into()
}

/// The other process, the service, wrote where only this one may.
fn lost_chunk(error: &ferretto_shm::ChunkError) {
    tracing::warn!(%error, "lost a chunk of trace data: the shared memory was changed from outside");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_ids_are_used_again_only_when_they_must() {
        let mut ids = WriterIds::default();
        let all: Vec<u16> = std::iter::from_fn(|| ids.allocate(1)).collect();
        assert_eq!(all, (1..=MAX_WRITER_ID).collect::<Vec<_>>());
        ids.release(7);
        ids.release(9);
        assert_eq!(ids.allocate(1), Some(7));
        ids.release(7);
        assert_eq!(ids.allocate(1), Some(9));
        assert_eq!(ids.allocate(1), Some(7));
        assert_eq!(ids.allocate(1), None);
    }

    #[test]
    fn pauses_of_a_stall_stay_short() {
        let pauses = std::iter::successors(Some(Duration::ZERO), |pause| Some(next_pause(*pause)));
        let micros: Vec<u128> = pauses.take(6).map(|pause| pause.as_micros()).collect();
        assert_eq!(micros, [0, 8, 72, 584, 2000, 2000]);
    }
}
