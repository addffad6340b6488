//! What happens when the process forks.
//!
//! The child inherits the memory, with all that threads of the parent were about to do, but none of these threads. It must neither write
//! into the memory that the parent shares with the service nor speak on the parent's sockets; and it must find no lock held by a thread
//! that is not there. So the thread that forks holds all locks of this crate meanwhile; and the child forgets the writers, without
//! dropping them, closes the sockets, switches everything off, and begins anew if it is asked to. Trace points pay nothing for that.

use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use ferretto_sys::{ForkHandlers, at_fork, close_inherited};

use super::source::{Held, sources};
use super::{Runtime, State, stage};
use crate::builder::AfterFork;
use crate::track_event::{category, event, numbers};
use crate::{async_span, builder, clock, data_source, identity, observers};

/// How long a fork waits for the background thread, which only takes so long if it is stopped. The child then leaves the parent's
/// sockets open.
const MAX_WAIT: Duration = Duration::from_secs(1);

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts the forks between the first process and this one.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Watches for forks from now on.
pub(super) fn watch() -> io::Result<()> {
    at_fork(ForkHandlers { prepare, parent, child })
}

/// All that is held during a fork.
struct Locks {
    open: Option<MutexGuard<'static, Vec<RawFd>>>,
    others: Vec<Box<dyn Held>>,
}

thread_local! {
    /// Of a thread that forks at this moment.
    static LOCKS: RefCell<Option<Locks>> = const { RefCell::new(None) };
}

/// Whether this thread is between the two ends of a fork: it holds all locks.
pub(crate) fn is_forking() -> bool {
    LOCKS.try_with(|locks| locks.try_borrow().map_or(true, |locks| locks.is_some())).unwrap_or(false)
}

fn prepare() {
    event::quietly(|| {
        let open = wait_for_worker();
        // Taken in the order in which one is taken while another is held.
        let mut others: Vec<Box<dyn Held>> = vec![Box::new(super::state())];
        #[cfg(feature = "sessions")]
        others.push(crate::tracing_session::lock_for_fork());
        #[cfg(feature = "in-process")]
        others.push(crate::in_process::lock_for_fork());
        let sources = sources();
        for source in sources.iter() {
            others.push(source.lock_for_fork());
        }
        others.push(Box::new(sources));
        let of_modules: [fn() -> Box<dyn Held>; 8] = [
            category::lock_watchers_for_fork,
            category::lock_for_fork,
            numbers::lock_for_fork,
            clock::lock_for_fork,
            async_span::lock_for_fork,
            identity::lock_for_fork,
            observers::lock_for_fork,
            builder::lock_settings_for_fork,
        ];
        for lock in of_modules {
            others.push(lock());
        }
        // Fails in the last moments of a thread: then they are free at once, and the child has to hope.
        let _ = LOCKS.try_with(|locks| locks.replace(Some(Locks { open, others })));
    });
}

fn parent() {
    event::quietly(|| drop(take_locks()));
}

/// Nothing here may wait for a lock that other threads held, nor drop what belongs to them.
fn child() {
    event::quietly(|| {
        let locks = take_locks();
        GENERATION.fetch_add(1, Ordering::Relaxed);
        if let Some(mut open) = locks.and_then(|locks| locks.open) {
            close_inherited(&open);
            open.clear();
        }
        let revives = forget_runtime();
        for source in sources().iter() {
            source.forked(revives);
        }
        super::IS_REVIVED.store(!revives, Ordering::Relaxed);
    });
    event::forget_thread();
    data_source::forget_thread();
}

/// The lock that the background thread holds while it works, unless it does not come to an end.
fn wait_for_worker() -> Option<MutexGuard<'static, Vec<RawFd>>> {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match stage::open_fds().try_lock() {
            Ok(open) => return Some(open),
            Err(TryLockError::Poisoned(open)) => return Some(open.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_micros(50));
            }
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// Frees all locks but that of the connections.
fn take_locks() -> Option<Locks> {
    let mut locks = LOCKS.try_with(RefCell::take).ok().flatten()?;
    locks.others.clear();
    Some(locks)
}

/// Whether it starts again when something is to be traced.
fn forget_runtime() -> bool {
    let mut state = super::state();
    let (plan, thread) = match std::mem::replace(&mut *state, State::Idle) {
        State::Running(Runtime { plan, inbox, thread, .. }) => (plan, Some((inbox, thread))),
        State::Forked(plan) => (plan, None),
        State::Idle | State::ShuttingDown => return false,
    };
    // The thread is not there.
    std::mem::forget(thread);
    let revives = plan.after_fork == AfterFork::Reconnect && plan.can_start_again();
    *state = State::Forked(plan);
    revives
}
