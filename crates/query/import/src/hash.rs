//! The hash of a file, made beside its reading where somebody helps.
//!
//! Bytes go to the helper in the order of the file: whoever holds the hash takes what waits, the helper or, if that has enough to do, who reads.
//!
//! Memory: [`MAX_WAITING`] pieces of [`PIECE_BYTES`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_trace_tables::Helper;
use sha2::{Digest, Sha256};

/// Bytes that are hashed at once: a fraction of a millisecond's work.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Pieces that may wait. More mean that the helper is busy.
const MAX_WAITING: usize = 8;

/// A SHA-256 that is made.
pub(crate) struct Hash {
    made: Arc<Made>,
    helper: Option<Arc<dyn Helper>>,
    /// What comes next.
    piece: Vec<u8>,
}

#[derive(Default)]
struct Made {
    hash: Mutex<Sha256>,
    waiting: Mutex<VecDeque<Vec<u8>>>,
    /// Pieces that are empty, with their memory.
    empty: Mutex<Vec<Vec<u8>>>,
}

impl Hash {
    pub(crate) fn new(helper: Option<Arc<dyn Helper>>) -> Self {
        Self { made: Arc::default(), helper, piece: Vec::new() }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if self.helper.is_none() {
            return lock(&self.made.hash).update(bytes);
        }
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.hand_over();
        }
    }

    /// The hash of all bytes, in hexadecimal digits.
    pub(crate) fn finish(mut self) -> String {
        self.put();
        self.made.work();
        let hash = std::mem::take(&mut *lock(&self.made.hash));
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn hand_over(&mut self) {
        let waiting = self.put();
        let made = self.made.clone();
        let is_taken = self.helper.as_ref().is_some_and(|it| it.help(Box::new(move || made.work())).is_ok());
        if !is_taken || waiting > MAX_WAITING {
            self.made.work();
        }
    }

    /// Puts what came behind what waits; returns how many wait.
    fn put(&mut self) -> usize {
        let next = lock(&self.made.empty).pop().unwrap_or_default();
        let piece = std::mem::replace(&mut self.piece, next);
        let mut waiting = lock(&self.made.waiting);
        waiting.push_back(piece);
        waiting.len()
    }
}

impl Made {
    /// Hashes what waits, in its order.
    fn work(&self) {
        let mut hash = lock(&self.hash);
        loop {
            let Some(mut piece) = lock(&self.waiting).pop_front() else { return };
            hash.update(&piece);
            piece.clear();
            lock(&self.empty).push(piece);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Ending, Jobs};

    #[test]
    fn it_is_the_same_whoever_makes_it() {
        let bytes: Vec<u8> = (0..20 * PIECE_BYTES as u64 + 77).map(|n| ((n * n) >> 7) as u8).collect();
        let hashed = |helper: Option<Arc<dyn Helper>>| {
            let mut hash = Hash::new(helper);
            bytes.chunks(100_000).for_each(|piece| hash.update(piece));
            hash.finish()
        };
        let alone = hashed(None);
        assert_eq!(alone.len(), 64);
        let jobs = Arc::new(Jobs::default());
        // Nobody does them.
        assert_eq!(hashed(Some(jobs.clone())), alone);
        std::thread::scope(|scope| {
            let _ending = Ending(jobs.clone());
            scope.spawn(|| jobs.work());
            assert_eq!(hashed(Some(jobs.clone())), alone);
        });
    }
}
