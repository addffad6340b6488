//! A copy of a ring that is made part by part, while the ring goes on to change.
//!
//! The parts are copied one after the other; one that is about to change before its turn has come is copied then. So the copy is of what
//! was there when it began.
//!
//! Small changes, of headers mostly, come in great numbers all over the ring: one packet may have pieces in all of its parts. What they
//! change is put aside, and a part is copied before its turn only when much of it is aside.

use crate::memory::Memory;

/// What is copied at a time: some ten microseconds, as long as a chunk may make others wait.
pub(crate) const PART_BYTES: usize = if cfg!(test) { 256 } else { 64 * 1024 };

/// What is put aside at a time: as large as a header, and aligned like one.
const BLOCK_BYTES: usize = 16;

/// A change of more blocks is not small.
const MAX_SMALL_BLOCKS: usize = 2;

/// So many blocks of a part are aside before it is copied, and as many more as its number says: not all parts come to be copied at once,
/// whoever changes a block of each in turn.
const MIN_ASIDE: usize = if cfg!(test) { 3 } else { 32 };
const MORE_ASIDE: usize = if cfg!(test) { 4 } else { 64 };

/// A block as it was when the copy began, and where it is.
type Block = (u32, [u8; BLOCK_BYTES]);

/// A part whose turn has not come.
#[derive(Debug, Clone)]
enum Early {
    /// It is as it was, but for these blocks.
    Aside(Vec<Block>),
    Copied,
}

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copying {
    to: Memory,
    used: usize,
    /// All parts before this one have been copied.
    next: usize,
    /// What became of each part before its turn.
    early: Vec<Early>,
}

impl Copying {
    /// Of the first `used` bytes, for which there is room in `to`.
    pub(crate) fn new(to: Memory, used: usize) -> Self {
        Self { to, used, next: 0, early: vec![Early::Aside(Vec::new()); used.div_ceil(PART_BYTES)] }
    }

    /// Copies the next part. Says whether all have been copied.
    pub(crate) fn copy_next(&mut self, from: &[u8]) -> bool {
        while matches!(self.early.get(self.next), Some(Early::Copied)) {
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
        let blocks = at / BLOCK_BYTES..(at + len).div_ceil(BLOCK_BYTES);
        if blocks.len() <= MAX_SMALL_BLOCKS {
            return blocks.for_each(|block| self.put_aside(block * BLOCK_BYTES, from));
        }
        for part in at / PART_BYTES..(at + len).div_ceil(PART_BYTES) {
            self.copy_early(part, from);
        }
    }

    fn put_aside(&mut self, at: usize, from: &[u8]) {
        let part = at / PART_BYTES;
        if part < self.next || at >= self.used {
            return;
        }
        let Some(Early::Aside(blocks)) = self.early.get_mut(part) else { return };
        let key = at as u32; // the ring is smaller than 4 GiB
        // The same one is often changed several times.
        if blocks.iter().rev().any(|(aside, _)| *aside == key) {
            return;
        }
        if blocks.len() >= MIN_ASIDE + part % MORE_ASIDE {
            return self.copy_early(part, from);
        }
        let Some(block) = from.get(at..).and_then(|rest| rest.first_chunk()) else { return };
        blocks.push((key, *block));
    }

    fn copy_early(&mut self, part: usize, from: &[u8]) {
        if part >= self.next && matches!(self.early.get(part), Some(Early::Aside(_))) {
            self.copy_part(part, from);
        }
    }

    fn copy_part(&mut self, part: usize, from: &[u8]) {
        let range = part * PART_BYTES..((part + 1) * PART_BYTES).min(self.used);
        self.to.make_resident(&range);
        self.to[range.clone()].copy_from_slice(&from[range]);
        if let Early::Aside(blocks) = std::mem::replace(&mut self.early[part], Early::Copied) {
            for (at, block) in blocks {
                let at = at as usize;
                self.to[at..at + BLOCK_BYTES].copy_from_slice(&block);
            }
        }
    }

    /// The memory, and how much of it was copied.
    pub(crate) fn into_bytes(self) -> (Memory, usize) {
        (self.to, self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_all_over_are_put_aside() {
        const PARTS: usize = 10;
        let original: Vec<u8> = (0..PARTS * PART_BYTES).map(|at| (at / BLOCK_BYTES) as u8).collect();
        let mut ring = original.clone();
        let mut copying = Copying::new(Memory::reserve(ring.len()).unwrap(), ring.len());
        let mut change = |copying: &mut Copying, at: usize, len: usize| {
            copying.before_change(&ring, at, len);
            ring[at..at + len].fill(0xff);
        };
        let copied = |copying: &Copying| -> Vec<usize> {
            (0..PARTS).filter(|&part| matches!(copying.early[part], Early::Copied)).collect()
        };
        for part in 0..PARTS {
            change(&mut copying, part * PART_BYTES, BLOCK_BYTES);
            change(&mut copying, part * PART_BYTES, BLOCK_BYTES);
            change(&mut copying, part * PART_BYTES + 30, 4);
        }
        assert_eq!(copied(&copying), Vec::<usize>::new());
        // Three blocks of each are aside now: which parts are copied with the next depends on their numbers.
        (0..PARTS).for_each(|part| change(&mut copying, part * PART_BYTES + 96, BLOCK_BYTES));
        assert_eq!(copied(&copying), [0, 4, 8]);
        change(&mut copying, PART_BYTES + 100, 100);
        assert_eq!(copied(&copying), [0, 1, 4, 8]);
        while !copying.copy_next(&ring) {}
        assert!(copying.into_bytes().0[..] == original[..]);
    }
}
