//! What the kernel and the recorder counted, at the begin and the end of the recording (upstream: ftrace_parser.cc, ParseFtraceStats).

use ferretto_protos::fields::{ftrace_cpu_stats as cpu_field, ftrace_kprobe_stats, ftrace_stats as field};
use ferretto_protozero::read::{Fields, Value};

use super::bundle::Arrival;
use crate::stats::{Stat, Stats};

/// `FtraceStats.Phase`.
mod phase {
    pub(super) const START_OF_TRACE: u64 = 1;
    pub(super) const END_OF_TRACE: u64 = 2;
}

/// `FTRACE_STATUS_ABI_ZERO_DATA_LENGTH`: frequent, and harmless.
const ZERO_DATA_LENGTH: u64 = 12;

/// A counter of a processor: its field, and what it stood at at the begin, at the end, and between.
type OfCpu = (u32, Stat, Stat, Option<Stat>);

const OF_CPU: [OfCpu; 8] = [
    (
        cpu_field::ENTRIES,
        Stat::FtraceCpuEntriesBegin,
        Stat::FtraceCpuEntriesEnd,
        Some(Stat::FtraceCpuEntriesDelta),
    ),
    (
        cpu_field::OVERRUN,
        Stat::FtraceCpuOverrunBegin,
        Stat::FtraceCpuOverrunEnd,
        Some(Stat::FtraceCpuOverrunDelta),
    ),
    (
        cpu_field::COMMIT_OVERRUN,
        Stat::FtraceCpuCommitOverrunBegin,
        Stat::FtraceCpuCommitOverrunEnd,
        Some(Stat::FtraceCpuCommitOverrunDelta),
    ),
    (
        cpu_field::BYTES_READ,
        Stat::FtraceCpuBytesBegin,
        Stat::FtraceCpuBytesEnd,
        Some(Stat::FtraceCpuBytesDelta),
    ),
    (
        cpu_field::DROPPED_EVENTS,
        Stat::FtraceCpuDroppedEventsBegin,
        Stat::FtraceCpuDroppedEventsEnd,
        Some(Stat::FtraceCpuDroppedEventsDelta),
    ),
    (
        cpu_field::READ_EVENTS,
        Stat::FtraceCpuReadEventsBegin,
        Stat::FtraceCpuReadEventsEnd,
        Some(Stat::FtraceCpuReadEventsDelta),
    ),
    (cpu_field::NOW_TS, Stat::FtraceCpuNowTsBegin, Stat::FtraceCpuNowTsEnd, None),
    (cpu_field::OLDEST_EVENT_TS, Stat::FtraceCpuOldestEventTsBegin, Stat::FtraceCpuOldestEventTsEnd, None),
];

impl Arrival<'_> {
    /// Reads `TracePacket.ftrace_stats`.
    pub fn statistics(&mut self, message: &[u8]) {
        let numbers = |wanted| {
            Fields::new(message)
                .map_while(Result::ok)
                .filter(move |part| part.number == wanted)
                .filter_map(|part| part.value.as_u64())
        };
        let is_end = match numbers(field::PHASE).last() {
            Some(phase::START_OF_TRACE) => false,
            Some(phase::END_OF_TRACE) => true,
            _ => return,
        };
        let mut kprobes = &b""[..];
        let mut errors = 0;
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (field::CPU_STATS, Value::Bytes(cpu)) => of_cpu(cpu, is_end, &mut self.model.stats),
                (field::KPROBE_STATS, Value::Bytes(counted)) => kprobes = counted,
                (
                    field::FAILED_FTRACE_EVENTS
                    | field::UNKNOWN_FTRACE_EVENTS
                    | field::ATRACE_ERRORS
                    | field::EXCLUSIVE_FEATURE_ERROR,
                    Value::Bytes(_),
                ) if !is_end => errors += 1,
                _ => {}
            }
        }
        of_kprobes(kprobes, is_end, &mut self.model.stats);
        self.setup_errors(is_end, errors);
        if !is_end && numbers(field::PRESERVE_FTRACE_BUFFER).last().is_some_and(|value| value != 0) {
            self.model.kernel(self.machine).windows.preserve_buffer = true;
        }
        let zero_lengths =
            numbers(field::FTRACE_PARSE_ERRORS).filter(|error| *error == ZERO_DATA_LENGTH).count();
        if zero_lengths != 0 {
            let by = i64::try_from(zero_lengths).unwrap_or(i64::MAX);
            self.model.stats.add(Stat::FtraceAbiErrorsSkippedZeroDataLength, None, by);
        }
    }

    /// What could not be set up, once for each sequence that says so.
    fn setup_errors(&mut self, is_end: bool, errors: i64) {
        if is_end || errors == 0 {
            return;
        }
        if self.model.kernel(self.machine).told_errors.insert(self.sequence_id) {
            self.model.stats.add(Stat::FtraceSetupErrors, None, errors);
        }
    }
}

fn of_cpu(message: &[u8], is_end: bool, stats: &mut Stats) {
    let mut values = [0u64; cpu_field::READ_EVENTS as usize + 1];
    for part in Fields::new(message).map_while(Result::ok) {
        if let (Some(cell), Some(value)) = (values.get_mut(part.number as usize), part.value.as_u64()) {
            *cell = value;
        }
    }
    let get = |number: u32| values.get(number as usize).copied().unwrap_or(0);
    let cpu = Some(i64::from(get(cpu_field::CPU) as i32));
    for (number, begin, end, delta) in OF_CPU {
        let value = match delta {
            Some(_) => get(number) as i64,
            // Seconds; a cast of floating-point numbers saturates.
            None => (f64::from_bits(get(number)) * 1e9) as i64,
        };
        stats.set(if is_end { end } else { begin }, cpu, value);
        if let Some(delta) = delta
            && is_end
            && stats.has(begin, cpu)
        {
            let before = stats.get(begin, cpu);
            stats.set(delta, cpu, value.saturating_sub(before));
        }
    }
}

fn of_kprobes(message: &[u8], is_end: bool, stats: &mut Stats) {
    let (mut hits, mut misses) = (0, 0);
    for part in Fields::new(message).map_while(Result::ok) {
        match (part.number, part.value.as_u64()) {
            (ftrace_kprobe_stats::HITS, Some(value)) => hits = value as i64,
            (ftrace_kprobe_stats::MISSES, Some(value)) => misses = value as i64,
            _ => {}
        }
    }
    if !is_end {
        stats.set(Stat::FtraceKprobeHitsBegin, None, hits);
        stats.set(Stat::FtraceKprobeMissesBegin, None, misses);
        return;
    }
    stats.set(Stat::FtraceKprobeHitsEnd, None, hits);
    stats.set(Stat::FtraceKprobeMissesEnd, None, misses);
    for (begin, delta, value) in [
        (Stat::FtraceKprobeHitsBegin, Stat::FtraceKprobeHitsDelta, hits),
        (Stat::FtraceKprobeMissesBegin, Stat::FtraceKprobeMissesDelta, misses),
    ] {
        let before = stats.get(begin, None);
        if before != 0 {
            stats.set(delta, None, value.saturating_sub(before));
        }
    }
}
