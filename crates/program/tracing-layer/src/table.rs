//! What is kept of each open span.
//!
//! The registry has a place for that, which costs a lock, a table of types and an allocation each time. Here most spans, which have no
//! fields and are entered once, cost one atomic exchange: of these only the time of their first enter is kept, in a bucket that a span has for
//! itself. Others have an entry behind the bucket's lock, which nobody else holds as long as there are not thousands at once.
//!
//! A span is in one of the two, or in none before its first enter. It moves from the bucket to an entry when there is more to be kept. When
//! two threads enter a span for the first time at the very same moment it may be in both: then it has an entry that counts.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto::{AsyncSpan, Flow, Moment};

use crate::callsite::Callsite;
use crate::fields::Fields;

/// Places for spans by their numbers, a power of two: many more than threads that could meet at one.
const BUCKETS: usize = 512;

/// How the registry makes its numbers. If it did so otherwise, spans would only be spread less well.
const PLACE_BITS: u32 = 38;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const THREAD_MASK: u64 = (1 << 13) - 1;
/// Buckets between those of one thread's first spans and of the next one's.
const THREAD_DISTANCE: u64 = 61;

/// No span's number: nobody has the bucket for itself.
const NOBODY: u64 = 0;
/// As good as none: somebody is taking the bucket.
const SOMEBODY: u64 = u64::MAX;

/// Open spans.
#[derive(Debug)]
pub(crate) struct Table(Box<[Bucket; BUCKETS]>);

/// The first line of memory is what most spans need. Neighbours are other spans, maybe of other threads.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket {
    /// The span that has it for itself.
    owner: AtomicU64,
    /// The parts of the moment when that was entered first, valid while it is the owner.
    first_ns: AtomicU64,
    first_sessions: AtomicU32,
    /// The thread that entered it.
    first_thread: AtomicI32,
    /// How many entries there are.
    len: AtomicU32,
    entries: Mutex<Vec<Entry>>,
}

/// An open span.
#[derive(Debug)]
pub(crate) struct Entry {
    id: u64,
    pub(crate) callsite: &'static Callsite,
    /// When it was entered first, if it was.
    pub(crate) first: Option<Moment>,
    /// The thread that did that.
    pub(crate) first_thread: i32,
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
    /// The same, in sessions that began later.
    pub(crate) later_tasks: Vec<AsyncSpan>,
    /// When the last of these began: later sessions have none.
    pub(crate) task_moment: Option<Moment>,
}

thread_local! {
    /// What the operating system calls this thread; 0 before it was asked.
    static THREAD_ID: Cell<i32> = const { Cell::new(0) };
    /// Memory of a span that was closed here, for the next one that is made here.
    static SPARE: Cell<Option<Box<More>>> = const { Cell::new(None) };
}

#[inline]
fn thread_id() -> i32 {
    match THREAD_ID.get() {
        0 => {
            THREAD_ID.set(ferretto::thread_id());
            THREAD_ID.get()
        }
        id => id,
    }
}

impl More {
    /// With nothing in it, but maybe with memory from earlier.
    pub(crate) fn new() -> Box<Self> {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Leaves the memory to another span, unless that is much.
    pub(crate) fn reuse(mut self: Box<Self>) {
        self.fields.clear();
        if self.fields.is_small() {
            let fields = std::mem::take(&mut self.fields);
            *self = Self { fields, ..Self::default() };
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

impl Entry {
    pub(crate) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_with(More::new)
    }

    /// It is entered for the first time, by this thread.
    pub(crate) fn set_first(&mut self, first: Moment) {
        self.first = Some(first);
        self.first_thread = thread_id();
    }

    pub(crate) fn task(&self) -> Option<&AsyncSpan> {
        self.more.as_ref()?.task.as_ref()
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| Bucket::default())))
    }

    /// Whether nothing is kept of the span, and [`keep_first`](Self::keep_first) will do. Not so if there are others in its bucket.
    #[inline]
    pub(crate) fn is_free(&self, id: u64) -> bool {
        let bucket = self.bucket(id);
        bucket.owner.load(Ordering::Acquire) == NOBODY && bucket.len.load(Ordering::Acquire) == 0
    }

    /// Keeps when a span of this callsite was entered first.
    #[inline]
    pub(crate) fn keep_first(&self, id: u64, callsite: &'static Callsite, first: Moment) {
        let bucket = self.bucket(id);
        let taken = bucket.owner.compare_exchange(NOBODY, SOMEBODY, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            // In the meantime somebody else came.
            self.with(
                id,
                || Some(callsite),
                |entry| {
                    if entry.first.is_none() {
                        entry.set_first(first);
                    }
                },
            );
            return;
        }
        bucket.first_thread.store(thread_id(), Ordering::Relaxed);
        let (ns, sessions) = first.parts();
        bucket.first_ns.store(ns, Ordering::Relaxed);
        bucket.first_sessions.store(sessions, Ordering::Relaxed);
        // Release: whoever sees the number sees the moment.
        bucket.owner.store(id, Ordering::Release);
    }

    /// Adds a span that has fields.
    pub(crate) fn insert(&self, id: u64, callsite: &'static Callsite, more: Box<More>) {
        self.bucket(id).lock().push(Entry { id, callsite, first: None, first_thread: 0, more: Some(more) });
    }

    /// Does something with the entry of a span, which it has from now on. `None` if it has none and it is not known what it is.
    pub(crate) fn with<R>(
        &self,
        id: u64,
        callsite: impl FnOnce() -> Option<&'static Callsite>,
        work: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let mut bucket = self.bucket(id).lock();
        if bucket.find(id).is_none() {
            let callsite = callsite()?;
            let first = bucket.take_first(id);
            let first_thread = bucket.bucket.first_thread.load(Ordering::Relaxed);
            bucket.push(Entry { id, callsite, first, first_thread, more: None });
        }
        bucket.find(id).map(work)
    }

    /// Reads the entry of a span, if it has one.
    pub(crate) fn get<R>(&self, id: u64, work: impl FnOnce(&Entry) -> R) -> Option<R> {
        self.bucket(id).lock().find(id).map(|entry| work(&*entry))
    }

    /// When a span was entered first, and by which thread, if it was.
    pub(crate) fn first(&self, id: u64) -> Option<(Moment, i32)> {
        let bucket = self.bucket(id);
        let of_entry = |entry: &Entry| entry.first.map(|first| (first, entry.first_thread));
        self.get(id, of_entry).unwrap_or_else(|| {
            (bucket.owner.load(Ordering::Acquire) == id)
                .then(|| (bucket.first(), bucket.first_thread.load(Ordering::Relaxed)))
        })
    }

    /// Forgets a span; its entry, if it has one, or needs one as sessions have begun since it was entered.
    #[inline]
    pub(crate) fn remove(
        &self,
        id: u64,
        callsite: impl FnOnce() -> Option<&'static Callsite>,
    ) -> Option<Entry> {
        let bucket = self.bucket(id);
        if bucket.owner.load(Ordering::Relaxed) == id {
            let first = bucket.first();
            bucket.owner.store(NOBODY, Ordering::Release);
            if first.has_later_sessions() {
                return Some(Entry {
                    id,
                    callsite: callsite()?,
                    first: Some(first),
                    first_thread: 0,
                    more: None,
                });
            }
        }
        // Who closes a span is the last one to deal with it: an entry of it would be seen.
        if bucket.len.load(Ordering::Acquire) == 0 { None } else { bucket.lock().remove(id) }
    }

    #[inline]
    fn bucket(&self, id: u64) -> &Bucket {
        // The registry's numbers hold, from below, a place of 38 bits, the thread that made the span, and how often the place was used. The
        // latter is left out: a place that is used again finds its bucket in the processor's cache. Threads are kept apart.
        let (place, thread) = (id & PLACE_MASK, id >> PLACE_BITS & THREAD_MASK);
        let index = place.wrapping_add(thread.wrapping_mul(THREAD_DISTANCE));
        &self.0[index as usize % BUCKETS]
    }
}

/// A bucket whose entries nobody else reads or changes.
struct Locked<'a> {
    bucket: &'a Bucket,
    entries: MutexGuard<'a, Vec<Entry>>,
}

impl Bucket {
    /// When its owner was entered first.
    fn first(&self) -> Moment {
        let parts = (self.first_ns.load(Ordering::Relaxed), self.first_sessions.load(Ordering::Relaxed));
        Moment::from_parts(parts)
    }

    fn lock(&self) -> Locked<'_> {
        Locked { bucket: self, entries: self.entries.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Locked<'_> {
    fn find(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().rev().find(|entry| entry.id == id)
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.count();
    }

    #[cold]
    fn remove(mut self, id: u64) -> Option<Entry> {
        let at = self.entries.iter().rposition(|entry| entry.id == id)?;
        let entry = self.entries.swap_remove(at);
        self.count();
        Some(entry)
    }

    /// When the span was entered first, if it has the bucket for itself, which it has not any more.
    fn take_first(&self, id: u64) -> Option<Moment> {
        let bucket = self.bucket;
        if bucket.owner.load(Ordering::Acquire) != id {
            return None;
        }
        let first = bucket.first();
        bucket.owner.store(NOBODY, Ordering::Release);
        Some(first)
    }

    /// Release: pairs with the acquires of those who only look whether there are any.
    fn count(&self) {
        self.bucket.len.store(self.entries.len() as u32, Ordering::Release);
    }
}
