//! The kernel's clocks.

use std::ffi::{c_int, c_long};

/// A clock of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelClock {
    /// The processor time of this thread (`CLOCK_THREAD_CPUTIME_ID`).
    ThreadCpu = 3,
    /// Time since the machine was started, sleep left out, as its counter counts it: nobody sets or slews it (`CLOCK_MONOTONIC_RAW`).
    MonotonicRaw = 4,
    /// Time since the machine was started, sleep left out, as of the kernel's last tick (`CLOCK_MONOTONIC_COARSE`).
    MonotonicCoarse = 6,
    /// Time since the machine was started, sleep included (`CLOCK_BOOTTIME`).
    Boot = 7,
}

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

// SAFETY: as POSIX declares it, with Linux's `struct timespec`; the standard library links it.
// JUSTIFICATION: safe forms of it come with a reader of the vDSO of their own, 6 KB in each program that only links the SDK.
unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

/// What a clock shows, in nanoseconds.
#[inline]
pub fn clock_ns(clock: KernelClock) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: writes to `time` alone, which outlives the call. Fails for no clock that all kernels have, as these.
    // JUSTIFICATION: as above.
    unsafe { clock_gettime(clock as c_int, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on() {
        for clock in [KernelClock::Boot, KernelClock::ThreadCpu] {
            let before = clock_ns(clock);
            while clock_ns(clock) == before {}
            assert!(before > 0 && clock_ns(clock) > before, "{clock:?}");
        }
    }

    #[test]
    fn the_boot_clock_is_linuxs() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let seconds = clock_ns(KernelClock::Boot) as f64 / 1e9;
        assert!((seconds - uptime).abs() < 10.0, "{seconds} {uptime}");
    }
}
