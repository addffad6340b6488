//! What producers are told to do, and what of it waits.
//!
//! A producer that has not read what it was sent is told the rest when it has: sessions of others say as much as they like of a data
//! source, and that must not cost its producer the connection, nor those of its user's other programs. The driver says when to wait
//! ([`hold_commands`](Service::hold_commands)) and when to go on ([`release_commands`](Service::release_commands)).

use std::collections::{BTreeSet, VecDeque};

use ferretto_protos::GetAsyncCommandResponse;
use ferretto_protos::get_async_command_response::Cmd;
use prost::Message as _;

use crate::ids::{ProducerConn, ProducerId};
use crate::output::{Output, Reply};
use crate::service::Service;

/// Commands that wait for a producer: of more it is not told of flushes and of names to be said again, for which it would be too late.
/// Ours: a session says four of an instance.
const MAX_WAITING: usize = 4096;
/// What a command counts for at least when it is released: to send one takes its time, however short it is.
const COMMAND_BYTES: usize = 4096;
/// Commands that nobody needs any more are taken out when there is one among so many.
const TAKEN_BACK_PART: usize = 4;

impl Service {
    /// Sends a command. Without a stream it is lost: the producer did not want it (upstream logs an error).
    pub(crate) fn command(&mut self, producer: ProducerId, cmd: Cmd) {
        let Some(conn) = self.producers.get(&producer).map(|producer| producer.conn) else { return };
        let Some(link) = self.links.get_mut(&conn) else { return };
        if link.commands.is_none() {
            if !std::mem::replace(&mut link.misses_commands, true) {
                // Once: there may be thousands.
                tracing::warn!(%producer, "a producer without GetAsyncCommand misses commands");
            }
            return;
        }
        match link.backlog.is_held {
            true => link.backlog.push(cmd),
            false => {
                self.send_command(conn, cmd);
            }
        }
    }

    /// A producer is to read what it was sent before it is told more.
    pub fn hold_commands(&mut self, conn: ProducerConn) {
        if let Some(link) = self.links.get_mut(&conn) {
            link.backlog.is_held = true;
        }
    }

    /// A producer has read: it is told more, until that is so many bytes or, for commands are not divided, some more. Says how many, where
    /// short commands count for more; if these are fewer, nothing waits any more, and from now on it is told at once.
    pub fn release_commands(&mut self, conn: ProducerConn, bytes: usize) -> usize {
        let mut sent = 0;
        while sent < bytes
            && let Some(link) = self.links.get_mut(&conn)
        {
            let Some(cmd) = link.backlog.next() else {
                link.backlog.is_held = false;
                break;
            };
            sent += self.send_command(conn, cmd).max(COMMAND_BYTES);
        }
        sent
    }

    /// Says how many bytes that is.
    fn send_command(&mut self, conn: ProducerConn, cmd: Cmd) -> usize {
        let Some(token) = self.links.get(&conn).and_then(|link| link.commands) else { return 0 };
        let message = GetAsyncCommandResponse { cmd: Some(cmd) };
        self.outputs.push_back(Output::ToProducer(conn, Reply::more(token, &message)));
        message.encoded_len()
    }
}

/// What a producer was not told yet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    is_held: bool,
    waiting: VecDeque<Cmd>,
    /// Instances that it has not heard of: they are to be set up.
    unheard: BTreeSet<u64>,
    /// Those of which it need not hear any more. What is said of them is still among what waits.
    taken_back: BTreeSet<u64>,
}

impl Backlog {
    fn push(&mut self, cmd: Cmd) {
        match &cmd {
            Cmd::StopDataSource(stop) if self.unheard.remove(&stop.instance_id()) => {
                return self.take_back(stop.instance_id());
            }
            Cmd::SetupDataSource(setup) => {
                self.unheard.insert(setup.new_instance_id());
            }
            Cmd::Flush(_) | Cmd::ClearIncrementalState(_) if self.waiting.len() >= MAX_WAITING => return,
            _ => {}
        }
        self.waiting.push_back(cmd);
    }

    /// What waits keeps the configs of sessions that may be over: it goes as soon as it is much.
    fn take_back(&mut self, instance: u64) {
        self.taken_back.insert(instance);
        if self.taken_back.len() * TAKEN_BACK_PART >= self.waiting.len() {
            let taken_back = std::mem::take(&mut self.taken_back);
            self.waiting.retain(|cmd| !is_of(cmd, &taken_back));
        }
    }

    fn next(&mut self) -> Option<Cmd> {
        loop {
            let Some(cmd) = self.waiting.pop_front() else {
                *self = Self { is_held: self.is_held, ..Self::default() };
                return None;
            };
            if let Cmd::SetupDataSource(setup) = &cmd {
                self.unheard.remove(&setup.new_instance_id());
            }
            if !is_of(&cmd, &self.taken_back) {
                return Some(cmd);
            }
        }
    }
}

/// Whether it sets up or starts one of these instances.
fn is_of(cmd: &Cmd, instances: &BTreeSet<u64>) -> bool {
    match cmd {
        Cmd::SetupDataSource(setup) => instances.contains(&setup.new_instance_id()),
        Cmd::StartDataSource(start) => instances.contains(&start.new_instance_id()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::get_async_command_response as command;

    use super::*;

    fn set_up(id: u64) -> Cmd {
        Cmd::SetupDataSource(command::SetupDataSource { new_instance_id: Some(id), config: None })
    }

    fn start(id: u64) -> Cmd {
        Cmd::StartDataSource(command::StartDataSource { new_instance_id: Some(id), config: None })
    }

    fn stop(id: u64) -> Cmd {
        Cmd::StopDataSource(command::StopDataSource { instance_id: Some(id) })
    }

    fn all(backlog: &mut Backlog) -> Vec<Cmd> {
        std::iter::from_fn(|| backlog.next()).collect()
    }

    #[test]
    fn of_an_instance_that_is_over_before_it_was_set_up_nothing_is_told() {
        let mut backlog = Backlog::default();
        for cmd in [set_up(1), start(1), set_up(2), stop(1), start(2)] {
            backlog.push(cmd);
        }
        assert_eq!(all(&mut backlog), [set_up(2), start(2)]);
        // What it has heard of it hears the end of.
        backlog.push(set_up(3));
        backlog.push(start(3));
        assert_eq!(backlog.next(), Some(set_up(3)));
        backlog.push(stop(3));
        assert_eq!(all(&mut backlog), [start(3), stop(3)]);
        assert!(backlog.unheard.is_empty() && backlog.taken_back.is_empty());
    }

    #[test]
    fn sessions_that_come_and_go_leave_nothing_waiting() {
        let mut backlog = Backlog::default();
        backlog.push(set_up(0));
        for id in 1..10_000 {
            [set_up(id), start(id), stop(id)].into_iter().for_each(|cmd| backlog.push(cmd));
            assert!(backlog.waiting.len() < 16, "{}", backlog.waiting.len());
        }
        assert_eq!(all(&mut backlog), [set_up(0)]);
    }

    #[test]
    fn flushes_that_come_too_late_are_not_told() {
        let mut backlog = Backlog::default();
        for id in 0..2 * MAX_WAITING as u64 {
            backlog.push(Cmd::Flush(command::Flush { request_id: Some(id), ..Default::default() }));
        }
        backlog.push(set_up(1));
        assert_eq!(all(&mut backlog).len(), MAX_WAITING + 1);
    }
}
