//! The connection, shared by the client's thread and by writers that must send commits at once.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_ipc::QueueError;
use ferretto_ipc::client::{InvokeError, RequestId};
use ferretto_ipc::link::{ClientLink, LinkError};
use ferretto_ipc::log;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A connection behind a lock that is only held for work that never blocks, so that no thread can wait for another for long.
#[derive(Debug)]
pub(crate) struct SharedLink {
    link: Mutex<ClientLink>,
    /// The service reads nothing, and a call was not made for want of room: what it would say is lost.
    is_overrun: AtomicBool,
}

impl SharedLink {
    pub(crate) fn new(link: ClientLink) -> Self {
        Self { link: Mutex::new(link), is_overrun: AtomicBool::new(false) }
    }

    /// Whether the connection is useless since the service does not read.
    pub(crate) fn is_overrun(&self) -> bool {
        self.is_overrun.load(Ordering::Relaxed)
    }

    /// Whether the service has gone, or reads nothing: the client's thread may not know yet, and be the one that waits for it.
    pub(crate) fn is_hung_up(&self) -> bool {
        let mut guard = self.lock();
        let mut fds = [PollFd::from_borrowed_fd(guard.link().fd(), PollFlags::RDHUP)];
        let is_hung_up = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        is_hung_up || self.is_overrun()
    }

    #[inline(never)]
    pub(crate) fn lock(&self) -> LinkGuard<'_> {
        // A panic elsewhere must not take the app's tracing, or its shutdown, with it.
        LinkGuard {
            link: self.link.lock().unwrap_or_else(PoisonError::into_inner),
            is_overrun: &self.is_overrun,
        }
    }
}

/// The locked connection.
pub(crate) struct LinkGuard<'a> {
    link: MutexGuard<'a, ClientLink>,
    is_overrun: &'a AtomicBool,
}

impl LinkGuard<'_> {
    pub(crate) fn link(&mut self) -> &mut ClientLink {
        &mut self.link
    }

    /// Calls a method without wanting its answer. A call that cannot be made is of an older service, or the connection is about to
    /// end; either way nothing is lost that anybody could still get.
    pub(crate) fn call(&mut self, method: &str, args: Vec<u8>) {
        self.invoke(method, args, None, false);
    }

    /// Calls a method whose answer will come as an event.
    pub(crate) fn ask(&mut self, method: &str, args: Vec<u8>) -> Option<RequestId> {
        self.invoke(method, args, None, true)
    }

    /// The same, with a descriptor.
    pub(crate) fn ask_with_fd(
        &mut self,
        method: &str,
        args: Vec<u8>,
        fd: Option<Arc<OwnedFd>>,
    ) -> Option<RequestId> {
        self.invoke(method, args, fd, true)
    }

    /// Sends what the socket takes now. An error shows up again on the client's thread, which ends the connection.
    #[inline(never)]
    pub(crate) fn flush(&mut self) -> Result<(), LinkError> {
        self.link.flush()
    }

    #[inline(never)]
    fn invoke(
        &mut self,
        method: &str,
        args: Vec<u8>,
        fd: Option<Arc<OwnedFd>>,
        want_reply: bool,
    ) -> Option<RequestId> {
        match self.link.connection().invoke_encoded(method, args.into(), fd, want_reply) {
            Ok(request) => Some(request),
            Err(error) => {
                if let InvokeError::Queue { source: QueueError::Full { .. }, .. } = error {
                    self.is_overrun.store(true, Ordering::Relaxed);
                }
                log::debug(format_args!("a call to the tracing service was not made: {error}"));
                None
            }
        }
    }
}
