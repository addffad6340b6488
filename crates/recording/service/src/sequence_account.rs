//! How many writers the buffers of a session have had something of at one time, and whose: each is remembered by some ninety bytes, and
//! copied at once when the session is cloned, however small its chunks are.
//!
//! Whoever offers a data source that a session records may have as many writers as he likes: what he takes is not to be all that there is
//! for others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_trace_buffer::{TraceBuffer, WriterOwner, WritersOfOwner};

use crate::limits;
use crate::registry::Peer;

/// What a buffer has of them, and a way to what all have together. It is one thread's at a time, but a buffer may come to its end on
/// another one.
#[derive(Debug)]
pub(crate) struct SequenceAccount {
    own: usize,
    /// Its part of what all have of each owner, and how often that had changed then.
    own_of_owners: HashMap<WriterOwner, WritersOfOwner>,
    changes: u64,
    of_all: Arc<OfAll>,
}

/// What all buffers of a session have.
#[derive(Debug)]
struct OfAll {
    /// The user whose session it is: it is his to fill.
    session_uid: u32,
    count: AtomicUsize,
    of_owners: Mutex<HashMap<WriterOwner, WritersOfOwner>>,
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
        Self::sharing(Arc::new(OfAll { session_uid, count, of_owners }))
    }

    /// One for another buffer of the session.
    pub(crate) fn share(&self) -> Self {
        Self::sharing(Arc::clone(&self.of_all))
    }

    fn sharing(of_all: Arc<OfAll>) -> Self {
        Self { own: 0, own_of_owners: HashMap::new(), changes: 0, of_all }
    }

    #[inline]
    fn count(&self) -> usize {
        self.of_all.count.load(Ordering::Relaxed)
    }

    fn of_owners(&self) -> MutexGuard<'_, HashMap<WriterOwner, WritersOfOwner>> {
        // No code under the lock leaves it half changed.
        self.of_all.of_owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are so many that a new one may have no place.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.count() >= limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION
    }

    /// Whether there is a place for a new one of these; the buffer may have one that is free.
    pub(crate) fn has_room_for(&self, owner: WriterOwner, has_free: bool) -> bool {
        const HALF: usize = limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION;
        let session_uid = self.of_all.session_uid;
        let is_his_session = session_uid != Peer::UNKNOWN_UID && owner == WriterOwner::User(session_uid);
        let has_half = || {
            let his = self.of_owners().get(&owner).copied().unwrap_or_default();
            his.known >= HALF || !has_free && his.slots >= HALF
        };
        (has_free || self.count() < limits::MAX_SEQUENCES_PER_SESSION) && (is_his_session || !has_half())
    }

    /// After something was stored in the buffer.
    #[inline]
    pub(crate) fn note_writers(&mut self, buffer: &TraceBuffer) {
        if buffer.writer_changes() != self.changes {
            self.changes = buffer.writer_changes();
            self.note_changes(buffer);
        }
    }

    fn note_changes(&mut self, buffer: &TraceBuffer) {
        self.set(buffer.writer_slots());
        for (owner, now) in buffer.writers_of_owners() {
            self.set_owner(owner, now);
        }
    }

    /// Another one stands in the place of the buffer.
    pub(crate) fn note_replaced(&mut self, buffer: &TraceBuffer) {
        for owner in self.own_of_owners.keys().copied().collect::<Vec<_>>() {
            self.set_owner(owner, WritersOfOwner::default());
        }
        self.changes = buffer.writer_changes();
        self.note_changes(buffer);
    }

    fn set_owner(&mut self, owner: WriterOwner, now: WritersOfOwner) {
        let before = self.own_of_owners.insert(owner, now).unwrap_or_default();
        if before != now {
            let mut of_owners = self.of_owners();
            let all = of_owners.entry(owner).or_default();
            all.known = (all.known + now.known).saturating_sub(before.known);
            all.slots = (all.slots + now.slots).saturating_sub(before.slots);
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
    const HALF: usize = limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION;

    #[test]
    fn what_one_has_is_not_the_others() {
        let mut first = SequenceAccount::default();
        let mut second = first.share();
        first.set(limits::MAX_SEQUENCES_PER_SESSION - 1);
        assert!(second.has_room_for(ONE, false));
        second.set(1);
        assert!(!first.has_room_for(ONE, false) && !second.has_room_for(ONE, false));
        assert!(second.has_room_for(ONE, true));
        first.set(10);
        second.set(5);
        second.set(5);
        assert_eq!(first.count(), 15);
    }

    #[test]
    fn one_user_has_no_more_than_half_of_anothers_session() {
        let mut first = SequenceAccount::of(3);
        let mut second = first.share();
        let mut has_room = |known: [usize; 2], slots: [usize; 2]| {
            first.set_owner(ONE, WritersOfOwner { known: known[0], slots: slots[0] });
            second.set_owner(ONE, WritersOfOwner { known: known[1], slots: slots[1] });
            assert!([false, true].iter().all(|has_free| first.has_room_for(OTHER, *has_free)));
            [false, true].map(|has_free| second.has_room_for(ONE, has_free))
        };
        assert_eq!(has_room([HALF - 1, 0], [HALF - 1, 0]), [true, true]);
        assert_eq!(has_room([HALF - 1, 1], [HALF - 1, 1]), [false, false]);
        // What others have made room for he may use as long as he has no more than half.
        assert_eq!(has_room([1, 1], [HALF, 0]), [false, true]);
        assert_eq!(has_room([HALF, 0], [1, 1]), [false, false]);
        let own = WriterOwner::User(3);
        first.set_owner(own, WritersOfOwner { known: HALF, slots: HALF });
        assert!(first.has_room_for(own, false));
    }

    #[test]
    fn a_session_of_nobody_is_nobodys() {
        let mut account = SequenceAccount::of(Peer::UNKNOWN_UID);
        let nobody = WriterOwner::User(Peer::UNKNOWN_UID);
        account.set_owner(nobody, WritersOfOwner { known: HALF, slots: HALF });
        assert!(!account.has_room_for(nobody, false));
    }
}
