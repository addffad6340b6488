//! What users hold of a daemon: connections, and bytes that wait in them. Nobody can have it all.
//!
//! Root and the daemon's own user have connections in reserve, so that whoever has to look after the machine gets in.

use std::collections::BTreeMap;

use rustix::process::{Resource, getrlimit};

/// Parts of all connections: what only root may have, and what others may each.
const RESERVE_PART: usize = 16;
const USERS_PART: usize = 2;

/// Bytes in the connections of one user: what was sent and is not served, and what waits to be read. Honest clients hold some kilobytes, a
/// consumer that reads 256.
const MAX_BYTES_PER_USER: usize = 32 * 1024 * 1024;

/// Why somebody is not let in, or has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    /// By everybody.
    #[error("{0} clients are connected, which is all that there can be")]
    Connections(usize),
    /// By one user.
    #[error("the user {user} has {connections} connections, which is all that one may have")]
    OfUser {
        /// Who.
        user: u32,
        /// How many.
        connections: usize,
    },
    /// In the connections of one user.
    #[error("the connections of the user {user} hold {bytes} bytes that are not served or not read")]
    Bytes {
        /// Whose.
        user: u32,
        /// How many.
        bytes: usize,
    },
}

#[derive(Debug, Default)]
struct Holding {
    connections: usize,
    bytes: usize,
}

/// The books.
#[derive(Debug)]
pub struct Holdings {
    users: BTreeMap<u32, Holding>,
    connections: usize,
    max_connections: usize,
    /// Root is privileged, and this user.
    own_uid: Option<u32>,
}

impl Holdings {
    /// For so many connections, or as many as there can be descriptors for. `own_uid` is the daemon's own user, if it can be told from others.
    pub fn new(max_connections: usize, fds_per_connection: u64, own_uid: Option<u32>) -> Self {
        let fds = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(fds / fds_per_connection.max(1)).unwrap_or(max_connections);
        Self::with(room.min(max_connections).max(RESERVE_PART), own_uid)
    }

    fn with(max_connections: usize, own_uid: Option<u32>) -> Self {
        Self { users: BTreeMap::new(), connections: 0, max_connections, own_uid }
    }

    /// A connection of a user is there. Call [`leave`](Self::leave) when it is not any more.
    pub fn enter(&mut self, user: u32) -> Result<(), TooMuch> {
        let (max, max_of_user) = match user == 0 || Some(user) == self.own_uid {
            true => (self.max_connections, self.max_connections),
            false => {
                let others = self.max_connections - self.max_connections / RESERVE_PART;
                (others, others / USERS_PART)
            }
        };
        if self.connections >= max {
            return Err(TooMuch::Connections(self.connections));
        }
        let holding = self.users.entry(user).or_default();
        if holding.connections >= max_of_user {
            return Err(TooMuch::OfUser { user, connections: holding.connections });
        }
        holding.connections += 1;
        self.connections += 1;
        Ok(())
    }

    /// A connection is gone, and what it held.
    pub fn leave(&mut self, user: u32, bytes: usize) {
        let Some(holding) = self.users.get_mut(&user) else { return };
        self.connections = self.connections.saturating_sub(1);
        holding.connections = holding.connections.saturating_sub(1);
        holding.bytes = holding.bytes.saturating_sub(bytes);
        if holding.connections == 0 {
            self.users.remove(&user);
        }
    }

    /// A connection holds so much instead of what it `held`. It is in the books, also if it is too much: the connection has to end.
    pub fn hold(&mut self, user: u32, held: usize, now: usize) -> Result<(), TooMuch> {
        let Some(holding) = self.users.get_mut(&user) else { return Ok(()) };
        holding.bytes = holding.bytes.saturating_sub(held).saturating_add(now);
        match now > held && holding.bytes > MAX_BYTES_PER_USER {
            true => Err(TooMuch::Bytes { user, bytes: holding.bytes }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;

    fn enter_all(holdings: &mut Holdings, user: u32) -> (usize, TooMuch) {
        let mut count = 0;
        loop {
            match holdings.enter(user) {
                Ok(()) => count += 1,
                Err(error) => return (count, error),
            }
        }
    }

    #[test]
    fn no_user_takes_all_connections_and_root_has_some_in_reserve() {
        let mut holdings = Holdings::with(1600, Some(OWN));
        assert_eq!(enter_all(&mut holdings, 1), (750, TooMuch::OfUser { user: 1, connections: 750 }));
        assert_eq!(enter_all(&mut holdings, 2).0, 750);
        assert_eq!(enter_all(&mut holdings, 3), (0, TooMuch::Connections(1500)));
        assert_eq!(holdings.enter(OWN), Ok(()));
        assert_eq!(enter_all(&mut holdings, 0), (99, TooMuch::Connections(1600)));
        holdings.leave(1, 0);
        assert_eq!(enter_all(&mut holdings, 2).0, 0);
        (0..200).for_each(|_| holdings.leave(1, 0));
        assert_eq!(enter_all(&mut holdings, 3).0, 101);
    }

    #[test]
    fn who_holds_too_much_is_told_by_whose_growth_it_is() {
        let mut holdings = Holdings::with(1600, Some(OWN));
        for user in [1, 1, 2] {
            holdings.enter(user).unwrap();
        }
        assert_eq!(holdings.hold(1, 0, MAX_BYTES_PER_USER), Ok(()));
        let too_much = TooMuch::Bytes { user: 1, bytes: MAX_BYTES_PER_USER + 1 };
        assert_eq!(holdings.hold(1, 0, 1), Err(too_much));
        // Who gives some back is let go on.
        assert_eq!(holdings.hold(1, MAX_BYTES_PER_USER, MAX_BYTES_PER_USER - 1), Ok(()));
        assert_eq!(holdings.hold(2, 0, MAX_BYTES_PER_USER), Ok(()));
        holdings.leave(1, MAX_BYTES_PER_USER - 1);
        assert_eq!(holdings.hold(1, 1, MAX_BYTES_PER_USER), Ok(()));
        holdings.leave(1, MAX_BYTES_PER_USER);
        holdings.leave(2, MAX_BYTES_PER_USER);
        assert!(holdings.users.is_empty() && holdings.connections == 0);
    }
}
