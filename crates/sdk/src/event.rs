//! From a trace point to the sequences of its thread.

use std::cell::RefCell;
use std::sync::atomic::{Ordering, fence};

use crate::category::{Category, MAX_INSTANCES};
use crate::clock::Clock;
use crate::point::TracePoint;
use crate::sequence::{Event, Extra, Scratch, Sequence};
use crate::session;
use crate::track::CounterTrack;
use crate::value::{ToValue, Value};

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
            static END: TracePoint = TracePoint::any_end();
            emit(category, &END, &[]);
        }
    }
}

impl TracePoint {
    /// Writes an event into the sessions that want its category, if any.
    pub fn emit(&'static self, values: &[Value<'_>]) {
        if let Some(category) = self.category() {
            emit(category, self, values);
        }
    }

    /// As [`emit`](Self::emit), with a name that was made at run time.
    pub fn emit_named(&'static self, name: &str, values: &[Value<'_>]) {
        emit_extra(self, values, Extra::Name(name));
    }

    /// As [`emit`](Self::emit), with a value of a counter.
    pub fn emit_counter(&'static self, track: &CounterTrack, value: &(impl ToValue + ?Sized)) {
        emit_extra(self, &[], Extra::Counter(track, value.to_value()));
    }
}

thread_local! {
    /// Borrowed while an event is written, so that a trace point inside of tracing is left out instead of going round for ever.
    static THREAD: RefCell<ThreadState> = const { RefCell::new(ThreadState::new()) };
}

/// What a thread keeps: one sequence for each session. Dropped with the thread, which hands over what it holds.
#[derive(Debug)]
struct ThreadState {
    epoch: u32,
    /// Of the slots, as it was seen last.
    changes: u32,
    clock: Clock,
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

/// The short way, which takes a few nanoseconds: an event of which nothing but its time and its arguments is new.
#[inline(never)]
fn emit(category: &'static Category, point: &'static TracePoint, values: &[Value<'_>]) {
    with_thread(category, |thread, instances| {
        let now = thread.now();
        let mut rest = instances;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let is_written = match thread.sequences.get_mut(index) {
                Some(Some(place)) => place.sequence.write_small(point, values, now),
                _ => false,
            };
            if !is_written {
                thread.write(index, &Event { point, values, extra: Extra::None, timestamp: now });
            }
        }
    });
}

/// The general way: what an event has beyond its trace point is its `extra`.
#[inline(never)]
fn emit_extra(point: &'static TracePoint, values: &[Value<'_>], extra: Extra<'_>) {
    let Some(category) = point.category() else {
        return;
    };
    with_thread(category, |thread, instances| {
        let event = Event { point, values, extra, timestamp: thread.now() };
        for index in (0..MAX_INSTANCES).filter(|index| instances & 1 << index != 0) {
            thread.write(index, &event);
        }
    });
}

#[inline(always)]
fn with_thread(category: &'static Category, write: impl FnOnce(&mut ThreadState, u32)) {
    let instances = category.instances();
    if instances == 0 {
        return;
    }
    // Whoever sees a session's bit sees the session, too: pairs with the release in the registry.
    fence(Ordering::Acquire);
    // No thread state: the thread is ending. Borrowed: this is called from within itself.
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            write(&mut thread, instances);
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
    const fn new() -> Self {
        Self {
            epoch: 0,
            changes: 0,
            clock: Clock::new(),
            sequences: [const { None }; MAX_INSTANCES],
            scratch: Scratch::new(),
        }
    }

    #[inline(always)]
    fn now(&mut self) -> u64 {
        if self.epoch != session::epoch() {
            self.catch_up();
        }
        self.clock.now()
    }

    #[inline(never)]
    fn write(&mut self, index: usize, event: &Event<'_>) {
        let Some(place) = self.sequences.get_mut(index) else {
            return;
        };
        let place = match place {
            Some(place) => place,
            // The first event of this thread for this session.
            None => match SequenceOfSlot::new(index) {
                Some(new) => place.insert(new),
                None => return,
            },
        };
        place.sequence.write(event, &self.clock, &mut self.scratch);
    }

    /// Does what sessions asked for since the last event, and takes over the clock's scale.
    #[cold]
    #[inline(never)]
    fn catch_up(&mut self) {
        // Before anything is read: what changes after that is seen at the next event.
        let epoch = session::epoch();
        // Pairs with the release in `announce_clock`.
        fence(Ordering::Acquire);
        if self.clock.update() {
            self.epoch = epoch;
        }
        let changes = session::changes();
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.catch_up_with_slots();
        }
    }

    fn catch_up_with_slots(&mut self) {
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
