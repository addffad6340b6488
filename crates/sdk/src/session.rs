//! The sessions that record track events now, as trace points on any thread see them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_producer::{Arbiter, ExhaustedPolicy, TraceWriter};
use ferretto_protos::{DataSourceConfig, TrackEventConfig};

use crate::category::MAX_INSTANCES;

/// Counts the changes that threads have to look at: those of slots, and those of the clock. One relaxed load tells a thread that there is
/// nothing new.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Counts the changes of slots: sessions that came or went, flushes, cleared state.
static CHANGES: AtomicU32 = AtomicU32::new(0);

static SLOTS: Mutex<[Slot; MAX_INSTANCES]> = Mutex::new([const { Slot::EMPTY }; MAX_INSTANCES]);

/// A place for a session.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// The session, if there is one.
    pub(crate) session: Option<Arc<Session>>,
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
    arbiter: Arc<Arbiter>,
    target_buffer: u16,
    policy: ExhaustedPolicy,
    pub(crate) options: SessionOptions,
}

/// What a session's config says about the form of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionOptions {
    /// Nanoseconds that one unit of a timestamp's difference stands for; `None` for absolute timestamps.
    pub(crate) delta_unit_ns: Option<u64>,
    pub(crate) without_arguments: bool,
    pub(crate) without_dynamic_names: bool,
}

impl Slot {
    const EMPTY: Self = Self { session: None, flushes: 0, clears: 0 };
}

impl Session {
    pub(crate) fn new(arbiter: Arc<Arbiter>, config: &DataSourceConfig) -> Self {
        let policy = ExhaustedPolicy::from_config(config, ExhaustedPolicy::Drop);
        let options = SessionOptions::new(&config.track_event_config.clone().unwrap_or_default());
        // Global buffer ids are 16 bits; 0, which a wrong one becomes, is nobody's.
        let target_buffer = u16::try_from(config.target_buffer()).unwrap_or_default();
        static LAST_ID: AtomicU32 = AtomicU32::new(0);
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, arbiter, target_buffer, policy, options }
    }

    pub(crate) fn create_writer(&self) -> TraceWriter {
        self.arbiter.create_writer(self.target_buffer, self.policy)
    }
}

impl SessionOptions {
    /// Whether events, with or without arguments, may have the form of small packets: whole, and with times in nanoseconds since the last.
    pub(crate) fn has_small_packets(self, has_arguments: bool) -> bool {
        self.delta_unit_ns == Some(1) && !(has_arguments && self.without_arguments)
    }

    fn new(config: &TrackEventConfig) -> Self {
        let unit_ns = config.timestamp_unit_multiplier().max(1);
        Self {
            delta_unit_ns: (!config.disable_incremental_timestamps()).then_some(unit_ns),
            without_arguments: config.filter_debug_annotations(),
            without_dynamic_names: config.filter_dynamic_event_names(),
        }
    }
}

/// What a thread compares with what it saw last.
#[inline]
pub(crate) fn epoch() -> u32 {
    // Relaxed: a thread that has seen the category enabled finds the session under the lock.
    EPOCH.load(Ordering::Relaxed)
}

/// As [`epoch`], for slots alone.
pub(crate) fn changes() -> u32 {
    // Acquire: pairs with the release in `announce`.
    CHANGES.load(Ordering::Acquire)
}

pub(crate) fn slots() -> [Slot; MAX_INSTANCES] {
    lock().clone()
}

/// Takes a free place for a session.
pub(crate) fn add(session: Session) -> Option<usize> {
    let mut slots = lock();
    let (index, slot) = slots.iter_mut().enumerate().find(|(_, slot)| slot.session.is_none())?;
    slot.session = Some(Arc::new(session));
    announce();
    Some(index)
}

/// Frees the place.
pub(crate) fn remove(index: usize) {
    change(index, |slot| slot.session = None);
}

/// Asks threads to hand over what they have, when they trace the next time.
pub(crate) fn flush(index: usize) {
    change(index, |slot| slot.flushes = slot.flushes.wrapping_add(1));
}

/// Makes threads say again what events refer to.
pub(crate) fn clear_incremental_state(index: usize) {
    change(index, |slot| slot.clears = slot.clears.wrapping_add(1));
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

fn lock() -> MutexGuard<'static, [Slot; MAX_INSTANCES]> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}
