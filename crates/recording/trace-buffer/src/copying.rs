//! A copy of a ring that is made part by part, while the ring goes on to change.
//!
//! The parts are copied one after the other; one that is about to change before its turn has come is copied then. So the copy is of what
//! was there when it began.

use memmap2::MmapMut;

/// What is copied at a time: some ten microseconds, as long as a chunk may make others wait.
pub(crate) const PART_BYTES: usize = if cfg!(test) { 256 } else { 64 * 1024 };

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copying {
    to: MmapMut,
    used: usize,
    /// All parts before this one have been copied.
    next: usize,
    /// And of the others these.
    early: Vec<bool>,
}

impl Copying {
    /// Of the first `used` bytes, for which there is room in `to`.
    pub(crate) fn new(to: MmapMut, used: usize) -> Self {
        Self { to, used, next: 0, early: vec![false; used.div_ceil(PART_BYTES)] }
    }

    /// Copies the next part. Says whether all have been copied.
    pub(crate) fn copy_next(&mut self, from: &[u8]) -> bool {
        while self.early.get(self.next) == Some(&true) {
            self.next += 1;
        }
        if self.next < self.early.len() {
            self.copy_part(self.next, from);
            self.next += 1;
        }
        self.next == self.early.len()
    }

    /// These bytes are about to change.
    #[cold]
    pub(crate) fn before_change(&mut self, from: &[u8], at: usize, len: usize) {
        for part in at / PART_BYTES..(at + len).div_ceil(PART_BYTES) {
            if part >= self.next && self.early.get(part) == Some(&false) {
                self.copy_part(part, from);
                self.early[part] = true;
            }
        }
    }

    fn copy_part(&mut self, part: usize, from: &[u8]) {
        let range = part * PART_BYTES..((part + 1) * PART_BYTES).min(self.used);
        self.to[range.clone()].copy_from_slice(&from[range]);
    }

    /// The memory, and how much of it was copied.
    pub(crate) fn into_bytes(self) -> (MmapMut, usize) {
        (self.to, self.used)
    }
}
