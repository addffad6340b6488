//! The sessions that record track events now, as trace points on any thread see them.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_producer::{
    Arbiter, ExhaustedPolicy, StartupLoss, StartupVolume, StartupWriters, TraceWriter, Waits, log,
};

use crate::builder::settings;
use crate::clock;
use crate::runtime::{Held, Setup};
use crate::track_event::category::{MAX_INSTANCES, registry};
use crate::track_event::startup::{Mismatch, StartupConfig};
use crate::track_event::wishes::Wishes;

/// Counts the changes that threads have to look at: those of slots, and those of the clock. One relaxed load tells a thread that there is
/// nothing new.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Counts the changes of slots: sessions that came or went, flushes, cleared state.
static CHANGES: AtomicU32 = AtomicU32::new(0);

static SLOTS: Mutex<[Slot; MAX_INSTANCES]> = Mutex::new([const { Slot::EMPTY }; MAX_INSTANCES]);

/// The number of the next session.
static NEXT_ID: AtomicU32 = AtomicU32::new(0);

/// Counts the sessions that have begun to record.
static STARTS: AtomicU32 = AtomicU32::new(0);

/// A place for a session.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// The session, if there is one.
    pub(crate) session: Option<Arc<Session>>,
    /// When it began to record, and how many had begun by then.
    started: Option<Started>,
    /// Flushes asked for so far.
    pub(crate) flushes: u32,
    /// How often the session wanted the incremental state cleared.
    pub(crate) clears: u32,
}

/// One session's wish for track events.
#[derive(Debug)]
pub(crate) struct Session {
    /// Never used again, as slots are.
    pub(crate) id: u32,
    destination: Destination,
    pub(crate) wishes: Wishes,
}

/// When a session began to record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) number: u32,
    pub(crate) ns: u64,
}

/// Where its events go.
#[derive(Debug)]
enum Destination {
    Buffer {
        arbiter: Arc<Arbiter>,
        target_buffer: u16,
        policy: ExhaustedPolicy,
        waits: Waits,
    },
    /// The session is still to come.
    Startup(StartupWriters),
}

impl Slot {
    const EMPTY: Self = Self { session: None, started: None, flushes: 0, clears: 0 };
}

impl Session {
    pub(crate) fn new(setup: &Setup, wishes: Wishes) -> Self {
        Self::with_id(NEXT_ID.fetch_add(1, Ordering::Relaxed), setup, wishes)
    }

    /// What a session will want that is still to come.
    pub(crate) fn startup(writers: StartupWriters, startup: StartupConfig) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            destination: Destination::Startup(writers),
            wishes: startup.wishes,
        }
    }

    fn with_id(id: u32, setup: &Setup, wishes: Wishes) -> Self {
        let policy = setup.config.exhausted_policy(settings().track_event_policy);
        let arbiter = Arc::clone(&setup.arbiter);
        let target_buffer = setup.target_buffer();
        let destination = Destination::Buffer { arbiter, target_buffer, policy, waits: Waits::default() };
        Self { id, destination, wishes }
    }

    pub(crate) fn create_writer(&self) -> TraceWriter {
        match &self.destination {
            Destination::Buffer { arbiter, target_buffer, policy, waits } => {
                arbiter.create_writer_that_waits(*target_buffer, *policy, waits.clone())
            }
            Destination::Startup(writers) => writers.create_writer(),
        }
    }

    /// What was recorded for a session to come.
    fn as_startup(&self) -> Option<&StartupWriters> {
        match &self.destination {
            Destination::Startup(writers) => Some(writers),
            Destination::Buffer { .. } => None,
        }
    }
}

/// What a thread compares with what it saw last.
#[inline]
pub(crate) fn epoch() -> u32 {
    // Relaxed: a thread that has seen the category enabled finds the session under the lock.
    EPOCH.load(Ordering::Relaxed)
}

/// Sessions that come from now on have this number or a higher one.
#[inline]
pub(crate) fn next_id() -> u32 {
    NEXT_ID.load(Ordering::Relaxed)
}

/// As [`epoch`], for slots alone.
pub(crate) fn changes() -> u32 {
    // Acquire: pairs with the release in `announce`.
    CHANGES.load(Ordering::Acquire)
}

pub(crate) fn slot(index: usize) -> Option<Slot> {
    lock().get(index).cloned()
}

/// Takes a free place for a session.
pub(crate) fn add(session: Session) -> Option<usize> {
    let mut slots = lock();
    let (index, slot) = slots.iter_mut().enumerate().find(|(_, slot)| slot.session.is_none())?;
    slot.session = Some(Arc::new(session));
    announce();
    Some(index)
}

/// Makes what was recorded before this session its beginning, if it wants that: it gets the place, and threads go on in their sequences.
pub(crate) fn adopt_startup(setup: &Setup, wishes: &Wishes) -> Option<usize> {
    let mut refused = None;
    let adopted = lock().iter_mut().enumerate().find_map(|(index, slot)| {
        let startup = slot.session.as_ref()?;
        let writers = startup.as_startup().filter(|writers| writers.is_waiting())?;
        match adopt(index, startup, writers, setup, wishes) {
            Ok(volume) => {
                // It began with what was recorded before it.
                slot.session = Some(Arc::new(Session::with_id(startup.id, setup, wishes.clone())));
                announce();
                Some((index, volume))
            }
            Err(mismatch) => {
                refused = Some((mismatch, writers.volume()));
                None
            }
        }
    });
    // Said when nothing is locked any more: whoever listens may do anything.
    match (adopted, refused) {
        (Some((_, volume)), _) if volume.dropped_packets > 0 => {
            say("a session gets what was traced before it", volume, &"its memory was full");
        }
        (None, Some((mismatch, volume))) if !volume.is_empty() => {
            say("a session does not get what was traced before it", volume, &mismatch);
        }
        _ => {}
    }
    adopted.map(|(index, _)| index)
}

/// Tells the log about what was recorded before a session.
#[inline(never)]
pub(crate) fn say(what: &str, volume: StartupVolume, why: &dyn Display) {
    log::warn(format_args!("{what}, {volume}: {why}"));
}

/// Gives what was recorded in a place to this session, and records there what it wants from now on.
fn adopt(
    index: usize,
    startup: &Session,
    writers: &StartupWriters,
    setup: &Setup,
    wishes: &Wishes,
) -> Result<StartupVolume, Mismatch> {
    if !writers.belong_to(&setup.arbiter) {
        return Err(Mismatch::OtherService);
    }
    // No category comes while this is decided.
    let mut registry = registry();
    if let Some(mismatch) = Mismatch::between(&startup.wishes, wishes, &registry) {
        return Err(mismatch);
    }
    let volume = writers.volume();
    if !writers.adopt(setup.target_buffer()) {
        return Err(Mismatch::OtherService);
    }
    registry.set_filter(index, Some(wishes.filter.clone()));
    Ok(volume)
}

/// The place of a recording before a session that no session will adopt any more, and what it lost.
pub(crate) fn given_up_startup() -> Option<(usize, StartupLoss)> {
    let slots = lock();
    slots.iter().enumerate().find_map(|(index, slot)| {
        let writers = slot.session.as_ref()?.as_startup()?;
        Some((index, writers.loss()?))
    })
}

/// The session has begun to record, unless it had before.
pub(crate) fn start(index: usize) {
    let mut slots = lock();
    if let Some(slot) = slots.get_mut(index).filter(|slot| slot.started.is_none()) {
        let number = STARTS.load(Ordering::Relaxed).wrapping_add(1);
        slot.started = Some(Started { number, ns: clock::boot_time() });
        // Release: whoever sees the number finds the session.
        STARTS.store(number, Ordering::Release);
    }
}

/// How many sessions have begun to record so far.
#[inline]
pub(crate) fn starts() -> u32 {
    STARTS.load(Ordering::Acquire)
}

/// The sessions that record, with their places and when they began.
pub(crate) fn started() -> Vec<(usize, u32, Started)> {
    let slots = lock();
    let started = |(index, slot): (usize, &Slot)| Some((index, slot.session.as_ref()?.id, slot.started?));
    slots.iter().enumerate().filter_map(started).collect()
}

/// Threads do not wait for memory for this session any more.
pub(crate) fn end_waits(index: usize) {
    let session = lock().get(index).and_then(|slot| slot.session.clone());
    if let Some(Destination::Buffer { waits, .. }) = session.as_ref().map(|session| &session.destination) {
        waits.end();
    }
}

/// Frees the place.
pub(crate) fn remove(index: usize) {
    change(index, |slot| (slot.session, slot.started) = (None, None));
}

/// Asks threads to hand over what they have, when they trace the next time.
pub(crate) fn flush(index: usize) {
    change(index, |slot| slot.flushes = slot.flushes.wrapping_add(1));
}

/// Makes threads say again what events refer to.
pub(crate) fn clear_incremental_state(index: usize) {
    change(index, |slot| slot.clears = slot.clears.wrapping_add(1));
}

pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(lock())
}

/// In a child process: there are no sessions. What the parent's have is not dropped, as it is shared with the service.
pub(crate) fn forget() {
    std::mem::forget(std::mem::replace(&mut *lock(), [const { Slot::EMPTY }; MAX_INSTANCES]));
    announce();
}

fn change(index: usize, change: impl FnOnce(&mut Slot)) {
    if let Some(slot) = lock().get_mut(index) {
        change(slot);
        announce();
    }
}

fn announce() {
    CHANGES.fetch_add(1, Ordering::Release);
    announce_clock();
}

/// Has threads look at the clock's scale.
pub(crate) fn announce_clock() {
    EPOCH.fetch_add(1, Ordering::Release);
}

#[inline(never)]
fn lock() -> MutexGuard<'static, [Slot; MAX_INSTANCES]> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}
