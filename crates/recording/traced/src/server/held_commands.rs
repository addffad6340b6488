//! Producers that have not read what they were told, and what they are told when they have.
//!
//! Whoever may have a session may say as much as he likes to producers of others, and what waits for them is in their user's books. So a
//! producer with much unread is told nothing more before it has read that, and so are all of a user whose connections hold much together.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_peers::Holder;
use ferretto_service::ProducerConn;

use super::Server;
use crate::connection::{PRODUCER_QUEUE_BYTES, Side};

/// Producers that are told more in a turn: others wait for what is theirs meanwhile.
const RELEASED_AT_ONCE: usize = 32;

/// Whom the service tells nothing for now.
#[derive(Debug, Default)]
pub(super) struct HeldCommands {
    /// Their connections.
    behind: BTreeSet<u64>,
    /// Users whose connections hold much.
    heavy: BTreeSet<Holder>,
    /// Who was told something last.
    last: u64,
}

impl HeldCommands {
    pub(super) fn forget(&mut self, key: u64) {
        self.behind.remove(&key);
    }
}

impl Server {
    /// After something was queued for a client.
    pub(super) fn hold_if_behind(&mut self, key: u64) {
        let Some(connection) = self.connections.get(&key) else { return };
        let is_of_heavy =
            || connection.side == Side::Producer && self.held.heavy.contains(&connection.holder);
        if connection.is_behind() || is_of_heavy() {
            self.service.hold_commands(ProducerConn(key));
            self.held.behind.insert(key);
        }
    }

    /// After its books were brought up to date.
    pub(super) fn hold_all_if_heavy(&mut self, key: u64) {
        let Some(holder) = self.connections.get(&key).map(|connection| connection.holder) else { return };
        if !self.holdings.is_heavy(holder) || !self.held.heavy.insert(holder) {
            return;
        }
        let his = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.side == Side::Producer && connection.holder == holder);
        for (key, _) in his {
            self.service.hold_commands(ProducerConn(*key));
            self.held.behind.insert(*key);
        }
    }

    /// Tells more to those that have read: of these connections, to which something was sent, and of users who hold or have held much.
    pub(super) fn release_held(&mut self, sent: &BTreeSet<u64>) {
        if self.held.behind.is_empty() {
            return;
        }
        let had_heavy = !self.held.heavy.is_empty();
        self.held.heavy.retain(|holder| !self.holdings.is_light(*holder));
        let candidates: Vec<u64> = match had_heavy {
            true => {
                let (before, after) = (..=self.held.last, self.held.last + 1..);
                self.held.behind.range(after).chain(self.held.behind.range(before)).copied().collect()
            }
            false => sent.intersection(&self.held.behind).copied().collect(),
        };
        let mut told = BTreeMap::new();
        let mut count = 0;
        for key in candidates {
            let Some(connection) = self.connections.get(&key) else { continue };
            let (holder, queued) = (connection.holder, connection.host.queued_bytes());
            let is_heavy = self.held.heavy.contains(&holder);
            let told: &mut usize = told.entry(holder).or_default();
            let has_read = match is_heavy {
                true => queued == 0 && self.holdings.may_be_told(holder, *told),
                false => queued <= PRODUCER_QUEUE_BYTES / 2,
            };
            if !has_read {
                continue;
            }
            if count == RELEASED_AT_ONCE {
                self.dirty.insert(key);
                self.has_more_work = true;
                continue;
            }
            let bytes = self.service.release_commands(ProducerConn(key), PRODUCER_QUEUE_BYTES);
            *told += bytes;
            if bytes > 0 {
                (self.held.last, self.has_more_work) = (key, true);
                count += 1;
            }
            match bytes < PRODUCER_QUEUE_BYTES {
                true if is_heavy => self.service.hold_commands(ProducerConn(key)),
                true => self.held.forget(key),
                false => {}
            }
        }
    }
}
