//! What is kept of each open span.
//!
//! The registry has a place for that, which costs a lock, a table of types and an allocation each time. Here a span costs a lock that
//! nobody else holds, as long as there are not thousands at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto::{AsyncSpan, Flow, Moment};

use crate::callsite::Callsite;
use crate::fields::Fields;

/// Places for spans by their numbers, a power of two: many more than threads that could meet at one.
const BUCKETS: usize = 1024;

/// How the registry makes its numbers. If it did so otherwise, spans would only be spread less well.
const PLACE_BITS: u32 = 38;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const THREAD_MASK: u64 = (1 << 13) - 1;
/// Buckets between those of one thread's first spans and of the next one's.
const THREAD_DISTANCE: u64 = 61;

/// Open spans.
#[derive(Debug)]
pub(crate) struct Table(Box<[Mutex<Vec<Entry>>]>);

/// An open span.
#[derive(Debug)]
pub(crate) struct Entry {
    id: u64,
    pub(crate) callsite: &'static Callsite,
    /// When it was entered first, if it was.
    pub(crate) first: Option<Moment>,
    /// What most spans have not, so that an entry is small.
    pub(crate) more: Option<Box<More>>,
}

/// What some spans have.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) fields: Fields,
    /// Fields that were recorded since its last slice on a thread began.
    pub(crate) late: Fields,
    /// Fields that were recorded since its task began.
    pub(crate) late_of_task: Fields,
    /// Flows that end at its next slice.
    pub(crate) incoming: Vec<Flow>,
    /// Flows that lead away from its first slice.
    pub(crate) outgoing: Vec<Flow>,
    /// Its slice beside those on threads.
    pub(crate) task: Option<AsyncSpan>,
}

impl Entry {
    pub(crate) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(crate) fn task(&self) -> Option<&AsyncSpan> {
        self.more.as_ref()?.task.as_ref()
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self((0..BUCKETS).map(|_| Mutex::new(Vec::new())).collect())
    }

    #[inline]
    pub(crate) fn insert(&self, id: u64, callsite: &'static Callsite, fields: Option<Fields>) {
        let more = fields.map(|fields| Box::new(More { fields, ..More::default() }));
        if let Some(mut bucket) = self.bucket(id) {
            bucket.push(Entry { id, callsite, first: None, more });
        }
    }

    /// Does something with an entry, if there is one.
    #[inline]
    pub(crate) fn with<R>(&self, id: u64, work: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        self.bucket(id)?.iter_mut().rev().find(|entry| entry.id == id).map(work)
    }

    #[inline]
    pub(crate) fn remove(&self, id: u64) -> Option<Entry> {
        let mut bucket = self.bucket(id)?;
        let at = bucket.iter().rposition(|entry| entry.id == id)?;
        Some(bucket.swap_remove(at))
    }

    #[inline]
    fn bucket(&self, id: u64) -> Option<MutexGuard<'_, Vec<Entry>>> {
        // The registry's numbers hold, from below, a place of 38 bits, the thread that made the span, and how often the place was used. The
        // latter is left out: a place that is used again finds its bucket in the processor's cache. Threads are kept apart.
        let (place, thread) = (id & PLACE_MASK, id >> PLACE_BITS & THREAD_MASK);
        let index = place.wrapping_add(thread.wrapping_mul(THREAD_DISTANCE));
        Some(self.0.get(index as usize % BUCKETS)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
