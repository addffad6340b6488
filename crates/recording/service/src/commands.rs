//! What producers are told to do, and what of it waits.
//!
//! A producer that has not read what it was sent is told the rest when it has: sessions of others say as much as they like of a data
//! source, and that must not cost its producer the connection, nor those of its user's other programs. The driver says when to wait
//! ([`hold_commands`](Service::hold_commands)) and when to go on ([`release_commands`](Service::release_commands)).

use std::collections::BTreeMap;

use ferretto_protos::GetAsyncCommandResponse;
use ferretto_protos::get_async_command_response::Cmd;
use prost::Message as _;

use crate::ids::{ProducerConn, ProducerId};
use crate::limits;
use crate::output::{Output, Reply};
use crate::service::Service;

/// Commands that wait for a producer: of more it is not told of flushes and of names to be said again, for which it would be too late.
/// Ours: a session says four of an instance.
const MAX_WAITING: usize = 4096;
/// What these flushes and names may take, which name all instances that they are for: those of a few hundred sessions. One waits however
/// large it is.
const MAX_WAITING_BYTES: usize = 64 * 1024;
/// Instances that one command names: so many fit into a frame, and are gone through at once.
pub(crate) const INSTANCES_PER_COMMAND: usize = 2048;
/// What a command counts for at least when it is released: to send one takes its time, however short it is.
const COMMAND_BYTES: usize = 4096;

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
    /// In their order.
    waiting: BTreeMap<u64, Cmd>,
    last: u64,
    /// Instances that it has not heard of, and where their setups and starts are.
    unheard: BTreeMap<u64, (u64, Option<u64>)>,
    /// Of those of them that may be left out.
    dispensable_bytes: usize,
}

impl Backlog {
    /// Whether to give it back takes its time.
    pub(crate) fn is_large(&self) -> bool {
        self.waiting.len() > limits::MANY_INSTANCES
    }

    fn push(&mut self, cmd: Cmd) {
        let bytes = dispensable_bytes(&cmd);
        let at = self.last + 1;
        match &cmd {
            // Of an instance that is over before it was set up nothing is told.
            Cmd::StopDataSource(stop)
                if let Some((setup, start)) = self.unheard.remove(&stop.instance_id()) =>
            {
                self.waiting.remove(&setup);
                start.into_iter().for_each(|start| drop(self.waiting.remove(&start)));
                return;
            }
            Cmd::SetupDataSource(setup) => {
                self.unheard.insert(setup.new_instance_id(), (at, None));
            }
            Cmd::StartDataSource(start) => {
                if let Some((_, place)) = self.unheard.get_mut(&start.new_instance_id()) {
                    *place = Some(at);
                }
            }
            _ if bytes > 0 && !self.has_room_for(bytes) => return,
            _ => {}
        }
        self.dispensable_bytes += bytes;
        self.last = at;
        self.waiting.insert(at, cmd);
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        let has_bytes = self.dispensable_bytes == 0 || self.dispensable_bytes + bytes <= MAX_WAITING_BYTES;
        self.waiting.len() < MAX_WAITING && has_bytes
    }

    fn next(&mut self) -> Option<Cmd> {
        let Some((_, cmd)) = self.waiting.pop_first() else {
            *self = Self { is_held: self.is_held, ..Self::default() };
            return None;
        };
        if let Cmd::SetupDataSource(setup) = &cmd {
            self.unheard.remove(&setup.new_instance_id());
        }
        self.dispensable_bytes -= dispensable_bytes(&cmd);
        Some(cmd)
    }
}

/// What a command takes that may be left out; 0 for others.
fn dispensable_bytes(cmd: &Cmd) -> usize {
    match cmd {
        Cmd::Flush(_) | Cmd::ClearIncrementalState(_) => size_of::<Cmd>() + size_of_val(named_by(cmd)),
        _ => 0,
    }
}

/// The instances that a command names, if it is one for several.
fn named_by(cmd: &Cmd) -> &[u64] {
    match cmd {
        Cmd::Flush(flush) => &flush.data_source_ids,
        Cmd::ClearIncrementalState(clear) => &clear.data_source_ids,
        _ => &[],
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
        assert!(backlog.unheard.is_empty());
    }

    #[test]
    fn sessions_that_come_and_go_leave_nothing_waiting() {
        let mut backlog = Backlog::default();
        backlog.push(set_up(0));
        for id in 1..10_000 {
            [set_up(id), start(id), stop(id)].into_iter().for_each(|cmd| backlog.push(cmd));
            assert_eq!(backlog.waiting.len(), 1);
        }
        assert_eq!(all(&mut backlog), [set_up(0)]);
    }

    #[test]
    fn flushes_that_come_too_late_are_not_told() {
        let flush =
            |ids: usize| Cmd::Flush(command::Flush { data_source_ids: vec![1; ids], ..Default::default() });
        let clear = Cmd::ClearIncrementalState(command::ClearIncrementalState { data_source_ids: vec![1] });
        let mut backlog = Backlog::default();
        backlog.push(flush(10 * MAX_WAITING_BYTES));
        backlog.push(flush(0));
        backlog.push(clear.clone());
        backlog.push(set_up(1));
        assert_eq!(all(&mut backlog), [flush(10 * MAX_WAITING_BYTES), set_up(1)]);
        for _ in 0..2 * MAX_WAITING {
            backlog.push(clear.clone());
            backlog.push(flush(3));
        }
        backlog.push(set_up(1));
        let told = all(&mut backlog);
        assert!((100..MAX_WAITING).contains(&told.len()), "{}", told.len());
        assert!(told.iter().map(dispensable_bytes).sum::<usize>() <= MAX_WAITING_BYTES);
        // When these are told, others may wait.
        backlog.push(flush(3));
        assert_eq!(all(&mut backlog), [flush(3)]);
    }
}
