//! How many writers the buffers of a session have had something of at one time: each is remembered by some ninety bytes, and copied at
//! once when the session is cloned, however small its chunks are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits;

/// What a buffer has of them, and a way to what all have together. It is one thread's at a time, but a buffer may come to its end on
/// another one.
#[derive(Debug, Default)]
pub(crate) struct SequenceAccount {
    own: usize,
    of_all: Arc<AtomicUsize>,
}

impl SequenceAccount {
    /// One for another buffer of the session.
    pub(crate) fn share(&self) -> Self {
        Self { own: 0, of_all: Arc::clone(&self.of_all) }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.of_all.load(Ordering::Relaxed) >= limits::MAX_SEQUENCES_PER_SESSION
    }

    /// The buffer has so many now.
    #[inline]
    pub(crate) fn set(&mut self, count: usize) {
        if count != self.own {
            let others = self.of_all.load(Ordering::Relaxed).saturating_sub(self.own);
            self.of_all.store(others.saturating_add(count), Ordering::Relaxed);
            self.own = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_is_not_the_others() {
        let mut first = SequenceAccount::default();
        let mut second = first.share();
        first.set(limits::MAX_SEQUENCES_PER_SESSION - 1);
        assert!(!second.is_full());
        second.set(1);
        assert!(first.is_full() && second.is_full());
        first.set(10);
        second.set(5);
        second.set(5);
        assert_eq!(first.of_all.load(Ordering::Relaxed), 15);
    }
}
