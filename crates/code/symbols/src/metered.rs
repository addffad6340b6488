//! A reader of debug information that ends: after so many reads, and when whoever reads has called itself too deeply.
//!
//! What debug information says may be read again and again: units share programs of lines, lists of ranges and names, and what is nested is
//! read by functions that call themselves. Of honest files that is little. Neither gimli nor addr2line bounds it; but all that they do, and all that they
//! keep, begins with a read.

use std::borrow::Cow;
use std::cell::Cell;

use gimli::{Error, Reader, ReaderOffsetId, RunTimeEndian};

/// Bytes of the stack below whoever began. A level is some hundred bytes, without optimization two thousand; inlined functions nest some
/// twenty deep. Threads have two megabytes at least.
const MAX_STACK_BYTES: usize = 1 << 20;
/// Bytes of a text that cost as much as a read.
const BYTES_OF_A_READ: usize = 16;

/// What may be read yet.
#[derive(Debug)]
pub(crate) struct Meter {
    reads_left: Cell<u64>,
    /// Where the stack was when it began.
    stack: usize,
    was_too_deep: Cell<bool>,
}

impl Meter {
    /// So many reads, from the stack that the caller has.
    pub(crate) fn new(reads: u64) -> Self {
        Self { reads_left: Cell::new(reads), stack: stack(), was_too_deep: Cell::new(false) }
    }

    pub(crate) fn left(&self) -> u64 {
        self.reads_left.get()
    }

    /// Whether a read was refused.
    pub(crate) fn is_over(&self) -> bool {
        self.left() == 0 || self.was_too_deep.get()
    }

    fn count(&self, reads: u64) -> bool {
        let left = self.reads_left.get().checked_sub(reads);
        self.reads_left.set(left.unwrap_or(0));
        if self.stack.abs_diff(stack()) > MAX_STACK_BYTES {
            self.was_too_deep.set(true);
        }
        left.is_some() && !self.was_too_deep.get()
    }
}

/// About where the stack is.
#[inline(always)]
fn stack() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Bytes of a section, or of a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered<'a> {
    bytes: &'a [u8],
    endian: RunTimeEndian,
    meter: &'a Meter,
}

impl<'a> Metered<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: RunTimeEndian, meter: &'a Meter) -> Self {
        Self { bytes, endian, meter }
    }

    fn end(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    fn take(&mut self, len: usize, reads: u64) -> gimli::Result<&'a [u8]> {
        let taken = self.bytes.split_at_checked(len).filter(|_| self.meter.count(reads));
        let (taken, rest) = taken.ok_or_else(|| self.end())?;
        self.bytes = rest;
        Ok(taken)
    }

    fn text(&self) -> gimli::Result<&'a [u8]> {
        let reads = 1 + self.bytes.len() / BYTES_OF_A_READ;
        if self.meter.count(reads as u64) { Ok(self.bytes) } else { Err(self.end()) }
    }
}

impl Reader for Metered<'_> {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn empty(&mut self) {
        self.bytes = &[];
    }

    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        self.bytes = self.bytes.get(..len).ok_or_else(|| self.end())?;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.bytes.as_ptr().addr().wrapping_sub(base.bytes.as_ptr().addr())
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.bytes.as_ptr().addr() as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let offset = usize::try_from(id.0).ok()?.checked_sub(self.bytes.as_ptr().addr())?;
        (offset <= self.bytes.len()).then_some(offset)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let found = self.bytes.iter().position(|it| *it == byte);
        let reads = 1 + found.unwrap_or(self.bytes.len()) / BYTES_OF_A_READ;
        found.filter(|_| self.meter.count(reads as u64)).ok_or_else(|| self.end())
    }

    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        self.take(len, 1).map(|_| ())
    }

    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        let bytes = self.take(len, 1)?;
        Ok(Self { bytes, ..*self })
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        self.text().map(Cow::Borrowed)
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        std::str::from_utf8(self.text()?).map(Cow::Borrowed).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        self.text().map(String::from_utf8_lossy)
    }

    fn read_slice(&mut self, into: &mut [u8]) -> gimli::Result<()> {
        into.copy_from_slice(self.take(into.len(), 1)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_so_many_reads() {
        let meter = Meter::new(3);
        let mut reader = Metered::new(&[1, 2, 3, 4, 5], RunTimeEndian::Little, &meter);
        assert_eq!((reader.read_u8(), reader.read_u16()), (Ok(1), Ok(0x0302)));
        assert_eq!((reader.len(), meter.is_over()), (2, false));
        assert_eq!(reader.skip(1), Ok(()));
        assert!(reader.read_u8().is_err() && meter.is_over());
    }

    #[test]
    fn long_texts_cost_more() {
        let text = [&[b'x'; 100][..], &[0]].concat();
        let meter = Meter::new(100);
        let mut reader = Metered::new(&text, RunTimeEndian::Little, &meter);
        let read = reader.read_null_terminated_slice().unwrap();
        assert_eq!(read.to_string().unwrap().len(), 100);
        assert!(meter.left() < 100 - 2 * 100 / BYTES_OF_A_READ as u64);
        assert_eq!(read.offset_from(&Metered::new(&text, RunTimeEndian::Little, &meter)), 0);
    }

    #[test]
    fn who_calls_itself_too_deeply_reads_nothing_more() {
        fn nest(reader: &mut Metered<'_>, levels: usize) -> usize {
            let room = std::hint::black_box([0u8; 4096]);
            match reader.read_u8() {
                Ok(_) if levels > 0 => nest(reader, levels - 1) + usize::from(room[0]),
                _ => levels,
            }
        }
        // Of the two megabytes that a test's thread has.
        let meter = Meter::new(u64::MAX);
        let mut reader = Metered::new(&[0; 400], RunTimeEndian::Little, &meter);
        assert!(nest(&mut reader, 380) > 0 && meter.is_over());
    }
}
