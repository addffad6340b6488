//! Tracks: where events are drawn. Threads have theirs; counters bring their own.

use std::sync::OnceLock;

/// Tells counters apart from other tracks of the same name (upstream: track.h).
const COUNTER_MAGIC: u64 = 0xb1a4_a67d_7970_839e;

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Durations in nanoseconds.
    TimeNs,
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Something else, by its name.
    Named(&'static str),
}

/// A counter of this process: a line of values over time.
///
/// ```
/// static QUEUE: ferretto::CounterTrack = ferretto::CounterTrack::new("queue").with_unit(ferretto::Unit::Count);
/// ferretto::counter!("net", QUEUE, 3);
/// ```
#[derive(Debug)]
pub struct CounterTrack {
    name: &'static str,
    unit: Option<Unit>,
    unit_multiplier: i64,
}

impl CounterTrack {
    /// A counter of this name. Equal names are one counter.
    pub const fn new(name: &'static str) -> Self {
        Self { name, unit: None, unit_multiplier: 1 }
    }

    /// With a unit.
    #[must_use]
    pub const fn with_unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// With values that stand for so many units each: 1024 for values in KiB of a counter of bytes.
    #[must_use]
    pub const fn with_unit_multiplier(mut self, multiplier: i64) -> Self {
        self.unit_multiplier = multiplier;
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn unit(&self) -> Option<Unit> {
        self.unit
    }

    pub(crate) fn unit_multiplier(&self) -> i64 {
        self.unit_multiplier
    }

    pub(crate) fn uuid(&self) -> u64 {
        fnv1a(self.name.as_bytes()) ^ COUNTER_MAGIC ^ process().uuid
    }
}

/// What a trace says about this process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) uuid: u64,
    pub(crate) cmdline: Vec<String>,
}

pub(crate) fn process() -> &'static Process {
    static PROCESS: OnceLock<Process> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let cmdline = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        Process { pid, uuid: process_uuid(pid, &stat), cmdline: arguments(&cmdline) }
    })
}

/// The operating system's id of this thread.
pub(crate) fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Rust's name of this thread, else the kernel's.
pub(crate) fn thread_name() -> Option<String> {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => Some(name.to_owned()),
        _ => std::fs::read_to_string("/proc/thread-self/comm").ok().map(|name| name.trim_end().to_owned()),
    }
}

/// The track of a thread of this process.
pub(crate) fn thread_uuid(tid: i32) -> u64 {
    process().uuid ^ u64::from(tid.cast_unsigned())
}

/// Two processes of one trace must differ even if the second got the first one's id.
fn process_uuid(pid: i32, stat: &str) -> u64 {
    // The name, in parentheses, may hold anything; the start time is the 20th field behind it (proc(5)).
    let start_time =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)).unwrap_or_default();
    fnv1a(format!("{start_time}:{pid}").as_bytes())
}

fn arguments(cmdline: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(cmdline);
    text.split('\0').filter(|argument| !argument.is_empty()).map(str::to_owned).collect()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_apart_by_its_start_time() {
        let stat =
            |start: u32| format!("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {start} 20 21");
        assert_eq!(process_uuid(7, &stat(100)), process_uuid(7, &stat(100)));
        assert_ne!(process_uuid(7, &stat(100)), process_uuid(7, &stat(101)));
        assert_ne!(process_uuid(7, &stat(100)), process_uuid(8, &stat(100)));
    }

    #[test]
    fn this_process_is_described() {
        assert_eq!(process().pid, std::process::id() as i32);
        assert!(!process().cmdline.is_empty());
        assert!(thread_name().is_some());
        assert_eq!(arguments(b"a\0-b\0\0"), ["a", "-b"]);
    }
}
