//! The background thread between its own work and the user's.
//!
//! While it works, trace points on it are left out (an allocator that traces would meet locks that this very thread holds), and the
//! process does not fork, so that a child finds what it has to know of the connections. Neither holds while it waits and while it calls
//! the user.

use std::cell::{RefCell, RefMut};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_producer::log;

use crate::track_event::event::ThreadState;

/// Held while the background thread works. Holds the descriptors of its connections.
static OPEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// The lock for whoever forks. Not waited for here.
pub(super) fn open_fds() -> &'static Mutex<Vec<RawFd>> {
    &OPEN
}

pub(crate) struct Stage<'a> {
    thread: &'a RefCell<ThreadState>,
    /// Leaves trace points out.
    quiet: Option<RefMut<'a, ThreadState>>,
    open: Option<MutexGuard<'static, Vec<RawFd>>>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(thread: &'a RefCell<ThreadState>) -> Self {
        let mut stage = Self { thread, quiet: None, open: None };
        stage.resume();
        stage
    }

    /// Publishes what is open from now on.
    pub(super) fn set_open(&mut self, fds: Vec<RawFd>) {
        if let Some(open) = &mut self.open {
            **open = fds;
        }
    }

    /// Waits for something. The process may fork meanwhile.
    pub(super) fn wait<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        self.open = None;
        let result = wait();
        self.resume();
        result
    }

    /// Calls the user, who may do anything, and panic.
    pub(crate) fn call<R>(&mut self, callback: impl FnOnce() -> R) -> Option<R> {
        let (mut callback, mut result) = (Some(callback), None);
        self.call_once(&mut || result = callback.take().map(|callback| callback()));
        result
    }

    /// As [`call`](Self::call), for all callbacks alike.
    fn call_once(&mut self, callback: &mut dyn FnMut()) {
        (self.quiet, self.open) = (None, None);
        let result = catch_unwind(AssertUnwindSafe(callback));
        self.resume();
        if result.is_err() {
            log::warn(format_args!("a callback has panicked; tracing goes on"));
        }
    }

    #[inline(never)]
    fn resume(&mut self) {
        self.open = Some(OPEN.lock().unwrap_or_else(PoisonError::into_inner));
        self.quiet = self.quiet.take().or_else(|| self.thread.try_borrow_mut().ok());
    }
}
