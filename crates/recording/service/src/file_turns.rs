//! Whose file is written next: of the users, one of the one whose files have taken the least time; of a user's, one after another.
//!
//! So sessions with filters that take long make those wait who have such ones, and not everybody as many times as there are sessions.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::SessionId;
use crate::shares::Shares;

/// A session whose file takes a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) session: SessionId,
    pub(crate) user: u32,
    /// Larger packets are left out.
    pub(crate) largest_packet: usize,
}

/// What files of users have taken, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct FileTurns {
    shares: Shares,
    /// The session of each user whose file was written last.
    last: BTreeMap<u32, SessionId>,
}

impl FileTurns {
    pub(crate) fn next(&mut self, ready: &[Ready]) -> Option<Ready> {
        let users: BTreeSet<u32> = ready.iter().map(|ready| ready.user).collect();
        self.shares.only_wait(&users);
        let user = self.shares.next()?;
        let last = self.last.get(&user).copied().unwrap_or(SessionId(0));
        let of_user = ready.iter().filter(|ready| ready.user == user);
        let next = of_user.min_by_key(|ready| (ready.session <= last, ready.session)).copied()?;
        self.last.insert(user, next.session);
        Some(next)
    }

    /// That took so long.
    pub(crate) fn charge(&mut self, user: u32, ns: u64) {
        self.shares.charge(user, ns.max(1));
    }

    /// Users without sessions are forgotten.
    pub(crate) fn keep(&mut self, has_sessions: impl Fn(u32) -> bool) {
        self.shares.keep(&has_sessions);
        self.last.retain(|user, _| has_sessions(*user));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_equal_time_and_a_users_sessions_one_after_another() {
        let ready = [(1, 7), (2, 8), (3, 7), (4, 7)];
        let ready = ready.map(|(session, user)| Ready {
            session: SessionId(session),
            user,
            largest_packet: usize::MAX,
        });
        let mut turns = FileTurns::default();
        let mut counts = [0; 5];
        for _ in 0..1300 {
            let next = turns.next(&ready).unwrap();
            turns.charge(next.user, if next.user == 7 { 4_000_000 } else { 1_000_000 });
            counts[next.session.0 as usize] += 1;
        }
        assert_eq!((counts[2], counts[1] + counts[3] + counts[4]), (1040, 260));
        assert!([1, 3, 4].iter().all(|session| (86..=87).contains(&counts[*session])), "{counts:?}");
        turns.keep(|user| user == 8);
        assert_eq!(turns.last.len(), 1);
    }
}
