//! What the kernel's ring buffers say about themselves, and what went wrong with a config: `FtraceStats` packets.

use ferretto_protos::fields::{self, ftrace_stats as field, trace_packet};
use ferretto_protozero::{Message, Sink};

use super::cpu_stats::CpuStats;
use super::page::ParseStatuses;
use super::tracefs::Tracefs;
use crate::packets::Packets;
use crate::proc_fs::{leading_u64, lines};

/// What of a config could not be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetupErrors {
    /// Events that this kernel does not have.
    pub(crate) unknown_events: Vec<String>,
    /// Events that could not be enabled, and other features by name.
    pub(crate) failed_events: Vec<String>,
    /// In words, a line each.
    pub(crate) messages: Vec<String>,
    /// Why an option that only one session may use was refused.
    pub(crate) exclusive_feature: Option<String>,
}

impl SetupErrors {
    /// Says it in the trace and in the log.
    pub(crate) fn message(&mut self, text: String) {
        tracing::warn!("linux.ftrace: {text}");
        self.messages.push(text);
    }
}

/// The state of an instance at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) cpus: Vec<CpuStats>,
    pub(crate) symbols_parsed: usize,
    pub(crate) symbols_bytes: usize,
    /// Hits and misses of kernel probes.
    pub(crate) kprobes: Option<(u64, u64)>,
    pub(crate) buffer_pages: u64,
    /// What was asked of the kernel, which rounds.
    pub(crate) requested_buffer_pages: u64,
}

/// Adds up the columns of `kprobe_profile`: event, hits, misses.
pub(crate) fn kprobe_totals(tracefs: &Tracefs) -> (u64, u64) {
    let text = tracefs.read_shared("kprobe_profile");
    lines(&text).fold((0, 0), |(hits, misses), line| {
        let mut numbers = crate::proc_fs::words(line).skip(1).filter_map(leading_u64);
        (hits + numbers.next().unwrap_or(0), misses + numbers.next().unwrap_or(0))
    })
}

/// `FtraceStats.Phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Start = 1,
    End = 2,
}

/// Writes one `FtraceStats` packet.
pub(crate) fn write(
    out: &mut impl Packets,
    phase: Phase,
    snapshot: &Snapshot,
    errors: &SetupErrors,
    parse_errors: ParseStatuses,
) {
    out.packet(|packet| {
        let mut stats = packet.nested(trace_packet::FTRACE_STATS);
        stats.varint(field::PHASE, phase as u64);
        write_snapshot(&mut stats, snapshot);
        // Once is enough, and readers look for them at the start.
        if phase == Phase::Start {
            write_setup_errors(&mut stats, errors);
        } else {
            for status in parse_errors.numbers() {
                stats.varint(field::FTRACE_PARSE_ERRORS, status);
            }
        }
    });
}

fn write_snapshot<S: Sink>(stats: &mut Message<'_, S>, snapshot: &Snapshot) {
    use fields::ftrace_cpu_stats as cpu_field;
    for cpu in &snapshot.cpus {
        let mut out = stats.nested(field::CPU_STATS);
        out.varint(cpu_field::CPU, u64::from(cpu.cpu));
        out.varint(cpu_field::ENTRIES, cpu.entries);
        out.varint(cpu_field::OVERRUN, cpu.overrun);
        out.varint(cpu_field::COMMIT_OVERRUN, cpu.commit_overrun);
        out.varint(cpu_field::BYTES_READ, cpu.bytes);
        out.double(cpu_field::OLDEST_EVENT_TS, cpu.oldest_event_ts);
        out.double(cpu_field::NOW_TS, cpu.now_ts);
        out.varint(cpu_field::DROPPED_EVENTS, cpu.dropped_events);
        out.varint(cpu_field::READ_EVENTS, cpu.read_events);
    }
    stats.varint(field::KERNEL_SYMBOLS_PARSED, snapshot.symbols_parsed as u64);
    stats.varint(field::KERNEL_SYMBOLS_MEM_KB, snapshot.symbols_bytes as u64 / 1024);
    if let Some((hits, misses)) = snapshot.kprobes {
        let mut out = stats.nested(field::KPROBE_STATS);
        out.varint(fields::ftrace_kprobe_stats::HITS, hits);
        out.varint(fields::ftrace_kprobe_stats::MISSES, misses);
    }
    stats.varint(field::CPU_BUFFER_SIZE_PAGES, snapshot.buffer_pages);
    stats.varint(field::CACHED_CPU_BUFFER_SIZE_PAGES, snapshot.requested_buffer_pages);
}

pub(crate) fn write_setup_errors<S: Sink>(stats: &mut Message<'_, S>, errors: &SetupErrors) {
    if !errors.messages.is_empty() {
        stats.string(field::ATRACE_ERRORS, &errors.messages.join("\n"));
    }
    if let Some(error) = &errors.exclusive_feature {
        stats.string(field::EXCLUSIVE_FEATURE_ERROR, error);
    }
    for event in &errors.unknown_events {
        stats.string(field::UNKNOWN_FTRACE_EVENTS, event);
    }
    for event in &errors.failed_events {
        stats.string(field::FAILED_FTRACE_EVENTS, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stats_file_parses() {
        let text = b"entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 400\noldest event ts:  5178.104\nnow ts:   775.600997\ndropped events: 7\nread events: 9\n";
        let stats = CpuStats::parse(1, text);
        assert_eq!((stats.cpu, stats.entries, stats.overrun, stats.commit_overrun), (1, 12, 3, 1));
        assert_eq!((stats.bytes, stats.dropped_events, stats.read_events), (400, 7, 9));
        assert_eq!(stats.now_ns() / 1000, 775_600_997);
        assert_eq!(CpuStats::parse(0, b"garbage\nentries"), CpuStats::default());
    }
}
