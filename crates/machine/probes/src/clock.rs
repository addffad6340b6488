//! The clocks that packets and ticks use.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_BOOTTIME in ns: the clock of every packet's timestamp.
pub(crate) fn boottime_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

/// CLOCK_REALTIME in ns: what ticks align to, as upstream's do.
pub(crate) fn realtime_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
}

/// The time until the wall clock next reaches a multiple of `period_ms` (upstream: every poller's Tick).
pub(crate) fn until_next_tick(period_ms: u32) -> Duration {
    let period_ns = u64::from(period_ms.max(1)) * 1_000_000;
    Duration::from_nanos(period_ns - realtime_ns() % period_ns)
}

/// The length of a clock tick (USER_HZ) in ns.
pub(crate) fn ns_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}
