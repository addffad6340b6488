//! From a trace point to the sequences of its thread.

use std::cell::RefCell;
use std::sync::atomic::{Ordering, fence};

use rustix::time::{ClockId, clock_gettime};

use crate::category::{Category, MAX_INSTANCES};
use crate::sequence::{Scratch, Sequence};
use crate::session;
use crate::track::CounterTrack;
use crate::value::{Arg, Name, ToValue, Value};

/// What a trace point says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) category: &'static Category,
    pub(crate) kind: Kind<'a>,
    pub(crate) name: Option<Name<'a>>,
    pub(crate) arguments: &'a [Arg<'a>],
    /// Nanoseconds of BOOTTIME.
    pub(crate) timestamp: u64,
}

/// What kind of event it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    Begin,
    End,
    Instant,
    Counter(&'a CounterTrack, Value<'a>),
}

/// A slice that ends when this is dropped. Made by [`slice!`](crate::slice!) and [`slice_guard!`](crate::slice_guard!).
#[derive(Debug)]
#[must_use = "the slice ends when the guard is dropped"]
pub struct SliceGuard {
    category: Option<&'static Category>,
}

impl SliceGuard {
    /// A guard of a slice that was begun (`Some`) or not.
    #[doc(hidden)]
    #[inline]
    pub fn new(category: Option<&'static Category>) -> Self {
        Self { category }
    }
}

impl Drop for SliceGuard {
    #[inline]
    fn drop(&mut self) {
        // Ended in the sessions that want the category now. One that began in between ignores an end without a beginning.
        if let Some(category) = self.category
            && category.is_enabled()
        {
            end(category, &[]);
        }
    }
}

/// Begins a slice on this thread. [`begin!`](crate::begin!) is the convenient form.
pub fn begin(category: &'static Category, name: Name<'_>, arguments: &[Arg<'_>]) {
    emit(category, Kind::Begin, Some(name), arguments);
}

/// Ends the slice of this thread that was begun last. [`end!`](crate::end!) is the convenient form.
pub fn end(category: &'static Category, arguments: &[Arg<'_>]) {
    emit(category, Kind::End, None, arguments);
}

/// Says that something happened. [`instant!`](crate::instant!) is the convenient form.
pub fn instant(category: &'static Category, name: Name<'_>, arguments: &[Arg<'_>]) {
    emit(category, Kind::Instant, Some(name), arguments);
}

/// Gives a counter a new value. [`counter!`](crate::counter!) is the convenient form.
pub fn counter(category: &'static Category, track: &CounterTrack, value: &(impl ToValue + ?Sized)) {
    emit(category, Kind::Counter(track, value.to_value()), None, &[]);
}

thread_local! {
    /// Borrowed while an event is written, so that a trace point inside of tracing is left out instead of going round for ever.
    static THREAD: RefCell<ThreadState> = RefCell::default();
}

/// What a thread keeps: one sequence for each session. Dropped with the thread, which hands over what it holds.
#[derive(Debug, Default)]
struct ThreadState {
    epoch: u32,
    sequences: [Option<SequenceOfSlot>; MAX_INSTANCES],
    scratch: Scratch,
}

#[derive(Debug)]
struct SequenceOfSlot {
    sequence: Sequence,
    /// Which of the sessions that had this slot.
    session: u32,
    flushes: u32,
    clears: u32,
}

#[inline(never)]
fn emit(category: &'static Category, kind: Kind<'_>, name: Option<Name<'_>>, arguments: &[Arg<'_>]) {
    let instances = category.instances();
    if instances == 0 {
        return;
    }
    // Whoever sees a session's bit sees the session, too: pairs with the release in the registry.
    fence(Ordering::Acquire);
    // No thread state: the thread is ending. Borrowed: this is called from within itself.
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            let event = Event { category, kind, name, arguments, timestamp: now_ns() };
            thread.write(instances, &event);
        }
    });
}

/// Hands over what this thread has written so far.
pub(crate) fn flush_thread() {
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            for place in thread.sequences.iter_mut().flatten() {
                place.sequence.flush();
            }
        }
    });
}

impl ThreadState {
    fn write(&mut self, instances: u32, event: &Event<'_>) {
        if self.epoch != session::epoch() {
            self.catch_up();
        }
        for (index, place) in self.sequences.iter_mut().enumerate() {
            if instances & (1 << index) == 0 {
                continue;
            }
            let place = match place {
                Some(place) => place,
                // The first event of this thread for this session.
                None => match SequenceOfSlot::new(index) {
                    Some(new) => place.insert(new),
                    None => continue,
                },
            };
            place.sequence.write(event, &mut self.scratch);
        }
    }

    /// Does what sessions asked for since the last event.
    #[cold]
    fn catch_up(&mut self) {
        // Before the slots are read: what changes after that is seen at the next event.
        self.epoch = session::epoch();
        for (place, slot) in self.sequences.iter_mut().zip(session::slots()) {
            let Some(current) = place else {
                continue;
            };
            let session = slot.session.as_ref().map(|session| session.id);
            if session != Some(current.session) || current.sequence.is_dead() {
                *place = None;
                continue;
            }
            if std::mem::replace(&mut current.flushes, slot.flushes) != slot.flushes {
                current.sequence.flush();
            }
            if std::mem::replace(&mut current.clears, slot.clears) != slot.clears {
                current.sequence.clear_incremental_state();
            }
        }
    }
}

impl SequenceOfSlot {
    #[cold]
    fn new(index: usize) -> Option<Self> {
        let slot = session::slots().into_iter().nth(index)?;
        let session = slot.session?;
        let sequence = Sequence::new(session.create_writer(), session.options);
        Some(Self { sequence, session: session.id, flushes: slot.flushes, clears: slot.clears })
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
