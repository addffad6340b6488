//! From a trace point to the sequences of its thread.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

use crate::clock::Clock;
use crate::track_event::category::{Category, MAX_INSTANCES};
use crate::track_event::details::Details;
use crate::track_event::point::TracePoint;
use crate::track_event::sequence::{Event, Scratch, Sequence};
use crate::track_event::session;
use crate::track_event::timestamp::Timestamp;
use crate::track_event::track::Track;
use crate::track_event::value::Value;

/// A slice that ends when this is dropped. Made by [`slice!`](crate::slice!).
///
/// It stays on its thread, as a slice of a thread ends there:
///
/// ```compile_fail
/// let slice = ferretto::slice!("app", "work");
/// std::thread::spawn(move || drop(slice));
/// ```
#[derive(Debug)]
#[must_use = "the slice ends when the guard is dropped: write `let _slice = slice!(…);`"]
pub struct SliceGuard {
    slice: Option<OpenSlice>,
    /// Neither sent nor shared.
    thread: PhantomData<*const ()>,
}

/// A slice that was begun.
#[derive(Debug, Clone, Copy)]
struct OpenSlice {
    category: &'static Category,
    /// The track, if it is not the thread's.
    track: Option<u64>,
}

impl SliceGuard {
    /// A guard of a slice that was not begun.
    #[doc(hidden)]
    #[inline]
    pub fn none() -> Self {
        Self { slice: None, thread: PhantomData }
    }

    /// A guard of a slice on this thread.
    #[doc(hidden)]
    #[inline]
    pub fn new(category: &'static Category) -> Self {
        Self { slice: Some(OpenSlice { category, track: None }), thread: PhantomData }
    }

    /// A guard of a slice with these details.
    #[doc(hidden)]
    pub fn with_details(category: &'static Category, details: &Details<'_>) -> Self {
        let category = details.category.unwrap_or(category);
        let slice = OpenSlice { category, track: details.track.map(Track::uuid) };
        Self { slice: Some(slice), thread: PhantomData }
    }

    /// Ends the slice now.
    pub fn end(self) {}

    /// Ends the slice now and adds arguments to it: what came out of the work.
    ///
    /// ```
    /// use ferretto::ToValue;
    /// let slice = ferretto::slice!("db", "query");
    /// let rows = 3;
    /// slice.end_with(&[("rows", rows.to_value())]);
    /// ```
    pub fn end_with(mut self, arguments: &[(&str, Value<'_>)]) {
        if let Some(slice) = self.slice.take() {
            slice.end(&Details::new().arguments(arguments));
        }
    }
}

impl OpenSlice {
    /// Ended in the sessions that want the category now. One that began in between ignores an end without a beginning.
    fn end(self, details: &Details<'_>) {
        let track = self.track.map(Track::of_known_uuid);
        let details = Details { track: track.as_ref().or(details.track), ..*details };
        emit_details(self.category, &END, &[], &details);
    }
}

/// Ends slices of all categories.
static END: TracePoint = TracePoint::any_end();

impl Drop for SliceGuard {
    #[inline]
    fn drop(&mut self) {
        match self.slice {
            Some(OpenSlice { category, track: None }) if category.is_enabled() => emit_plain(category, &END),
            Some(slice @ OpenSlice { track: Some(_), .. }) => slice.end(&Details::new()),
            _ => {}
        }
    }
}

impl TracePoint {
    /// Writes an event into the sessions that want its category, if any.
    #[inline]
    pub fn emit(&'static self, values: &[Value<'_>]) {
        match self.category() {
            Some(category) if values.is_empty() => emit_plain(category, self),
            Some(category) => emit(category, self, values),
            None => {}
        }
    }

    /// As [`emit`](Self::emit), with more than a category, a name and arguments.
    pub fn emit_with(&'static self, values: &[Value<'_>], details: &Details<'_>) {
        if let Some(category) = details.category.or(self.category()) {
            emit_details(category, self, values, details);
        }
    }
}

/// Tells readers how other clocks relate to the system's: what they show now, by their ids in the trace. Written into all sessions
/// that record track events of this category.
///
/// ```
/// use ferretto::{Category, Timestamp};
/// static GPU: Category = Category::new("gpu");
/// const GPU_CLOCK: u32 = 1234;
///
/// let ticks = 5_000; // … what the GPU's clock shows now, in nanoseconds.
/// ferretto::snapshot_clocks(&GPU, &[(GPU_CLOCK, ticks)]);
/// ferretto::instant!(GPU, "done", at: Timestamp::on_clock(GPU_CLOCK, ticks + 100));
/// ```
pub fn snapshot_clocks(category: &'static Category, clocks: &[(u32, u64)]) {
    with_thread(category, |thread, instances| {
        let now = thread.now();
        for index in places_in(instances) {
            if let Some(place) = thread.places.sequence(index) {
                place.sequence.write_clocks(now, clocks);
            }
        }
    });
}

thread_local! {
    /// Borrowed while an event is written, so that a trace point inside of tracing is left out instead of going round for ever.
    static THREAD: RefCell<ThreadState> = const { RefCell::new(ThreadState::new()) };
}

/// What a thread keeps: one sequence for each session. Dropped with the thread, which hands over what it holds.
///
/// All zeroes at first: then neither programs nor their threads have to carry a picture of it around, which would be 5 KB.
#[derive(Debug)]
pub(crate) struct ThreadState {
    epoch: u32,
    /// Of the slots, as it was seen last.
    changes: u32,
    clock: Clock,
    places: Places,
    /// Made by the first event that needs it.
    scratch: Option<Box<Scratch>>,
}

/// The sequences of a thread, by slot. Seldom are there more sessions than near ones, which the shortest way knows; those of the others are
/// made when they are needed, so that threads do not carry room for them around.
#[derive(Debug)]
struct Places {
    near: [Place; NEAR],
    far: [Option<Box<SequenceOfSlot>>; MAX_INSTANCES - NEAR],
}

/// Slots whose sequences are in the thread's state.
const NEAR: usize = 8;

/// Where the sequence for a near slot's session is. As an `Option`, but nothing is a zero.
#[derive(Debug)]
#[repr(u8)]
#[expect(clippy::large_enum_variant, reason = "a pointer would be in the way of each event")]
enum Place {
    Empty = 0,
    Taken(SequenceOfSlot) = 1,
}

#[derive(Debug)]
struct SequenceOfSlot {
    sequence: Sequence,
    /// Which of the sessions that had this slot.
    session: u32,
    flushes: u32,
    clears: u32,
}

/// The shortest way, which takes a few nanoseconds: an event of which nothing but its time is new.
#[inline(never)]
fn emit_plain(category: &'static Category, point: &'static TracePoint) {
    emit_shortly(category, point, &[], |sequence, now| sequence.write_plain(point, now));
}

/// As [`emit_plain`], with arguments.
#[inline(never)]
fn emit(category: &'static Category, point: &'static TracePoint, values: &[Value<'_>]) {
    emit_shortly(category, point, values, |sequence, now| sequence.write_small(point, values, now));
}

/// Writes an event by `write_shortly`, or the general way where that is not possible.
#[inline(always)]
fn emit_shortly(
    category: &'static Category,
    point: &'static TracePoint,
    values: &[Value<'_>],
    write_shortly: impl Fn(&mut Sequence, u64) -> bool,
) {
    with_thread(category, |thread, instances| {
        let now = thread.now();
        let mut rest = instances;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let is_written = match thread.places.near.get_mut(index) {
                Some(Place::Taken(place)) => write_shortly(&mut place.sequence, now),
                _ => false,
            };
            if !is_written {
                thread.write(index, &Event { point, values, details: None, now });
            }
        }
    });
}

/// The general way, for events that have more to say than their point.
#[inline(never)]
fn emit_details(
    category: &'static Category,
    point: &'static TracePoint,
    values: &[Value<'_>],
    details: &Details<'_>,
) {
    with_thread(category, |thread, instances| {
        let event = Event { point, values, details: Some(details), now: thread.now() };
        for index in places_in(instances) {
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

/// Some of the sessions that record or recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sessions {
    /// Their places, one bit each.
    pub(crate) places: u32,
    /// What has such a place, and this number or a higher one, is none of them.
    pub(crate) before: u32,
}

/// The places of a mask.
fn places_in(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        place
    })
}

/// Writes an event into these sessions, as far as they still record; the places of those in which it was lost.
pub(crate) fn emit_into(
    Sessions { places, before }: Sessions,
    point: &'static TracePoint,
    values: &[Value<'_>],
    details: &Details<'_>,
) -> u32 {
    if places == 0 {
        return 0;
    }
    // As in `with_thread`.
    fence(Ordering::Acquire);
    let write = |thread: &mut ThreadState| {
        let event = Event { point, values, details: Some(details), now: thread.now() };
        let lost = places_in(places).filter(|index| !thread.write_before(before, *index, &event));
        lost.map(|index| 1 << index).sum()
    };
    let lost = THREAD.try_with(|thread| Some(write(&mut *thread.try_borrow_mut().ok()?)));
    lost.ok().flatten().unwrap_or(places)
}

/// Now, by the clock of this thread's events.
pub(crate) fn now_ns() -> u64 {
    let now = THREAD.try_with(|thread| Some(thread.try_borrow_mut().ok()?.now()));
    now.ok().flatten().unwrap_or_else(|| Timestamp::now().value)
}

/// The time of this thread's last event.
#[inline]
pub(crate) fn last_ns() -> u64 {
    let last = THREAD.try_with(|thread| Some(thread.try_borrow().ok()?.clock.last()));
    last.ok().flatten().unwrap_or_else(|| Timestamp::now().value)
}

/// Hands over what this thread has written so far.
pub(crate) fn flush_thread() {
    exclusively_in(|thread| {
        for index in 0..MAX_INSTANCES {
            if let Some(place) = thread.places.taken(index) {
                place.sequence.flush();
            }
        }
    });
}

/// Hands over what this thread has written for this session.
pub(crate) fn flush_slot(index: usize) {
    exclusively_in(|thread| {
        if let Some(place) = thread.places.taken(index) {
            place.sequence.flush();
        }
    });
}

/// Does something in which trace points of this thread do nothing: what takes locks of this crate, as an allocator with trace points
/// would come back to them. `None`, and nothing is done, if this is called from within such work, or from within a trace point, or in
/// the last moments of a thread.
#[inline]
pub(crate) fn exclusively<R>(work: impl FnOnce() -> R) -> Option<R> {
    exclusively_in(|_| work())
}

/// As [`exclusively`], with the thread's state.
#[inline]
pub(crate) fn exclusively_in<R>(work: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    THREAD.try_with(|thread| Some(work(&mut *thread.try_borrow_mut().ok()?))).ok().flatten()
}

/// As [`exclusively`], for what has to be done in any case.
pub(crate) fn quietly<R>(work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let done = THREAD.try_with(|thread| {
        let _quiet = thread.try_borrow_mut();
        work.take().map(|work| work())
    });
    match (done, work) {
        (Ok(Some(result)), _) => result,
        // The thread's state is gone, and its trace points do nothing anyway.
        (_, Some(work)) => work(),
        (_, None) => unreachable!("what was taken was done"),
    }
}

/// Does something with the place of this thread's state, if it has one: for the background thread, which is quiet most of its life.
pub(crate) fn with_thread_cell<R>(work: impl FnOnce(&RefCell<ThreadState>) -> R) -> Option<R> {
    THREAD.try_with(work).ok()
}

/// In a child process: what this thread wrote, it wrote into the parent's memory.
pub(crate) fn forget_thread() {
    exclusively_in(|thread| std::mem::forget(std::mem::replace(thread, ThreadState::new())));
}

impl ThreadState {
    const fn new() -> Self {
        Self {
            epoch: 0,
            changes: 0,
            clock: Clock::new(),
            places: Places {
                near: [const { Place::Empty }; NEAR],
                far: [const { None }; MAX_INSTANCES - NEAR],
            },
            scratch: None,
        }
    }

    #[inline(always)]
    fn now(&mut self) -> u64 {
        if self.epoch != session::epoch() {
            self.catch_up();
        }
        self.clock.now()
    }

    /// The thread's clock, with the newest scale.
    #[inline]
    pub(crate) fn clock(&mut self) -> &mut Clock {
        if self.epoch != session::epoch() {
            self.catch_up();
        }
        &mut self.clock
    }

    #[inline(never)]
    fn write(&mut self, index: usize, event: &Event<'_>) {
        if let Some(place) = self.places.sequence(index) {
            place.sequence.write(event, &self.clock, self.scratch.get_or_insert_default());
        }
    }

    /// As [`write`](Self::write), if the session has a number below this; `false` if the event was lost.
    fn write_before(&mut self, before: u32, index: usize, event: &Event<'_>) -> bool {
        match self.places.sequence(index) {
            Some(place) if place.session < before => {
                place.sequence.write(event, &self.clock, self.scratch.get_or_insert_default())
            }
            _ => true,
        }
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
        for index in 0..MAX_INSTANCES {
            let Some(current) = self.places.taken(index) else {
                continue;
            };
            let Some(slot) = session::slot(index) else {
                continue;
            };
            let session = slot.session.as_ref().filter(|session| session.id == current.session);
            let Some(session) = session.filter(|_| !current.sequence.is_dead()) else {
                self.places.clear(index);
                continue;
            };
            current.sequence.set_options(session.wishes.options);
            if std::mem::replace(&mut current.flushes, slot.flushes) != slot.flushes {
                current.sequence.flush();
            }
            if std::mem::replace(&mut current.clears, slot.clears) != slot.clears {
                current.sequence.clear_incremental_state();
            }
        }
    }
}

impl Places {
    /// The sequence of this slot, if there is one.
    fn taken(&mut self, index: usize) -> Option<&mut SequenceOfSlot> {
        match self.near.get_mut(index) {
            Some(Place::Taken(place)) => Some(place),
            Some(Place::Empty) => None,
            None => self.far.get_mut(index - NEAR)?.as_deref_mut(),
        }
    }

    /// The sequence of this slot, which is made for the thread's first event for its session.
    fn sequence(&mut self, index: usize) -> Option<&mut SequenceOfSlot> {
        match self.near.get_mut(index) {
            Some(Place::Taken(_)) => {}
            Some(place) => *place = Place::Taken(SequenceOfSlot::new(index)?),
            None => {
                let place = self.far.get_mut(index - NEAR)?;
                if place.is_none() {
                    *place = Some(Box::new(SequenceOfSlot::new(index)?));
                }
            }
        }
        self.taken(index)
    }

    /// Hands over what the sequence of this slot holds.
    fn clear(&mut self, index: usize) {
        match self.near.get_mut(index) {
            Some(place) => *place = Place::Empty,
            None => {
                if let Some(place) = self.far.get_mut(index - NEAR) {
                    *place = None;
                }
            }
        }
    }
}

impl SequenceOfSlot {
    #[cold]
    fn new(index: usize) -> Option<Self> {
        let slot = session::slot(index)?;
        let session = slot.session?;
        let sequence = Sequence::new(session.create_writer(), session.wishes.options);
        Some(Self { sequence, session: session.id, flushes: slot.flushes, clears: slot.clears })
    }
}
