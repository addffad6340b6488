//! Who is next of users who share something: the one who has had the least of it.

use std::collections::{BTreeMap, BTreeSet};

/// What users have had.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    users: BTreeMap<u32, Share>,
    /// What the user had who was next last: who comes anew begins there, and has saved nothing up.
    floor: u64,
}

#[derive(Debug)]
struct Share {
    used: u64,
    waits: bool,
}

impl Shares {
    /// There is something for a user.
    pub(crate) fn wait(&mut self, user: u32) {
        let share = self.users.entry(user).or_insert(Share { used: self.floor, waits: false });
        if !std::mem::replace(&mut share.waits, true) {
            share.used = share.used.max(self.floor);
        }
    }

    /// There is something for these users, and for no others.
    pub(crate) fn only_wait(&mut self, users: &BTreeSet<u32>) {
        for (user, share) in &mut self.users {
            share.waits &= users.contains(user);
        }
        users.iter().for_each(|user| self.wait(*user));
    }

    /// Whose turn it is. What he gets is to be [charged](Self::charge).
    pub(crate) fn next(&mut self) -> Option<u32> {
        let waiting = self.users.iter().filter(|(_, share)| share.waits);
        let (user, share) = waiting.min_by_key(|(_, share)| share.used)?;
        self.floor = self.floor.max(share.used);
        Some(*user)
    }

    pub(crate) fn charge(&mut self, user: u32, cost: u64) {
        if let Some(share) = self.users.get_mut(&user) {
            share.used = share.used.saturating_add(cost);
        }
    }

    /// The others are forgotten.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.users.retain(|user, _| is_kept(*user));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these users are next so many times, each turn at this cost.
    fn turns(shares: &mut Shares, of: &[u32], cost: u64, count: usize) -> Vec<u32> {
        let turn = |_| {
            shares.only_wait(&of.iter().copied().collect());
            let user = shares.next().unwrap();
            shares.charge(user, cost);
            user
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn who_was_away_has_saved_nothing_up_and_owes_what_he_has_had() {
        let mut shares = Shares::default();
        turns(&mut shares, &[1], 100, 10);
        // One who comes anew goes on from where the other is.
        assert_eq!(turns(&mut shares, &[1, 2], 100, 5), [2, 1, 2, 1, 2]);
        assert_eq!(turns(&mut shares, &[1], 1000, 1), [1]);
        // He goes away for a moment.
        assert_eq!(turns(&mut shares, &[2], 100, 1), [2]);
        assert_eq!(turns(&mut shares, &[1, 2], 100, 11), [vec![2; 9], vec![1, 2]].concat());
        shares.keep(|user| user == 2);
        assert_eq!(shares.users.len(), 1);
    }
}
