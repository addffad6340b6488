//! What the runtime knows of a data source, whatever it writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ferretto_producer::{Arbiter, InstanceConfig};

use super::ack::Ack;
use super::stage::Stage;
use crate::backends::Backends;
use crate::track_event::source::TRACK_EVENTS;

/// The most data sources of a process (upstream: `kMaxDataSources`). Each thread has a place for each.
pub(crate) const MAX_SOURCES: usize = 32;

/// Why a session gets nothing of a source that has no slot for it.
pub(crate) const TOO_MANY_SESSIONS: &str = "too many other sessions record it already";

/// A data source: takes part in up to [`MAX_INSTANCES`](crate::track_event::category::MAX_INSTANCES) sessions, each in a slot that it gives out itself.
///
/// Called on the background thread, if not said otherwise. Callbacks of the user go through the [`Stage`].
pub(crate) trait Source: Sync {
    /// What sessions select it by.
    fn name(&self) -> String;

    /// What services are told about it: a serialised `DataSourceDescriptor` with this name.
    fn descriptor(&self) -> Bytes;

    /// Whether the descriptor says more than the last time.
    fn take_news(&self) -> bool;

    /// A session wants data. The slot, or why it gets none: then nothing else is said of this session.
    fn setup(&self, setup: &Setup, stage: &mut Stage<'_>) -> Result<usize, String>;

    /// Write from now on.
    fn start(&self, slot: usize, ack: Ack, stage: &mut Stage<'_>);

    /// Come to an end. What is written until the acknowledgement counts.
    fn stop(&self, slot: usize, ack: Ack, stage: &mut Stage<'_>);

    /// The end is acknowledged: the slot is free.
    fn stopped(&self, slot: usize, stage: &mut Stage<'_>);

    /// Hand over what was written.
    fn flush(&self, slot: usize, flags: u64, ack: Ack, stage: &mut Stage<'_>);

    /// Say again what packets refer to.
    fn clear_incremental_state(&self, slot: usize, stage: &mut Stage<'_>);

    /// Hands over what the calling thread, any, has written in this slot.
    fn flush_thread(&self, slot: usize);

    /// Keeps other threads out of its state while the process forks.
    fn lock_for_fork(&'static self) -> Box<dyn Held>;

    /// This is the child: there are no sessions, and the threads that wrote are not here. If it `revives`, the first one that wants to
    /// write is to [start](super::revive) the runtime again.
    fn forked(&self, revives: bool);
}

/// Any lock that is held.
pub(crate) trait Held {}

impl<T: ?Sized> Held for MutexGuard<'_, T> {}

/// What a session wants.
pub(crate) struct Setup {
    /// Makes writers.
    pub(crate) arbiter: Arc<Arbiter>,
    pub(crate) config: InstanceConfig,
    /// Whose session it is.
    pub(crate) backend: Backends,
}

impl Setup {
    /// The service's buffer. Global ids have 16 bits; 0, which a wrong one becomes, is nobody's.
    pub(crate) fn target_buffer(&self) -> u16 {
        u16::try_from(self.config.target_buffer()).unwrap_or_default()
    }
}

/// All data sources of this process, in the order of their registration. They stay when the runtime ends, and are offered again by the
/// next one.
static SOURCES: Mutex<Sources> = Mutex::new(Sources { list: Vec::new() });

#[derive(Default)]
pub(super) struct Sources {
    /// Beside track events.
    list: Vec<&'static dyn Source>,
}

impl Sources {
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static dyn Source> {
        (0..).map_while(|index| self.get(index))
    }

    pub(super) fn get(&self, index: usize) -> Option<&'static dyn Source> {
        match index.checked_sub(1) {
            None => Some(&TRACK_EVENTS),
            Some(index) => self.list.get(index).copied(),
        }
    }
}

#[inline(never)]
pub(super) fn sources() -> MutexGuard<'static, Sources> {
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a data source was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddError {
    TooMany,
    NameTaken,
}

/// Adds a data source, for good; its number, below [`MAX_SOURCES`].
pub(crate) fn add(source: &'static dyn Source) -> Result<usize, AddError> {
    let mut sources = sources();
    let name = source.name();
    if sources.iter().any(|other| other.name() == name) {
        return Err(AddError::NameTaken);
    }
    let number = sources.list.len() + 1;
    if number >= MAX_SOURCES {
        return Err(AddError::TooMany);
    }
    sources.list.push(source);
    Ok(number)
}
