//! CommitData: chunks to move, chunks to patch, flushes done, in this order. All of it is hostile until shown otherwise.

use ferretto_protos::CommitDataRequest;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_shm::ChunkHeader;
use ferretto_trace_buffer::{Chunk, ClientIdentity, Patch};

use crate::ids::{BufferId, ProducerId};
use crate::limits;
use crate::now::Now;
use crate::service::Service;

impl Service {
    pub(crate) fn commit_data(&mut self, id: ProducerId, request: &CommitDataRequest, now: &Now) {
        let mut bytes = 0;
        for chunk in &request.chunks_to_move {
            bytes += match &chunk.data {
                Some(data) => self.move_inline_chunk(id, chunk, data),
                None => self.move_chunk(id, chunk),
            };
        }
        self.note_commit(id, bytes);
        for chunk in &request.chunks_to_patch {
            self.patch_chunk(id, chunk);
        }
        if request.flush_request_id() != 0 {
            self.flush_acknowledged(id, request.flush_request_id(), now);
        }
        self.tend_rings(now);
    }

    /// Gives the bytes that it took.
    fn move_chunk(&mut self, id: ProducerId, chunk: &ChunksToMove) -> usize {
        let mut payload = std::mem::take(&mut self.chunk);
        let memory = self.producers.get_mut(&id).and_then(|producer| producer.memory.as_mut());
        let header = memory.map(|memory| memory.take(chunk.page(), chunk.chunk(), &mut payload));
        match header {
            Some(Ok(header)) => self.store_chunk(id, chunk.target_buffer(), header, &payload, true),
            Some(Err(error)) => {
                tracing::debug!(producer = %id, "a chunk that is to be moved cannot be: {error}");
                self.discard_chunk();
            }
            None => self.discard_chunk(),
        }
        let bytes = payload.len();
        self.chunk = payload;
        bytes
    }

    /// A chunk by value, with its header: from producers that cannot share memory. Gives its bytes.
    fn move_inline_chunk(&mut self, id: ProducerId, chunk: &ChunksToMove, data: &[u8]) -> usize {
        match ChunkHeader::split_inline(data) {
            Ok((header, payload)) => {
                self.store_chunk(id, chunk.target_buffer(), header, payload, !chunk.chunk_incomplete());
            }
            Err(error) => {
                tracing::debug!(producer = %id, "{error}");
                self.discard_chunk();
            }
        }
        data.len()
    }

    fn store_chunk(
        &mut self,
        id: ProducerId,
        buffer: u32,
        header: ChunkHeader,
        payload: &[u8],
        complete: bool,
    ) {
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
        let allowed = producer.allowed_buffers.contains(&buffer) && announced && valid_writer;
        allowed.then(|| (buffer, producer.identity()))
    }

    fn discard_chunk(&mut self) {
        self.totals.chunks_discarded = self.totals.chunks_discarded.saturating_add(1);
    }

    fn patch_chunk(&mut self, id: ProducerId, chunk: &ChunkToPatch) {
        let count = chunk.patches.len();
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
