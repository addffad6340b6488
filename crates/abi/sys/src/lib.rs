//! What is wanted from the machine and no safe interface gives, or only a large one: the [time stamp counter](time_stamp_counter), the
//! kernel's [clocks](clock_ns) and [files](read_file), a word at every [`fork`](at_fork) and at the [end](at_exit), [addresses of
//! vsock](VsockAddr), [who is at the other end](peer_credentials) of a socket, whether a program has [rights of its
//! own](has_rights_of_its_own), whether a group is [one user's](is_group_of_one), and, with the feature `daemon`, how a thread is
//! [scheduled](Scheduling), [terminals](close_terminals) that a program was started with, [code](Code) that is no longer needed,
//! [arguments](hide_arguments) that neighbours may read, and [what a peer has not read](unread_bytes); with the feature `perf`, [events](PerfEvent) that the kernel samples.
#![allow(unsafe_code)]

use std::ffi::CStr;

#[cfg(feature = "daemon")]
mod arguments;
mod clock;
#[cfg(feature = "daemon")]
mod code;
mod credentials;
mod exit;
mod file;
mod fork;
#[cfg(feature = "perf")]
mod perf;
mod rights;
#[cfg(feature = "daemon")]
mod scheduling;
#[cfg(feature = "daemon")]
mod terminals;
#[cfg(feature = "daemon")]
mod unread;
mod vsock;

#[cfg(feature = "daemon")]
pub use arguments::hide_arguments;
pub use clock::{KernelClock, clock_ns};
#[cfg(feature = "daemon")]
pub use code::Code;
pub use credentials::{PeerCredentials, peer_credentials};
pub use exit::at_exit;
pub use file::read_file;
pub use fork::{ForkHandlers, at_fork, close_inherited};
#[cfg(feature = "perf")]
pub use perf::{PerfAttr, PerfEvent, PerfScope, perf_flags};
pub use rights::{has_rights_of_its_own, is_group_of_one, overflow_user};
#[cfg(feature = "daemon")]
pub use scheduling::Scheduling;
#[cfg(feature = "daemon")]
pub use terminals::close_terminals;
#[cfg(feature = "daemon")]
pub use unread::unread_bytes;
pub use vsock::VsockAddr;

/// The processor's time stamp counter, where it has one that this crate knows. Clocks of ftrace and perf can count by it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn time_stamp_counter() -> Option<u64> {
    // SAFETY: reads a register of the processor and no memory. Linux lets programs do it unless they ask to be stopped from it.
    // JUSTIFICATION: without it in the snapshots of a trace's clocks nobody knows when events with this clock were. No call of the
    // kernel tells it.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// The processor's time stamp counter, where it has one that this crate knows. Clocks of ftrace and perf can count by it.
#[cfg(not(target_arch = "x86_64"))]
pub fn time_stamp_counter() -> Option<u64> {
    None
}

/// Whether the counter goes on at one rate, whatever the processor does, and is the same on all processors: whether the kernel, which
/// watches it, keeps its own time by it.
pub fn is_time_stamp_counter_steady() -> bool {
    const CURRENT: &CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    time_stamp_counter().is_some() && is_time_stamp_counter(&read_file(CURRENT))
}

/// Not so `kvm-clock` and `hyperv_clocksource_tsc_page`, which scale a counter that may change when the machine moves.
fn is_time_stamp_counter(clock_source: &[u8]) -> bool {
    clock_source.trim_ascii_end() == b"tsc"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_counts() {
        let (a, b) = (time_stamp_counter(), time_stamp_counter());
        assert_eq!(a.is_some(), cfg!(target_arch = "x86_64"));
        assert!(b >= a);
        assert!(a.is_some() || !is_time_stamp_counter_steady());
    }

    #[test]
    fn the_kernels_clock_source_says_whether_the_counter_is_steady() {
        let cases =
            [("tsc\n", true), ("kvm-clock\n", false), ("hyperv_clocksource_tsc_page\n", false), ("", false)];
        for (name, expected) in cases {
            assert_eq!(is_time_stamp_counter(name.as_bytes()), expected, "{name}");
        }
    }
}
