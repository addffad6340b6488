//! What other threads ask of the background thread.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use ferretto_producer::ProducerWaker;

use super::ack::Answer;
use super::backend::NewBackend;
use super::fork;

/// What users may ask for before any of it is done. Beyond that they hear that it was not done, as without a service.
const MAX_COMMANDS: usize = 4096;

/// Called when it is known whether something was done.
pub(crate) type Reply = Box<dyn FnOnce(bool) + Send>;

pub(super) enum Command {
    /// Commit everything and say when the services have it.
    Drain(Reply),
    /// Say when sessions that are there have what they want of this program: `false` if there is no service.
    Settle(Reply),
    /// The program ends: commit everything into the sockets, and say when it is there.
    HandOver(Reply),
    ActivateTriggers(Vec<String>),
    /// Be a producer of another service, too.
    AddBackend(NewBackend),
    /// Of a user's callback.
    Answer(Answer),
    /// There are new data sources, or more is to be said of old ones.
    News,
    /// End.
    ShutDown,
}

pub(super) struct Inbox {
    /// Of the process that it belongs to. A forked child must not touch it.
    generation: u32,
    commands: Mutex<VecDeque<Command>>,
    waker: ProducerWaker,
}

impl Inbox {
    pub(super) fn new(waker: ProducerWaker) -> Self {
        Self { generation: fork::generation(), commands: Mutex::default(), waker }
    }

    /// Gives the command back if it is full, or of another process. Answers always find room: there are no more of them than questions.
    pub(super) fn push(&self, command: Command) -> Result<(), Command> {
        if self.generation != fork::generation() {
            return Err(command);
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = commands.len() < MAX_COMMANDS
            || matches!(command, Command::Answer(_) | Command::ShutDown | Command::AddBackend(_));
        if !has_room {
            return Err(command);
        }
        // News are looked for at each turn.
        if !matches!(command, Command::News) {
            commands.push_back(command);
        }
        drop(commands);
        self.waker.wake();
        Ok(())
    }

    pub(super) fn pop(&self) -> Option<Command> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
