//! The connection, shared by the client's thread and by writers that must send commits at once.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_ipc::client::RequestId;
use ferretto_ipc::link::{ClientLink, LinkError};
use prost::Message;

/// A connection behind a lock that is only held for work that never blocks, so that no thread can wait for another for long.
#[derive(Debug)]
pub(crate) struct SharedLink {
    link: Mutex<ClientLink>,
}

impl SharedLink {
    pub(crate) fn new(link: ClientLink) -> Self {
        Self { link: Mutex::new(link) }
    }

    pub(crate) fn lock(&self) -> LinkGuard<'_> {
        // A panic elsewhere must not take the app's tracing, or its shutdown, with it.
        LinkGuard(self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The locked connection.
pub(crate) struct LinkGuard<'a>(MutexGuard<'a, ClientLink>);

impl LinkGuard<'_> {
    pub(crate) fn link(&mut self) -> &mut ClientLink {
        &mut self.0
    }

    /// Calls a method without wanting its answer. A call that cannot be made is of an older service, or the connection is about to
    /// end; either way nothing is lost that anybody could still get.
    pub(crate) fn call(&mut self, method: &str, args: &impl Message) {
        self.invoke(method, args, None, false);
    }

    /// Calls a method whose answer will come as an event.
    pub(crate) fn ask(&mut self, method: &str, args: &impl Message) -> Option<RequestId> {
        self.invoke(method, args, None, true)
    }

    /// The same, with a descriptor.
    pub(crate) fn ask_with_fd(
        &mut self,
        method: &str,
        args: &impl Message,
        fd: Option<Arc<OwnedFd>>,
    ) -> Option<RequestId> {
        self.invoke(method, args, fd, true)
    }

    /// Sends what the socket takes now. An error shows up again on the client's thread, which ends the connection.
    pub(crate) fn flush(&mut self) -> Result<(), LinkError> {
        self.0.flush()
    }

    fn invoke(
        &mut self,
        method: &str,
        args: &impl Message,
        fd: Option<Arc<OwnedFd>>,
        want_reply: bool,
    ) -> Option<RequestId> {
        match self.0.connection().invoke(method, args, fd, want_reply) {
            Ok(request) => Some(request),
            Err(error) => {
                tracing::debug!(%error, "a call to the tracing service was not made");
                None
            }
        }
    }
}
