//! Times of events that the program knows better than the trace point: of what happened before, or on other hardware.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ferretto_sys::{KernelClock, clock_ns};

/// `BuiltinClock` of the trace format.
const REALTIME: u32 = 1;
/// As above.
const MONOTONIC: u32 = 3;
/// As above.
const MONOTONIC_RAW: u32 = 5;
/// As above: the clock of all other events.
pub(crate) const BOOTTIME: u32 = 6;

/// A moment on a clock.
///
/// ```
/// use ferretto::Timestamp;
/// use std::time::Instant;
///
/// let start = Instant::now();
/// // … and only later it turns out that this is worth an event:
/// ferretto::begin!("app", "slow request", at: start);
/// ferretto::end!("app", at: Timestamp::now());
/// ```
///
/// Events with times of their own cost a few bytes more, and may be older than what their track has already; slices must still lie within
/// each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    pub(crate) clock_id: u32,
    pub(crate) value: u64,
}

impl Timestamp {
    /// Now, on the kernel's boot clock.
    pub fn now() -> Self {
        Self::boot_ns(clock_ns(KernelClock::Boot))
    }

    /// Nanoseconds of the boot clock (`CLOCK_BOOTTIME`), by which traces are ordered.
    pub const fn boot_ns(ns: u64) -> Self {
        Self { clock_id: BOOTTIME, value: ns }
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`, which stands still while the machine sleeps.
    pub const fn monotonic_ns(ns: u64) -> Self {
        Self { clock_id: MONOTONIC, value: ns }
    }

    /// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which nobody adjusts.
    pub const fn monotonic_raw_ns(ns: u64) -> Self {
        Self { clock_id: MONOTONIC_RAW, value: ns }
    }

    /// Nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub const fn realtime_ns(ns: u64) -> Self {
        Self { clock_id: REALTIME, value: ns }
    }

    /// A moment on another clock of the trace. Readers place it if a clock snapshot of the trace says how that clock relates to others: see
    /// [`snapshot_clocks`](crate::snapshot_clocks). Numbers from 128 are free for all; below 64 they are the system's.
    pub const fn on_clock(clock_id: u32, value: u64) -> Self {
        Self { clock_id, value }
    }
}

impl From<Instant> for Timestamp {
    /// The moment on the boot clock: exact to about a microsecond if the machine did not sleep in between.
    fn from(instant: Instant) -> Self {
        let (now, boot_ns) = (Instant::now(), clock_ns(KernelClock::Boot));
        let ns = match now.checked_duration_since(instant) {
            Some(before) => boot_ns.saturating_sub(before.as_nanos() as u64),
            None => boot_ns.saturating_add(instant.saturating_duration_since(now).as_nanos() as u64),
        };
        Self::boot_ns(ns)
    }
}

impl From<SystemTime> for Timestamp {
    /// On the clock of the day; 1970 for what was before.
    fn from(time: SystemTime) -> Self {
        Self::realtime_ns(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_instant_is_found_on_the_boot_clock() {
        let now = Instant::now();
        let boot = Timestamp::now().value;
        let cases = [(now, 0), (now + Duration::from_secs(5), 5_000_000_000_i64)];
        for (instant, offset) in cases {
            let Timestamp { clock_id, value } = instant.into();
            assert_eq!(clock_id, BOOTTIME);
            let error = value.wrapping_sub(boot).cast_signed() - offset;
            // A slow machine may stop between any two lines here.
            assert!(error.abs() < 1_000_000_000, "{error} ns");
        }
        let day = Timestamp::from(UNIX_EPOCH + Duration::from_secs(3));
        assert_eq!(day, Timestamp::realtime_ns(3_000_000_000));
    }
}
