//! CommitData: chunks to move, chunks to patch, flushes done, in this order. All of it is hostile until shown otherwise.
//!
//! One request may name thousands of chunks, to move or to patch: what takes long is done in steps, and answered after the last. What is
//! left for the next step is kept encoded, for a chunk of two bytes takes dozens of them in memory.

use bytes::{Buf as _, Bytes};
use ferretto_protos::CommitDataRequest;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_shm::ChunkHeader;
use ferretto_trace_buffer::{Chunk, ClientIdentity, Patch};
use prost::Message as _;

use crate::buffers::Buffer;
use crate::ids::{BufferId, ProducerConn, ProducerId, Token};
use crate::limits;
use crate::now::Now;
use crate::service::Service;
use crate::work::Budget;

/// Bytes of chunks that are stored in the time of one unit of a [`Budget`].
const BYTES_PER_COST: usize = 2048;
/// What it costs to store bytes where something is to become of those that they overwrite, compared to where nothing is: a ring that folds
/// reads all that it takes out.
const FOLDING_FACTOR: usize = 32;
/// What it costs to find the chunk that is to be patched, in the same units: hundreds may be looked at that no cache has.
const PATCH_COST: usize = 20;
/// Patches of one chunk that are read and applied in the time of one unit.
const PATCHES_PER_COST: usize = 16;

/// The tags of what a request may have many of.
const CHUNKS_TO_MOVE: u8 = 1 << 3 | 2;
const CHUNKS_TO_PATCH: u8 = 2 << 3 | 2;

/// What it costs to look at a chunk elsewhere in the ring, which no cache has, in bytes.
const BYTES_PER_LOOK: usize = 256;
/// What a step of a ProtoVM costs, likewise: some 25 nanoseconds.
const BYTES_PER_VM_STEP: usize = 64;

/// What is left of a CommitData request.
#[derive(Debug)]
pub(crate) struct Commit {
    token: Token,
    /// Encoded, which has the chunks to move first, and then those to patch.
    rest: Bytes,
    /// What it takes until the end.
    held_bytes: usize,
    /// Of the chunks that were moved.
    bytes: usize,
}

impl Commit {
    fn new(token: Token, rest: &CommitDataRequest, bytes: usize) -> Self {
        let rest = Bytes::from(rest.encode_to_vec());
        Self { token, held_bytes: rest.len(), rest, bytes }
    }

    fn begins_with(&self, tag: u8) -> bool {
        self.rest.first() == Some(&tag)
    }

    /// The next one of what has this tag. `None` when there are no more.
    fn next<M: prost::Message + Default>(&mut self, tag: u8) -> Option<M> {
        if !self.begins_with(tag) {
            return None;
        }
        self.rest.advance(1);
        M::decode_length_delimited(&mut self.rest).ok()
    }
}

/// Hands over one after another until the budget is spent. Says how many.
fn take_within<T>(items: &[T], budget: &mut Budget, mut take: impl FnMut(&T, &mut Budget)) -> usize {
    for (index, item) in items.iter().enumerate() {
        if budget.is_spent() {
            return index;
        }
        take(item, budget);
    }
    items.len()
}

/// What came of a chunk.
struct Moved {
    bytes: usize,
    cost: usize,
}

/// What it has cost to store the last chunk, of so many bytes, in bytes that could be copied into a plain buffer meanwhile.
pub(crate) fn storing_cost(buffer: &Buffer, bytes: usize) -> usize {
    let folds = buffer.trace.folds_overwritten() || !buffer.vms.is_empty();
    let stored = if folds { bytes.saturating_mul(FOLDING_FACTOR) } else { bytes };
    let steps = usize::try_from(buffer.vms.steps_for_chunk()).unwrap_or(usize::MAX);
    stored
        .saturating_add(buffer.trace.looks_to_store().saturating_mul(BYTES_PER_LOOK))
        .saturating_add(steps.saturating_mul(BYTES_PER_VM_STEP))
}

impl Service {
    pub(crate) fn commit_data(
        &mut self,
        from: ProducerConn,
        id: ProducerId,
        token: Token,
        mut request: CommitDataRequest,
        now: &Now,
    ) {
        let mut budget = self.budget();
        if !request.chunks_to_move.is_empty() {
            self.look_for_tears(id);
        }
        let mut bytes = 0usize;
        let moved = take_within(&request.chunks_to_move, &mut budget, |chunk, budget| {
            bytes = bytes.saturating_add(self.take_chunk(id, chunk, budget));
        });
        let patched = take_within(&request.chunks_to_patch, &mut budget, |chunk, budget| {
            self.patch_chunk(id, chunk, budget);
        });
        if moved == request.chunks_to_move.len() && patched == request.chunks_to_patch.len() {
            self.finish_commit(id, request.flush_request_id(), bytes, now);
            return self.answer_producer(from, token, &ferretto_protos::CommitDataResponse::default());
        }
        request.chunks_to_move.drain(..moved);
        request.chunks_to_patch.drain(..patched);
        if let Some(producer) = self.producers.get_mut(&id) {
            producer.commit = Some(Commit::new(token, &request, bytes));
        }
    }

    /// Whether what a producer has committed is not all taken yet. A driver does not hand in its next call before
    /// [`continue_commit`](Self::continue_commit) has done that.
    pub fn is_committing(&self, conn: ProducerConn) -> bool {
        let producer = self.links.get(&conn).and_then(|link| self.producers.get(&link.producer?));
        producer.is_some_and(|producer| producer.commit.is_some())
    }

    /// What the service keeps of that, in bytes: the driver has it in its books.
    pub fn committing_bytes(&self, conn: ProducerConn) -> usize {
        let producer = self.links.get(&conn).and_then(|link| self.producers.get(&link.producer?));
        producer.and_then(|producer| producer.commit.as_ref()).map_or(0, |commit| commit.held_bytes)
    }

    /// Takes the next part of what a producer has committed.
    pub fn continue_commit(&mut self, from: ProducerConn, now: &Now) {
        let Some(id) = self.links.get(&from).and_then(|link| link.producer) else { return };
        let commit = self.producers.get_mut(&id).and_then(|producer| producer.commit.take());
        if let Some(commit) = commit {
            self.go_on_with(from, id, commit, now);
            self.flush_observed_events();
        }
    }

    fn go_on_with(&mut self, from: ProducerConn, id: ProducerId, mut commit: Commit, now: &Now) {
        let mut budget = self.budget();
        if self.step_of_commit(id, &mut commit, &mut budget, now) {
            return self.answer_producer(from, commit.token, &ferretto_protos::CommitDataResponse::default());
        }
        if let Some(producer) = self.producers.get_mut(&id) {
            producer.commit = Some(commit);
        }
    }

    /// Says whether that was all.
    pub(crate) fn step_of_commit(
        &mut self,
        id: ProducerId,
        commit: &mut Commit,
        budget: &mut Budget,
        now: &Now,
    ) -> bool {
        if commit.begins_with(CHUNKS_TO_MOVE) {
            self.look_for_tears(id);
        }
        while commit.begins_with(CHUNKS_TO_MOVE) {
            if budget.is_spent() {
                return false;
            }
            let Some(chunk) = commit.next(CHUNKS_TO_MOVE) else { break };
            commit.bytes = commit.bytes.saturating_add(self.take_chunk(id, &chunk, budget));
        }
        while commit.begins_with(CHUNKS_TO_PATCH) {
            if budget.is_spent() {
                return false;
            }
            let Some(chunk) = commit.next(CHUNKS_TO_PATCH) else { break };
            self.patch_chunk(id, &chunk, budget);
        }
        let rest = CommitDataRequest::decode(std::mem::take(&mut commit.rest)).unwrap_or_default();
        self.finish_commit(id, rest.flush_request_id(), commit.bytes, now);
        true
    }

    /// Before chunks of its memory are taken.
    fn look_for_tears(&self, id: ProducerId) {
        if let Some(memory) = self.producers.get(&id).and_then(|producer| producer.memory.as_ref()) {
            memory.view.look_for_tears();
        }
    }

    /// What follows when all chunks are moved and patched.
    fn finish_commit(&mut self, id: ProducerId, flush_request_id: u64, bytes: usize, now: &Now) {
        self.note_commit(id, bytes);
        if flush_request_id != 0 {
            self.flush_acknowledged(id, flush_request_id, now);
        }
        self.tend_rings(now);
    }

    /// Gives its bytes.
    fn take_chunk(&mut self, id: ProducerId, chunk: &ChunksToMove, budget: &mut Budget) -> usize {
        let moved = match &chunk.data {
            Some(data) => self.move_inline_chunk(id, chunk, data),
            None => self.move_chunk(id, chunk),
        };
        budget.spend(1 + moved.cost / BYTES_PER_COST);
        moved.bytes
    }

    fn move_chunk(&mut self, id: ProducerId, chunk: &ChunksToMove) -> Moved {
        let mut payload = std::mem::take(&mut self.chunk);
        let memory = self.producers.get_mut(&id).and_then(|producer| producer.memory.as_mut());
        let header = memory.map(|memory| memory.take(chunk.page(), chunk.chunk(), &mut payload));
        let cost = match header {
            Some(Ok(header)) => self.store_chunk(id, chunk.target_buffer(), header, &payload, true),
            Some(Err(error)) => {
                tracing::debug!(producer = %id, "a chunk that is to be moved cannot be: {error}");
                self.discard_chunk()
            }
            None => self.discard_chunk(),
        };
        let bytes = payload.len();
        self.chunk = payload;
        Moved { bytes, cost: cost.max(bytes) }
    }

    /// A chunk by value, with its header: from producers that cannot share memory.
    fn move_inline_chunk(&mut self, id: ProducerId, chunk: &ChunksToMove, data: &[u8]) -> Moved {
        let cost = match ChunkHeader::split_inline(data) {
            Ok((header, payload)) => {
                self.store_chunk(id, chunk.target_buffer(), header, payload, !chunk.chunk_incomplete())
            }
            Err(error) => {
                tracing::debug!(producer = %id, "{error}");
                self.discard_chunk()
            }
        };
        Moved { bytes: data.len(), cost: cost.max(data.len()) }
    }

    /// Gives what it has cost.
    fn store_chunk(
        &mut self,
        id: ProducerId,
        buffer: u32,
        header: ChunkHeader,
        payload: &[u8],
        complete: bool,
    ) -> usize {
        let Some((buffer, client)) = self.writable_buffer(id, header.writer_id, buffer) else {
            return self.discard_chunk();
        };
        let Some(buffer) = self.buffers.get_mut(&buffer) else { return self.discard_chunk() };
        buffer.store(&Chunk {
            producer: ferretto_trace_buffer::ProducerId(id.0),
            client,
            writer: header.writer_id,
            chunk_id: header.chunk_id,
            num_fragments: header.packet_count,
            flags: header.flags.bits(),
            complete,
            payload,
        });
        storing_cost(buffer, payload.len())
    }

    /// The buffer, if this producer and writer may write to it: one of its data sources does, and the writer has not announced another.
    fn writable_buffer(
        &self,
        id: ProducerId,
        writer: u16,
        buffer: u32,
    ) -> Option<(BufferId, ClientIdentity)> {
        let buffer = BufferId(u16::try_from(buffer).ok()?);
        let producer = self.producers.get(&id)?;
        let announced = producer.writers.get(&writer).is_none_or(|announced| *announced == buffer);
        let valid_writer = (1..=limits::MAX_WRITER_ID).contains(&writer);
        let allowed = producer.allowed_buffers.contains(buffer) && announced && valid_writer;
        allowed.then(|| (buffer, producer.identity()))
    }

    /// Gives what it has cost: nothing.
    fn discard_chunk(&mut self) -> usize {
        self.totals.chunks_discarded = self.totals.chunks_discarded.saturating_add(1);
        0
    }

    fn patch_chunk(&mut self, id: ProducerId, chunk: &ChunkToPatch, budget: &mut Budget) {
        let count = chunk.patches.len();
        budget.spend(PATCH_COST + count / PATCHES_PER_COST);
        let writer = u16::try_from(chunk.writer_id()).unwrap_or_default();
        let buffer = self.writable_buffer(id, writer, chunk.target_buffer());
        let buffer = buffer.and_then(|(buffer, _)| self.buffers.get_mut(&buffer));
        let (Some(buffer), true) = (buffer, count <= limits::MAX_PATCHES) else {
            return self.discard_patches(count);
        };
        let parsed = chunk.patches.iter().filter_map(|patch| {
            let data = patch.data.as_deref()?.try_into().ok()?;
            Some(Patch { offset: patch.offset(), data })
        });
        let patches: Vec<Patch> = parsed.collect();
        buffer.trace.try_patch(
            ferretto_trace_buffer::ProducerId(id.0),
            writer,
            chunk.chunk_id(),
            &patches,
            chunk.has_more_patches(),
        );
        self.discard_patches(count - patches.len());
    }

    fn discard_patches(&mut self, count: usize) {
        self.totals.patches_discarded = self.totals.patches_discarded.saturating_add(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_gives_one_after_another_and_then_the_rest() {
        let chunk =
            |page| ChunksToMove { page: Some(page), data: Some(vec![7; 3].into()), ..Default::default() };
        let patch = |writer| ChunkToPatch { writer_id: Some(writer), ..Default::default() };
        let request = CommitDataRequest {
            chunks_to_move: vec![chunk(1), ChunksToMove::default(), chunk(2)],
            chunks_to_patch: vec![patch(3), ChunkToPatch::default()],
            flush_request_id: Some(4),
        };
        let mut commit = Commit::new(Token(1), &request, 0);
        let chunks: Vec<ChunksToMove> = std::iter::from_fn(|| commit.next(CHUNKS_TO_MOVE)).collect();
        assert_eq!(chunks, request.chunks_to_move);
        let chunks: Vec<ChunkToPatch> = std::iter::from_fn(|| commit.next(CHUNKS_TO_PATCH)).collect();
        assert_eq!(chunks, request.chunks_to_patch);
        let rest = CommitDataRequest::decode(commit.rest).unwrap();
        assert_eq!(rest, CommitDataRequest { flush_request_id: Some(4), ..Default::default() });
    }
}
