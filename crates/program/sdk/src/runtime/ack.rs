//! Answers that users may give later, from any thread.

use std::sync::Arc;

use super::inbox::{Command, Inbox};
use super::source::Source;
use crate::track_event::event::quietly;

/// Says that a data source has done what a callback asked for: when it is dropped, or by [`done`](Self::done). Keep it to answer later,
/// from any thread; the session waits for it, for some seconds at most.
///
/// What the answering thread has written until then is handed over with the answer.
#[must_use = "dropping it answers at once"]
pub struct Ack {
    answer: Answer,
    /// Whose packets belong to the answer.
    source: &'static dyn Source,
    slot: usize,
    inbox: Arc<Inbox>,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// This instance has started.
    Started(u64),
    /// This instance has stopped.
    Stopped(u64),
    /// One of the instances that this flush waits for.
    Flushed(u64),
}

impl Ack {
    pub(super) fn new(answer: Answer, source: &'static dyn Source, slot: usize, inbox: &Arc<Inbox>) -> Self {
        Self { answer, source, slot, inbox: Arc::clone(inbox) }
    }

    /// Answers now.
    pub fn done(self) {
        drop(self);
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        self.source.flush_thread(self.slot);
        // A child process has nobody to answer to.
        let _ = quietly(|| self.inbox.push(Command::Answer(self.answer)));
    }
}

impl std::fmt::Debug for Ack {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ack").field("answer", &self.answer).finish_non_exhaustive()
    }
}
