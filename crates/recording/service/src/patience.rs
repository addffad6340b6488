//! How long a user's files wait for what is on its way to others of his sessions.
//!
//! A disk takes a packet of many megabytes in some time; a pipe that nobody reads never does. So who waits does that for
//! [`STUCK`](limits::STUCK), and then goes on beside it. What he has waited comes back slowly: somebody who takes such a packet just before
//! that time is over, again and again, puts nobody off again and again.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits;

/// Of the time in which nobody waits, this part comes back, an eighth.
const RETURNS_DIVISOR: u64 = 8;

/// Of users who wait, or have waited of late.
#[derive(Debug, Default)]
pub(crate) struct Patience(BTreeMap<u32, OfUser>);

#[derive(Debug)]
struct OfUser {
    /// What there was at this time of the monotonic clock.
    left_ns: u64,
    at_ns: u64,
    waits: bool,
}

impl OfUser {
    fn left_at(&self, now_ns: u64) -> u64 {
        let since = now_ns.saturating_sub(self.at_ns);
        match self.waits {
            true => self.left_ns.saturating_sub(since),
            false => self.left_ns.saturating_add(since / RETURNS_DIVISOR).min(stuck_ns()),
        }
    }
}

fn stuck_ns() -> u64 {
    u64::try_from(limits::STUCK.as_nanos()).unwrap_or(u64::MAX)
}

impl Patience {
    /// Files of these users have to wait from now on, and those of no others.
    pub(crate) fn note(&mut self, waiting: &BTreeSet<u32>, now_ns: u64) {
        for user in waiting {
            let anew = || OfUser { left_ns: stuck_ns(), at_ns: now_ns, waits: true };
            self.0.entry(*user).or_insert_with(anew);
        }
        self.0.retain(|user, of_user| {
            let (left_ns, waits) = (of_user.left_at(now_ns), waiting.contains(user));
            *of_user = OfUser { left_ns, at_ns: now_ns, waits };
            waits || left_ns < stuck_ns()
        });
    }

    /// Whether files of this user have waited long enough.
    pub(crate) fn is_over(&self, user: u32, now_ns: u64) -> bool {
        self.0.get(&user).is_some_and(|of_user| of_user.waits && of_user.left_at(now_ns) == 0)
    }

    /// When that is so of another user.
    pub(crate) fn ends_in_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting = self.0.values().filter(|of_user| of_user.waits);
        waiting.map(|of_user| of_user.left_at(now_ns)).filter(|left_ns| *left_ns > 0).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::NS_PER_MS;

    fn note(patience: &mut Patience, users: &[u32], at_ms: u64) {
        patience.note(&users.iter().copied().collect(), at_ms * NS_PER_MS);
    }

    #[test]
    fn who_waits_does_so_for_a_while_and_others_do_not_wait_for_him() {
        let (mut patience, stuck_ms) = (Patience::default(), stuck_ns() / NS_PER_MS);
        note(&mut patience, &[1], 10);
        assert_eq!(patience.ends_in_ns(11 * NS_PER_MS), Some((stuck_ms - 1) * NS_PER_MS));
        note(&mut patience, &[1, 2], 110);
        let over =
            |patience: &Patience, at_ms: u64| [1, 2, 3].map(|user| patience.is_over(user, at_ms * NS_PER_MS));
        assert_eq!(over(&patience, stuck_ms + 9), [false; 3]);
        assert_eq!(over(&patience, stuck_ms + 10), [true, false, false]);
        assert_eq!(over(&patience, stuck_ms + 110), [true, true, false]);
        assert_eq!(patience.ends_in_ns((stuck_ms + 110) * NS_PER_MS), None, "nobody is woken up without end");
        note(&mut patience, &[], 1000);
        assert_eq!(over(&patience, 1000), [false; 3]);
        note(&mut patience, &[], 1000 + RETURNS_DIVISOR * stuck_ms);
        assert!(patience.0.is_empty());
    }

    #[test]
    fn who_is_put_off_again_and_again_is_so_for_a_small_part_of_the_time() {
        let (mut patience, step_ms) = (Patience::default(), 10);
        let (mut waited_ms, mut all_ms) = (0, 0);
        // As soon as the others have waited enough they get on for a moment.
        for _ in 0..10_000 {
            note(&mut patience, &[1], all_ms);
            if !patience.is_over(1, (all_ms + step_ms) * NS_PER_MS) {
                waited_ms += step_ms;
                all_ms += step_ms;
                continue;
            }
            note(&mut patience, &[], all_ms);
            all_ms += step_ms;
        }
        assert!(waited_ms * 5 < all_ms, "{waited_ms} of {all_ms} ms");
    }
}
