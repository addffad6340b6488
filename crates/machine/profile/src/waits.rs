//! Where threads wait: each wait as many samples as a clock would have made meanwhile.
//!
//! ```text
//! runs ──sample: its stack──▶ goes ──switched out──▶ waits ──switched in──▶ runs
//!                              └──switched out, but would go on──▶ runs later: no wait
//! ```

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::packets::Stack;
use crate::records::Stamp;
use ferretto_unwind::End;

/// Threads that wait at a time. Further ones are left out.
const MAX_THREADS: usize = 256 << 10;

/// What a thread was doing when it stopped.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    /// When and where.
    pub(crate) stamp: Stamp,
    pub(crate) cpu_mode: u16,
    pub(crate) stack: Stack,
    pub(crate) end: Option<End>,
}

/// Moments of a wait at which it is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moments {
    /// The first one.
    pub(crate) first_ns: u64,
    pub(crate) period_ns: u64,
    pub(crate) count: u64,
}

/// All threads that wait.
#[derive(Debug)]
pub(crate) struct Waits {
    period_ns: u64,
    going: HashMap<u32, Wait, RandomState>,
    waiting: HashMap<u32, Wait, RandomState>,
    /// Of what a thread has waited what came after its last sample.
    rests_ns: HashMap<u32, u64, RandomState>,
}

impl Waits {
    /// So many samples for each second that a thread waits.
    pub(crate) fn new(frequency_hz: u64) -> Self {
        Self {
            period_ns: 1_000_000_000 / frequency_hz.max(1),
            going: HashMap::default(),
            waiting: HashMap::default(),
            rests_ns: HashMap::default(),
        }
    }

    /// A thread goes: this is where it was.
    pub(crate) fn go(&mut self, wait: Wait) {
        if self.going.len() < MAX_THREADS {
            self.going.insert(wait.stamp.tid, wait);
        }
    }

    /// It has gone; if it would go on, it does not wait for anything but a processor.
    pub(crate) fn switched_out(&mut self, tid: u32, would_go_on: bool) {
        if let Some(wait) = self.going.remove(&tid)
            && !would_go_on
            && self.waiting.len() < MAX_THREADS
        {
            self.waiting.insert(tid, wait);
        }
    }

    /// It runs again: where it has waited, and the samples that have come since it was asked for the last time.
    pub(crate) fn switched_in(&mut self, tid: u32, time_ns: u64) -> Option<(Wait, Moments)> {
        let mut wait = self.waiting.remove(&tid)?;
        let moments = self.until(&mut wait, time_ns);
        Some((wait, moments))
    }

    /// It has ended. Its number may be another's soon.
    pub(crate) fn ended(&mut self, tid: u32) {
        self.going.remove(&tid);
        self.waiting.remove(&tid);
        self.rests_ns.remove(&tid);
    }

    /// The samples of all that wait, up to now.
    pub(crate) fn all_until(&mut self, time_ns: u64) -> Vec<(Wait, Moments)> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let all = waiting.values_mut().map(|wait| {
            let moments = self.until(wait, time_ns);
            (wait, moments)
        });
        let due = all.filter(|(_, moments)| moments.count > 0);
        let all = due.map(|(wait, moments)| (wait.clone(), moments)).collect();
        self.waiting = waiting;
        all
    }

    /// A sample is due whenever the thread has waited for a whole period, over all of its waits: so short ones have their part.
    fn until(&mut self, wait: &mut Wait, time_ns: u64) -> Moments {
        let waited_ns = time_ns.saturating_sub(wait.stamp.time_ns);
        let is_room = self.rests_ns.len() < MAX_THREADS || self.rests_ns.contains_key(&wait.stamp.tid);
        let before_ns = self.rests_ns.get(&wait.stamp.tid).copied().unwrap_or_default();
        let all_ns = before_ns.saturating_add(waited_ns);
        if is_room {
            self.rests_ns.insert(wait.stamp.tid, all_ns % self.period_ns);
        }
        let first_ns = wait.stamp.time_ns.saturating_add(self.period_ns.saturating_sub(before_ns));
        wait.stamp.time_ns = wait.stamp.time_ns.max(time_ns);
        Moments { first_ns, period_ns: self.period_ns, count: all_ns / self.period_ns }
    }
}

impl Moments {
    /// Each of them.
    pub(crate) fn times_ns(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |n| self.first_ns.saturating_add(n.saturating_mul(self.period_ns)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD_NS: u64 = 1_000_000;

    fn wait(tid: u32, time_ns: u64) -> Wait {
        let stamp = Stamp { pid: 1, tid, time_ns, cpu: 0 };
        Wait { stamp, cpu_mode: 1, stack: Stack::default(), end: None }
    }

    #[test]
    fn a_long_wait_has_a_sample_for_each_period_and_short_ones_have_their_part() {
        let mut waits = Waits::new(1000);
        waits.go(wait(7, 500));
        waits.switched_out(7, false);
        let (_, moments) = waits.switched_in(7, 500 + 3 * PERIOD_NS + 700_000).unwrap();
        assert_eq!(
            moments.times_ns().collect::<Vec<_>>(),
            [500 + PERIOD_NS, 500 + 2 * PERIOD_NS, 500 + 3 * PERIOD_NS]
        );
        waits.go(wait(7, 9 * PERIOD_NS));
        waits.switched_out(7, false);
        let (_, moments) = waits.switched_in(7, 9 * PERIOD_NS + 400_000).unwrap();
        assert_eq!(
            moments.times_ns().collect::<Vec<_>>(),
            [9 * PERIOD_NS + 300_000],
            "0.7 and 0.4 of a period"
        );
        assert!(waits.switched_in(7, 10 * PERIOD_NS).is_none());
    }

    #[test]
    fn who_would_go_on_does_not_wait_and_who_has_ended_neither() {
        let mut waits = Waits::new(1000);
        waits.go(wait(1, 0));
        waits.switched_out(1, true);
        waits.go(wait(2, 0));
        waits.switched_out(2, false);
        waits.ended(2);
        waits.switched_out(3, false);
        assert!([1, 2, 3].iter().all(|tid| waits.switched_in(*tid, 9 * PERIOD_NS).is_none()));
        assert!(waits.all_until(9 * PERIOD_NS).is_empty());
    }

    proptest! {
        /// However often it is asked, and however a time is cut into waits.
        #[test]
        fn samples_are_as_many_as_periods_were_waited(
            waited in proptest::collection::vec((0u64..5 * PERIOD_NS, proptest::collection::vec(0u64..5 * PERIOD_NS, 0..4)), 1..20)
        ) {
            let mut waits = Waits::new(1000);
            let (mut now, mut all, mut found, mut last) = (0, 0, 0, 0);
            for (pause, looks) in waited {
                now += pause;
                waits.go(wait(5, now));
                waits.switched_out(5, false);
                for look in looks {
                    (now, all) = (now + look, all + look);
                    for (_, moments) in waits.all_until(now) {
                        for at in moments.times_ns() {
                            prop_assert!(at > last && at <= now);
                            (last, found) = (at, found + 1);
                        }
                    }
                }
                waits.switched_in(5, now);
                prop_assert_eq!(found, all / PERIOD_NS);
            }
        }
    }
}
