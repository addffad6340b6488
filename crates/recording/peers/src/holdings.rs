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
/// With more than this part of it a user's programs are told nothing more before they have read: a session of somebody else's says 200 KiB
/// of a data source, and they may be hundreds.
const HEAVY_PART: usize = 4;
/// Until it is less than this part.
const LIGHT_PART: usize = 8;
/// And with more than this part nothing at all, so that what nobody reads does not cost those who do their connections.
const MAX_TOLD_PART: (usize, usize) = (3, 4);
/// The same of all users of other machines together: what is said of them anybody can say.
const MAX_REMOTE_BYTES: usize = MAX_BYTES_PER_USER;

/// Who holds bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A user of this machine, as the kernel says.
    Local(u32),
    /// One of another machine, as its relay says; who has not said it is nobody of no machine.
    Remote {
        /// An id of the machine.
        machine: u32,
        /// The user's number there.
        user: u32,
    },
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(user) => write!(f, "the user {user}"),
            Self::Remote { machine, user } => write!(f, "the user {user} of the machine {machine}"),
        }
    }
}

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
    #[error("the connections of {holder} hold {bytes} bytes that are not served or not read")]
    Bytes {
        /// Whose; it need not be who has just taken more.
        holder: Holder,
        /// How many.
        bytes: usize,
    },
}

/// The books.
#[derive(Debug)]
pub struct Holdings {
    /// Connections of users.
    users: BTreeMap<u32, usize>,
    connections: usize,
    max_connections: usize,
    bytes: BTreeMap<Holder, usize>,
    max_bytes_of_user: usize,
    remote_bytes: usize,
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
        Self {
            users: BTreeMap::new(),
            connections: 0,
            max_connections,
            bytes: BTreeMap::new(),
            max_bytes_of_user: MAX_BYTES_PER_USER,
            remote_bytes: 0,
            own_uid,
        }
    }

    /// With another bound on the bytes of a user of this machine than 32 MiB.
    pub fn with_bytes_per_user(self, max_bytes_of_user: usize) -> Self {
        Self { max_bytes_of_user, ..self }
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
        let connections = self.users.entry(user).or_default();
        if *connections >= max_of_user {
            return Err(TooMuch::OfUser { user, connections: *connections });
        }
        *connections += 1;
        self.connections += 1;
        Ok(())
    }

    /// A connection is gone. What it holds is to be given back by [`release`](Self::release).
    pub fn leave(&mut self, user: u32) {
        let Some(connections) = self.users.get_mut(&user) else { return };
        self.connections = self.connections.saturating_sub(1);
        *connections = connections.saturating_sub(1);
        if *connections == 0 {
            self.users.remove(&user);
        }
    }

    /// A connection holds so much instead of what it `held`. It is in the books, also if it is too much: then one of those that the error
    /// names has to end.
    pub fn hold(&mut self, holder: Holder, held: usize, now: usize) -> Result<(), TooMuch> {
        self.release(holder, held);
        if now == 0 {
            return Ok(());
        }
        let bytes = self.bytes.entry(holder).or_default();
        *bytes = bytes.saturating_add(now);
        let bytes = *bytes;
        if matches!(holder, Holder::Remote { .. }) {
            self.remote_bytes = self.remote_bytes.saturating_add(now);
        }
        match holder {
            _ if now <= held => Ok(()),
            Holder::Local(_) if bytes > self.max_bytes_of_user => Err(TooMuch::Bytes { holder, bytes }),
            Holder::Remote { .. } if self.remote_bytes > MAX_REMOTE_BYTES => Err(self.largest_remote()),
            Holder::Local(_) | Holder::Remote { .. } => Ok(()),
        }
    }

    /// Whether a user's programs are to read before they are told more.
    pub fn is_heavy(&self, holder: Holder) -> bool {
        let (bytes, max) = self.bytes_of(holder);
        bytes > max / HEAVY_PART
    }

    /// Whether that is over.
    pub fn is_light(&self, holder: Holder) -> bool {
        let (bytes, max) = self.bytes_of(holder);
        bytes < max / LIGHT_PART
    }

    /// Whether one of them that has read all may be told something, beside so many bytes that are not in the books yet.
    pub fn may_be_told(&self, holder: Holder, further: usize) -> bool {
        let (bytes, max) = self.bytes_of(holder);
        bytes.saturating_add(further) < max / MAX_TOLD_PART.1 * MAX_TOLD_PART.0
    }

    /// And how many it may be.
    fn bytes_of(&self, holder: Holder) -> (usize, usize) {
        match holder {
            Holder::Local(_) => (self.bytes.get(&holder).copied().unwrap_or(0), self.max_bytes_of_user),
            Holder::Remote { .. } => (self.remote_bytes, MAX_REMOTE_BYTES),
        }
    }

    /// So much is held no more.
    pub fn release(&mut self, holder: Holder, held: usize) {
        let Some(bytes) = self.bytes.get_mut(&holder) else { return };
        let held = held.min(*bytes);
        *bytes -= held;
        if *bytes == 0 {
            self.bytes.remove(&holder);
        }
        if matches!(holder, Holder::Remote { .. }) {
            self.remote_bytes -= held;
        }
    }

    fn largest_remote(&self) -> TooMuch {
        let remote = self.bytes.iter().filter(|(holder, _)| matches!(holder, Holder::Remote { .. }));
        let nobody = (&Holder::Remote { machine: 0, user: 0 }, &0);
        let (holder, bytes) = remote.max_by_key(|(_, bytes)| **bytes).unwrap_or(nobody);
        TooMuch::Bytes { holder: *holder, bytes: *bytes }
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
        holdings.leave(1);
        assert_eq!(enter_all(&mut holdings, 2).0, 0);
        (0..200).for_each(|_| holdings.leave(1));
        assert_eq!(enter_all(&mut holdings, 3).0, 101);
    }

    #[test]
    fn who_holds_too_much_is_told_by_whose_growth_it_is() {
        let mut holdings = Holdings::with(1600, Some(OWN));
        let [first, second] = [1, 2].map(Holder::Local);
        assert_eq!(holdings.hold(first, 0, MAX_BYTES_PER_USER), Ok(()));
        let too_much = TooMuch::Bytes { holder: first, bytes: MAX_BYTES_PER_USER + 1 };
        assert_eq!(holdings.hold(first, 0, 1), Err(too_much));
        // Who gives some back is let go on.
        assert_eq!(holdings.hold(first, MAX_BYTES_PER_USER, MAX_BYTES_PER_USER - 1), Ok(()));
        assert_eq!(holdings.hold(second, 0, MAX_BYTES_PER_USER), Ok(()));
        holdings.release(first, MAX_BYTES_PER_USER - 1);
        assert_eq!(holdings.hold(first, 1, MAX_BYTES_PER_USER), Ok(()));
        holdings.release(first, MAX_BYTES_PER_USER);
        holdings.release(second, MAX_BYTES_PER_USER);
        assert!(holdings.bytes.is_empty());
    }

    #[test]
    fn of_other_machines_who_holds_the_most_is_told_whosever_growth_it_is() {
        const HALF: usize = MAX_REMOTE_BYTES / 2;
        let mut holdings = Holdings::with(1600, Some(OWN));
        let of = |machine, user| Holder::Remote { machine, user };
        let (small, large, elsewhere) = (of(1, 1), of(1, 2), of(2, 2));
        assert_eq!(holdings.hold(large, 0, HALF), Ok(()));
        assert_eq!(holdings.hold(elsewhere, 0, HALF - 10), Ok(()));
        assert_eq!(holdings.hold(small, 0, 10), Ok(()));
        let too_much = TooMuch::Bytes { holder: large, bytes: HALF };
        assert_eq!(holdings.hold(small, 10, 20), Err(too_much));
        // That of this machine's users is nothing to them.
        assert_eq!(holdings.hold(Holder::Local(2), 0, MAX_BYTES_PER_USER), Ok(()));
        holdings.release(large, HALF);
        assert_eq!(holdings.hold(small, 20, HALF), Ok(()));
        assert_eq!(holdings.hold(small, HALF, HALF + 10), Ok(()));
        assert_eq!(
            holdings.hold(elsewhere, HALF - 10, HALF),
            Err(TooMuch::Bytes { holder: small, bytes: HALF + 10 })
        );
        holdings.release(small, HALF + 10);
        holdings.release(elsewhere, HALF);
        assert_eq!((holdings.remote_bytes, holdings.bytes.len()), (0, 1));
    }
}
