//! How often producers are connected to the service.
//!
//! When a producer goes, it is the relay that hangs up on the service, and the kernel keeps the port of that connection for a minute
//! (`TIME_WAIT`). There are 28,232 of them to one service. A program that connects and goes, again and again, would use them up, and nobody on
//! this machine would get through. So a user is connected some hundred times at once, and from then on some times a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Connections of a user's at once: as many as one may have (half of the places that are no reserve).
const BURST: u32 = 480;
/// And from then on one in this time: 3,480 in a minute.
const INTERVAL: Duration = Duration::from_millis(20);
/// Connections of all users at once.
const BURST_OF_ALL: u32 = 9_000;
/// And from then on one in this time: 24,000 in a minute, which leaves ports to those who stay connected, and to other programs.
const INTERVAL_OF_ALL: Duration = Duration::from_millis(4);
/// Of what all have at once a quarter is for the first so many of a user.
const FIRST_ONES: u32 = 32;
/// And for one more in this time: with less, some who come without end would soon be new again.
const INTERVAL_OF_FIRST_ONES: Duration = Duration::from_secs(2);
/// Users who have had none lately need not be remembered, and are looked for when there are so many.
const MANY_USERS: usize = 1024;

/// Counts connections in time. Who is counted owes: each connection an interval, which time pays back.
#[derive(Debug)]
pub(crate) struct Pace {
    users: BTreeMap<u32, Owes>,
    all: Instant,
    /// Root does not wait, nor does this user.
    own_uid: Option<u32>,
}

/// Until when a user does.
#[derive(Debug, Clone, Copy)]
struct Owes {
    until: Instant,
    first_ones_until: Instant,
}

impl Pace {
    pub(crate) fn new(own_uid: Option<u32>, now: Instant) -> Self {
        Self { users: BTreeMap::new(), all: now, own_uid }
    }

    /// A connection for this user, or when to ask again.
    pub(crate) fn take(&mut self, user: u32, now: Instant) -> Result<(), Instant> {
        let next = self.next(user, now);
        if next > now {
            return Err(next);
        }
        let owed_by_all = self.all.saturating_duration_since(now) + INTERVAL_OF_ALL;
        self.all = now + owed_by_all.min(INTERVAL_OF_ALL * BURST_OF_ALL);
        if !self.is_privileged(user) {
            self.forget(now);
            let (owed, first_ones) = self.owed(user, now);
            let first_ones =
                first_ones.min(INTERVAL_OF_FIRST_ONES * (FIRST_ONES - 1)) + INTERVAL_OF_FIRST_ONES;
            let owes = Owes { until: now + owed + INTERVAL, first_ones_until: now + first_ones };
            self.users.insert(user, owes);
        }
        Ok(())
    }

    /// When this user may have one.
    pub(crate) fn next(&self, user: u32, now: Instant) -> Instant {
        if self.is_privileged(user) {
            return now;
        }
        let (owed, first_ones) = self.owed(user, now);
        let is_newcomer = first_ones <= INTERVAL_OF_FIRST_ONES * (FIRST_ONES - 1);
        let burst_of_all = if is_newcomer { BURST_OF_ALL } else { BURST_OF_ALL / 4 * 3 };
        let owed_by_all = self.all.saturating_duration_since(now);
        let too_much = owed.saturating_sub(INTERVAL * (BURST - 1));
        let too_much_of_all = owed_by_all.saturating_sub(INTERVAL_OF_ALL * (burst_of_all - 1));
        now + too_much.max(too_much_of_all)
    }

    fn is_privileged(&self, user: u32) -> bool {
        user == 0 || Some(user) == self.own_uid
    }

    /// For all of its connections, and as one who is new.
    fn owed(&self, user: u32, now: Instant) -> (Duration, Duration) {
        let Some(owes) = self.users.get(&user) else { return Default::default() };
        (owes.until.saturating_duration_since(now), owes.first_ones_until.saturating_duration_since(now))
    }

    /// What was taken last was of no use: there was nobody to connect to, and no port is kept.
    pub(crate) fn give_back(&mut self, user: u32) {
        if let Some(owes) = self.users.get_mut(&user) {
            owes.until = owes.until.checked_sub(INTERVAL).unwrap_or(owes.until);
        }
        self.all = self.all.checked_sub(INTERVAL_OF_ALL).unwrap_or(self.all);
    }

    /// Those who owe nothing. Others have been connected within the last minute or so, in which that is some thousand times.
    fn forget(&mut self, now: Instant) {
        if self.users.len() >= MANY_USERS {
            self.users.retain(|_, owes| owes.until.max(owes.first_ones_until) > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;
    /// Ports to one service (`net.ipv4.ip_local_port_range`), each of which is kept for a minute.
    const PORTS: usize = 28_232;
    const MINUTE: Duration = Duration::from_secs(60);

    /// How many connections these users get who ask whenever they may, from then on for this long.
    fn hammer(pace: &mut Pace, users: &[u32], from: Instant, time: Duration) -> usize {
        let (mut now, mut count) = (from, 0);
        while now < from + time {
            for user in users {
                count += std::iter::from_fn(|| pace.take(*user, now).ok()).count();
            }
            now += Duration::from_millis(1);
        }
        count
    }

    #[test]
    fn a_user_has_some_hundred_connections_at_once_and_then_some_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(OWN), start);
        let at_once = std::iter::from_fn(|| pace.take(1, start).ok()).count();
        assert_eq!(at_once, 480);
        let again = pace.take(1, start).unwrap_err();
        assert_eq!(again, start + Duration::from_millis(20));
        assert_eq!(pace.take(1, again), Ok(()));
        assert!(pace.take(1, again).is_err());
        pace.give_back(1);
        assert_eq!(pace.take(1, again), Ok(()));
        // Others have theirs, and all of it comes back.
        assert_eq!(pace.take(2, again), Ok(()));
        let later = again + MINUTE;
        assert_eq!(std::iter::from_fn(|| pace.take(1, later).ok()).count(), 480);
    }

    #[test]
    fn one_user_has_a_part_of_the_ports_and_all_together_leave_some() {
        let start = Instant::now();
        for (users, most) in [(100..101, PORTS / 8), (100..200, PORTS / 8 * 7)] {
            let mut pace = Pace::new(Some(OWN), start);
            let users: Vec<u32> = users.collect();
            let count = hammer(&mut pace, &users, start, MINUTE);
            assert!(count <= most, "{} users had {count}", users.len());
        }
    }

    #[test]
    fn whoever_hammers_newcomers_root_and_the_own_user_do_not_wait() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(OWN), start);
        let users: Vec<u32> = (1000..1050).collect();
        hammer(&mut pace, &users, start, MINUTE);
        let now = start + MINUTE;
        for user in [1, 2, 3] {
            assert_eq!((0..32).filter(|_| pace.take(user, now).is_ok()).count(), 32);
        }
        assert!([0, OWN].iter().all(|user| (0..1000).all(|_| pace.take(*user, now).is_ok())));
    }

    #[test]
    fn users_are_forgotten() {
        let start = Instant::now();
        let mut pace = Pace::new(None, start);
        for second in 0..10_000 {
            let _ = pace.take(second, start + Duration::from_secs(second.into()));
        }
        assert!(pace.users.len() <= MANY_USERS);
    }
}
