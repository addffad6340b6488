//! Asks the kernel for samples of a program, and takes its records out of the rings.

use std::io;

use ferretto_sys::{PerfAttr, PerfEvent, perf_flags as flags};

use crate::records::{SAMPLE_TYPE, USER_REGISTERS};

/// PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK: there on every machine, also on those in a cloud, which have no counters of hardware.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// CLOCK_BOOTTIME, the clock of a trace. Software events may have it.
const BOOTTIME: i32 = 7;
/// Bytes of the stack that a sample has at least and at most, which it takes in the ring however deep the stack is. Of a deeper stack the outer frames
/// are missing, and the sample says so. A record has at most 65,535 bytes.
const MIN_STACK_BYTES: usize = 8 << 10;
const MAX_STACK_BYTES: usize = 60 << 10;
/// A ring holds the samples of so much of a second: they are taken out of it several times meanwhile, but who takes them is a program like others.
const RING_PARTS_OF_A_SECOND: usize = 10;
/// Bytes of a processor's ring. Of what an unprivileged user may lock (`perf_event_mlock_kb`
/// for each processor, then RLIMIT_MEMLOCK) there is room for this on a few processors; on many they are made smaller.
const RING_BYTES: usize = 4 << 20;
const MIN_RING_BYTES: usize = 128 << 10;
/// Bytes of records that are taken out of a ring at once: others have their turn, too.
const TAKEN_BYTES: usize = 1 << 20;

/// Why there are no samples to be had.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gives no samples: {error}")]
pub struct Refused {
    error: io::Error,
}

impl Refused {
    /// What would help.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self.error.kind() {
            io::ErrorKind::PermissionDenied => Some(
                "/proc/sys/kernel/perf_event_paranoid is to be 2 or less, or run it as root; in a container perf_event_open is to be allowed, too",
            ),
            _ => None,
        }
    }
}

/// Whether this user may sample programs of their own.
///
/// # Errors
///
/// Why not.
pub fn can_sample() -> Result<(), Refused> {
    Events::open(0, 99).map(drop)
}

/// Events of a program: one for each processor.
#[derive(Debug)]
pub(crate) struct Events {
    all: Vec<PerfEvent>,
    /// The kernel's part of the time is in it.
    pub(crate) with_kernel: bool,
    /// So much of a stack is there.
    pub(crate) stack_bytes: usize,
}

impl Events {
    /// Of every program that this thread (0 is the caller's) starts from now on, from its first instruction to its last, with all of its threads and
    /// children; `frequency_hz` times a second of their processors' time.
    pub(crate) fn open(thread: i32, frequency_hz: u64) -> Result<Self, Refused> {
        let cpus = online_cpus();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for (with_kernel, mut ring_bytes) in [(true, RING_BYTES), (false, RING_BYTES)] {
            while ring_bytes >= MIN_RING_BYTES {
                let stack_bytes = stack_bytes(frequency_hz, ring_bytes);
                let attr = attr(frequency_hz, with_kernel, stack_bytes);
                let opened =
                    cpus.iter().map(|cpu| PerfEvent::open(&attr, thread, *cpu, ring_bytes)).collect();
                match opened {
                    Ok(all) => return Ok(Self { all, with_kernel, stack_bytes }),
                    Err(error) => last = error,
                }
                // EPERM is said of the memory; whoever may not have the event gets EACCES.
                if last.raw_os_error() != Some(rustix::io::Errno::PERM.raw_os_error()) {
                    break;
                }
                ring_bytes /= 2;
            }
        }
        Err(Refused { error: last })
    }

    /// Appends what the kernel has written; says whether there may be more.
    pub(crate) fn read(&mut self, to: &mut Vec<u8>) -> bool {
        let mut is_more = false;
        for event in &mut self.all {
            let before = to.len();
            if let Err(error) = event.read(to, before + TAKEN_BYTES) {
                tracing::error!(%error, "some samples are lost");
            }
            is_more |= to.len() >= before + TAKEN_BYTES;
        }
        is_more
    }
}

/// As much as lets a ring hold a tenth of a second.
fn stack_bytes(frequency_hz: u64, ring_bytes: usize) -> usize {
    let samples = usize::try_from(frequency_hz).unwrap_or(usize::MAX) / RING_PARTS_OF_A_SECOND;
    let bytes = ring_bytes / samples.max(1);
    (bytes - bytes % 8).clamp(MIN_STACK_BYTES, MAX_STACK_BYTES)
}

fn attr(frequency_hz: u64, with_kernel: bool, stack_bytes: usize) -> PerfAttr {
    let kernel = if with_kernel { 0 } else { flags::EXCLUDE_KERNEL };
    PerfAttr {
        kind: SOFTWARE,
        config: CPU_CLOCK,
        sample_period_or_freq: frequency_hz,
        sample_type: SAMPLE_TYPE,
        flags: kernel
            | flags::DISABLED
            | flags::INHERIT
            | flags::EXCLUDE_HV
            | flags::COMM
            | flags::FREQ
            | flags::ENABLE_ON_EXEC
            | flags::TASK
            | flags::SAMPLE_ID_ALL
            | flags::EXCLUDE_CALLCHAIN_USER
            // Without this the kernel takes no notice of mappings at all (kernel/events/core.c, account_event).
            | flags::MMAP
            | flags::MMAP2
            | flags::COMM_EXEC
            | flags::USE_CLOCKID
            | flags::BUILD_ID,
        sample_regs_user: USER_REGISTERS,
        sample_stack_user: stack_bytes as u32,
        clockid: BOOTTIME,
        ..PerfAttr::default()
    }
}

/// `0-3,8` of `/sys/devices/system/cpu/online`.
fn online_cpus() -> Vec<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus: Vec<u32> = list.trim().split(',').flat_map(range).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Processors that Linux can be built for, at most (NR_CPUS).
const MAX_CPUS: u32 = 8192;

fn range(part: &str) -> std::ops::Range<u32> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    match (first.parse::<u32>(), last.parse::<u32>()) {
        (Ok(first), Ok(last)) if last < MAX_CPUS => first..last + 1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_samples_have_less_of_a_stack_each() {
        for (hz, expected) in [
            (1, MAX_STACK_BYTES),
            (999, 42_366 / 8 * 8),
            (10_000, MIN_STACK_BYTES),
            (u64::MAX, MIN_STACK_BYTES),
        ] {
            assert_eq!(stack_bytes(hz, RING_BYTES), expected, "{hz}");
        }
    }

    #[test]
    fn lists_of_processors_are_read() {
        let cpus = |text: &str| text.split(',').flat_map(range).collect::<Vec<_>>();
        assert_eq!(cpus("0-3,8"), [0, 1, 2, 3, 8]);
        for text in ["", "x", "1-", "0-99999999"] {
            assert!(cpus(text).is_empty(), "{text}");
        }
        assert!(!online_cpus().is_empty());
    }
}
