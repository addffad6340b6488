//! Whose socket is looked at next: one of each user in turn, however many of a user's have something to say.
//!
//! What is not come to in a turn of the loop stays in its place: `epoll` would begin with the same ones again.

use std::collections::{BTreeMap, VecDeque};

/// Clients, by the keys that the loop gave them, at whose sockets something is ready.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    users: BTreeMap<u32, VecDeque<u64>>,
    last_user: u32,
}

impl Inbox {
    /// Something is ready at a client's socket. A client is in here once.
    pub(crate) fn push(&mut self, user: u32, key: u64) {
        self.users.entry(user).or_default().push_back(key);
    }

    pub(crate) fn next(&mut self) -> Option<u64> {
        let later = self.last_user.checked_add(1).and_then(|user| self.users.range(user..).next());
        let user = *later.or_else(|| self.users.first_key_value())?.0;
        self.last_user = user;
        let queue = self.users.get_mut(&user)?;
        let key = queue.pop_front();
        if queue.is_empty() {
            self.users.remove(&user);
        }
        key
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_user_there_is_one_in_turn() {
        let mut inbox = Inbox::default();
        (0..1000).for_each(|key| inbox.push(7, key));
        inbox.push(u32::MAX, 1000);
        inbox.push(0, 1001);
        inbox.push(0, 1002);
        let first: Vec<u64> = (0..6).filter_map(|_| inbox.next()).collect();
        assert_eq!(first, [0, 1000, 1001, 1, 1002, 2]);
        // Who comes anew does not wait for the crowd.
        inbox.push(8, 1003);
        assert_eq!(inbox.next(), Some(1003));
        assert_eq!(std::iter::from_fn(|| inbox.next()).count(), 997);
        assert!(inbox.is_empty());
    }
}
