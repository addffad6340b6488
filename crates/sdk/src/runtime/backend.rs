//! One tracing service that this process is a producer of.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use ferretto_producer::{InstanceId, ProducerClient};

use super::inbox::Reply;
use crate::backends::Backends;

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
    flushes: VecDeque<Flush>,
    /// In the order in which they were asked for.
    pub(super) syncs: VecDeque<Rc<Drain>>,
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
    pub(super) fn new(kind: Backends, client: ProducerClient) -> Self {
        Self { kind, client, instances: Vec::new(), flushes: VecDeque::new(), syncs: VecDeque::new() }
    }

    /// A flush that so many instances have to answer.
    pub(super) fn begin_flush(&mut self, number: u64, request_id: u64, waits_for: usize) {
        if self.flushes.len() >= MAX_FLUSHES {
            // The service has long given it up.
            self.flushes.pop_front();
        }
        self.flushes.push_back(Flush { number, request_id, waits_for });
    }

    /// One of the instances has answered, if the flush is one of this service's.
    pub(super) fn flushed(&mut self, number: u64) {
        if let Some(flush) = self.flushes.iter_mut().find(|flush| flush.number == number) {
            flush.waits_for = flush.waits_for.saturating_sub(1);
        }
        let mut last = None;
        while self.flushes.front().is_some_and(|flush| flush.waits_for == 0) {
            last = self.flushes.pop_front().map(|flush| flush.request_id);
        }
        if let Some(request_id) = last {
            self.client.notify_flush_complete(request_id);
        }
    }

    /// The connection is gone, and nobody waits for answers. What nobody will answer is given back.
    pub(super) fn disconnected(&mut self) -> VecDeque<Rc<Drain>> {
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
