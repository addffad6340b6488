//! The producer's half: takes free chunks and hands them to one writer each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{CHUNK_HEADER_LEN, ChunkFlags, ChunkHeader, ChunkState, MAX_PACKETS_PER_CHUNK};
use crate::layout::{PageLayout, PageSize};
use crate::memory::{Piece, SharedMemory};
use crate::pages::{ChunkError, ChunkIndex, ChunkPlace, Pages, ViewError};

/// The number of bytes that [`ChunkWriter::write_small_at`] takes at once.
const SMALL_LEN: usize = 16;

/// Pages that are gone round in at first: as many as upstream's clients have by default. Memory that nobody has written to costs
/// nothing, so more of it is only used when all of these are.
const FIRST_PAGES: u32 = 64;
/// Pages that one search looks at, at most: each look may miss the cache, and a trace point waits for the search.
const MAX_SEARCH: u32 = 512;

/// The producer's view of its shared memory. Any thread may use it; a clone is the same view.
#[derive(Clone, Debug)]
pub struct ProducerView {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pages: Pages,
    /// Where the next search starts: the page that had a free chunk last.
    next_page: AtomicU32,
    /// Searches go round in this many pages, from the first. Doubles when none of them has a free chunk.
    used_pages: AtomicU32,
    abandoned: AtomicU64,
}

/// What a new chunk is labelled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// Counts the writer's chunks, from 0, wrapping.
    pub chunk_id: u32,
    /// The writer, 1..=32767.
    pub writer_id: u16,
}

impl ProducerView {
    /// Looks at `memory` as pages of `page_size`.
    ///
    /// # Errors
    ///
    /// If the length is not a multiple of the page size.
    pub fn new(memory: Arc<SharedMemory>, page_size: PageSize) -> Result<Self, ViewError> {
        let pages = Pages::new(memory, page_size)?;
        let used_pages = AtomicU32::new(pages.count().min(FIRST_PAGES));
        let shared = Shared { pages, next_page: AtomicU32::new(0), used_pages, abandoned: AtomicU64::new(0) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The memory behind the view.
    #[must_use]
    pub fn memory(&self) -> &Arc<SharedMemory> {
        self.shared.pages.memory()
    }

    /// The size of a page.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.shared.pages.page_size()
    }

    /// The number of pages.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        self.shared.pages.count()
    }

    /// Takes a free chunk and labels it; `None` if none was found at this moment.
    ///
    /// The search goes round, from the page that had a free chunk last, in as much of the memory as was needed so far. A free page is
    /// divided by `layout`; pages that are already divided are used as they are. Of a large memory that is full a search looks at a
    /// part, and the next one goes on from there.
    #[must_use]
    pub fn try_acquire(&self, layout: PageLayout, new: NewChunk) -> Option<ChunkWriter> {
        let Shared { pages, next_page, used_pages, .. } = &*self.shared;
        let used = used_pages.load(Ordering::Relaxed);
        let start = next_page.load(Ordering::Relaxed);
        let end = start + used.min(MAX_SEARCH);
        let mut page = start;
        let place = (start..end).find_map(|step| {
            page = step % used;
            self.try_acquire_in(page, layout)
        });
        if let Some(place) = place {
            next_page.store(page, Ordering::Relaxed);
            return ChunkWriter::label(Arc::clone(&self.shared), place, new);
        }
        if used == pages.count() {
            next_page.store(end % used, Ordering::Relaxed);
            return None;
        }
        let more = used.saturating_mul(2).min(pages.count());
        // Another thread may have found the same.
        if used_pages.compare_exchange(used, more, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            next_page.store(used, Ordering::Relaxed);
        }
        self.try_acquire(layout, new)
    }

    fn try_acquire_in(&self, page: u32, layout: PageLayout) -> Option<ChunkPlace> {
        let pages = &self.shared.pages;
        let mut bitmap = pages.bitmap(page, Ordering::Relaxed).ok()?;
        if bitmap.layout_bits() == 0 && pages.try_partition(page, layout) {
            bitmap = pages.bitmap(page, Ordering::Relaxed).ok()?;
        }
        let layout = bitmap.layout()?;
        (0..layout.chunks()).filter(|&chunk| bitmap.state(chunk) == ChunkState::Free).find_map(|chunk| {
            let place = pages.place_in(ChunkIndex { page, chunk }, layout);
            pages.transition(&place, ChunkState::Free, ChunkState::BeingWritten).ok()?;
            Some(place)
        })
    }

    /// How many chunks no writer holds at this moment, counted up to `most`: free ones, and those that the service has or may take. A
    /// free page counts as one.
    #[must_use]
    pub fn chunks_without_writer(&self, most: usize) -> usize {
        let pages = &self.shared.pages;
        let in_page = |page| {
            // The layout is the service's to change, for the worse if it means harm: then there is nothing to be had of the page.
            let bitmap = pages.bitmap(page, Ordering::Relaxed).ok()?;
            let Some(layout) = bitmap.layout() else {
                return (bitmap.layout_bits() == 0).then_some(1);
            };
            let is_held = |chunk: &u32| bitmap.state(*chunk) == ChunkState::BeingWritten;
            Some((0..layout.chunks()).filter(|chunk| !is_held(chunk)).count())
        };
        (0..pages.count()).filter_map(in_page).flat_map(|count| 0..count).take(most).count()
    }

    /// Calls `each` with where it is, header, payload and whether complete, for every chunk that is complete
    /// or being written, as [`ServiceView::scrape`](crate::ServiceView::scrape) does, in no order. For a producer whose
    /// memory the service does not see (upstream: emulation mode).
    pub fn scrape(
        &self,
        wanted: impl FnMut(u16) -> bool,
        each: impl FnMut(ChunkIndex, ChunkHeader, &[u8], bool),
    ) {
        let pages = &self.shared.pages;
        pages.scrape(pages.scrapable(0..pages.count(), wanted), each);
    }

    /// Copies a complete chunk's payload into `payload`, replacing what that holds, and frees the chunk. Only
    /// for a producer whose memory the service does not see and that sends the bytes itself (upstream:
    /// emulation mode).
    ///
    /// # Errors
    ///
    /// If there is no such chunk, or it is not complete.
    pub fn take_complete(&self, at: ChunkIndex, payload: &mut Vec<u8>) -> Result<ChunkHeader, ChunkError> {
        payload.clear();
        let pages = &self.shared.pages;
        let place = pages.place(at)?;
        // Nobody else takes complete chunks, so claiming it in the service's place is safe.
        pages.transition(&place, ChunkState::Complete, ChunkState::BeingRead)?;
        let header = pages.header(&place);
        pages.payload(&place, payload);
        pages.free(&place, ChunkState::BeingRead)?;
        Ok(header)
    }

    /// How many chunks were lost to writing because their [`ChunkWriter`] was dropped without being
    /// completed.
    #[must_use]
    pub fn abandoned_chunks(&self) -> u64 {
        self.shared.abandoned.load(Ordering::Relaxed)
    }
}

/// The sole owner of a chunk that is being written. It can be handed to another thread.
///
/// A chunk ends with [`complete`](Self::complete), and then with word to the service. Dropped without that it
/// stays as it is, being written by nobody: the ABI knows no way back, and completing it would pass half a
/// packet for a whole one. Its finished packets can still be scraped, the chunk is out of use, and
/// [`ProducerView::abandoned_chunks`] counts it.
///
/// A chunk with pending patches need not be completed at once. Whoever holds the `ChunkWriter` may apply them
/// ([`write_at`](Self::write_at)) and then [`clear_flags`](Self::clear_flags) of
/// [`ChunkFlags::NEEDS_PATCHING`] (upstream: direct SMB patching).
///
/// Offsets count from the start of the payload. What does not fit in the payload is not written, which is a
/// mistake of the caller and fails in debug builds.
#[derive(Debug)]
#[must_use = "a chunk that is not completed is out of use for good"]
pub struct ChunkWriter {
    head: Piece,
    payload: Piece,
    /// What the header says; we are the only one who changes it.
    header: ChunkHeader,
    place: ChunkPlace,
    shared: Arc<Shared>,
    done: bool,
}

impl ChunkWriter {
    fn label(shared: Arc<Shared>, place: ChunkPlace, new: NewChunk) -> Option<Self> {
        let memory = shared.pages.memory();
        let head = memory.piece(place.offset, CHUNK_HEADER_LEN)?;
        let payload = memory.piece(place.offset + CHUNK_HEADER_LEN, place.len - CHUNK_HEADER_LEN)?;
        let header = ChunkHeader {
            chunk_id: new.chunk_id,
            writer_id: new.writer_id,
            packet_count: 0,
            flags: ChunkFlags::NONE,
        };
        if let Some(word) = head.word(0) {
            word.store(new.chunk_id, Ordering::Relaxed);
        }
        let mut chunk = Self { head, payload, header, place, shared, done: false };
        chunk.publish_header();
        Some(chunk)
    }

    /// Where the chunk is.
    #[inline]
    #[must_use]
    pub const fn index(&self) -> ChunkIndex {
        self.place.index
    }

    /// What the header says now.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> ChunkHeader {
        self.header
    }

    /// The bytes of the payload.
    #[inline(always)]
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.payload.len()
    }

    /// The bytes of the whole chunk, header included: what it takes of the shared memory.
    #[inline]
    #[must_use]
    pub const fn len_with_header(&self) -> usize {
        self.place.len
    }

    /// Writes `bytes` at `offset`.
    #[inline]
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        let stored = self.payload.store(offset, bytes);
        debug_assert!(stored, "{} bytes at {offset} are beyond {}", bytes.len(), self.capacity());
    }

    /// Writes the first `len` of `bytes` at `offset`. Where there is room for all of them, they are stored
    /// all at once, and those after `len` have no meaning.
    #[inline(always)]
    pub fn write_small_at(&mut self, offset: usize, bytes: [u8; SMALL_LEN], len: usize) {
        if !self.payload.store_small(offset, bytes) {
            self.write_end_at(offset, bytes, len);
        }
    }

    /// The bytes of a small write at the very end of the payload.
    #[cold]
    #[inline(never)]
    fn write_end_at(&mut self, offset: usize, bytes: [u8; SMALL_LEN], len: usize) {
        self.write_at(offset, bytes.get(..len).unwrap_or(&bytes));
    }

    /// Reads back what was written at `offset`.
    #[inline]
    pub fn read_at(&self, offset: usize, target: &mut [u8]) {
        let loaded = self.payload.load(offset, target);
        debug_assert!(loaded, "{} bytes at {offset} are beyond {}", target.len(), self.capacity());
    }

    /// The number of packets counted so far.
    #[inline]
    #[must_use]
    pub const fn packet_count(&self) -> u16 {
        self.header.packet_count
    }

    /// Counts one more packet, which publishes all that was written before it. The count stops at
    /// [`MAX_PACKETS_PER_CHUNK`], where it fails in debug builds: a writer takes a new chunk before.
    #[inline]
    pub fn increment_packet_count(&mut self) {
        debug_assert!(self.header.packet_count < MAX_PACKETS_PER_CHUNK, "the packet count is full");
        self.header.packet_count = (self.header.packet_count + 1).min(MAX_PACKETS_PER_CHUNK);
        self.publish_header();
    }

    /// Sets `flags` beside those that are set.
    #[inline]
    pub fn set_flags(&mut self, flags: ChunkFlags) {
        self.header.flags = self.header.flags | flags;
        self.publish_header();
    }

    /// Clears `flags`.
    #[inline]
    pub fn clear_flags(&mut self, flags: ChunkFlags) {
        self.header.flags = self.header.flags.without(flags);
        self.publish_header();
    }

    /// Hands the chunk over to the service, which must be told about it.
    ///
    /// # Errors
    ///
    /// If the service changed what is the producer's. The chunk is lost then.
    pub fn complete(mut self) -> Result<ChunkIndex, ChunkError> {
        self.done = true;
        self.shared.pages.transition(&self.place, ChunkState::BeingWritten, ChunkState::Complete)?;
        Ok(self.place.index)
    }

    /// Frees the chunk, for a producer whose memory the service does not see, once it has sent the bytes
    /// (upstream: emulation mode).
    ///
    /// # Errors
    ///
    /// If the chunk is not being written any more.
    pub fn complete_emulated(mut self) -> Result<(), ChunkError> {
        self.done = true;
        let pages = &self.shared.pages;
        pages.transition(&self.place, ChunkState::BeingWritten, ChunkState::Complete)?;
        pages.free(&self.place, ChunkState::Complete)
    }

    #[inline(always)]
    fn publish_header(&mut self) {
        if let Some(word) = self.head.word(4) {
            word.store(self.header.packets_word(), Ordering::Release);
        }
    }
}

impl Drop for ChunkWriter {
    fn drop(&mut self) {
        if !self.done {
            self.shared.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}
