//! What the service is to be told: chunks that are finished, patches, an acknowledged flush. Collected, then cut into requests that fit
//! into frames.
//!
//! Upstream: `shared_memory_arbiter_impl.cc` (`FlushPendingCommitDataRequests`), `commit_data_request.proto`.

use ferretto_protos::fields::commit_data_request::{
    CHUNKS_TO_MOVE, CHUNKS_TO_PATCH, FLUSH_REQUEST_ID, chunk_to_patch, chunks_to_move,
};
use ferretto_protozero::control::Writer;
use ferretto_shm::{ChunkFlags, ChunkIndex, ChunkWriter};

use crate::patch_list::ChunkPatches;

/// What a request may take of a frame of 128 KiB; the rest is for the frame itself (upstream's split limit).
const MAX_REQUEST_SIZE: usize = 128 * 1024 - 512;
/// What the tag and the length of an entry take at most.
const MAX_PREFIX_SIZE: usize = 8;
/// The service ignores more patches in one entry (upstream: `tracing_service_impl.cc`).
const MAX_PATCHES_PER_ENTRY: usize = 1024;

/// Where a chunk that comes with its bytes lies is nobody's business, but upstream's service drops it all the same if its own, unused
/// memory has no such page (tracing_service_impl.cc); that has 64 of them by default, less than ours.
const NOWHERE: ChunkIndex = ChunkIndex { page: 0, chunk: 0 };

/// A chunk that its writer has left.
#[derive(Debug)]
pub(crate) struct FinishedChunk {
    pub(crate) writer_id: u16,
    pub(crate) chunk_id: u32,
    pub(crate) target_buffer: u16,
    /// Bytes of its payload that were written.
    pub(crate) used: usize,
    pub(crate) place: Place,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Still ours, since patches may come that can be applied right here.
    Held(ChunkWriter),
    /// The service may take it any time.
    Complete(ChunkIndex),
}

/// Patches of a chunk that the service has.
#[derive(Debug)]
struct OwedPatches {
    writer_id: u16,
    target_buffer: u16,
    /// At most [`MAX_PATCHES_PER_ENTRY`].
    patches: ChunkPatches,
}

/// The collection.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    chunks: Vec<FinishedChunk>,
    /// Copies of chunks that are still being written, and their buffers.
    unfinished: Vec<(u16, Vec<u8>)>,
    patches: Vec<OwedPatches>,
    flush_request_id: Option<u64>,
    /// Bytes of shared memory in `chunks`.
    pub(crate) bytes: usize,
}

impl CommitQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.patches.is_empty() && self.flush_request_id.is_none()
    }

    /// Chunks that are not held for patches.
    pub(crate) fn complete_chunks(&self) -> usize {
        self.chunks.iter().filter(|chunk| matches!(chunk.place, Place::Complete(_))).count()
    }

    pub(crate) fn push_chunk(&mut self, chunk: FinishedChunk, size: usize) {
        self.bytes = self.bytes.saturating_add(size);
        self.chunks.push(chunk);
    }

    pub(crate) fn push_unfinished(&mut self, target_buffer: u16, data: Vec<u8>) {
        self.unfinished.push((target_buffer, data));
    }

    /// Applies the patches to the chunk, if it is still held, else notes them for the service; `true` if the service is needed.
    pub(crate) fn push_patches(&mut self, writer_id: u16, target_buffer: u16, patches: ChunkPatches) -> bool {
        if self.patch_held_chunk(writer_id, &patches) {
            return false;
        }
        let ChunkPatches { chunk_id, patches, has_more } = patches;
        let mut parts = patches.chunks(MAX_PATCHES_PER_ENTRY).peekable();
        while let Some(part) = parts.next() {
            let has_more = has_more || parts.peek().is_some();
            let patches = ChunkPatches { chunk_id, patches: part.to_vec(), has_more };
            self.patches.push(OwedPatches { writer_id, target_buffer, patches });
        }
        true
    }

    /// An acknowledgement stands for all flushes before it.
    pub(crate) fn acknowledge_flush(&mut self, request_id: u64) {
        self.flush_request_id = self.flush_request_id.max(Some(request_id));
    }

    /// Takes everything, in requests to be sent in this order: chunks before their patches, and both before the acknowledgement.
    /// `copy_out` takes the bytes of a complete chunk, for a service that cannot see the memory, and frees it.
    pub(crate) fn take_requests(
        &mut self,
        mut copy_out: Option<impl FnMut(ChunkIndex, usize) -> Option<Vec<u8>>>,
    ) -> Vec<Vec<u8>> {
        let queue = std::mem::take(self);
        let mut requests = Requests::default();
        // Copies first: their chunks may have been finished since, and a chunk that shrinks is a violation to the service.
        for (target_buffer, data) in queue.unfinished {
            requests.push_chunk(NOWHERE, target_buffer, Some(&data), true);
        }
        for chunk in queue.chunks {
            let index = match chunk.place {
                Place::Held(writer) => writer.complete(),
                Place::Complete(index) => Ok(index),
            };
            // The other process wrote where only this one may.
            let Ok(index) = index else {
                continue;
            };
            let data = copy_out.as_mut().map(|copy_out| copy_out(index, chunk.used));
            // Nothing could be copied only if another process wrote to private memory.
            if data != Some(None) {
                requests.push_chunk(index, chunk.target_buffer, data.flatten().as_deref(), false);
            }
        }
        for patches in queue.patches {
            requests.push_patches(&patches);
        }
        if let Some(request_id) = queue.flush_request_id {
            requests.last(MAX_PREFIX_SIZE).integer(FLUSH_REQUEST_ID, request_id);
        }
        requests.into_encoded()
    }

    /// Takes over what waited for a buffer. Chunks that are held stay so only if the service can bear that (`holds`).
    pub(crate) fn adopt(&mut self, waiting: Self, target_buffer: u16, holds: bool) {
        for mut chunk in waiting.chunks {
            chunk.target_buffer = target_buffer;
            if !holds && let Place::Held(writer) = chunk.place {
                // The other process wrote where only this one may.
                let Ok(index) = writer.complete() else {
                    continue;
                };
                chunk.place = Place::Complete(index);
            }
            self.chunks.push(chunk);
        }
        for mut patches in waiting.patches {
            patches.target_buffer = target_buffer;
            self.patches.push(patches);
        }
        self.bytes = self.bytes.saturating_add(waiting.bytes);
    }

    /// Frees all chunks, of which the service was never told; how many.
    pub(crate) fn discard(self, mut free: impl FnMut(ChunkIndex)) -> usize {
        let count = self.chunks.len();
        for chunk in self.chunks {
            let index = match chunk.place {
                Place::Held(writer) => writer.complete(),
                Place::Complete(index) => Ok(index),
            };
            index.into_iter().for_each(&mut free);
        }
        count
    }

    /// Drops everything: there is nobody to tell.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn patch_held_chunk(&mut self, writer_id: u16, patches: &ChunkPatches) -> bool {
        let mut newest_first = self.chunks.iter_mut().rev();
        let found =
            newest_first.find(|chunk| chunk.writer_id == writer_id && chunk.chunk_id == patches.chunk_id);
        let Some(FinishedChunk { place: Place::Held(chunk), .. }) = found else {
            return false;
        };
        for (offset, value) in &patches.patches {
            chunk.write_at(*offset as usize, value);
        }
        if !patches.has_more {
            chunk.clear_flags(ChunkFlags::NEEDS_PATCHING);
        }
        true
    }
}

/// `CommitDataRequest`s that are being filled.
#[derive(Default)]
struct Requests {
    full: Vec<Vec<u8>>,
    last: Writer,
}

impl Requests {
    /// The request that has room for so many bytes more.
    fn last(&mut self, size: usize) -> &mut Writer {
        let used = self.last.as_bytes().len();
        if used > 0 && used.saturating_add(size) > MAX_REQUEST_SIZE {
            self.full.push(std::mem::take(&mut self.last).into_bytes());
        }
        &mut self.last
    }

    fn push_chunk(
        &mut self,
        index: ChunkIndex,
        target_buffer: u16,
        data: Option<&[u8]>,
        is_incomplete: bool,
    ) {
        let index = if data.is_some() { NOWHERE } else { index };
        let mut entry = Writer::new();
        entry
            .integer(chunks_to_move::PAGE, index.page.into())
            .integer(chunks_to_move::CHUNK, index.chunk.into())
            .integer(chunks_to_move::TARGET_BUFFER, target_buffer.into());
        if is_incomplete {
            entry.truth(chunks_to_move::CHUNK_INCOMPLETE, true);
        }
        if let Some(data) = data {
            entry.prefix(chunks_to_move::DATA, data.len());
        }
        self.push(CHUNKS_TO_MOVE, entry.as_bytes(), data.unwrap_or_default());
    }

    fn push_patches(&mut self, owed: &OwedPatches) {
        let mut entry = Writer::new();
        entry
            .integer(chunk_to_patch::TARGET_BUFFER, owed.target_buffer.into())
            .integer(chunk_to_patch::WRITER_ID, owed.writer_id.into())
            .integer(chunk_to_patch::CHUNK_ID, owed.patches.chunk_id.into())
            .truth(chunk_to_patch::HAS_MORE_PATCHES, owed.patches.has_more);
        for (offset, value) in &owed.patches.patches {
            let mut patch = Writer::new();
            patch
                .integer(chunk_to_patch::patch::OFFSET, (*offset).into())
                .bytes(chunk_to_patch::patch::DATA, value);
            entry.message(chunk_to_patch::PATCHES, &patch);
        }
        self.push(CHUNKS_TO_PATCH, entry.as_bytes(), &[]);
    }

    fn push(&mut self, field: u32, head: &[u8], tail: &[u8]) {
        let len = head.len() + tail.len();
        self.last(len + MAX_PREFIX_SIZE).prefix(field, len).raw(head).raw(tail);
    }

    fn into_encoded(mut self) -> Vec<Vec<u8>> {
        if !self.last.as_bytes().is_empty() {
            self.full.push(self.last.into_bytes());
        }
        self.full
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ferretto_protos::CommitDataRequest;
    use ferretto_shm::{NewChunk, PageLayout, PageSize, ProducerView, SharedMemory};

    use super::*;

    fn decoded(requests: &[Vec<u8>]) -> Vec<CommitDataRequest> {
        requests.iter().map(|request| prost::Message::decode(request.as_slice()).unwrap()).collect()
    }

    fn finished(view: &ProducerView, chunk_id: u32) -> FinishedChunk {
        let chunk = view.try_acquire(PageLayout::Div1, NewChunk { chunk_id, writer_id: 1 }).unwrap();
        let place = Place::Complete(chunk.complete().unwrap());
        FinishedChunk { writer_id: 1, chunk_id, target_buffer: 1, used: 4, place }
    }

    fn view(pages: usize) -> ProducerView {
        let memory = Arc::new(SharedMemory::in_process(pages * 4096).unwrap());
        ProducerView::new(memory, PageSize::DEFAULT).unwrap()
    }

    #[test]
    fn a_copy_of_an_unfinished_chunk_goes_before_the_finished_one() {
        let view = view(1);
        let mut queue = CommitQueue::default();
        let chunk = finished(&view, 0);
        queue.push_unfinished(1, b"unfinished".to_vec());
        queue.push_chunk(chunk, 4088);
        queue.acknowledge_flush(3);
        let requests = decoded(&queue.take_requests(Some(|_, _| Some(b"finished".to_vec()))));
        let moved: Vec<_> = requests[0]
            .chunks_to_move
            .iter()
            .map(|moved| (moved.data().to_vec(), moved.chunk_incomplete()))
            .collect();
        assert_eq!(moved, [(b"unfinished".to_vec(), true), (b"finished".to_vec(), false)]);
        assert_eq!(requests[0].flush_request_id, Some(3));
        assert!(queue.is_empty());
    }

    #[test]
    fn requests_fit_into_frames_and_the_acknowledgement_is_last() {
        let view = view(64);
        let mut queue = CommitQueue::default();
        for chunk_id in 0..64 {
            queue.push_chunk(finished(&view, chunk_id), 4088);
        }
        let patches = (0..5000).map(|offset| (offset, [0; 4])).collect();
        queue.push_patches(1, 1, ChunkPatches { chunk_id: 999, patches, has_more: false });
        queue.acknowledge_flush(3);
        let requests = queue.take_requests(Some(|_, _| Some(vec![0; 4088])));
        assert!(requests.iter().all(|request| request.len() <= MAX_REQUEST_SIZE));
        let requests = decoded(&requests);
        for request in &requests {
            assert!(request.chunks_to_patch.iter().all(|patched| patched.patches.len() <= 1024));
        }
        assert_eq!(requests.iter().map(|request| request.chunks_to_move.len()).sum::<usize>(), 64);
        let more: Vec<_> = requests
            .iter()
            .flat_map(|request| &request.chunks_to_patch)
            .map(|patched| (patched.patches.len(), patched.has_more_patches()))
            .collect();
        assert_eq!(more, [(1024, true), (1024, true), (1024, true), (1024, true), (904, false)]);
        assert_eq!(requests.last().unwrap().flush_request_id, Some(3));
        assert!(requests.iter().rev().skip(1).all(|request| request.flush_request_id.is_none()));
    }
}
