//! Who is served next: of the users, and of a user's clients, the one that has had the least of the service's time.
//!
//! So nobody waits for longer than the request that is being served, and one of each other user: whoever asks for much or has many
//! clients makes those wait who do the same, and themselves. Who was away for a while has saved nothing up: he begins where those who
//! wait have come to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Those who wait, each with the time that they had.
#[derive(Debug, Default)]
struct Queue<K: Ord> {
    waiting: BTreeSet<(u64, K)>,
    /// What the one had who was served last.
    floor_ns: u64,
}

/// A user, or a client.
#[derive(Debug, Default)]
struct Account {
    used_ns: u64,
    waits: bool,
}

#[derive(Debug, Default)]
struct User {
    account: Account,
    clients: usize,
    queue: Queue<u64>,
}

#[derive(Debug)]
struct Client {
    user: u32,
    account: Account,
}

/// All clients, by the keys that the loop gave them.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    users: BTreeMap<u32, User>,
    queue: Queue<u32>,
    clients: HashMap<u64, Client>,
}

impl<K: Ord + Copy> Queue<K> {
    fn push(&mut self, who: K, account: &mut Account) {
        if !std::mem::replace(&mut account.waits, true) {
            account.used_ns = account.used_ns.max(self.floor_ns);
            self.waiting.insert((account.used_ns, who));
        }
    }

    fn first(&self) -> Option<K> {
        self.waiting.first().map(|(_, who)| *who)
    }

    fn remove(&mut self, who: K, account: &mut Account) {
        if std::mem::take(&mut account.waits) {
            self.waiting.remove(&(account.used_ns, who));
            self.floor_ns = self.floor_ns.max(account.used_ns);
        }
    }

    /// What it had moves its place, should it wait already.
    fn charge(&mut self, who: K, account: &mut Account, ns: u64) {
        let waited = account.waits;
        self.remove(who, account);
        account.used_ns = account.used_ns.saturating_add(ns);
        if waited {
            self.push(who, account);
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Turns {
    /// A client of a user is there.
    pub(crate) fn add(&mut self, key: u64, user: u32) {
        self.users.entry(user).or_default().clients += 1;
        self.clients.insert(key, Client { user, account: Account::default() });
    }

    /// It is gone.
    pub(crate) fn remove(&mut self, key: u64) {
        let Some(mut client) = self.clients.remove(&key) else { return };
        let Some(user) = self.users.get_mut(&client.user) else { return };
        user.queue.remove(key, &mut client.account);
        user.clients -= 1;
        if user.queue.is_empty() {
            self.queue.remove(client.user, &mut user.account);
        }
        if user.clients == 0 {
            self.users.remove(&client.user);
        }
    }

    /// There is something to do for it.
    pub(crate) fn wait(&mut self, key: u64) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        let Some(user) = self.users.get_mut(&client.user) else { return };
        user.queue.push(key, &mut client.account);
        self.queue.push(client.user, &mut user.account);
    }

    /// Who is served next. It has to [`wait`](Self::wait) again if there is more to do for it.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let user_id = self.queue.first()?;
        let user = self.users.get_mut(&user_id)?;
        let key = user.queue.first()?;
        if let Some(client) = self.clients.get_mut(&key) {
            user.queue.remove(key, &mut client.account);
        }
        // What it had moves its place.
        self.queue.remove(user_id, &mut user.account);
        if !user.queue.is_empty() {
            self.queue.push(user_id, &mut user.account);
        }
        Some(key)
    }

    /// It has been served for so long.
    pub(crate) fn charge(&mut self, key: u64, ns: u64) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        let Some(user) = self.users.get_mut(&client.user) else { return };
        self.queue.charge(client.user, &mut user.account, ns);
        user.queue.charge(key, &mut client.account, ns);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so many, each of whom takes its time and waits again.
    fn serve(turns: &mut Turns, times: usize, cost_ns: impl Fn(u64) -> u64) -> Vec<u64> {
        (0..times)
            .map(|_| {
                let key = turns.next().expect("somebody waits");
                turns.charge(key, cost_ns(key));
                turns.wait(key);
                key
            })
            .collect()
    }

    #[test]
    fn who_takes_little_is_served_often() {
        let mut turns = Turns::default();
        [1, 2].iter().for_each(|key| turns.add(*key, 0));
        [1, 2].iter().for_each(|key| turns.wait(*key));
        let served = serve(&mut turns, 110, |key| if key == 1 { 10 } else { 100 });
        assert_eq!(served.iter().filter(|key| **key == 1).count(), 100);
    }

    #[test]
    fn a_user_with_many_clients_gets_no_more_than_one_with_one() {
        let mut turns = Turns::default();
        (0..100).for_each(|key| turns.add(key, 1));
        turns.add(100, 2);
        (0..=100).for_each(|key| turns.wait(key));
        let served = serve(&mut turns, 200, |_| 10);
        assert_eq!(served.iter().filter(|key| **key == 100).count(), 100);
        let others: BTreeSet<_> = served.iter().collect();
        assert_eq!(others.len(), 101, "and each of the many has its turn");
    }

    #[test]
    fn who_comes_anew_is_served_soon_and_has_saved_nothing_up() {
        let mut turns = Turns::default();
        (0..10).for_each(|key| turns.add(key, 0));
        turns.add(10, 0);
        (0..10).for_each(|key| turns.wait(key));
        serve(&mut turns, 1000, |_| 10);
        turns.wait(10);
        let served = serve(&mut turns, 110, |_| 10);
        let own = served.iter().filter(|key| **key == 10).count();
        assert!((10..=11).contains(&own), "{own}");
        assert!(served[..11].contains(&10));
    }

    #[test]
    fn who_waits_again_before_what_it_had_is_charged_stays_one() {
        let mut turns = Turns::default();
        [1, 2].iter().for_each(|key| turns.add(*key, *key as u32));
        [1, 2].iter().for_each(|key| turns.wait(*key));
        for _ in 0..10 {
            let key = turns.next().unwrap();
            turns.wait(key);
            turns.charge(key, 100);
        }
        let served = serve(&mut turns, 10, |_| 10);
        assert_eq!(served.iter().filter(|key| **key == 1).count(), 5, "{served:?}");
        [1, 2].iter().for_each(|key| turns.remove(*key));
        assert!(turns.is_empty() && turns.next().is_none());
    }

    #[test]
    fn those_who_are_gone_are_not_served() {
        let mut turns = Turns::default();
        [1, 2, 3].iter().for_each(|key| turns.add(*key, *key as u32 % 2));
        [1, 2, 3].iter().for_each(|key| turns.wait(*key));
        [1, 2].iter().for_each(|key| turns.remove(*key));
        assert_eq!(turns.next(), Some(3));
        assert!(turns.is_empty() && turns.next().is_none());
        turns.charge(1, 5);
        turns.wait(1);
        turns.remove(3);
        assert!(turns.next().is_none() && turns.users.is_empty());
    }
}
