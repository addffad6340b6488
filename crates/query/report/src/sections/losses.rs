//! What is missing from the trace, in the words of `docs/losses.md` as far as the statistics tell it.

use std::collections::BTreeMap;

use crate::document::Section;
use crate::facts::{Facts, Stat};
use crate::units::{bytes, count};

/// How a count is said: its unit for one and for many, and what became of it.
enum Words {
    /// Things of a CPU.
    Cpu(&'static str, &'static str, &'static str),
    /// Things of a buffer of the service.
    Buffer(&'static str, &'static str, &'static str),
    /// Bytes of a buffer.
    Bytes,
    /// Things of the whole trace.
    All(&'static str, &'static str, &'static str),
}

const FULL: &str = "the kernel's buffer was full before it was read";
const CLOCK: &str = "whose time nobody can tell: on a clock without a clock snapshot";

/// By the name of the counter.
const WORDS: &[(&str, Words)] = &[
    ("ftrace_cpu_commit_overrun_delta", Words::Cpu("kernel event", "kernel events", FULL)),
    ("ftrace_cpu_dropped_events_delta", Words::Cpu("kernel event", "kernel events", FULL)),
    ("ftrace_cpu_has_data_loss", Words::Cpu("gap of kernel events", "gaps of kernel events", FULL)),
    (
        "traced_buf_trace_writer_packet_loss",
        Words::Buffer(
            "time that packets",
            "times that packets",
            "a program wrote faster than its shared memory was emptied",
        ),
    ),
    (
        "traced_buf_abi_violations",
        Words::Buffer("piece", "pieces", "a program's data broke the rules of the protocol"),
    ),
    (
        "traced_buf_patches_failed",
        Words::Buffer("piece", "pieces", "the end of a packet came when its beginning had been overwritten"),
    ),
    (
        "traced_buf_chunks_discarded",
        Words::Buffer("chunk", "chunks", "it was full and keeps the oldest, or they came too late"),
    ),
    (
        "traced_buf_sequence_packet_loss",
        Words::Buffer("gap", "gaps", "chunks of a sequence of packets are missing"),
    ),
    (
        "traced_buf_incremental_sequences_dropped",
        Words::Buffer(
            "sequence of packets",
            "sequences of packets",
            "the names that they refer to were lost",
        ),
    ),
    ("traced_buf_bytes_overwritten", Words::Bytes),
    ("filter_errors", Words::All("packet", "packets", "that the trace filter could not read")),
    ("traced_flushes_failed", Words::All("flush", "flushes", "that data sources did not answer in time")),
    (
        "traced_final_flush_failed",
        Words::All("last flush", "last flushes", "that data sources did not answer in time"),
    ),
    ("clock_sync_failure", Words::All("packet", "packets", CLOCK)),
    ("clock_sync_failure_unknown_source_clock", Words::All("packet", "packets", CLOCK)),
    ("clock_sync_failure_unknown_target_clock", Words::All("packet", "packets", CLOCK)),
    ("clock_sync_failure_no_path", Words::All("packet", "packets", CLOCK)),
];

/// What was lost, a line each. Losses of the same kind are one.
pub(crate) fn words(facts: &Facts) -> Vec<String> {
    let mut cpus: BTreeMap<&str, (i64, Vec<String>)> = BTreeMap::new();
    let mut lines = Vec::new();
    for stat in &facts.stats {
        let known = WORDS.iter().find(|(name, _)| *name == stat.name).map(|(_, words)| words);
        match known {
            Some(Words::Cpu(..)) => {
                let of_this = cpus.entry(stat.name.as_str()).or_default();
                of_this.0 = of_this.0.saturating_add(stat.value);
                of_this.1.extend(stat.index.map(|cpu| cpu.to_string()));
            }
            known => lines.push(line(stat, known, facts)),
        }
    }
    let of_cpus = cpus.iter().filter_map(|(name, (value, cpus))| {
        let (_, Words::Cpu(one, many, why)) = WORDS.iter().find(|(it, _)| it == name)? else { return None };
        Some(format!("{} on CPU {}: {why}", counted(*value, one, many), cpus.join(", ")))
    });
    of_cpus.chain(lines.iter().cloned()).collect()
}

fn line(stat: &Stat, words: Option<&Words>, facts: &Facts) -> String {
    let buffer = stat.index.map_or("a buffer".to_owned(), |index| format!("buffer {index}"));
    match words {
        Some(Words::Buffer(one, many, why)) => {
            format!("{} in {buffer}: {why}", counted(stat.value, one, many))
        }
        Some(Words::Bytes) => match facts.machine.writes_into_file {
            true => format!("{} in {buffer}: it was full before the file was written", bytes(stat.value)),
            false => {
                format!("{} of the oldest data in {buffer}, a ring that keeps the newest", bytes(stat.value))
            }
        },
        Some(Words::All(one, many, why)) => format!("{} {why}", counted(stat.value, one, many)),
        // Any other has the words of its column.
        _ => {
            let index = stat.index.map_or(String::new(), |index| format!(" ({index})"));
            format!("{}{index}: {}: {}", stat.name, count(stat.value), stat.description)
        }
    }
}

fn counted(n: i64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

pub(super) fn section(facts: &Facts) -> Section {
    let mut notes = words(facts);
    if notes.is_empty() {
        notes.push("Nothing that the trace's statistics count.".to_owned());
    }
    notes.push("What only the service counts, and what to do about it, says `ferretto info`.".to_owned());
    Section { key: "losses", title: "Lost".to_owned(), notes, ..Section::default() }
}
