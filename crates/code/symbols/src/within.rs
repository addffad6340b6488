//! A file of which so much is read and no more.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;

use object::read::ReadRef;

/// Bytes of a name. C++ templates have some thousand, and nobody reads more.
const MAX_NAME_BYTES: u64 = 4096;
/// Names are read so many bytes at a time: each by itself would be two calls of the system.
const PIECE_BYTES: u64 = 64 << 10;

/// What was read.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    taken: Cell<u64>,
    is_short: Cell<bool>,
    /// Places of pieces that were counted: a reader that remembers what it has read has them once.
    pieces: RefCell<HashSet<u64>>,
}

impl Meter {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            left: Cell::new(limit_bytes),
            taken: Cell::default(),
            is_short: Cell::default(),
            pieces: RefCell::default(),
        }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let Some(left) = self.left.get().checked_sub(bytes) else {
            self.is_short.set(true);
            return Err(());
        };
        self.left.set(left);
        self.taken.set(self.taken.get() + bytes);
        Ok(())
    }

    /// So much was read.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// There was not enough for all.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.get()
    }
}

/// The file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within<'m, R> {
    pub(crate) file: R,
    pub(crate) meter: &'m Meter,
}

impl<'a, R: ReadRef<'a>> ReadRef<'a> for Within<'_, R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // What is not there is no more than that.
        if offset.checked_add(size).ok_or(())? > self.file.len()? {
            return Err(());
        }
        self.meter.take(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let end = range.end.min(range.start.saturating_add(MAX_NAME_BYTES + 1));
        let begin = range.start - range.start % PIECE_BYTES;
        let size = self.file.len()?.checked_sub(begin).ok_or(())?.min(PIECE_BYTES);
        if self.meter.pieces.borrow_mut().insert(begin) {
            self.meter.take(size)?;
        }
        let piece = self.file.read_bytes_at(begin, size)?;
        let from_here = usize::try_from(range.start - begin).ok().and_then(|at| piece.get(at..)).ok_or(())?;
        let most = usize::try_from(end.saturating_sub(range.start)).map_err(|_| ())?;
        let here = from_here.get(..most).unwrap_or(from_here);
        if let Some(len) = here.iter().position(|byte| *byte == delimiter) {
            return here.get(..len).ok_or(());
        }
        if here.len() == most {
            return Err(());
        }
        // It goes on in the next piece.
        self.meter.take(MAX_NAME_BYTES)?;
        self.file.read_bytes_at_until(range.start..end, delimiter)
    }
}
