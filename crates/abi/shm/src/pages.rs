//! The state machine of pages and chunks, which both views stand on.
//!
//! Whoever calls decides which transitions are its own to make; this module makes them by compare-and-swap on
//! the page's bitmap, with the orderings of the ABI (upstream: shared_memory_abi.cc).

use std::error::Error;
use std::fmt;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::layout::{
    Bitmap, CHUNK_HEADER_LEN, ChunkHeader, ChunkState, PAGE_HEADER_LEN, PageLayout, PageSize,
};
use crate::memory::SharedMemory;

/// How often a compare-and-swap is tried before the caller gets an error: every failure means that somebody
/// else changed the page, and an honest peer has at most 14 chunks to change (upstream: `kRetryAttempts`).
const MAX_ATTEMPTS: u32 = 64;

/// Fewer packets than this in a chunk that is being written, and a scrape gets nothing out of it: the last
/// one may be incomplete (upstream: `ForEachScrapableChunk`).
const MIN_PACKETS_TO_SCRAPE: u16 = 2;

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkIndex {
    /// The page, counted from the start of the memory.
    pub page: u32,
    /// The chunk within its page.
    pub chunk: u32,
}

/// Memory and page size that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewError {
    /// The length of the memory in bytes.
    pub len: usize,
    /// The size of a page in bytes.
    pub page_size: usize,
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, page_size } = self;
        write!(
            f,
            "shared memory of {len} bytes cannot be divided into pages of {page_size}; use a multiple of the page size"
        )
    }
}

impl Error for ViewError {}

/// Why a chunk cannot be had. Seen by the service, each of these means that the producer broke the ABI; the
/// chunk is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// There is no such page.
    NoSuchPage {
        /// The page asked for.
        page: u32,
        /// The number of pages.
        pages: u32,
    },
    /// The page is free, or its layout is one of the reserved values.
    NotPartitioned {
        /// The page asked for.
        page: u32,
        /// The layout's value: 0 for a free page; 6 and 7 are reserved.
        layout: u32,
    },
    /// The page has fewer chunks.
    NoSuchChunk {
        /// The page asked for.
        page: u32,
        /// The chunk asked for.
        chunk: u32,
        /// The number of chunks that the page has.
        chunks: u32,
    },
    /// The chunk is not in the state that the transition starts from.
    WrongState {
        /// The page asked for.
        page: u32,
        /// The chunk asked for.
        chunk: u32,
        /// The state it should be in.
        expected: ChunkState,
        /// The state it is in.
        found: ChunkState,
    },
    /// The page's layout changed while the chunk was in use.
    LayoutChanged {
        /// The page asked for.
        page: u32,
        /// The chunk asked for.
        chunk: u32,
    },
    /// The page kept changing.
    Contended {
        /// The page asked for.
        page: u32,
        /// The chunk asked for.
        chunk: u32,
    },
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPage { page, pages } => {
                write!(f, "page {page} does not exist; the shared memory has {pages}")
            }
            Self::NotPartitioned { page, layout } => {
                write!(f, "page {page} is not divided into chunks (its layout is {layout})")
            }
            Self::NoSuchChunk { page, chunk, chunks } => {
                write!(f, "chunk {chunk} does not exist; page {page} has {chunks}")
            }
            Self::WrongState { page, chunk, expected, found } => {
                write!(f, "chunk {chunk} of page {page} is {found:?}, not {expected:?}")
            }
            Self::LayoutChanged { page, chunk } => {
                write!(f, "the layout of page {page} changed while chunk {chunk} was in use")
            }
            Self::Contended { page, chunk } => {
                write!(f, "page {page} changed at each of 64 attempts to change the state of chunk {chunk}")
            }
        }
    }
}

impl Error for ChunkError {}

/// The memory as pages and chunks.
#[derive(Debug)]
pub(crate) struct Pages {
    memory: Arc<SharedMemory>,
    page_size: PageSize,
    count: u32,
}

/// A chunk of a page whose layout is known: its bounds are within the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkPlace {
    pub(crate) index: ChunkIndex,
    pub(crate) layout: PageLayout,
    /// Of the header, from the start of the memory.
    pub(crate) offset: usize,
    /// With the header.
    pub(crate) len: usize,
}

/// A chunk that its producer has not handed over.
pub(crate) struct Scrapable {
    pub(crate) place: ChunkPlace,
    pub(crate) header: ChunkHeader,
    /// Its writer is done with it.
    complete: bool,
}

impl Pages {
    pub(crate) fn new(memory: Arc<SharedMemory>, page_size: PageSize) -> Result<Self, ViewError> {
        let len = memory.len();
        let error = ViewError { len, page_size: page_size.bytes() };
        if len == 0 || !len.is_multiple_of(page_size.bytes()) {
            return Err(error);
        }
        let count = u32::try_from(len / page_size.bytes()).map_err(|_| error)?;
        Ok(Self { memory, page_size, count })
    }

    #[inline]
    pub(crate) const fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    #[inline]
    pub(crate) const fn page_size(&self) -> PageSize {
        self.page_size
    }

    #[inline]
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn bitmap_word(&self, page: u32) -> Result<&AtomicU32, ChunkError> {
        let no_such_page = ChunkError::NoSuchPage { page, pages: self.count };
        if page >= self.count {
            return Err(no_such_page);
        }
        self.memory.word(page as usize * self.page_size.bytes()).ok_or(no_such_page)
    }

    pub(crate) fn bitmap(&self, page: u32, ordering: Ordering) -> Result<Bitmap, ChunkError> {
        Ok(Bitmap(self.bitmap_word(page)?.load(ordering)))
    }

    /// Finds a chunk by its page's layout as it is now.
    pub(crate) fn place(&self, index: ChunkIndex) -> Result<ChunkPlace, ChunkError> {
        let ChunkIndex { page, chunk } = index;
        let bitmap = self.bitmap(page, Ordering::Acquire)?;
        let layout =
            bitmap.layout().ok_or(ChunkError::NotPartitioned { page, layout: bitmap.layout_bits() })?;
        if chunk >= layout.chunks() {
            return Err(ChunkError::NoSuchChunk { page, chunk, chunks: layout.chunks() });
        }
        Ok(self.place_in(index, layout))
    }

    /// Where a chunk is in a page of the given layout. `index.chunk` is below its number of chunks.
    pub(crate) fn place_in(&self, index: ChunkIndex, layout: PageLayout) -> ChunkPlace {
        let len = layout.chunk_len(self.page_size);
        let page_offset = index.page as usize * self.page_size.bytes();
        let offset = page_offset + PAGE_HEADER_LEN + index.chunk as usize * len;
        ChunkPlace { index, layout, offset, len }
    }

    /// Gives a free page a layout; whether that worked.
    pub(crate) fn try_partition(&self, page: u32, layout: PageLayout) -> bool {
        self.bitmap_word(page).is_ok_and(|word| {
            let free = Bitmap::FREE_PAGE.0;
            word.compare_exchange(free, layout.bitmap(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Moves a chunk from one state to another. A page whose chunks are all free afterwards becomes free
    /// itself.
    pub(crate) fn transition(
        &self,
        place: &ChunkPlace,
        expected: ChunkState,
        next: ChunkState,
    ) -> Result<(), ChunkError> {
        let ChunkIndex { page, chunk } = place.index;
        let word = self.bitmap_word(page)?;
        let mut current = Bitmap(word.load(Ordering::Acquire));
        for _ in 0..MAX_ATTEMPTS {
            if current.layout() != Some(place.layout) {
                return Err(ChunkError::LayoutChanged { page, chunk });
            }
            let found = current.state(chunk);
            if found != expected {
                return Err(ChunkError::WrongState { page, chunk, expected, found });
            }
            let mut changed = current.with_state(chunk, next);
            if next == ChunkState::Free && changed.all_chunks_free() {
                changed = Bitmap::FREE_PAGE;
            }
            match word.compare_exchange(current.0, changed.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(found) => current = Bitmap(found),
            }
        }
        Err(ChunkError::Contended { page, chunk })
    }

    /// Moves a chunk to Free, its header cleared first so that a scrape cannot mistake what it said for the
    /// next writer's.
    pub(crate) fn free(&self, place: &ChunkPlace, expected: ChunkState) -> Result<(), ChunkError> {
        for word in [0, 4].into_iter().filter_map(|at| self.memory.word(place.offset + at)) {
            word.store(0, Ordering::Relaxed);
        }
        self.transition(place, expected, ChunkState::Free)
    }

    /// Copies a chunk's header. Its packet count was true before what is read after it.
    pub(crate) fn header(&self, place: &ChunkPlace) -> ChunkHeader {
        // The second word first, as writers set it last.
        let packets = self.memory.word(place.offset + 4).map_or(0, |word| word.load(Ordering::Acquire));
        let chunk_id = self.memory.word(place.offset).map_or(0, |word| word.load(Ordering::Relaxed));
        ChunkHeader::from_words(chunk_id, packets)
    }

    /// Appends a copy of a chunk's payload.
    pub(crate) fn payload(&self, place: &ChunkPlace, out: &mut Vec<u8>) {
        self.memory.copy_out(place.offset + CHUNK_HEADER_LEN, place.len - CHUNK_HEADER_LEN, out);
    }

    /// Every chunk of these pages that is complete or being written. No more than the memory has room for: some 100,000 in 32 MiB.
    pub(crate) fn scrapable(
        &self,
        pages: impl Iterator<Item = u32>,
        mut wanted: impl FnMut(u16) -> bool,
    ) -> Vec<Scrapable> {
        let mut found = Vec::new();
        for page in pages {
            let Ok(bitmap) = self.bitmap(page, Ordering::Acquire) else { continue };
            let Some(layout) = bitmap.layout() else { continue };
            let chunks = (0..layout.chunks()).map(|chunk| ChunkIndex { page, chunk });
            let chunks = chunks.filter_map(|index| self.scrapable_in(index, bitmap, layout));
            found.extend(chunks.filter(|chunk| wanted(chunk.header.writer_id)));
        }
        found
    }

    /// The same of one chunk.
    pub(crate) fn scrapable_at(&self, index: ChunkIndex) -> Option<Scrapable> {
        let bitmap = self.bitmap(index.page, Ordering::Acquire).ok()?;
        let layout = bitmap.layout().filter(|layout| index.chunk < layout.chunks())?;
        self.scrapable_in(index, bitmap, layout)
    }

    fn scrapable_in(&self, index: ChunkIndex, bitmap: Bitmap, layout: PageLayout) -> Option<Scrapable> {
        let complete = match bitmap.state(index.chunk) {
            ChunkState::Complete => true,
            ChunkState::BeingWritten => false,
            ChunkState::Free | ChunkState::BeingRead => return None,
        };
        let place = self.place_in(index, layout);
        let header = self.header(&place);
        let too_few = !complete && header.packet_count < MIN_PACKETS_TO_SCRAPE;
        (!too_few).then_some(Scrapable { place, header, complete })
    }

    /// Copies chunks that were found, without changing any state.
    pub(crate) fn scrape(
        &self,
        chunks: Vec<Scrapable>,
        mut each: impl FnMut(ChunkIndex, ChunkHeader, &[u8], bool),
    ) {
        let mut payload = Vec::new();
        chunks.into_iter().for_each(|chunk| self.scrape_one(chunk, &mut payload, &mut each));
    }

    pub(crate) fn scrape_one(
        &self,
        Scrapable { place, header, complete }: Scrapable,
        payload: &mut Vec<u8>,
        each: impl FnOnce(ChunkIndex, ChunkHeader, &[u8], bool),
    ) {
        payload.clear();
        self.payload(&place, payload);
        if self.still_holds(&place, &header) {
            each(place.index, header, payload, complete);
        }
    }

    /// Whether a chunk is still the one that `header` was read from, so that what was read since belongs to
    /// it. Only where the producer frees chunks itself can an honest one have been replaced.
    fn still_holds(&self, place: &ChunkPlace, header: &ChunkHeader) -> bool {
        fence(Ordering::Acquire);
        let now = self.header(place);
        now.chunk_id == header.chunk_id && now.writer_id == header.writer_id
    }
}
