//! Who is served next: of the users, and of a user's clients, the one that has had the least of the service's time.
//!
//! So nobody waits for longer than the request that is being served, and one of each other user: whoever asks for much or has many
//! clients makes those wait who do the same, and themselves. Who was away for a while has saved nothing up: he begins where those who
//! wait have come to.
//!
//! Users of other machines have a user's part together, for what is said of them anybody can say; and each of them the same of that.

use std::collections::{BTreeSet, HashMap};

use ferretto_peers::Holder;

/// What somebody has saved up at most: some requests of the long ones, or thousands of those that a consumer asks now and then.
const CREDIT_NS: u64 = 20_000_000;

/// Those who wait, each with the time that they had.
#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeSet<(u64, Member)>,
    /// What the one had who was served last.
    floor_ns: u64,
}

/// What somebody had: a user, or a client.
#[derive(Debug, Default)]
struct Account {
    used_ns: u64,
    waits: bool,
}

/// Somebody who has turns, or shares them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Member {
    User(u32),
    /// All users of other machines.
    Remote,
    RemoteUser(Holder),
    Client(u64),
}

/// Those who share turns.
#[derive(Debug, Default)]
struct Group {
    account: Account,
    queue: Queue,
    members: HashMap<Member, Self>,
}

/// All clients, by the keys that the loop gave them.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    all: Group,
    clients: HashMap<u64, Holder>,
}

impl Queue {
    fn push(&mut self, who: Member, account: &mut Account) {
        if !std::mem::replace(&mut account.waits, true) {
            account.used_ns = account.used_ns.max(self.floor_ns.saturating_sub(CREDIT_NS));
            self.waiting.insert((account.used_ns, who));
        }
    }

    fn first(&self) -> Option<Member> {
        self.waiting.first().map(|(_, who)| *who)
    }

    fn remove(&mut self, who: Member, account: &mut Account) {
        if std::mem::take(&mut account.waits) {
            self.waiting.remove(&(account.used_ns, who));
            self.floor_ns = self.floor_ns.max(account.used_ns);
        }
    }

    /// Whether the one who is first has had less than the last who was served.
    fn is_first_light(&self) -> bool {
        self.waiting.first().is_some_and(|(used_ns, _)| *used_ns < self.floor_ns)
    }

    /// What it had moves its place, should it wait already.
    fn charge(&mut self, who: Member, account: &mut Account, ns: u64) {
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

impl Group {
    fn add(&mut self, path: &[Member]) {
        if let [first, rest @ ..] = path {
            self.members.entry(*first).or_default().add(rest);
        }
    }

    fn remove(&mut self, path: &[Member]) {
        let [first, rest @ ..] = path else { return };
        let Some(member) = self.members.get_mut(first) else { return };
        member.remove(rest);
        if member.queue.is_empty() {
            self.queue.remove(*first, &mut member.account);
        }
        if member.members.is_empty() {
            self.members.remove(first);
        }
    }

    fn wait(&mut self, path: &[Member]) {
        let [first, rest @ ..] = path else { return };
        let Some(member) = self.members.get_mut(first) else { return };
        member.wait(rest);
        self.queue.push(*first, &mut member.account);
    }

    fn next(&mut self) -> Option<u64> {
        let first = self.queue.first()?;
        let member = self.members.get_mut(&first)?;
        let key = match first {
            Member::Client(key) => key,
            _ => member.next()?,
        };
        // What it had moves its place.
        self.queue.remove(first, &mut member.account);
        if !member.queue.is_empty() {
            self.queue.push(first, &mut member.account);
        }
        Some(key)
    }

    fn charge(&mut self, path: &[Member], ns: u64) {
        let [first, rest @ ..] = path else { return };
        let Some(member) = self.members.get_mut(first) else { return };
        self.queue.charge(*first, &mut member.account, ns);
        member.charge(rest, ns);
    }

    fn has_waiting(&self, path: &[Member]) -> bool {
        match path {
            [] => self.account.waits,
            [first, rest @ ..] => self.members.get(first).is_some_and(|member| member.has_waiting(rest)),
        }
    }
}

impl Turns {
    /// A client is there.
    pub(crate) fn add(&mut self, key: u64, holder: Holder) {
        with_path(key, holder, |path| self.all.add(path));
        self.clients.insert(key, holder);
    }

    /// It is known now whose it is.
    pub(crate) fn set_holder(&mut self, key: u64, holder: Holder) {
        let Some(before) = self.clients.get(&key).copied().filter(|before| *before != holder) else { return };
        let waits = with_path(key, before, |path| self.all.has_waiting(path));
        self.remove(key);
        self.add(key, holder);
        if waits {
            self.wait(key);
        }
    }

    /// It is gone.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(holder) = self.clients.remove(&key) {
            with_path(key, holder, |path| self.all.remove(path));
        }
    }

    /// There is something to do for it.
    pub(crate) fn wait(&mut self, key: u64) {
        if let Some(holder) = self.clients.get(&key) {
            with_path(key, *holder, |path| self.all.wait(path));
        }
    }

    /// Whether the user who is next has had less than the one who was served last.
    pub(crate) fn is_next_light(&self) -> bool {
        self.all.queue.is_first_light()
    }

    /// Who is served next. It has to [`wait`](Self::wait) again if there is more to do for it.
    pub(crate) fn next(&mut self) -> Option<u64> {
        self.all.next()
    }

    /// It has been served for so long.
    pub(crate) fn charge(&mut self, key: u64, ns: u64) {
        if let Some(holder) = self.clients.get(&key) {
            with_path(key, *holder, |path| self.all.charge(path, ns));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.queue.is_empty()
    }
}

/// Where a client is, from the group of all.
fn with_path<T>(key: u64, holder: Holder, then: impl FnOnce(&[Member]) -> T) -> T {
    match holder {
        Holder::Local(user) => then(&[Member::User(user), Member::Client(key)]),
        Holder::Remote { .. } => then(&[Member::Remote, Member::RemoteUser(holder), Member::Client(key)]),
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
        [1, 2].iter().for_each(|key| turns.add(*key, Holder::Local(0)));
        [1, 2].iter().for_each(|key| turns.wait(*key));
        let served = serve(&mut turns, 110, |key| if key == 1 { 10 } else { 100 });
        assert_eq!(served.iter().filter(|key| **key == 1).count(), 100);
    }

    #[test]
    fn a_user_with_many_clients_gets_no_more_than_one_with_one() {
        let mut turns = Turns::default();
        (0..100).for_each(|key| turns.add(key, Holder::Local(1)));
        turns.add(100, Holder::Local(2));
        (0..=100).for_each(|key| turns.wait(key));
        let served = serve(&mut turns, 200, |_| 10);
        assert_eq!(served.iter().filter(|key| **key == 100).count(), 100);
        let others: BTreeSet<_> = served.iter().collect();
        assert_eq!(others.len(), 101, "and each of the many has its turn");
    }

    #[test]
    fn who_comes_anew_is_served_soon_and_has_saved_little_up() {
        const MS: u64 = 1_000_000;
        let mut turns = Turns::default();
        (0..10).for_each(|key| turns.add(key, Holder::Local(0)));
        turns.add(10, Holder::Local(0));
        (0..10).for_each(|key| turns.wait(key));
        serve(&mut turns, 1000, |_| MS);
        turns.wait(10);
        let saved = (CREDIT_NS / MS) as usize;
        let served = serve(&mut turns, saved + 110, |_| MS);
        let own = served.iter().filter(|key| **key == 10).count();
        assert!((saved + 9..=saved + 11).contains(&own), "{own}");
        assert!(served[..11].contains(&10));
    }

    #[test]
    fn of_users_who_come_at_one_moment_the_one_who_asks_for_little_is_first() {
        let (mut turns, little) = (Turns::default(), 9);
        let all = [1, 2, 3, little];
        all.iter().for_each(|key| turns.add(*key, Holder::Local(*key as u32)));
        for round in 0..20 {
            all.iter().for_each(|key| turns.wait(*key));
            let is_light = turns.is_next_light();
            let mut served = Vec::new();
            while let Some(key) = turns.next() {
                turns.charge(key, if key == little { 20_000 } else { 90_000_000 });
                served.push(key);
            }
            // At the beginning nobody has had anything.
            assert!(round < 1 || served[0] == little, "{round}: {served:?}");
            assert!(round < 2 || is_light, "{round}");
        }
    }

    #[test]
    fn who_waits_again_before_what_it_had_is_charged_stays_one() {
        let mut turns = Turns::default();
        [1, 2].iter().for_each(|key| turns.add(*key, Holder::Local(*key as u32)));
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
        [1, 2, 3].iter().for_each(|key| turns.add(*key, Holder::Local(*key as u32 % 2)));
        [1, 2, 3].iter().for_each(|key| turns.wait(*key));
        [1, 2].iter().for_each(|key| turns.remove(*key));
        assert_eq!(turns.next(), Some(3));
        assert!(turns.is_empty() && turns.next().is_none());
        turns.charge(1, 5);
        turns.wait(1);
        turns.remove(3);
        assert!(turns.next().is_none() && turns.all.members.is_empty());
    }

    #[test]
    fn users_of_other_machines_share_one_part_by_user() {
        let mut turns = Turns::default();
        let remote = |user| Holder::Remote { machine: 7, user };
        turns.add(0, Holder::Local(0));
        (1..100).for_each(|key| turns.add(key, remote(1000)));
        turns.add(100, remote(u32::MAX));
        (0..=100).for_each(|key| turns.wait(key));
        turns.set_holder(100, remote(1001));
        let served = serve(&mut turns, 400, |_| 10);
        let of = |key: u64| served.iter().filter(|served| **served == key).count();
        assert_eq!((of(0), of(100)), (200, 100), "however many clients the other one has");
        (0..=100).for_each(|key| turns.remove(key));
        assert!(turns.is_empty() && turns.all.members.is_empty());
    }
}
