//! Counts what a trace holds, packet by packet, while it is written or read: what the progress line, the summary and the
//! list of losses speak about.
//!
//! It looks at packets as they stand in the file, so the figures are of what is really there. Field numbers are those of
//! upstream's trace_packet.proto, ftrace_event_bundle.proto, ftrace_stats.proto and process_tree.proto.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use ferretto_protos::fields::profile_packet::{self, process_heap_samples};
use ferretto_protos::fields::{ftrace_cpu_stats, ftrace_stats, perf_sample, process_tree, trace_packet};
use ferretto_protos::ftrace::INTERFERENCE;
use ferretto_protos::trace_packet::NotRecorded;
use ferretto_protos::tracing_service_event::{DataSources, EventType};
use ferretto_protos::{TraceStats, TracingServiceEvent};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_read::{Batch, Head};
use prost::Message;

use crate::ftrace::{self, Event, Parts, Switches, Wakings};
use crate::readable::{Arrival, Readable};

/// Distinct pids, tids and sequences that are told apart; beyond it they are no longer counted. Linux has at most
/// 4 Mi pids; this bounds our memory on a hostile trace.
const MAX_DISTINCT: usize = 1 << 20;
/// Names of events that could not be enabled: the summary shows a few only.
const MAX_NAMES: usize = 64;
/// What is read of such a name, or of the kernel's words on what went wrong: those are some lines.
const MAX_TEXT_BYTES: usize = 32 << 10;
/// CPUs that are told apart.
const MAX_CPUS: usize = 4096;
/// What is decoded of a message of counts: those of honest services have some hundred bytes a buffer and a writer. A message becomes larger
/// when it is decoded; it bounds that.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
const MAX_MESSAGE_FIELDS: usize = 1 << 12;
/// The phase of an ftrace_stats packet that was taken when the trace ended.
const PHASE_END: u64 = 2;
/// Bits of `previous_packet_dropped`, each with its cause (upstream: trace_packet.proto, v57.2).
const LOSS_PRESENT: u64 = 1;
const LOSS_OVERWRITE: u64 = 64;
const LOSS_SMB_FULL: u64 = 256;

/// What has been seen so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets, those within batches too.
    pub packets: u64,
    /// Events of the kernel.
    pub ftrace: Ftrace,
    /// Lists of processes.
    pub process_scans: u64,
    /// Rounds of counters of processes.
    pub process_counters: u64,
    /// Rounds of counters of the system.
    pub system_counters: u64,
    /// Descriptions of the machine's CPUs.
    pub cpu_infos: u64,
    /// Samples of profilers of processors.
    pub samples: u64,
    /// What the rings of the kernel had no room for: samples, and what says where code is.
    pub samples_lost: u64,
    /// Dumps of heaps.
    pub heap_dumps: u64,
    /// Of these such of processes of which samples were lost: there was no room for them, or no sense in them.
    pub heap_overruns: u64,
    /// Events of programs.
    pub track_events: u64,
    /// Batches of compressed packets that could not be unpacked, or not to their end.
    pub sealed: u64,
    /// Packets that were too large to be taken from the service.
    pub oversized: u64,
    /// The service's last packet came without its end.
    pub cut_short: bool,
    /// Packets that are no protobuf, or not to their end.
    pub undecodable: u64,
    /// What can be read of what is there.
    pub readable: Readable,
    /// Data sources, by producer, that the service calls too slow to start.
    pub slow_to_start: BTreeSet<String>,
    /// And those too slow to hand over their last data.
    pub slow_to_flush: BTreeSet<String>,
    /// What programs did not record, and why, in words.
    pub not_recorded: BTreeSet<String>,
    /// Packets with data that no other counter here names.
    pub others: u64,
    /// Packets that say that others are missing.
    pub losses: Losses,
    /// The service's own counts, as the trace has them last.
    pub stats: Option<TraceStats>,
    /// The first counters of processes or the system, on the clock of the trace.
    first_counters_ns: Option<u64>,
    pids: HashSet<u64>,
    tids: HashSet<u64>,
    /// By sequence, and how many they are.
    is_app: Vec<bool>,
    app_sequences: u64,
    /// Those whose ids others bear now: a program that starts tens of thousands of threads.
    ended_app_sequences: u64,
}

/// Events of the kernel.
#[derive(Debug, Default, Clone)]
pub struct Ftrace {
    /// `sched_switch`.
    pub switches: u64,
    /// `sched_waking`.
    pub wakings: u64,
    /// All others.
    pub others: u64,
    /// Bundles after which the kernel had overwritten events that nobody had read.
    pub lossy_bundles: u64,
    /// Their CPUs.
    pub lossy_cpus: BTreeSet<u64>,
    /// Events that the kernel overwrote or had no room for, by CPU, as it counted them.
    pub overruns: BTreeMap<u64, u64>,
    overruns_at_start: BTreeMap<u64, u64>,
    /// The kernel's counts at the end are there.
    pub has_end: bool,
    /// Pages of the kernel's buffer that could not be read.
    pub parse_errors: u64,
    /// Why options or whole data sources were refused, in words.
    pub refusals: BTreeSet<String>,
    /// What other programs did to the kernel's tracing meanwhile, in words.
    pub interference: BTreeSet<String>,
    /// Events that the kernel does not have.
    pub unknown_events: BTreeSet<String>,
    /// Events that could not be switched on.
    pub failed_events: BTreeSet<String>,
    first_event_ns: Option<u64>,
}

impl Ftrace {
    /// Events that the kernel overwrote during the recording.
    #[must_use]
    pub fn overwritten(&self) -> u64 {
        let during = |(cpu, end): (&u64, &u64)| {
            end.saturating_sub(self.overruns_at_start.get(cpu).copied().unwrap_or(0))
        };
        self.overruns.iter().map(during).sum()
    }
}

/// Packets that say that something before them is missing.
#[derive(Debug, Default, Clone)]
pub struct Losses {
    /// How many.
    pub packets: u64,
    /// Those that name the shared memory as the cause.
    pub shared_memory_full: u64,
    /// Those that name a buffer that was overwritten.
    pub overwritten: u64,
    sequences: HashSet<u64>,
}

impl Losses {
    /// Sequences with such a packet.
    #[must_use]
    pub fn sequences(&self) -> u64 {
        self.sequences.len() as u64
    }
}

impl Tally {
    /// Processes that lists name.
    #[must_use]
    pub fn processes(&self) -> u64 {
        self.pids.len() as u64
    }

    /// Threads beside the main ones that lists name.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.tids.len() as u64
    }

    /// Threads of instrumented programs.
    #[must_use]
    pub fn app_sequences(&self) -> u64 {
        self.app_sequences + self.ended_app_sequences
    }

    /// Counts one TracePacket, or those inside if it is a batch of compressed ones. What cannot be read is counted as a packet and otherwise
    /// ignored.
    pub fn packet(&mut self, bytes: &[u8]) {
        match Batch::of(bytes) {
            Some(batch) => {
                let is_whole = batch.unpack(&mut |packet, _| self.plain_packet(packet));
                self.sealed += u64::from(!is_whole);
            }
            None => self.plain_packet(bytes),
        }
    }

    fn plain_packet(&mut self, bytes: &[u8]) {
        match Head::of(bytes) {
            Ok(head) => {
                self.head(&head, &mut ());
            }
            Err(_) => self.undecodable(),
        }
    }

    /// Counts a packet that is no protobuf, or not to its end.
    pub fn undecodable(&mut self) {
        self.packets += 1;
        self.undecodable += 1;
    }

    /// Counts a packet that is no batch, and gives `parts` those of a bundle of kernel events.
    #[inline]
    pub fn head<'a>(&mut self, head: &Head<'a>, parts: &mut impl Parts<'a>) -> Arrival {
        self.packets += 1;
        let arrival = self.readable.packet(head);
        let is_app = matches!(head.data, Some((trace_packet::TRACK_EVENT, _)));
        match head.data {
            Some((trace_packet::TRACK_EVENT, _)) => self.track_events += 1,
            Some((trace_packet::FTRACE_EVENTS, body)) => self.ftrace.bundle(body, parts),
            Some((number, body)) => self.payload(number, body, head),
            None => {}
        }
        self.program(head, &arrival, is_app);
        // Services before v57 set the plain bit on the first packet of every sequence: nothing is known to be missing.
        let loss = u64::from(head.previous_packet_dropped);
        // It says itself what is missing.
        let is_told = matches!(head.data, Some((trace_packet::NOT_RECORDED, _)));
        if !is_told && (loss > LOSS_PRESENT || (loss == LOSS_PRESENT && !arrival.is_first)) {
            self.loss(loss, head.sequence_id.into());
        }
        arrival
    }

    /// Takes note of whether the packet's sequence is that of a thread of an instrumented program.
    #[inline]
    fn program(&mut self, head: &Head<'_>, arrival: &Arrival, is_app: bool) {
        let Some(sequence) = arrival.sequence else { return };
        let is_known = self.is_app.get(sequence).copied().unwrap_or(false);
        if is_app == is_known && !head.is_first_on_sequence {
            return;
        }
        if is_known && head.is_first_on_sequence {
            self.ended_app_sequences += 1;
        }
        let is_now = is_app || (is_known && !head.is_first_on_sequence);
        if is_now != is_known {
            self.app_sequences = match is_now {
                true => self.app_sequences + 1,
                false => self.app_sequences.saturating_sub(1),
            };
            if self.is_app.len() <= sequence {
                self.is_app.resize(sequence + 1, false);
            }
            if let Some(is_app) = self.is_app.get_mut(sequence) {
                *is_app = is_now;
            }
        }
    }

    /// Takes note of what did not come when the packets were read from the service.
    pub fn read_back(&mut self, oversized: u64, is_torn: bool) {
        self.oversized += oversized;
        self.cut_short |= is_torn;
    }

    /// From the first kernel event, or else from the first counter, to `now_ns`.
    #[must_use]
    pub fn reaches_back(&self, now_ns: u64) -> Option<Duration> {
        let first = self.ftrace.first_event_ns.or(self.first_counters_ns)?;
        Some(Duration::from_nanos(now_ns.saturating_sub(first)))
    }

    fn loss(&mut self, mask: u64, sequence: u64) {
        self.losses.packets += 1;
        self.losses.shared_memory_full += u64::from(mask & LOSS_SMB_FULL != 0);
        self.losses.overwritten += u64::from(mask & LOSS_OVERWRITE != 0);
        remember(&mut self.losses.sequences, sequence);
    }

    fn payload(&mut self, number: u32, body: &[u8], head: &Head<'_>) {
        match number {
            trace_packet::FTRACE_STATS => self.ftrace.stats(body),
            trace_packet::PROCESS_TREE => self.process_tree(body),
            trace_packet::PROCESS_STATS => {
                self.process_counters += 1;
                self.first_counters_ns = earlier(self.first_counters_ns, head.timestamp);
            }
            trace_packet::SYS_STATS => {
                self.system_counters += 1;
                self.first_counters_ns = earlier(self.first_counters_ns, head.timestamp);
            }
            trace_packet::CPU_INFO => self.cpu_infos += 1,
            trace_packet::PERF_SAMPLE => match varint_field(body, perf_sample::KERNEL_RECORDS_LOST) {
                None => self.samples += 1,
                Some(lost) => self.samples_lost = self.samples_lost.saturating_add(lost),
            },
            trace_packet::PROFILE_PACKET => self.heap_dump(body),
            // Nobody compresses twice.
            trace_packet::COMPRESSED_PACKETS | trace_packet::ZSTD_COMPRESSED_PACKETS => self.sealed += 1,
            trace_packet::TRACE_STATS => self.trace_stats(body),
            trace_packet::SERVICE_EVENT => self.service_event(body),
            trace_packet::NOT_RECORDED => self.not_recorded(body, head),
            number if is_bookkeeping(number) => {}
            _ => self.others += 1,
        }
    }

    fn heap_dump(&mut self, body: &[u8]) {
        let is_set = |message, number| varint_field(message, number).is_some_and(|value| value != 0);
        self.heap_dumps += u64::from(!is_set(body, profile_packet::CONTINUED));
        let processes = Fields::new(body).map_while(Result::ok);
        let processes = processes.filter(|field| field.number == profile_packet::PROCESS_DUMPS);
        for process in processes.filter_map(|field| field.value.as_bytes()) {
            let is_lossy = [process_heap_samples::BUFFER_OVERRAN, process_heap_samples::BUFFER_CORRUPTED];
            self.heap_overruns += u64::from(is_lossy.iter().any(|number| is_set(process, *number)));
        }
    }

    /// The service's last statistics win; torn ones are no worse than none. The last ones of a small file that is full may be of losses only.
    fn trace_stats(&mut self, body: &[u8]) {
        let Ok(stats) = TraceStats::decode(bounded(body).as_ref()) else { return };
        self.stats = match self.stats.take().filter(|_| stats.buffer_stats.is_empty()) {
            Some(before) => Some(TraceStats { losses: stats.losses, ..before }),
            None => Some(stats),
        };
    }

    fn service_event(&mut self, body: &[u8]) {
        let event =
            TracingServiceEvent::decode(bounded(body).as_ref()).ok().and_then(|event| event.event_type);
        match event {
            Some(EventType::SlowStartingDataSources(slow)) => add_names(&mut self.slow_to_start, &slow),
            Some(EventType::LastFlushSlowDataSources(slow)) => add_names(&mut self.slow_to_flush, &slow),
            _ => {}
        }
    }

    fn not_recorded(&mut self, body: &[u8], head: &Head<'_>) {
        let Ok(note) = NotRecorded::decode(bounded(body).as_ref()) else { return };
        if self.not_recorded.len() < MAX_NAMES {
            let [source, program, reason] =
                [note.data_source_name(), note.producer_name(), note.reason()].map(one_line);
            let pid = head.trusted_pid.unwrap_or(0);
            self.not_recorded.insert(format!("{source} of {program} (process {pid}: {reason})"));
        }
    }

    fn process_tree(&mut self, body: &[u8]) {
        self.process_scans += 1;
        for (number, entry) in messages(body) {
            let id = varint_field(entry, process_tree::process::PID).unwrap_or(0);
            match number {
                process_tree::PROCESSES => remember(&mut self.pids, id),
                process_tree::THREADS => remember(&mut self.tids, id),
                _ => false,
            };
        }
    }
}

fn add_names(names: &mut BTreeSet<String>, sources: &DataSources) {
    for source in sources.data_source.iter().take(MAX_NAMES.saturating_sub(names.len())) {
        let name = format!("{} of {}", source.data_source_name(), source.producer_name());
        names.insert(one_line(&name));
    }
}

/// Packets that the service or a client's library writes beside the data.
fn is_bookkeeping(number: u32) -> bool {
    matches!(
        number,
        trace_packet::CLOCK_SNAPSHOT
            | trace_packet::TRACE_CONFIG
            | trace_packet::SYNCHRONIZATION_MARKER
            | trace_packet::SYSTEM_INFO
            | trace_packet::TRACE_UUID
            | trace_packet::TRACK_DESCRIPTOR
            | trace_packet::TRACE_PACKET_DEFAULTS
            | trace_packet::INTERNED_DATA
            | trace_packet::TRACE_PROVENANCE
            | trace_packet::PROTOVMS
            | trace_packet::TRIGGER
            | trace_packet::CLONE_SNAPSHOT_TRIGGER
    )
}

impl Ftrace {
    #[inline]
    fn bundle<'a>(&mut self, body: &'a [u8], parts: &mut impl Parts<'a>) {
        let mut counted = Counted { events: 0, switches: 0, wakings: 0, first_ns: u64::MAX, parts };
        let bundle = ftrace::walk(body, &mut counted);
        let Counted { events, switches, wakings, first_ns, .. } = counted;
        self.switches += switches;
        self.wakings += wakings;
        self.others += events - switches - wakings;
        let first_ns = (first_ns < u64::MAX).then_some(first_ns);
        self.first_event_ns = earlier(self.first_event_ns, first_ns);
        if bundle.has_lost_events {
            self.lossy_bundles += 1;
            if self.lossy_cpus.len() < MAX_CPUS {
                self.lossy_cpus.insert(bundle.cpu.into());
            }
        }
    }

    fn stats(&mut self, body: &[u8]) {
        let at_end = varint_field(body, ftrace_stats::PHASE) == Some(PHASE_END);
        for (number, value) in messages(body) {
            let value = value.get(..MAX_TEXT_BYTES).unwrap_or(value);
            let name = || String::from_utf8_lossy(value).into_owned();
            match number {
                ftrace_stats::CPU_STATS => self.cpu_stats(value, at_end),
                ftrace_stats::UNKNOWN_FTRACE_EVENTS if self.unknown_events.len() < MAX_NAMES => {
                    self.unknown_events.insert(name());
                }
                ftrace_stats::ATRACE_ERRORS | ftrace_stats::EXCLUSIVE_FEATURE_ERROR => {
                    name().lines().for_each(|line| self.problem(line));
                }
                ftrace_stats::FAILED_FTRACE_EVENTS if self.failed_events.len() < MAX_NAMES => {
                    self.failed_events.insert(name());
                }
                _ => {}
            }
        }
        if at_end {
            self.has_end = true;
            let errors = Fields::new(body).map_while(Result::ok);
            self.parse_errors =
                errors.filter(|f| f.number == ftrace_stats::FTRACE_PARSE_ERRORS).count() as u64;
        }
    }

    fn problem(&mut self, line: &str) {
        let (list, text) = match line.strip_prefix(INTERFERENCE) {
            Some(rest) => (&mut self.interference, rest),
            None => (&mut self.refusals, line),
        };
        let text = one_line(text);
        if list.len() < MAX_NAMES && !text.is_empty() {
            list.insert(text);
        }
    }

    fn cpu_stats(&mut self, value: &[u8], at_end: bool) {
        let cpu = varint_field(value, ftrace_cpu_stats::CPU).unwrap_or(0);
        // The oldest that were overwritten, those that a nested event interrupted, and the newest, should the oldest be kept.
        use ftrace_cpu_stats::{COMMIT_OVERRUN, DROPPED_EVENTS, OVERRUN};
        let counts =
            [OVERRUN, COMMIT_OVERRUN, DROPPED_EVENTS].map(|number| varint_field(value, number).unwrap_or(0));
        let overrun = counts.into_iter().fold(0, u64::saturating_add);
        let counts = if at_end { &mut self.overruns } else { &mut self.overruns_at_start };
        if counts.len() < MAX_CPUS {
            counts.insert(cpu, overrun);
        }
    }
}

/// Counts the events of a bundle, and hands them on.
struct Counted<'p, P> {
    events: u64,
    switches: u64,
    wakings: u64,
    first_ns: u64,
    parts: &'p mut P,
}

impl<P> Counted<'_, P> {
    /// The first timestamp of a column is whole, those after it are differences.
    fn column(&mut self, timestamps: &[u8], count: u64) {
        self.first_ns = self.first_ns.min(first_packed(timestamps).unwrap_or(u64::MAX));
        self.events += count;
    }
}

impl<'a, P: Parts<'a>> Parts<'a> for Counted<'_, P> {
    fn begin(&mut self, cpu: u32, clock: u64, pair: Option<(i64, i64)>) {
        self.parts.begin(cpu, clock, pair);
    }

    #[inline(always)]
    fn event(&mut self, event: Event<'a>) {
        self.events += 1;
        self.switches += u64::from(event.number == ftrace::SCHED_SWITCH);
        self.wakings += u64::from(event.number == ftrace::SCHED_WAKING);
        self.first_ns = self.first_ns.min(event.timestamp.unwrap_or(u64::MAX));
        self.parts.event(event);
    }

    fn switches(&mut self, switches: Switches<'a>) {
        self.switches += switches.count;
        self.column(switches.timestamps, switches.count);
        self.parts.switches(switches);
    }

    fn wakings(&mut self, wakings: Wakings<'a>) {
        self.wakings += wakings.count;
        self.column(wakings.timestamps, wakings.count);
        self.parts.wakings(wakings);
    }
}

/// A message with not more at its top level than may be decoded.
#[must_use]
pub fn bounded(message: &[u8]) -> Cow<'_, [u8]> {
    let is_small = message.len() <= MAX_MESSAGE_BYTES;
    if is_small && Fields::new(message).take(MAX_MESSAGE_FIELDS + 1).count() <= MAX_MESSAGE_FIELDS {
        return Cow::Borrowed(message);
    }
    let mut out = Vec::new();
    for field in Fields::new(message).map_while(Result::ok).take(MAX_MESSAGE_FIELDS) {
        if out.len() + field.raw.len() <= MAX_MESSAGE_BYTES {
            out.extend_from_slice(field.raw);
        }
    }
    Cow::Owned(out)
}

/// Text from a trace, fit to be shown in a line.
fn one_line(text: &str) -> String {
    const MAX_SHOWN: usize = 300;
    let line = text.trim().replace('\n', "; ");
    line.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

/// Whether the value is new.
fn remember(set: &mut HashSet<u64>, value: u64) -> bool {
    set.len() < MAX_DISTINCT && set.insert(value)
}

/// The length-delimited fields of a message.
fn messages(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    Fields::new(body).map_while(Result::ok).filter_map(|field| match field.value {
        Value::Bytes(bytes) => Some((field.number, bytes)),
        _ => None,
    })
}

fn varint_field(body: &[u8], number: u32) -> Option<u64> {
    let fields = Fields::new(body).map_while(Result::ok);
    fields.filter(|field| field.number == number).find_map(|field| match field.value {
        Value::Varint(value) => Some(value),
        _ => None,
    })
}

#[inline]
fn earlier(known: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (known, other) {
        (Some(known), Some(other)) => Some(known.min(other)),
        (known, other) => known.or(other),
    }
}

fn first_packed(packed: &[u8]) -> Option<u64> {
    ferretto_protozero::varint::decode(packed).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use ferretto_protos::fields::{ftrace_event_bundle, process_tree};
    use ferretto_protozero::Message as Writer;
    use ruzstd::encoding::CompressionLevel;

    use super::*;

    fn packet(write: impl FnOnce(&mut Writer<'_, Vec<u8>>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        bytes
    }

    fn tally(packets: &[Vec<u8>]) -> Tally {
        let mut tally = Tally::default();
        packets.iter().for_each(|packet| tally.packet(packet));
        tally
    }

    #[test]
    fn kernel_events_are_counted_in_both_encodings() {
        let tally = tally(&[packet(|packet| {
            let mut bundle = packet.nested(trace_packet::FTRACE_EVENTS);
            bundle.varint(ftrace_event_bundle::CPU, 3);
            bundle.varint(ftrace_event_bundle::LOST_EVENTS, 1);
            bundle.nested(ftrace_event_bundle::EVENT).bytes(4, b"switch");
            bundle.nested(ftrace_event_bundle::EVENT).bytes(20, b"waking");
            bundle.nested(ftrace_event_bundle::EVENT).bytes(3, b"print");
            let mut compact = bundle.nested(ftrace_event_bundle::COMPACT_SCHED);
            use ftrace_event_bundle::compact_sched::{SWITCH_TIMESTAMP, WAKING_TIMESTAMP};
            compact.packed_varints(SWITCH_TIMESTAMP, [1, 300, 70000].into_iter());
            compact.packed_varints(WAKING_TIMESTAMP, [5, 6].into_iter());
        })]);
        let ftrace = &tally.ftrace;
        assert_eq!((ftrace.switches, ftrace.wakings, ftrace.others), (4, 3, 1));
        assert_eq!((ftrace.lossy_bundles, ftrace.lossy_cpus.len()), (1, 1));
    }

    #[test]
    fn names_and_words_are_bounded() {
        let long = vec![b'x'; 1 << 20];
        let said = packet(|packet| {
            let mut stats = packet.nested(trace_packet::FTRACE_STATS);
            stats.bytes(ftrace_stats::UNKNOWN_FTRACE_EVENTS, &long);
            stats.bytes(ftrace_stats::FAILED_FTRACE_EVENTS, &long);
        });
        let slow = packet(|packet| {
            let mut event = packet.nested(trace_packet::SERVICE_EVENT);
            // Each of them is of a few bytes, and takes some hundred once it is decoded.
            let sources = [10, 0].repeat(MAX_MESSAGE_BYTES);
            event.bytes(ferretto_protos::fields::tracing_service_event::SLOW_STARTING_DATA_SOURCES, &sources);
        });
        let tally = tally(&[said, slow]);
        let names = tally.ftrace.unknown_events.iter().chain(&tally.ftrace.failed_events);
        assert!(names.map(String::len).eq([MAX_TEXT_BYTES; 2]));
        assert!(tally.slow_to_start.is_empty(), "a list as large as this is not read");
    }

    #[test]
    fn overruns_count_from_the_start_of_the_trace() {
        let stats = |phase, overrun| {
            packet(|packet| {
                let mut stats = packet.nested(trace_packet::FTRACE_STATS);
                stats.varint(ftrace_stats::PHASE, phase);
                let mut cpu = stats.nested(ftrace_stats::CPU_STATS);
                cpu.varint(ftrace_cpu_stats::OVERRUN, overrun);
            })
        };
        assert_eq!(tally(&[stats(1, 100), stats(2, 130)]).ftrace.overwritten(), 30);
    }

    #[test]
    fn processes_and_programs_are_counted_once() {
        let tree = packet(|packet| {
            let mut tree = packet.nested(trace_packet::PROCESS_TREE);
            tree.nested(process_tree::PROCESSES).varint(1, 10);
            tree.nested(process_tree::THREADS).varint(1, 11);
        });
        let event = |sequence| {
            packet(|packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
                packet.nested(trace_packet::TRACK_EVENT);
            })
        };
        let tally = tally(&[tree.clone(), tree, event(1), event(2), event(1)]);
        assert_eq!((tally.processes(), tally.threads()), (1, 1));
        assert_eq!((tally.track_events, tally.app_sequences(), tally.packets), (3, 2, 5));
    }

    #[test]
    fn a_thread_may_bear_the_number_of_one_that_is_over() {
        let packet = |is_first| {
            packet(|packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 7);
                packet.bool(trace_packet::FIRST_PACKET_ON_SEQUENCE, is_first);
                packet.nested(trace_packet::TRACK_EVENT);
            })
        };
        let tally = tally(&[packet(true), packet(false), packet(true), packet(false)]);
        assert_eq!((tally.track_events, tally.app_sequences()), (4, 2));
    }

    #[test]
    fn a_gap_is_a_loss_except_before_the_first_packet() {
        let flagged = |sequence, mask| {
            packet(|packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
                packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, mask);
            })
        };
        assert_eq!(tally(&[flagged(1, 1), flagged(2, 1)]).losses.packets, 0);
        assert_eq!(tally(&[flagged(1, 1), flagged(1, 1)]).losses.packets, 1);
        let full = tally(&[flagged(1, 257), flagged(2, 65)]).losses;
        assert_eq!((full.packets, full.shared_memory_full, full.overwritten, full.sequences()), (2, 1, 1, 2));
    }

    #[test]
    fn what_a_program_does_not_record_is_named_and_no_gap() {
        let note = packet(|packet| {
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 3);
            packet.varint(trace_packet::TRUSTED_PID, 7);
            packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, 1);
            let mut note = packet.nested(trace_packet::NOT_RECORDED);
            note.string(trace_packet::not_recorded::DATA_SOURCE_NAME, "source");
            note.string(trace_packet::not_recorded::PRODUCER_NAME, "program");
            note.string(trace_packet::not_recorded::REASON, "no\nplace");
        });
        let tally = tally(&[note.clone(), note]);
        let said: Vec<&str> = tally.not_recorded.iter().map(String::as_str).collect();
        assert_eq!(said, ["source of program (process 7: no; place)"]);
        assert_eq!((tally.losses.packets, tally.others), (0, 0));
    }

    #[test]
    fn what_is_compressed_counts_as_if_it_were_not() {
        let plain = [
            packet(|packet| packet.bytes(trace_packet::SYS_STATS, b"")),
            packet(|packet| packet.bytes(trace_packet::TRACK_EVENT, b"")),
        ];
        let part = packet(|trace| plain.iter().for_each(|packet| trace.bytes(1, packet)));
        let zstd = ruzstd::encoding::compress_to_vec(part.as_slice(), CompressionLevel::Fastest);
        let batch = packet(|packet| packet.bytes(trace_packet::ZSTD_COMPRESSED_PACKETS, &zstd));
        let (plain, packed) = (tally(&plain), tally(std::slice::from_ref(&batch)));
        assert_eq!((packed.packets, packed.system_counters, packed.track_events), (2, 1, 1));
        assert_eq!(format!("{packed:?}"), format!("{plain:?}"));

        let garbage = packet(|packet| packet.bytes(trace_packet::COMPRESSED_PACKETS, b"garbage"));
        let twice = packet(|trace| trace.bytes(1, &batch));
        let twice = ruzstd::encoding::compress_to_vec(twice.as_slice(), CompressionLevel::Fastest);
        let twice = packet(|packet| packet.bytes(trace_packet::ZSTD_COMPRESSED_PACKETS, &twice));
        for sealed in [garbage, twice] {
            let sealed = tally(&[sealed]);
            assert_eq!((sealed.sealed, sealed.system_counters), (1, 0));
        }
    }

    #[test]
    fn garbage_is_survived_and_counted() {
        let cases = [
            (&b"\xff\xff\xff\xff\xff\xff"[..], 1),
            (b"\x0a\xff", 1),
            (b"\x0a\x02\x22\xff", 0),
            (b"", 0),
            (b"\x00", 1),
        ];
        for (bytes, undecodable) in cases {
            let tally = tally(&[bytes.to_vec()]);
            assert_eq!((tally.packets, tally.undecodable), (1, undecodable), "{bytes:?}");
        }
    }
}
