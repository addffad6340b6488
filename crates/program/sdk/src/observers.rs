//! Those who want to know when sessions of track events come and go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_producer::log;

use crate::data_source::SetupArgs;
use crate::runtime::{Held, Stage};
use crate::track_event::event::quietly;

/// More than any program has; beyond that a program adds them in a loop.
const MAX_OBSERVERS: usize = 256;

/// Hears of the sessions that record track events. Called on the thread `ferretto`, so that it should be brief.
///
/// ```
/// use ferretto::{SessionObserver, SetupArgs};
///
/// /// Writes into each recording which version is recorded.
/// struct Version;
///
/// impl SessionObserver for Version {
///     fn on_start(&self, _instance_index: usize) {
///         ferretto::instant!("app", "version", text = env!("CARGO_PKG_VERSION"));
///     }
/// }
///
/// let _observing = ferretto::observe_sessions(Version);
/// ```
pub trait SessionObserver: Send + Sync {
    /// A session wants track events; they are not on yet.
    fn on_setup(&self, _args: &SetupArgs<'_>) {}

    /// They are on for it.
    fn on_start(&self, _instance_index: usize) {}

    /// They are about to be off for it: what is traced here is still its.
    fn on_stop(&self, _instance_index: usize) {}

    /// What its packets refer to is said again from here on.
    fn will_clear_incremental_state(&self, _instance_index: usize) {}
}

/// The observer is called until this is dropped; or for good, with [`forever`](Self::forever).
#[must_use = "the observer hears nothing once this is dropped"]
pub struct ObserverGuard {
    observer: Option<Observer>,
}

type Observer = Arc<dyn SessionObserver>;

static OBSERVERS: Mutex<Vec<Observer>> = Mutex::new(Vec::new());

/// Has an observer hear of sessions from now on; of those that run, only the rest. A program can have 256.
pub fn observe_sessions(observer: impl SessionObserver + 'static) -> ObserverGuard {
    let observer: Observer = Arc::new(observer);
    let is_added = quietly(|| {
        let mut observers = observers();
        let has_room = observers.len() < MAX_OBSERVERS;
        if has_room {
            observers.push(Arc::clone(&observer));
        }
        has_room
    });
    if !is_added {
        log::warn(format_args!("an observer of sessions hears nothing: there are {MAX_OBSERVERS} others"));
    }
    ObserverGuard { observer: Some(observer) }
}

impl ObserverGuard {
    /// Never ends.
    pub fn forever(mut self) {
        self.observer = None;
    }
}

impl Drop for ObserverGuard {
    fn drop(&mut self) {
        let Some(observer) = self.observer.take() else {
            return;
        };
        // The user's destructor comes after the lock is free.
        let removed = quietly(|| {
            let mut observers = observers();
            let index = observers.iter().position(|other| Arc::ptr_eq(other, &observer));
            index.map(|index| observers.remove(index))
        });
        drop(removed);
    }
}

impl std::fmt::Debug for ObserverGuard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ObserverGuard").finish_non_exhaustive()
    }
}

/// Calls all of them.
pub(crate) fn notify(stage: &mut Stage<'_>, call: &dyn Fn(&dyn SessionObserver)) {
    let all: Vec<Observer> = observers().clone();
    for observer in all {
        // Dropped there, too, if it was removed meanwhile.
        stage.call(|| call(&*{ observer }));
    }
}

pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(observers())
}

fn observers() -> MutexGuard<'static, Vec<Observer>> {
    OBSERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}
