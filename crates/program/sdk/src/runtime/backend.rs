//! One tracing service that this process is a producer of.

use std::cell::Cell;
use std::rc::Rc;

use ferretto_producer::{InstanceId, ProducerClient, ProducerOptions, ProducerWaker};

use super::inbox::Reply;
use crate::backends::Backends;
use crate::builder::InitError;
use crate::track_event::source::start_startup;
use crate::track_event::startup::StartupConfig;

/// Flushes that wait for callbacks. A service asks for a new one every few seconds at most, and gives each up after some seconds.
const MAX_FLUSHES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Backend {
    /// Which one, exactly one bit.
    pub(super) kind: Backends,
    pub(super) client: ProducerClient,
    /// Keys of the instances by the service's ids.
    pub(super) instances: Vec<(InstanceId, u64)>,
    /// In the order in which they came: an answer to one is an answer to all before it.
    flushes: Vec<Flush>,
    /// In the order in which they were asked for.
    pub(super) syncs: Vec<Rc<Drain>>,
    /// Wait for the service to know this program.
    pub(super) greetings: Vec<Rc<Drain>>,
}

/// One that the background thread does not have yet.
pub(super) struct NewBackend {
    waker: ProducerWaker,
    make: Box<dyn FnOnce() -> Backend + Send>,
}

impl NewBackend {
    /// With `startup`, its sessions can have what is recorded from now on.
    pub(super) fn new(
        kind: Backends,
        options: ProducerOptions,
        startup: Option<StartupConfig>,
    ) -> Result<Self, InitError> {
        let mut client = ProducerClient::new(options)?;
        if let Some(startup) = startup {
            let writers = client.start_startup_writers(startup.timeout)?;
            if !start_startup(writers, startup) {
                return Err(InitError::StartupTooLate);
            }
        }
        Ok(Self { waker: client.waker(), make: Box::new(move || Backend::new(kind, client)) })
    }

    pub(super) fn waker(&self) -> &ProducerWaker {
        &self.waker
    }

    /// On the background thread, to which it belongs from now on.
    pub(super) fn make(self) -> Backend {
        (self.make)()
    }
}

#[derive(Debug)]
struct Flush {
    number: u64,
    request_id: u64,
    waits_for: usize,
}

/// Waits for several services.
pub(super) struct Drain {
    pub(super) has_failed: Cell<bool>,
    pub(super) reply: Reply,
}

impl Backend {
    fn new(kind: Backends, client: ProducerClient) -> Self {
        Self {
            kind,
            client,
            instances: Vec::new(),
            flushes: Vec::new(),
            syncs: Vec::new(),
            greetings: Vec::new(),
        }
    }

    /// A flush that so many instances have to answer.
    pub(super) fn begin_flush(&mut self, number: u64, request_id: u64, waits_for: usize) {
        if self.flushes.len() >= MAX_FLUSHES {
            // The service has long given it up.
            self.flushes.remove(0);
        }
        self.flushes.push(Flush { number, request_id, waits_for });
    }

    /// One of the instances has answered, if the flush is one of this service's.
    pub(super) fn flushed(&mut self, number: u64) {
        if let Some(flush) = self.flushes.iter_mut().find(|flush| flush.number == number) {
            flush.waits_for = flush.waits_for.saturating_sub(1);
        }
        let answered = self.flushes.iter().take_while(|flush| flush.waits_for == 0).count();
        if let Some(last) = self.flushes.drain(..answered).next_back() {
            self.client.notify_flush_complete(last.request_id);
        }
    }

    /// The connection is gone, and nobody waits for answers. What nobody will answer is given back.
    pub(super) fn disconnected(&mut self) -> Vec<Rc<Drain>> {
        self.instances.clear();
        self.flushes.clear();
        std::mem::take(&mut self.syncs)
    }
}

impl Drain {
    /// Of one service; the reply, if it was the last one.
    pub(super) fn finish(self: Rc<Self>, is_done: bool) -> Option<(Reply, bool)> {
        if !is_done {
            self.has_failed.set(true);
        }
        let drain = Rc::into_inner(self)?;
        Some((drain.reply, !drain.has_failed.into_inner()))
    }
}

impl std::fmt::Debug for Drain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Drain").field("has_failed", &self.has_failed).finish_non_exhaustive()
    }
}
