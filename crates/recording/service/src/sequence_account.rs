//! How many writers the buffers of a session have had something of at one time, and whose: each is remembered by some ninety bytes, and
//! copied at once when the session is cloned, however small its chunks are.
//!
//! Whoever offers a data source that a session records may have as many writers as he likes: what he takes is not to be all that there is
//! for others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_trace_buffer::{TraceBuffer, WriterOwner};

use crate::limits;
use crate::registry::Peer;

/// What a buffer has of them, and a way to what all have together. It is one thread's at a time, but a buffer may come to its end on
/// another one.
#[derive(Debug)]
pub(crate) struct SequenceAccount {
    own: usize,
    of_all: Arc<OfAll>,
}

/// What all buffers of a session have.
#[derive(Debug)]
struct OfAll {
    /// The user whose session it is: it is his to fill.
    session_uid: u32,
    count: AtomicUsize,
    of_owners: Mutex<HashMap<WriterOwner, usize>>,
}

/// Of a buffer that nothing is written into.
impl Default for SequenceAccount {
    fn default() -> Self {
        Self::of(Peer::UNKNOWN_UID)
    }
}

impl SequenceAccount {
    /// Of a session of this user.
    pub(crate) fn of(session_uid: u32) -> Self {
        let (count, of_owners) = (AtomicUsize::default(), Mutex::default());
        Self { own: 0, of_all: Arc::new(OfAll { session_uid, count, of_owners }) }
    }

    /// One for another buffer of the session.
    pub(crate) fn share(&self) -> Self {
        Self { own: 0, of_all: Arc::clone(&self.of_all) }
    }

    #[inline]
    fn count(&self) -> usize {
        self.of_all.count.load(Ordering::Relaxed)
    }

    fn of_owners(&self) -> MutexGuard<'_, HashMap<WriterOwner, usize>> {
        // No code under the lock leaves it half changed.
        self.of_all.of_owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are so many that a new one may have no place.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.count() >= limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION
    }

    /// Whether there is a place for a new one of these, where one in the buffer may be free, and somebody had it before.
    pub(crate) fn has_room_for(&self, owner: WriterOwner, free: Option<WriterOwner>) -> bool {
        let is_his_session = self.of_all.session_uid != Peer::UNKNOWN_UID
            && owner == WriterOwner::User(self.of_all.session_uid);
        let has_all_of_his = || {
            let his = self.of_owners().get(&owner).copied().unwrap_or(0);
            his >= limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION
        };
        match free {
            None if self.count() >= limits::MAX_SEQUENCES_PER_SESSION => false,
            // What he had is his to use again.
            Some(before) if before == owner => true,
            _ => is_his_session || !has_all_of_his(),
        }
    }

    /// After a chunk was stored in the buffer.
    #[inline]
    pub(crate) fn note_stored(&mut self, buffer: &mut TraceBuffer) {
        if let Some((owner, before)) = buffer.take_new_writer() {
            self.add(owner, 1);
            before.into_iter().for_each(|before| self.add(before, -1));
            self.set(buffer.writer_slots());
        }
    }

    /// The buffer stands in the place of this one.
    pub(crate) fn note_replaced(&mut self, before: &TraceBuffer, buffer: &mut TraceBuffer) {
        buffer.take_new_writer();
        before.writer_slots_of_owners().for_each(|(owner, count)| self.add(owner, -count.cast_signed()));
        buffer.writer_slots_of_owners().for_each(|(owner, count)| self.add(owner, count.cast_signed()));
        self.set(buffer.writer_slots());
    }

    fn add(&self, owner: WriterOwner, count: isize) {
        let mut of_owners = self.of_owners();
        let his = of_owners.entry(owner).or_default();
        *his = his.saturating_add_signed(count);
        if *his == 0 {
            of_owners.remove(&owner);
        }
    }

    /// The buffer has so many now.
    fn set(&mut self, count: usize) {
        let others = self.count().saturating_sub(self.own);
        self.of_all.count.store(others.saturating_add(count), Ordering::Relaxed);
        self.own = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: WriterOwner = WriterOwner::User(1);
    const OTHER: WriterOwner = WriterOwner::User(2);
    const HALF: isize = limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION as isize;

    #[test]
    fn what_one_has_is_not_the_others() {
        let mut first = SequenceAccount::default();
        let mut second = first.share();
        first.set(limits::MAX_SEQUENCES_PER_SESSION - 1);
        assert!(second.has_room_for(ONE, None));
        second.set(1);
        assert!(!first.has_room_for(ONE, None) && !second.has_room_for(ONE, None));
        assert!(second.has_room_for(ONE, Some(OTHER)), "one is free");
        first.set(10);
        second.set(5);
        second.set(5);
        assert_eq!(first.count(), 15);
    }

    #[test]
    fn one_user_has_no_more_than_half_of_anothers_session() {
        let first = SequenceAccount::of(3);
        let second = first.share();
        first.add(ONE, HALF - 1);
        second.add(ONE, 1);
        assert!(!first.has_room_for(ONE, None) && first.has_room_for(OTHER, None));
        assert!(!first.has_room_for(ONE, Some(OTHER)) && first.has_room_for(ONE, Some(ONE)));
        second.add(ONE, -1);
        assert!(first.has_room_for(ONE, None));
        first.add(WriterOwner::User(3), HALF);
        assert!(first.has_room_for(WriterOwner::User(3), None));
    }

    #[test]
    fn a_session_of_nobody_is_nobodys() {
        let account = SequenceAccount::of(Peer::UNKNOWN_UID);
        account.add(WriterOwner::User(Peer::UNKNOWN_UID), HALF);
        assert!(!account.has_room_for(WriterOwner::User(Peer::UNKNOWN_UID), None));
    }
}
