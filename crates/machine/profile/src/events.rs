//! Asks the kernel for samples of a program, and takes its records out of the rings.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use ferretto_sys::{KernelClock, PerfAttr, PerfEvent, PerfScope, perf_flags as flags};

use crate::config::{Interval, Wanted};
use crate::records::{SAMPLE_TYPE, USER_REGISTERS};

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

/// How often it is looked for threads that were started while their process's others were being attached to.
const MAX_LOOKS: usize = 100;

/// What is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every program that this thread (0 is the caller's) starts from now on, from its first instruction to its last, with all of its threads and children.
    ChildrenOf(i32),
    /// All that runs in the control group of this folder from the first `exec` in it on, but this process.
    Group(PathBuf),
    /// These processes that run already, with all of their threads and what they start from now on.
    Processes(Vec<u32>),
    /// All that runs on the machine. An idle processor is not sampled.
    Machine,
}

/// Why there are no samples to be had.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The kernel's answer.
    #[error("the kernel gives no samples{}: {error}", of(target))]
    Kernel {
        /// Of what they were to be.
        target: Target,
        /// What the system said.
        error: io::Error,
    },
    /// What is sampled happens in the kernel, and this user may not see that.
    #[error("the kernel gives no samples of what happens in it to everybody")]
    OfTheKernel,
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// What is asked for is none that can be.
    #[error("{0}")]
    Config(String),
}

fn of(target: &Target) -> String {
    match target {
        Target::ChildrenOf(_) | Target::Group(_) => String::new(),
        Target::Processes(pids) => match pids.as_slice() {
            [pid] => format!(" of process {pid}"),
            _ => " of these processes".to_owned(),
        },
        Target::Machine => " of the machine".to_owned(),
    }
}

impl Refused {
    /// Others may have it.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Kernel { error, .. } if error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// What would help.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Kernel { error, target } => match (error.kind(), target) {
                (io::ErrorKind::PermissionDenied, Target::Machine) => Some(
                    "root may have them, and everybody where /proc/sys/kernel/perf_event_paranoid is 0 or less",
                ),
                (io::ErrorKind::PermissionDenied, Target::Processes(_)) => {
                    Some("those of other users, and programs with rights of their own, are for root")
                }
                (io::ErrorKind::PermissionDenied, Target::ChildrenOf(_) | Target::Group(_)) => Some(
                    "/proc/sys/kernel/perf_event_paranoid is to be 2 or less, or run it as root; in a container perf_event_open is to be allowed, too",
                ),
                (io::ErrorKind::NotFound | io::ErrorKind::Unsupported, _) => Some(
                    "this machine does not count that: virtual ones seldom have the processor's counters; cpu-clock is there everywhere",
                ),
                _ => None,
            },
            Self::OfTheKernel => Some(
                "root may have them, and everybody where /proc/sys/kernel/perf_event_paranoid is 1 or less",
            ),
            Self::NoProcess { .. } | Self::Config(_) => None,
        }
    }
}

/// Whether this user may sample this.
///
/// # Errors
///
/// Why not.
pub fn can_sample(target: &Target, config: &ferretto_protos::PerfEventConfig) -> Result<(), Refused> {
    let wanted = Wanted::of(config).map_err(Refused::Config)?;
    // What is to be had of one thread is to be had of all: to attach to thousands twice would take twice as long.
    Events::open_of(target, &wanted, main_thread_of).map(drop)
}

/// Events, a ring for each processor.
#[derive(Debug)]
pub(crate) struct Events {
    all: Vec<PerfEvent>,
    /// By which the records' times are.
    pub(crate) clock: KernelClock,
    /// The kernel's part of the time is in it.
    pub(crate) with_kernel: bool,
    /// So much of a stack is there.
    pub(crate) stack_bytes: usize,
}

impl Events {
    /// Of a program that is to come from its `exec` on; of all others at once.
    pub(crate) fn open(target: &Target, wanted: &Wanted) -> Result<Self, Refused> {
        Self::open_of(target, wanted, threads_of)
    }

    fn open_of(target: &Target, wanted: &Wanted, threads: ThreadsOf) -> Result<Self, Refused> {
        let mut cpus = online_cpus();
        cpus.retain(|cpu| wanted.cpus.is_empty() || wanted.cpus.contains(cpu));
        if cpus.is_empty() {
            return Err(Refused::Config("none of the processors that are asked for runs".to_owned()));
        }
        let largest = wanted.ring_bytes.unwrap_or(RING_BYTES);
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for (with_kernel, mut ring_bytes) in [(true, largest), (false, largest)] {
            if !with_kernel && wanted.is_of_the_kernel() {
                return Err(Refused::OfTheKernel);
            }
            while ring_bytes >= MIN_RING_BYTES.min(largest) {
                let stack_bytes =
                    if wanted.user_frames { stack_bytes(wanted.interval, ring_bytes) } else { 0 };
                let attr = attr(wanted, target, with_kernel, stack_bytes);
                match open_all((target, threads), &attr, (&cpus, wanted.ignores_open_failure), ring_bytes) {
                    Ok(all) => {
                        let filtered = wanted
                            .filter
                            .as_ref()
                            .map_or(Ok(()), |filter| all.iter().try_for_each(|event| event.filter(filter)));
                        let not_understood =
                            |error| format!("the kernel does not understand the filter: {error}");
                        filtered.map_err(|error| Refused::Config(not_understood(error)))?;
                        return Ok(Self { all, clock: wanted.clock().0, with_kernel, stack_bytes });
                    }
                    Err(Attempt::NoProcess(pid)) => return Err(Refused::NoProcess { pid }),
                    Err(Attempt::Kernel(error)) => last = error,
                }
                // EPERM is said of the memory; whoever may not have the event gets EACCES.
                if last.raw_os_error() != Some(rustix::io::Errno::PERM.raw_os_error()) {
                    break;
                }
                ring_bytes /= 2;
            }
        }
        Err(Refused::Kernel { target: target.clone(), error: last })
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

/// Why it was not to be had this time.
enum Attempt {
    NoProcess(u32),
    Kernel(io::Error),
}

impl From<io::Error> for Attempt {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

fn open_all(
    (target, threads): (&Target, ThreadsOf),
    attr: &PerfAttr,
    (cpus, some_are_enough): (&[u32], bool),
    ring_bytes: usize,
) -> Result<Vec<PerfEvent>, Attempt> {
    let of = |scope| -> io::Result<Vec<PerfEvent>> {
        let mut opened: Vec<_> =
            cpus.iter().map(|cpu| PerfEvent::open(attr, scope, *cpu, ring_bytes)).collect();
        if some_are_enough && opened.iter().any(Result::is_ok) {
            opened.retain(Result::is_ok);
        }
        opened.into_iter().collect()
    };
    match target {
        Target::ChildrenOf(thread) => Ok(of(PerfScope::Thread(*thread))?),
        Target::Group(folder) => Ok(of(PerfScope::Group(File::open(folder)?.as_fd()))?),
        Target::Machine => Ok(of(PerfScope::All)?),
        Target::Processes(pids) => {
            let mut all = Vec::new();
            for pid in pids {
                attach((*pid, threads), attr, &mut all, &|thread| of(PerfScope::Thread(thread)))?;
            }
            Ok(all)
        }
    }
}

/// Each thread has events of its own: what is inherited is so by threads that are started afterwards (perf_event_open(2)).
fn attach(
    (pid, threads): (u32, ThreadsOf),
    attr: &PerfAttr,
    all: &mut Vec<PerfEvent>,
    open: &impl Fn(i32) -> io::Result<Vec<PerfEvent>>,
) -> Result<(), Attempt> {
    let mut attached = std::collections::BTreeSet::new();
    for _ in 0..MAX_LOOKS {
        let new = threads(pid).map_err(|_| Attempt::NoProcess(pid))?;
        let new: Vec<i32> = new.into_iter().filter(|thread| attached.insert(*thread)).collect();
        if new.is_empty() {
            break;
        }
        for thread in new {
            let opened = match all.is_empty() {
                true => open(thread).map(|events| *all = events),
                false => all.iter_mut().try_for_each(|event| event.add(attr, thread)),
            };
            match opened {
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
                opened => opened?,
            }
        }
        // One that was started by a thread before that was attached to is there by now.
        std::thread::sleep(Duration::from_millis(1));
    }
    if all.is_empty() { Err(Attempt::NoProcess(pid)) } else { Ok(()) }
}

/// Of a process those that are to be attached to.
type ThreadsOf = fn(u32) -> io::Result<Vec<i32>>;

fn main_thread_of(pid: u32) -> io::Result<Vec<i32>> {
    std::fs::metadata(format!("/proc/{pid}/task/{pid}"))?;
    Ok(i32::try_from(pid).into_iter().collect())
}

fn threads_of(pid: u32) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// As much as lets a ring hold a tenth of a second. Of events that come as they like the least: there may be many.
fn stack_bytes(interval: Interval, ring_bytes: usize) -> usize {
    let Interval::FrequencyHz(frequency_hz) = interval else { return MIN_STACK_BYTES };
    let samples = usize::try_from(frequency_hz).unwrap_or(usize::MAX) / RING_PARTS_OF_A_SECOND;
    let bytes = ring_bytes / samples.max(1);
    (bytes - bytes % 8).clamp(MIN_STACK_BYTES, MAX_STACK_BYTES)
}

fn attr(wanted: &Wanted, target: &Target, with_kernel: bool, stack_bytes: usize) -> PerfAttr {
    let kernel = if with_kernel { 0 } else { flags::EXCLUDE_KERNEL };
    let kernel_frames = if wanted.kernel_frames { 0 } else { flags::EXCLUDE_CALLCHAIN_KERNEL };
    let (frequency, sample_period_or_freq) = match wanted.interval {
        Interval::FrequencyHz(hz) => (flags::FREQ, hz),
        Interval::Period(events) => (0, events),
    };
    let target = match target {
        Target::ChildrenOf(_) => flags::INHERIT | flags::DISABLED | flags::ENABLE_ON_EXEC,
        Target::Processes(_) => flags::INHERIT,
        Target::Group(_) => 0,
        Target::Machine => flags::EXCLUDE_IDLE,
    };
    let switches = if wanted.waits_hz.is_some() { flags::CONTEXT_SWITCH } else { 0 };
    let [config, config1, config2] = wanted.configs;
    PerfAttr {
        kind: wanted.kind,
        config,
        config1,
        config2,
        sample_period_or_freq,
        sample_type: SAMPLE_TYPE,
        flags: kernel
            | kernel_frames
            | frequency
            | target
            | switches
            | wanted.excludes
            | flags::COMM
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
        clockid: wanted.clock().0 as i32,
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
            assert_eq!(stack_bytes(Interval::FrequencyHz(hz), RING_BYTES), expected, "{hz}");
        }
    }

    #[test]
    fn who_is_not_there_is_said_and_what_would_help() {
        let wanted = Wanted::of(&ferretto_protos::PerfEventConfig::default()).unwrap();
        let refused = Events::open(&Target::Processes(vec![u32::MAX >> 1]), &wanted).unwrap_err();
        assert_eq!(refused.to_string(), format!("there is no process {}", u32::MAX >> 1));
        let denied = |target| Refused::Kernel { target, error: io::ErrorKind::PermissionDenied.into() };
        for (target, says, helps) in [
            (Target::Machine, "no samples of the machine: ", "0 or less"),
            (Target::Processes(vec![7]), "no samples of process 7: ", "for root"),
            (Target::ChildrenOf(0), "no samples: ", "2 or less"),
        ] {
            let refused = denied(target);
            assert!(
                refused.to_string().contains(says) && refused.advice().unwrap().contains(helps),
                "{refused}"
            );
        }
    }

    #[test]
    fn of_a_process_all_threads_are_attached_to_and_for_a_trial_one() {
        let (pid, main) = (std::process::id(), std::process::id() as i32);
        // The harness's own and this one.
        assert!(threads_of(pid).unwrap().len() > 1 && threads_of(pid).unwrap().contains(&main));
        assert_eq!(main_thread_of(pid).unwrap(), [main]);
        assert!(main_thread_of(u32::MAX).is_err());
        let config = ferretto_protos::PerfEventConfig::default();
        let refused = can_sample(&Target::Processes(vec![u32::MAX >> 1]), &config).unwrap_err();
        assert!(matches!(refused, Refused::NoProcess { .. }));
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
