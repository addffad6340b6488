//! What users have of something that the service has to remember: bounded for each, and in sum for all whom other machines' relays speak of.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::machines::Machine;
use crate::registry::Peer;

/// Of what a user of this machine may have, one of another machine may have this part: all of these share as much as one of this machine
/// has, for what is said of them anybody can say.
const REMOTE_PARTS: usize = 4;

/// Whose something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// A user of this machine, as the kernel says.
    Local(u32),
    /// One of another machine, as its relay says; who has not said it is nobody of no machine.
    Remote { machine: u32, user: u32 },
}

impl Whose {
    pub(crate) const NOBODYS: Self = Self::Local(Peer::UNKNOWN_UID);

    pub(crate) fn of(peer: Peer, machine: Option<&Arc<Machine>>) -> Self {
        match peer.emulated {
            false => Self::Local(peer.uid),
            true => Self::Remote { machine: machine.map_or(0, |machine| machine.id), user: peer.uid },
        }
    }

    /// The user of this machine; those of others are one that nobody vouches for.
    pub(crate) fn local_uid(self) -> u32 {
        match self {
            Self::Local(uid) => uid,
            Self::Remote { .. } => Peer::UNKNOWN_UID,
        }
    }
}

/// So much each has.
#[derive(Debug)]
pub(crate) struct UserBook {
    max: usize,
    of_users: BTreeMap<Whose, usize>,
    of_remote: usize,
}

impl UserBook {
    /// A user of this machine may have so much.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, of_users: BTreeMap::new(), of_remote: 0 }
    }

    /// So much more, if there is room for it.
    pub(crate) fn add(&mut self, whose: Whose, count: usize) -> bool {
        let has = self.of_users.get(&whose).copied().unwrap_or(0);
        let has_room = match whose {
            Whose::Local(_) => has + count <= self.max,
            Whose::Remote { .. } => {
                has + count <= self.max / REMOTE_PARTS && self.of_remote + count <= self.max
            }
        };
        if has_room && count > 0 {
            self.of_users.insert(whose, has + count);
            if matches!(whose, Whose::Remote { .. }) {
                self.of_remote += count;
            }
        }
        has_room
    }

    /// So much less.
    pub(crate) fn remove(&mut self, whose: Whose, count: usize) {
        let Some(has) = self.of_users.get_mut(&whose) else { return };
        let count = count.min(*has);
        *has -= count;
        if *has == 0 {
            self.of_users.remove(&whose);
        }
        if matches!(whose, Whose::Remote { .. }) {
            self.of_remote -= count;
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.of_users.is_empty() && self.of_remote == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(book: &mut UserBook, whose: Whose) -> usize {
        (0..1000).take_while(|_| book.add(whose, 1)).count()
    }

    #[test]
    fn a_user_has_so_much_and_gets_that_back_which_goes() {
        let mut book = UserBook::new(100);
        assert_eq!([Whose::Local(1), Whose::Local(2)].map(|whose| taken(&mut book, whose)), [100, 100]);
        book.remove(Whose::Local(1), 10);
        assert_eq!(taken(&mut book, Whose::Local(1)), 10);
        book.remove(Whose::Local(1), 1000);
        book.remove(Whose::Local(2), 100);
        assert!(book.is_empty());
    }

    #[test]
    fn one_behind_a_relay_takes_nothing_of_users_here_and_not_all_of_the_others_there() {
        let mut book = UserBook::new(100);
        let remote = |machine, user| Whose::Remote { machine, user };
        assert_eq!(taken(&mut book, remote(1, 1000)), 25);
        assert_eq!([remote(1, 1001), remote(2, 1000)].map(|whose| taken(&mut book, whose)), [25, 25]);
        assert_eq!(taken(&mut book, Whose::Local(1000)), 100);
        assert_eq!(
            [remote(3, 0), remote(4, 0)].map(|whose| taken(&mut book, whose)),
            [25, 0],
            "all together"
        );
        book.remove(remote(1, 1000), 5);
        assert_eq!(taken(&mut book, remote(4, 0)), 5);
        (1..5)
            .flat_map(|machine| [0, 1000, 1001].map(|user| remote(machine, user)))
            .for_each(|whose| book.remove(whose, 25));
        book.remove(Whose::Local(1000), 100);
        assert!(book.is_empty());
    }
}
