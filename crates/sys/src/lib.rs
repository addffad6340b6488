//! What daemons want from the machine and no safe interface gives: [`Scheduling`] of a thread, and the [time stamp
//! counter](time_stamp_counter).
#![allow(unsafe_code)]

mod scheduling;

pub use scheduling::Scheduling;

/// The processor's time stamp counter, where it has one that this crate knows. Clocks of ftrace and perf can count by it.
#[cfg(target_arch = "x86_64")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_counts() {
        let (a, b) = (time_stamp_counter(), time_stamp_counter());
        assert_eq!(a.is_some(), cfg!(target_arch = "x86_64"));
        assert!(b >= a);
    }
}
