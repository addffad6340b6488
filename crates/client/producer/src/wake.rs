//! Wakes the client's thread from any other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// An event descriptor that costs a system call only when the thread is not woken already.
#[derive(Debug)]
pub(crate) struct Waker {
    fd: OwnedFd,
    pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd, pending: AtomicBool::new(false) })
    }

    pub(crate) fn wake(&self) {
        // What is to be seen by the woken thread is under a mutex; the flag only saves calls.
        if !self.pending.swap(true, Ordering::AcqRel) {
            // It cannot fail but for a full counter, which is readable too.
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }

    /// Called by the woken thread before it looks for work.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
        self.pending.store(false, Ordering::Release);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
