//! Stands in for the mapping when the model checker runs: every word is one of its atomics.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};

use crate::pages::ViewError;

/// Memory within the model checker's world.
#[derive(Debug)]
pub struct SharedMemory {
    words: Box<[AtomicU32]>,
}

impl SharedMemory {
    /// Makes memory of `len` bytes, zeroed.
    ///
    /// # Errors
    ///
    /// Never; so that callers look the same as without the model checker.
    pub fn in_process(len: usize) -> Result<Self, ViewError> {
        Ok(Self { words: (0..len / 4).map(|_| AtomicU32::new(0)).collect() })
    }

    /// The length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.words.len() * 4
    }

    pub(crate) fn provided_bytes(&self) -> Option<u64> {
        None
    }

    pub(crate) fn may_be_set(&self, _: usize) -> bool {
        true
    }

    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        self.words.get(offset / 4).filter(|_| offset % 4 == 0)
    }

    pub(crate) fn copy_out(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        for word in self.words.iter().skip(offset / 4).take(len / 4) {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
    }

    pub(crate) fn piece(self: &Arc<Self>, offset: usize, len: usize) -> Option<Piece> {
        (offset % 4 == 0 && offset + len <= self.len()).then(|| Piece {
            memory: Arc::clone(self),
            offset,
            len,
        })
    }
}

/// A part of the memory that its holder writes to: a chunk.
#[derive(Debug)]
pub(crate) struct Piece {
    memory: Arc<SharedMemory>,
    offset: usize,
    len: usize,
}

impl Piece {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn store(&mut self, offset: usize, bytes: &[u8]) -> bool {
        if offset > self.len || bytes.len() > self.len - offset {
            return false;
        }
        // Whole words at once: a load before each store would hide conflicts from the model checker.
        let start = self.offset + offset;
        if let Ok(word_bytes) = <[u8; 4]>::try_from(bytes)
            && let Some(word) = self.memory.word(start)
        {
            word.store(u32::from_le_bytes(word_bytes), Ordering::Relaxed);
            return true;
        }
        for (at, byte) in (start..).zip(bytes) {
            let Some(word) = self.memory.words.get(at / 4) else { return false };
            let mut value = word.load(Ordering::Relaxed).to_le_bytes();
            value[at % 4] = *byte;
            word.store(u32::from_le_bytes(value), Ordering::Relaxed);
        }
        true
    }

    pub(crate) fn store_small(&mut self, offset: usize, bytes: [u8; 16]) -> bool {
        self.store(offset, &bytes)
    }

    pub(crate) fn load(&self, offset: usize, target: &mut [u8]) -> bool {
        if offset > self.len || target.len() > self.len - offset {
            return false;
        }
        for (at, byte) in (self.offset + offset..).zip(target) {
            let Some(word) = self.memory.words.get(at / 4) else { return false };
            *byte = word.load(Ordering::Relaxed).to_le_bytes()[at % 4];
        }
        true
    }

    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        self.memory.word(self.offset + offset)
    }
}
