//! Reads one CPU's ring buffer, page by page.

use std::fs::File;
use std::io::{self, Read};

use super::format::PageLayout;
use super::page::{Page, ParseStatus};

/// What is read before it is parsed: little enough to stay in the cache (upstream: kParsingBufferSizePages, of 4 KiB).
pub(crate) const BATCH_BYTES: usize = 128 << 10;

/// The memory that pages are read into, which begins where a page does: the kernel's copy takes five times as long to any other address
/// (seen on an AMD EPYC, Linux 6.18: a quarter of all that the probes spent).
#[derive(Debug, Default)]
pub(crate) struct PageBuffer {
    /// A page more than are read at a time, to begin anywhere in the first one.
    bytes: Vec<u8>,
}

impl PageBuffer {
    /// Room for as many pages as there are in [`BATCH_BYTES`], and at least one.
    pub(crate) fn pages(&mut self, layout: PageLayout) -> &mut [u8] {
        let len = (BATCH_BYTES / layout.page_size).max(1) * layout.page_size;
        self.bytes.resize(len + layout.page_size, 0);
        let aligned = self.bytes.as_ptr().align_offset(layout.page_size.next_power_of_two());
        // An offset that cannot be known is usize::MAX: pages may be anywhere.
        let start = aligned.min(layout.page_size);
        self.bytes.get_mut(start..).and_then(|bytes| bytes.get_mut(..len)).unwrap_or_default()
    }
}

/// One CPU's raw pipe.
#[derive(Debug)]
pub(crate) struct CpuReader {
    pub(crate) cpu: u32,
    pub(crate) pipe: File,
}

/// How far a batch got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchRead {
    pub(crate) pages: usize,
    /// The buffer had nothing more, or could not be read: no reason to go on.
    pub(crate) is_last: bool,
    pub(crate) error: Option<ParseStatus>,
}

impl CpuReader {
    /// Fills `buffer` with up to `max_pages` whole pages.
    pub(crate) fn read_batch(
        &mut self,
        buffer: &mut [u8],
        layout: PageLayout,
        max_pages: usize,
        is_first: bool,
    ) -> BatchRead {
        read_batch(&mut self.pipe, buffer, layout, max_pages, is_first)
    }

    /// The same for a buffer that nobody writes to: pages that are not full have others after them.
    pub(crate) fn read_frozen(
        &mut self,
        buffer: &mut [u8],
        layout: PageLayout,
        max_pages: usize,
    ) -> BatchRead {
        read_pages(&mut self.pipe, buffer, layout, max_pages, |_, _| false)
    }
}

fn read_batch(
    pipe: &mut impl Read,
    buffer: &mut [u8],
    layout: PageLayout,
    max_pages: usize,
    is_first: bool,
) -> BatchRead {
    // A page that is not half full is the one being written: whoever goes on now reads events one by one. The first page of a
    // cycle is the rest of one begun in the cycle before, and says nothing.
    read_pages(pipe, buffer, layout, max_pages, |page, pages| {
        let is_rest = is_first && pages == 1;
        !is_rest && Page::open(page, layout).is_ok_and(|page| page.data.len() < layout.page_size / 2)
    })
}

/// Reads until there is nothing more or, seeing the page just read and how many there are, it `is_enough`.
fn read_pages(
    pipe: &mut impl Read,
    buffer: &mut [u8],
    layout: PageLayout,
    max_pages: usize,
    is_enough: impl Fn(&[u8], usize) -> bool,
) -> BatchRead {
    let mut pages = 0;
    for page in buffer.chunks_exact_mut(layout.page_size).take(max_pages) {
        match read_page(pipe, page) {
            Ok(true) => pages += 1,
            Ok(false) => return BatchRead { pages, is_last: true, error: None },
            Err(error) => return BatchRead { pages, is_last: true, error: Some(error) },
        }
        if is_enough(page, pages) {
            return BatchRead { pages, is_last: true, error: None };
        }
    }
    BatchRead { pages, is_last: false, error: None }
}

/// Reads one page; false if there is none.
fn read_page(pipe: &mut impl Read, page: &mut [u8]) -> Result<bool, ParseStatus> {
    loop {
        match pipe.read(page) {
            Ok(0) => return Ok(false),
            Ok(n) if n == page.len() => return Ok(true),
            Ok(_) => return Err(ParseStatus::PartialPageRead),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return if is_routine(&error) { Ok(false) } else { Err(ParseStatus::UnexpectedReadError) };
            }
        }
    }
}

/// Nothing to read, a passing shortage, or a CPU that is offline.
fn is_routine(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AGAIN | Errno::NOMEM | Errno::BUSY | Errno::NODEV))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout::native_64bit(64);

    fn page(data: u32) -> Vec<u8> {
        let mut page = vec![0; 64];
        page[8..12].copy_from_slice(&data.to_le_bytes());
        page
    }

    fn read(source: &[u8], is_first: bool) -> BatchRead {
        read_batch(&mut &source[..], &mut [0; 256], LAYOUT, 4, is_first)
    }

    #[test]
    fn pages_are_read_to_where_pages_begin() {
        let mut buffer = PageBuffer::default();
        for (size, count) in [(4096, 32), (16_384, 8), (1 << 20, 1), (4096, 32)] {
            let pages = buffer.pages(PageLayout::native_64bit(size));
            assert_eq!((pages.len(), pages.as_ptr().align_offset(size)), (count * size, 0));
        }
    }

    #[test]
    fn reading_ends_when_it_has_caught_up_with_the_writer() {
        let (full, half_empty) = (page(48), page(8));
        let stop = |pages| BatchRead { pages, is_last: true, error: None };
        assert_eq!(read(&[full.clone(), half_empty.clone(), full.clone()].concat(), true), stop(2));
        assert_eq!(
            read(&[half_empty.clone(), full.clone(), half_empty.clone(), full.clone()].concat(), true),
            stop(3)
        );
        assert_eq!(read(&[half_empty, full.clone()].concat(), false), stop(1));
        assert_eq!(read(&full.repeat(9), true), BatchRead { pages: 4, is_last: false, error: None });
        assert_eq!(read(&[], true), stop(0));
        assert_eq!(
            read(&full[..10], true),
            BatchRead { pages: 0, is_last: true, error: Some(ParseStatus::PartialPageRead) }
        );
    }
}
