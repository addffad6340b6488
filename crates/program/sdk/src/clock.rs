//! The time of events: nanoseconds of the kernel's boot clock, read from the processor's time stamp counter, which takes a third of the
//! time that asking the kernel takes.
//!
//! The background thread compares the two about once a second while a session records, and publishes by which [`Scale`] ticks become
//! nanoseconds until the next time. Where the old scale was off, the new one makes up for it in the course of its time, so that no
//! thread's clock jumps or goes back. The kernel is asked instead where it does not trust the counter itself, in the first moments of a
//! session, and when a comparison is late.
//!
//! What this clock shows when the kernel's shows something else is in the trace, in the clock snapshot at the start of each sequence.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferretto_producer::log;
use ferretto_sys::{KernelClock, clock_ns, is_time_stamp_counter_steady, time_stamp_counter};

/// Comparisons are that far apart, once there have been enough of them: the rates of two clocks in one machine change slowly.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The first one after the start of a session comes after so long, the next after ten times as long. Readings that are closer say too
/// little about the rate: each is off by some 20 ns.
const FIRST_INTERVAL_NS: u64 = 10_000_000;
/// A scale is good for so many times the interval until the next one.
const MAX_LATE: u64 = 4;
/// A clock that is further off is not brought back slowly: the machine slept, or the counter was changed. All begins anew.
const MAX_SLEW_NS: u64 = 100_000;
/// After so many new beginnings in a row the counter is not used any more.
const MAX_RESTARTS: u32 = 3;
/// Attempts to read both clocks at one moment.
const ATTEMPTS: u32 = 5;
/// A counter that is faster or slower than this, in nanoseconds a tick, is none.
const RATES: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// How ticks become nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    base_ticks: u64,
    base_ns: u64,
    /// Nanoseconds a tick, times 2^32.
    rate: u64,
    /// It is good for so many ticks from its base. 0: the counter is not used.
    max_ticks: u64,
}

/// The scale of the moment. Never waited for: who finds it locked comes again.
static SCALE: Mutex<Scale> = Mutex::new(Scale::NONE);

/// A thread's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    scale: Scale,
    last_ns: u64,
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    ticks: u64,
    ns: u64,
}

/// Compares the clocks from time to time, on the background thread.
#[derive(Debug)]
pub(crate) struct Calibrator {
    is_usable: bool,
    last: Reading,
    scale: Scale,
    /// From the last comparison to the next.
    interval_ns: u64,
    restarts: u32,
}

pub(crate) fn lock_for_fork() -> Box<dyn crate::runtime::Held> {
    Box::new(SCALE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Scale {
    const NONE: Self = Self { base_ticks: 0, base_ns: 0, rate: 0, max_ticks: 0 };

    /// The time at this reading of the counter; `None` if it is too far from the base to tell.
    #[inline(always)]
    fn ns_at(&self, ticks: u64) -> Option<u64> {
        let ticks = ticks.wrapping_sub(self.base_ticks);
        // The product is below 2^128, and the result near the base.
        let ns = ((u128::from(ticks) * u128::from(self.rate)) >> 32) as u64;
        (ticks < self.max_ticks).then(|| self.base_ns.wrapping_add(ns))
    }
}

impl Clock {
    pub(crate) const fn new() -> Self {
        Self { scale: Scale::NONE, last_ns: 0 }
    }

    /// Takes over what was published; `false` if that is being changed at this moment.
    pub(crate) fn update(&mut self) -> bool {
        let scale = SCALE.try_lock();
        if let Ok(scale) = &scale {
            self.scale = **scale;
        }
        scale.is_ok()
    }

    /// Now. Never less than the time before.
    #[inline(always)]
    pub(crate) fn now(&mut self) -> u64 {
        let is_scaled = self.scale.max_ticks != 0;
        let scaled = if is_scaled { self.scale.ns_at(ticks()) } else { None };
        let ns = match scaled {
            Some(ns) => ns,
            None => boot_time(),
        };
        self.last_ns = self.last_ns.max(ns);
        self.last_ns
    }

    /// The last time that it showed.
    #[inline(always)]
    pub(crate) fn last(&self) -> u64 {
        self.last_ns
    }

    /// How far the kernel's clock is ahead of this one, in nanoseconds.
    pub(crate) fn offset(&self) -> i64 {
        let reading = Reading::now();
        self.scale.ns_at(reading.ticks).map_or(0, |ns| reading.ns.wrapping_sub(ns).cast_signed())
    }
}

impl Reading {
    fn now() -> Self {
        // The quickest attempt is the one that nothing interrupted.
        let (mut best, mut quickest) = (Self { ticks: 0, ns: 0 }, u64::MAX);
        for _ in 0..ATTEMPTS {
            let before = ticks();
            let ns = boot_time();
            let took = ticks().wrapping_sub(before);
            if took < quickest {
                quickest = took;
                best = Self { ticks: before.wrapping_add(took / 2), ns };
            }
        }
        best
    }
}

impl Calibrator {
    pub(crate) fn new() -> Self {
        Self::with(is_time_stamp_counter_steady(), Reading::now())
    }

    fn with(is_usable: bool, last: Reading) -> Self {
        Self { is_usable, last, scale: Scale::NONE, interval_ns: FIRST_INTERVAL_NS, restarts: 0 }
    }

    /// A session begins to record. When the next comparison is due; `None` if none is of use.
    pub(crate) fn start(&mut self) -> Option<Duration> {
        let now = Reading::now();
        // With another session there is a scale already.
        if self.scale.ns_at(now.ticks).is_none() {
            self.begin(now);
        }
        self.is_usable.then(|| Duration::from_nanos(self.interval_ns))
    }

    /// Compares and publishes. When the next comparison is due; `None` if none is of use.
    pub(crate) fn calibrate(&mut self) -> Option<Duration> {
        if !self.is_usable {
            return None;
        }
        self.compare(Reading::now());
        *SCALE.lock().unwrap_or_else(PoisonError::into_inner) = self.scale;
        self.is_usable.then(|| Duration::from_nanos(self.interval_ns))
    }

    fn begin(&mut self, now: Reading) {
        (self.last, self.scale, self.interval_ns) = (now, Scale::NONE, FIRST_INTERVAL_NS);
    }

    /// The scale until the next comparison.
    fn compare(&mut self, now: Reading) {
        let elapsed_ns = now.ns.saturating_sub(self.last.ns);
        let rate = elapsed_ns as f64 / now.ticks.saturating_sub(self.last.ticks) as f64;
        let shown = self.scale.ns_at(now.ticks).unwrap_or(now.ns);
        if elapsed_ns < FIRST_INTERVAL_NS / 2
            || !RATES.contains(&rate)
            || shown.abs_diff(now.ns) > MAX_SLEW_NS
        {
            self.restart(now);
            return;
        }
        if self.scale != Scale::NONE {
            self.restarts = 0;
            self.interval_ns = (self.interval_ns * 10).min(INTERVAL_NS);
        }
        self.last = now;
        let behind_ns = now.ns.wrapping_sub(shown).cast_signed();
        let slewed = rate * (1.0 + behind_ns as f64 / self.interval_ns as f64);
        self.scale = Scale {
            base_ticks: now.ticks,
            base_ns: shown,
            rate: (slewed * (1_u64 << 32) as f64) as u64,
            max_ticks: ((MAX_LATE * self.interval_ns) as f64 / rate) as u64,
        };
    }

    fn restart(&mut self, now: Reading) {
        self.begin(now);
        self.restarts += 1;
        if self.restarts >= MAX_RESTARTS {
            log::warn(format_args!(
                "the time stamp counter does not keep time: track events use the kernel's clock from now on"
            ));
            self.is_usable = false;
        }
    }
}

/// The counter; anything where there is none, as no scale is good then.
#[inline(always)]
fn ticks() -> u64 {
    time_stamp_counter().unwrap_or(0)
}

/// Not inlined: it is asked for seldom, and its code would be in every trace point's way.
#[cold]
#[inline(never)]
pub(crate) fn boot_time() -> u64 {
    clock_ns(KernelClock::Boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2.6 GHz beside a kernel's clock that is `ppm` faster than that says.
    fn reading(at_ns: u64, ppm: f64) -> Reading {
        let ns = 1_000_000_000_000 + (at_ns as f64 * (1.0 + ppm / 1e6)) as u64;
        Reading { ticks: 77_000_000_000 + (at_ns as f64 * 2.6) as u64, ns }
    }

    /// Comparisons where they are due; the error before each.
    fn run(calibrator: &mut Calibrator, seconds: u64, ppm: f64) -> Vec<i64> {
        let (mut at, mut errors) = (0, Vec::new());
        while at < seconds * 1_000_000_000 {
            at += calibrator.interval_ns;
            let now = reading(at, ppm);
            errors.extend(
                calibrator.scale.ns_at(now.ticks).map(|shown| shown.wrapping_sub(now.ns).cast_signed()),
            );
            calibrator.compare(now);
        }
        errors
    }

    #[test]
    fn a_clock_of_steady_rate_is_met() {
        for ppm in [-400.0, 0.0, 30.0] {
            let mut calibrator = Calibrator::with(true, reading(0, ppm));
            let errors = run(&mut calibrator, 60, ppm);
            assert!(errors.len() > 59, "{}", errors.len());
            assert!(errors.iter().all(|error| error.abs() < 50), "{errors:?}");
        }
    }

    #[test]
    fn an_error_is_made_up_for_without_a_jump() {
        let mut calibrator = Calibrator::with(true, reading(0, 0.0));
        run(&mut calibrator, 10, 0.0);
        let before = calibrator.scale;
        // 20 µs within the last interval, which are in its rate, and then no more.
        let late = after(calibrator.last, INTERVAL_NS, 20_000);
        calibrator.compare(late);
        let slewing = calibrator.scale;
        assert_eq!(before.ns_at(late.ticks), slewing.ns_at(late.ticks), "the old clock goes on");
        let next = after(late, INTERVAL_NS, 20_000);
        assert!(slewing.ns_at(next.ticks).unwrap().abs_diff(next.ns) < 50, "and is right after an interval");
    }

    /// So many nanoseconds of the counter later, and some more of the kernel's clock.
    fn after(reading: Reading, ns: u64, more_ns: u64) -> Reading {
        Reading { ticks: reading.ticks + (ns as f64 * 2.6) as u64, ns: reading.ns + ns + more_ns }
    }

    #[test]
    fn after_a_sleep_all_begins_anew_and_a_counter_that_keeps_jumping_is_given_up() {
        const SLEEP_NS: u64 = 60_000_000_000;
        let mut calibrator = Calibrator::with(true, reading(0, 0.0));
        run(&mut calibrator, 3, 0.0);
        let mut now = calibrator.last;
        for _ in 0..10 {
            now = after(now, calibrator.interval_ns, SLEEP_NS);
            calibrator.compare(now);
            assert_eq!(calibrator.scale, Scale::NONE, "the kernel's clock is used");
            for _ in 0..2 {
                now = after(now, calibrator.interval_ns, 0);
                calibrator.compare(now);
                assert!(calibrator.scale.ns_at(now.ticks).unwrap().abs_diff(now.ns) < 50);
            }
        }
        assert!(calibrator.is_usable);
        for _ in 0..MAX_RESTARTS {
            now = after(now, calibrator.interval_ns, SLEEP_NS);
            calibrator.compare(now);
            // In between there is a new beginning, but never one that proves right.
            now = after(now, calibrator.interval_ns, 0);
            calibrator.compare(now);
        }
        assert!(!calibrator.is_usable);
    }

    #[test]
    fn a_scale_is_good_for_a_while() {
        let mut calibrator = Calibrator::with(true, reading(0, 0.0));
        run(&mut calibrator, 3, 0.0);
        let Reading { ticks, .. } = calibrator.last;
        assert!(calibrator.scale.ns_at(ticks).is_some());
        assert!(calibrator.scale.ns_at(ticks + 3 * 2_600_000_000).is_some());
        assert_eq!(calibrator.scale.ns_at(ticks + 5 * 2_600_000_000), None);
        assert_eq!(calibrator.scale.ns_at(ticks - 1), None, "the counter was set back");
    }

    #[test]
    fn a_threads_time_never_goes_back() {
        let mut clock = Clock::new();
        let mut last = 0;
        for fast in [false, true, false, true] {
            let now = Reading::now();
            // A scale that is ahead, then the kernel's clock again.
            clock.scale = match fast {
                true => Scale {
                    base_ticks: now.ticks,
                    base_ns: now.ns + 1_000_000,
                    rate: 1 << 32,
                    max_ticks: u64::MAX,
                },
                false => Scale::NONE,
            };
            for _ in 0..100 {
                let now = clock.now();
                assert!(now >= last);
                last = now;
            }
        }
    }
}
