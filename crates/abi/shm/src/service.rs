//! The service's half: copies chunks out of memory that its producer may be scribbling over.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::{iter, mem};

#[cfg(loom)]
use loom::sync::atomic::Ordering;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

use crate::layout::{Bitmap, ChunkHeader, ChunkState, PageSize};
use crate::memory::SharedMemory;
use crate::pages::{ChunkError, ChunkIndex, Pages, Scrapable, ViewError};
use crate::used::Used;

/// Pages that are looked at to tell how many are in use: all of a memory of the usual size.
const MAX_LOOKS: u32 = 64;

/// What a look at a page costs, one at a page of which it is not known whether anybody has used it, and one at a chunk, in bytes that could be
/// copied meanwhile.
const PAGE_COST: usize = 64;
const UNKNOWN_PAGE_COST: usize = 1024;
const CHUNK_COST: usize = 512;
/// How often a scrape looks at all pages: see `look_again`.
const LOOKS: u8 = 2;

/// The service's view of one producer's shared memory.
///
/// Whatever the memory holds, and however it changes meanwhile, calls end and do not panic; they never change
/// the state of a chunk that is the producer's.
#[derive(Debug)]
pub struct ServiceView {
    pages: Pages,
    used: Used,
}

impl ServiceView {
    /// Looks at `memory` as pages of `page_size`.
    ///
    /// # Errors
    ///
    /// If the length is not a multiple of the page size.
    pub fn new(memory: Arc<SharedMemory>, page_size: PageSize) -> Result<Self, ViewError> {
        let pages = Pages::new(memory, page_size)?;
        Ok(Self { used: Used::new(&pages), pages })
    }

    /// The memory behind the view.
    #[must_use]
    pub const fn memory(&self) -> &Arc<SharedMemory> {
        self.pages.memory()
    }

    /// The size of a page.
    #[must_use]
    pub const fn page_size(&self) -> PageSize {
        self.pages.page_size()
    }

    /// The number of pages.
    #[must_use]
    pub const fn page_count(&self) -> u32 {
        self.pages.count()
    }

    /// Takes a chunk that the producer has completed: copies its payload into `payload`, replacing what that
    /// holds, and frees the chunk. Page and chunk may be any numbers, as they come from the producer.
    ///
    /// The whole payload area is copied; how much of it holds fragments, only they tell.
    ///
    /// # Errors
    ///
    /// If there is no such chunk, if it is not complete, or if the producer interferes meanwhile. `payload`
    /// is then empty.
    pub fn read_complete_chunk(
        &self,
        page: u32,
        chunk: u32,
        payload: &mut Vec<u8>,
    ) -> Result<ChunkHeader, ChunkError> {
        payload.clear();
        if page < self.page_count() && !self.used.find_out(&self.pages, page) {
            return Err(ChunkError::NotPartitioned { page, layout: Bitmap::FREE_PAGE.layout_bits() });
        }
        let place = self.pages.place(ChunkIndex { page, chunk })?;
        self.pages.transition(&place, ChunkState::Complete, ChunkState::BeingRead)?;
        let header = self.pages.header(&place);
        self.pages.payload(&place, payload);
        self.pages.free(&place, ChunkState::BeingRead).inspect_err(|_| payload.clear())?;
        Ok(header)
    }

    /// Asks the system whether the producer has taken pages out of its memory, which no honest one does. If it has, no chunk is there any
    /// more: whoever looks at memory while that goes on waits for it.
    pub fn look_for_tears(&self) {
        self.used.look_for_tears(&self.pages);
    }

    /// How many of the first `pages` pages are not free, as a few looks at them tell.
    #[must_use]
    pub fn pages_in_use(&self, pages: u32) -> u32 {
        let pages = pages.min(self.page_count());
        let looks = pages.min(MAX_LOOKS);
        if looks == 0 {
            return 0;
        }
        let page_at = |look: u32| (u64::from(look) * u64::from(pages) / u64::from(looks)) as u32;
        let is_used = |page: &u32| {
            let bitmap = || self.pages.bitmap(*page, Ordering::Relaxed);
            self.used.find_out(&self.pages, *page) && bitmap().is_ok_and(|bitmap| bitmap != Bitmap::FREE_PAGE)
        };
        let used = (0..looks).map(page_at).filter(is_used).count() as u64;
        (used * u64::from(pages)).div_ceil(u64::from(looks)) as u32
    }

    /// Copies what the producer has not handed over yet: calls `each` with the header and payload of every
    /// chunk that is complete or being written, and whether it is complete. No state changes; the chunks will
    /// be committed once more. Those of a writer come in the order of their numbers.
    ///
    /// Of a chunk that is not complete, the last packet counts as unfinished; one with fewer than two packets
    /// is left out. `wanted` picks the writers whose chunks to copy (upstream: `ForEachScrapableChunk`).
    pub fn scrape(&self, wanted: impl FnMut(u16) -> bool, mut each: impl FnMut(ChunkHeader, &[u8], bool)) {
        self.go_on_scraping(&mut self.begin_scrape(), usize::MAX, wanted, |header, payload, complete| {
            each(header, payload, complete);
            0
        });
    }

    /// A [`scrape`](Self::scrape) that is done in steps.
    #[must_use]
    pub fn begin_scrape(&self) -> Scrape {
        Scrape { are_all_known: self.used.are_all_known(&self.pages), ..Scrape::default() }
    }

    /// All pages were looked at, while the producer went on: chunks that a writer took in between, on pages that were free when it was
    /// their turn, may come before those that were found. Without them later ones would be stored before earlier ones. A second look
    /// finds them, for who has a chunk has had those before it; what is new since then is left for the next time.
    fn look_again(&self, scrape: &mut Scrape) {
        if !scrape.newest.is_empty() {
            scrape.next_page = 0;
            scrape.are_all_known = self.used.are_all_known(&self.pages);
        }
    }

    /// Goes on with it until it has cost so much: bytes that are copied, what a look at a chunk costs, and what
    /// `each` says that it has cost besides. Gives what it did cost. The chunks are those that are there when it comes to their page, and are copied as they are
    /// when all pages were looked at; those that are gone by then were committed.
    pub fn go_on_scraping(
        &self,
        scrape: &mut Scrape,
        limit: usize,
        mut wanted: impl FnMut(u16) -> bool,
        mut each: impl FnMut(ChunkHeader, &[u8], bool) -> usize,
    ) -> usize {
        self.look_for_tears();
        if self.used.is_torn() {
            scrape.end();
            return 0;
        }
        let mut cost = 0;
        while cost < limit && scrape.looks < LOOKS {
            if scrape.next_page == self.page_count() {
                scrape.looks += 1;
                if scrape.looks < LOOKS {
                    self.look_again(scrape);
                }
                continue;
            }
            let page = scrape.next_page;
            scrape.next_page += 1;
            if !self.used.is_known(page) {
                cost += if scrape.are_all_known { 1 } else { UNKNOWN_PAGE_COST };
                if scrape.are_all_known || !self.used.find_out(&self.pages, page) {
                    continue;
                }
            }
            let found = self.pages.scrapable(iter::once(page), &mut wanted);
            cost += PAGE_COST + found.len() * CHUNK_COST;
            found.iter().for_each(|chunk| scrape.note(chunk));
        }
        let mut payload = mem::take(&mut scrape.payload);
        while cost < limit
            && scrape.looks == LOOKS
            && let Some((writer_id, number, page, chunk)) = scrape.found.pop_first()
        {
            cost += CHUNK_COST;
            let Some(found) = self.pages.scrapable_at(ChunkIndex { page, chunk }) else { continue };
            let is_same = found.header.writer_id == writer_id && scrape.number(&found.header) == number;
            if is_same && wanted(writer_id) {
                let mut extra = 0;
                self.pages.scrape_one(found, &mut payload, |_, header, payload, complete| {
                    extra = each(header, payload, complete);
                });
                cost += payload.len() + extra;
            }
        }
        scrape.payload = payload;
        cost
    }
}

/// How far a [`ServiceView::scrape`] in steps is.
#[derive(Debug, Default)]
pub struct Scrape {
    /// The page to look at next.
    next_page: u32,
    /// Nobody has used others than those of which that is known.
    are_all_known: bool,
    /// How often all pages were looked at.
    looks: u8,
    /// What the first look has found last of each writer.
    newest: HashMap<u16, i32>,
    /// Chunks to copy: by writer, and those of a writer by their numbers. In a small ring later ones would
    /// otherwise be overwritten by those before them, which then come too late.
    found: BTreeSet<(u16, i32, u32, u32)>,
    /// Numbers count up and wrap round: they are compared with any one of the same writer's.
    base: HashMap<u16, u32>,
    payload: Vec<u8>,
}

impl Scrape {
    /// Whether all is copied.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.looks == LOOKS && self.found.is_empty()
    }

    fn end(&mut self) {
        self.looks = LOOKS;
        self.found.clear();
    }

    fn note(&mut self, chunk: &Scrapable) {
        let writer = chunk.header.writer_id;
        self.base.entry(writer).or_insert(chunk.header.chunk_id);
        let number = self.number(&chunk.header);
        let is_first_look = self.looks == 0;
        if is_first_look {
            // As it goes: there may be a million chunks in the end.
            self.newest.entry(writer).and_modify(|newest| *newest = number.max(*newest)).or_insert(number);
        }
        if is_first_look || self.newest.get(&writer).is_some_and(|newest| number < *newest) {
            let ChunkIndex { page, chunk: index } = chunk.place.index;
            self.found.insert((writer, number, page, index));
        }
    }

    fn number(&self, header: &ChunkHeader) -> i32 {
        let base = self.base.get(&header.writer_id).copied().unwrap_or_default();
        header.chunk_id.wrapping_sub(base).cast_signed()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::PageLayout;
    use crate::producer::{NewChunk, ProducerView};

    /// Going through all that was found would take long: there may be a million chunks.
    #[test]
    fn what_is_newest_of_each_writer_is_known_as_soon_as_it_is_found() {
        const PAGES: u32 = 4;
        let memory = Arc::new(SharedMemory::in_process(PAGES as usize * 4096).unwrap());
        let producer = ProducerView::new(Arc::clone(&memory), PageSize::DEFAULT).unwrap();
        let service = ServiceView::new(memory, PageSize::DEFAULT).unwrap();
        for chunk_id in [7, 9, 8, 6] {
            let new = NewChunk { writer_id: 1, chunk_id };
            producer.try_acquire(PageLayout::Div1, new).unwrap().complete().unwrap();
        }
        let mut scrape = service.begin_scrape();
        let mut newest = Vec::new();
        while scrape.looks == 0 {
            service.go_on_scraping(&mut scrape, 1, |_| true, |_, _, _| 0);
            newest.extend(scrape.newest.get(&1).map(|number| scrape.base[&1].wrapping_add_signed(*number)));
        }
        assert_eq!(newest[..PAGES as usize], [7, 9, 9, 9]);
    }
}
