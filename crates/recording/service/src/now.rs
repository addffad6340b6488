//! The time, as an argument.

/// What the clocks say, in nanoseconds, read one right after the other. Named after the kernel's `CLOCK_*`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockReadings {
    /// Time since boot, suspended time included: the clock of traces.
    pub boottime: u64,
    /// Wall clock of the last tick.
    pub realtime_coarse: u64,
    /// Monotonic clock of the last tick.
    pub monotonic_coarse: u64,
    /// Wall clock.
    pub realtime: u64,
    /// Time since boot without suspended time: the clock of time-outs.
    pub monotonic: u64,
    /// Monotonic clock without adjustments of its speed.
    pub monotonic_raw: u64,
    /// The processor's time stamp counter, where the driver can read it.
    pub tsc: Option<u64>,
}

/// The time of an input. The driver reads the clocks once per turn of its loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// All clocks.
    pub clocks: ClockReadings,
}

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// A point in time that something waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// On the monotonic clock.
    Running(u64),
    /// On the boot clock: suspended time counts.
    WithSuspend(u64),
}

impl Now {
    pub(crate) fn after_ms(&self, ms: u64) -> Deadline {
        Deadline::Running(self.clocks.monotonic.saturating_add(ms.saturating_mul(NS_PER_MS)))
    }

    pub(crate) fn after_ms_with_suspend(&self, ms: u64) -> Deadline {
        Deadline::WithSuspend(self.clocks.boottime.saturating_add(ms.saturating_mul(NS_PER_MS)))
    }

    /// The next multiple of the period on the wall clock: periodic work of several sessions then happens at one time, with one wake-up.
    pub(crate) fn next_multiple_ms(&self, period_ms: u32) -> Deadline {
        self.after_ms(self.ms_to_multiple(period_ms))
    }

    /// The same, if that time comes while the machine sleeps, as soon as it wakes up.
    pub(crate) fn next_multiple_ms_with_suspend(&self, period_ms: u32) -> Deadline {
        self.after_ms_with_suspend(self.ms_to_multiple(period_ms))
    }

    fn ms_to_multiple(&self, period_ms: u32) -> u64 {
        let period_ms = u64::from(period_ms.max(1));
        period_ms - self.clocks.realtime / NS_PER_MS % period_ms
    }

    /// Nanoseconds until the deadline; 0 when it is over.
    pub(crate) fn ns_until(&self, deadline: Deadline) -> u64 {
        match deadline {
            Deadline::Running(at) => at.saturating_sub(self.clocks.monotonic),
            Deadline::WithSuspend(at) => at.saturating_sub(self.clocks.boottime),
        }
    }

    pub(crate) fn is_over(&self, deadline: Deadline) -> bool {
        self.ns_until(deadline) == 0
    }
}

/// Takes the deadline out if it is over.
pub(crate) fn take_if_over(deadline: &mut Option<Deadline>, now: &Now) -> bool {
    let over = deadline.is_some_and(|deadline| now.is_over(deadline));
    if over {
        *deadline = None;
    }
    over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_aligned_to_the_wall_clock() {
        let now = Now {
            clocks: ClockReadings { realtime: 12_345 * NS_PER_MS, monotonic: 7, ..Default::default() },
        };
        assert_eq!(now.next_multiple_ms(1000), Deadline::Running(7 + 655 * NS_PER_MS));
        assert_eq!(now.next_multiple_ms(5), Deadline::Running(7 + 5 * NS_PER_MS));
    }
}
