//! From what was counted to the losses, in the order of the data's way.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ferretto_printable::printable;
use ferretto_protos::TraceStats;
use ferretto_protos::trace_stats::losses::Refused;
use ferretto_protos::trace_stats::{BufferStats, FinalFlushOutcome, Losses, losses};

use super::{Evidence, Kind, Loss, Verdict};
use crate::record::args::MAX_SHARED_MEMORY_KB;
use crate::record::plan::{Buffer, Plan};
use crate::units::{bytes, count, counted, kib};

/// How many names a sentence lists before it says "and N more".
const MAX_LISTED: usize = 5;
/// What is doubled in the advice if nobody said how much a program has: the wish of programs with our library.
const ASSUMED_SHARED_MEMORY_KB: u64 = 32 << 10;

/// Looks at everything.
pub(crate) fn find(evidence: &Evidence<'_>) -> Verdict {
    let mut found = Finder { evidence, verdict: Verdict::default() };
    found.kernel();
    found.programs();
    match evidence.stats.or(evidence.tally.stats.as_ref()) {
        Some(stats) => found.service(stats),
        None => found.unknown("the service's statistics"),
    }
    found.sources();
    found.gaps();
    found.trace();
    found.verdict
}

struct Finder<'a> {
    evidence: &'a Evidence<'a>,
    verdict: Verdict,
}

impl Finder<'_> {
    fn lost(&mut self, kind: Kind, what: impl Into<String>, remedy: impl Into<String>) {
        self.verdict.losses.push(Loss { kind, what: what.into(), remedy: remedy.into() });
    }

    fn unknown(&mut self, what: impl Into<String>) {
        self.verdict.unknown.push(what.into());
    }

    fn kernel(&mut self) {
        let (plan, ftrace) = (self.evidence.plan, &self.evidence.tally.ftrace);
        let overwritten = ftrace.overwritten();
        for what in &ftrace.interference {
            let what = format!("kernel events, from some moment on: another program interfered: {what}");
            self.lost(Kind::KernelInterference, what, "record again without it");
        }
        // Gaps are the sign of either.
        let has_gaps = ftrace.lossy_bundles > 0 && ftrace.interference.is_empty();
        if overwritten > 0 || has_gaps {
            let amount = match overwritten {
                0 => format!("{} of kernel events", counted(ftrace.lossy_bundles, "gap", "gaps")),
                n => counted(n, "kernel event", "kernel events"),
            };
            let cpus: Vec<String> = ftrace.lossy_cpus.iter().map(u64::to_string).collect();
            let cpus = if cpus.is_empty() { String::new() } else { format!(" on CPU {}", listed(&cpus)) };
            let advice = match plan.from_file {
                true => "enlarge ftrace_config.buffer_size_kb, or drain more often with drain_period_ms",
                false => "give it more with --kernel-buffer",
            };
            let what = format!("{amount}{cpus}: the kernel's buffer was full before it was read");
            self.lost(Kind::KernelBuffer, what, advice);
        }
        if ftrace.parse_errors > 0 {
            let pages = counted(ftrace.parse_errors, "page", "pages");
            let what = format!("{pages} of the kernel's buffer could not be read");
            self.lost(Kind::KernelPages, what, "this is a mistake of ours: please report it");
        }
        let refused = [
            (&ftrace.unknown_events, "does not exist on this kernel", "do not exist on this kernel"),
            (&ftrace.failed_events, "could not be switched on", "could not be switched on"),
        ];
        for (names, one, many) in refused {
            let names: Vec<String> = names.iter().cloned().collect();
            match names.len() {
                0 => {}
                1 => self.lost(Kind::KernelEvents, format!("kernel event {} {one}", names[0]), ""),
                _ => self.lost(Kind::KernelEvents, format!("kernel events {} {many}", listed(&names)), ""),
            }
        }
        for refusal in &ftrace.refusals {
            self.lost(
                Kind::KernelEvents,
                format!("a part of linux.ftrace: {}", refusal.trim_end_matches('.')),
                "",
            );
        }
        if self.evidence.tally.samples_lost > 0 {
            let records = counted(self.evidence.tally.samples_lost, "record", "records");
            let what = format!(
                "{records} of samples and of what was mapped: the kernel's ring was full before it was read"
            );
            self.lost(Kind::Samples, what, "sample less often with --freq");
        }
        if self.evidence.tally.heap_overruns > 0 {
            let heaps = counted(self.evidence.tally.heap_overruns, "program", "programs");
            let what =
                format!("samples of what {heaps} allocated: there was no room for them, or no sense in them");
            self.lost(
                Kind::HeapSamples,
                what,
                "a larger --interval makes them fewer, a larger --ring holds more",
            );
        }
        if self.evidence.is_over && self.evidence.counted && self.has_ftrace() && !ftrace.has_end {
            self.unknown("the kernel's counts at the end");
        }
    }

    /// The kernel's events were recorded, or should have been.
    fn has_ftrace(&self) -> bool {
        let ftrace = &self.evidence.tally.ftrace;
        let stats = self.evidence.stats.or(self.evidence.tally.stats.as_ref());
        let sources = stats.and_then(|stats| stats.losses.as_ref()).map(|losses| &losses.sources);
        let took_part =
            sources.is_some_and(|sources| sources.iter().any(|source| source.name() == "linux.ftrace"));
        took_part || ftrace.switches + ftrace.wakings + ftrace.others > 0
    }

    /// What happened before anything reached the service.
    fn programs(&mut self) {
        for report in self.evidence.reports {
            // Such as `123 org.example.server: no tracing service is where it looks`.
            let named = report.split_once(' ').and_then(|(pid, rest)| Some((pid, rest.split_once(": ")?)));
            let what = match named {
                Some((pid, (name, why))) => {
                    format!("what {name} (process {pid}) traced at its start, or all of it: {why}")
                }
                None => format!("what a program traced that says: {report}"),
            };
            self.lost(Kind::NotReached, what.trim_end_matches('.'), "");
        }
        if !self.evidence.outliving.is_empty() {
            let what = format!(
                "what these trace from the end of the command on, for they go on: {}",
                self.evidence.outliving.join(", ")
            );
            self.lost(Kind::Outlives, what, "have the command wait for them, or record without a command");
        }
        let not_recorded: Vec<String> = self.evidence.tally.not_recorded.iter().cloned().collect();
        if !not_recorded.is_empty() {
            self.lost(Kind::NotRecorded, format!("all of {}", listed(&not_recorded)), "");
        }
        for (source, interceptor) in &self.evidence.plan.intercepted {
            let what = format!("all of {source}: the config gives it to the interceptor {interceptor}");
            self.lost(Kind::Interceptor, what, "remove interceptor_config to have it in the trace");
        }
    }

    fn service(&mut self, stats: &TraceStats) {
        for (index, buffer) in stats.buffer_stats.iter().enumerate() {
            let own = stats.losses.as_ref().and_then(|losses| losses.buffers.get(index));
            self.buffer(index, buffer, own);
        }
        let own = stats.losses.as_ref();
        let discarded = match own {
            Some(own) => own.chunks_discarded() + own.patches_discarded(),
            None => stats.chunks_discarded() + stats.patches_discarded(),
        };
        if discarded > 0 {
            let pieces = counted(discarded, "piece", "pieces");
            let what = format!("{pieces} of data that a program sent for a buffer that is not its own");
            self.lost(Kind::ForeignBuffer, what, "");
        }
        if stats.invalid_packets() > 0 {
            let packets = counted(stats.invalid_packets(), "packet", "packets");
            let what = format!("{packets} that a program wrote wrongly; the service left them out");
            self.lost(Kind::InvalidPackets, what, "");
        }
        if let Some(filter) = &stats.filter_stats {
            let dropped = filter.input_bytes().saturating_sub(filter.output_bytes());
            if dropped > 0 {
                let what = format!("{} that the config's trace_filter does not let through", bytes(dropped));
                self.lost(Kind::Filter, what, "");
            }
            if filter.errors() > 0 {
                let packets = counted(filter.errors(), "packet", "packets");
                self.lost(Kind::Filter, format!("{packets} that the trace filter could not read"), "");
            }
        }
        match own {
            Some(own) => self.own_counts(own),
            None => self.unknown(
                "what this service does not count (programs that it refused, data sources that did not stop, packets without an end)",
            ),
        }
    }

    fn buffer(&mut self, index: usize, stats: &BufferStats, own: Option<&losses::Buffer>) {
        let plan = self.evidence.plan;
        let unknown = Buffer::default();
        let buffer = plan.buffers.get(index).unwrap_or(&unknown);
        let name = buffer_name(index, buffer);
        let larger = enlarge(plan, index, buffer);
        // Forgetting the oldest is what a flight recorder is for.
        let overwritten = if plan.is_ring { 0 } else { stats.bytes_overwritten() };
        if overwritten > 0 && plan.write_into_file {
            let what = format!("{} in {name}: it was full before the file was written", bytes(overwritten));
            self.lost(Kind::Overwritten, what, larger.as_str());
        } else if overwritten > 0 {
            let what =
                format!("{} of the oldest data in {name}, a ring that keeps the newest", bytes(overwritten));
            self.lost(Kind::Overwritten, what, format!("{larger} to keep more"));
        }
        let discarded = stats.chunks_discarded().saturating_sub(stats.chunks_discarded_without_loss());
        if discarded > 0 {
            let chunks = counted(discarded, "chunk", "chunks");
            match buffer.discard {
                true => {
                    let what = format!("{chunks} in {name}: it was full and keeps the oldest");
                    self.lost(Kind::BufferFull, what, larger.as_str());
                }
                false => {
                    let what =
                        format!("{chunks} in {name}: later ones of the same thread had been read before");
                    self.lost(Kind::ChunksRefused, what, "");
                }
            }
        }
        if stats.trace_writer_packet_loss() > 0 {
            let times = counted(stats.trace_writer_packet_loss(), "time", "times");
            let what = format!(
                "packets in {name}, {times}: a program wrote faster than its shared memory was emptied"
            );
            self.lost(Kind::SharedMemory, what, more_shared_memory(plan));
        }
        if stats.abi_violations() > 0 {
            let pieces = counted(stats.abi_violations(), "piece", "pieces");
            let what = format!("{pieces} in {name}: a program's data broke the rules of the protocol");
            self.lost(Kind::BrokenData, what, "");
        }
        if stats.patches_failed() > 0 {
            let pieces = counted(stats.patches_failed(), "piece", "pieces");
            let what = format!(
                "{pieces} in {name}: the end of a packet came when its beginning had been overwritten"
            );
            self.lost(Kind::PatchesTooLate, what, larger.as_str());
        }
        self.folded(&name, stats, &larger);
        own.into_iter().for_each(|own| self.own_of_buffer(&name, own));
    }

    /// What was to be kept of overwritten packets, for those after them.
    fn folded(&mut self, name: &str, stats: &BufferStats, larger: &str) {
        if stats.sequence_states_lost() > 0 {
            let times = counted(stats.sequence_states_lost(), "time", "times");
            let what = format!(
                "names that packets left in {name} refer to, {times}: when they were overwritten there was no room to keep them, or their packets were not complete"
            );
            self.lost(Kind::SequenceStates, what, larger);
        }
        if stats.track_descriptors_dropped() > 0 {
            let tracks = counted(stats.track_descriptors_dropped(), "track", "tracks");
            let what = format!(
                "the descriptions of {tracks} in {name}: there was no room to keep them when they were overwritten"
            );
            self.lost(Kind::SequenceStates, what, larger);
        }
    }

    fn own_of_buffer(&mut self, name: &str, own: &losses::Buffer) {
        // What the file had no room for is said with the file.
        let is_lost = self.evidence.is_over && self.evidence.is_read_to_the_end();
        if own.unread_chunks() > 0 && is_lost {
            let chunks = counted(own.unread_chunks(), "chunk", "chunks");
            let what = format!(
                "{chunks} ({}) in {name}: a packet in front of them has no end, for its program ended or hangs",
                bytes(own.unread_bytes())
            );
            self.lost(Kind::Unfinished, what, "");
        }
        if own.protovm_packets() > 0 {
            let packets = counted(own.protovm_packets(), "packet", "packets");
            let what = format!(
                "{packets} that were overwritten in {name} and that the state of a ProtoVM did not take"
            );
            self.lost(Kind::ProtoVm, what, "give it more with memory_limit_kb in protovm_config");
        }
        if own.protovms_off() > 0 {
            let states = counted(own.protovms_off(), "state", "states");
            let what = format!(
                "{states} of what was overwritten in {name}: a ProtoVM was switched off or could not be had"
            );
            self.lost(Kind::ProtoVm, what, "");
        }
    }

    fn own_counts(&mut self, own: &Losses) {
        if own.file_is_full() {
            let left: u64 = own.buffers.iter().map(losses::Buffer::unread_bytes).sum();
            let limit = self.evidence.plan.max_file_bytes;
            let at = if limit > 0 { format!(" of {}", bytes(limit)) } else { String::new() };
            let what = format!(
                "what came after the file had reached its largest size{at}, {} and whatever followed",
                bytes(left)
            );
            self.lost(Kind::FileFull, what, "raise max_file_size_bytes in the config");
        }
        if own.producers_without_memory() > 0 {
            let programs = counted(own.producers_without_memory(), "program", "programs");
            let what = format!("all of {programs}: there was no memory to share with them");
            self.lost(Kind::NoSharedMemory, what, "");
        }
        if own.producers_out_of_writers() > 0 {
            let programs = counted(own.producers_out_of_writers(), "program", "programs");
            let what = format!(
                "what threads of {programs} wrote that had 32,767 writers already, as many as there can be"
            );
            self.lost(Kind::WriterIds, what, "");
        }
        if own.unseen_ends() > 0 {
            let programs = counted(own.unseen_ends(), "program", "programs");
            let what = format!(
                "perhaps the last moments of {programs} that went away and whose memory the service cannot look into"
            );
            self.lost(Kind::UnseenEnd, what, "");
        }
        if own.large_packets() > 0 {
            let packets = counted(own.large_packets(), "large packet", "large packets");
            let what = format!(
                "{packets} left out: nobody took what was on its way to other sessions of the same user, or the session was cloned while they were being filtered"
            );
            self.lost(Kind::LargePackets, what, "read what that user's other sessions write");
        }
        if own.producers_refused() > 0 {
            self.refused(own);
        }
        if own.sources_left_out() > 0 {
            let sources = counted(own.sources_left_out(), "data source", "data sources");
            let what = format!(
                "{sources} that programs offer: there are too many, or their descriptions are too long"
            );
            self.lost(Kind::SourcesLeftOut, what, "");
        }
        if !own.slow_to_stop.is_empty() {
            let what =
                format!("perhaps the last moments of {}: not stopped in time", listed(&own.slow_to_stop));
            self.lost(Kind::SlowStop, what, "give them more with data_source_stop_timeout_ms in a config");
        }
    }

    fn refused(&mut self, own: &Losses) {
        let named = own.refused.iter().map(|refused: &Refused| {
            format!(
                "{} (process {}, user {}: {})",
                refused.producer_name(),
                refused.pid(),
                refused.uid(),
                refused.reason()
            )
        });
        let named: Vec<String> = named.collect();
        let programs = counted(own.producers_refused(), "program", "programs");
        let what = format!("all of {programs} that the service did not let in: {}", listed(&named));
        self.lost(Kind::Refused, what, "");
    }

    /// Sources that did not do in time what they were told.
    fn sources(&mut self) {
        let stats = self.evidence.stats.or(self.evidence.tally.stats.as_ref());
        let own = stats.and_then(|stats| stats.losses.as_ref());
        let tally = self.evidence.tally;
        let names = |counted: &[String], events: &BTreeSet<String>| -> Vec<String> {
            counted.iter().chain(events).cloned().collect::<BTreeSet<_>>().into_iter().collect()
        };
        let slow = names(own.map_or(&[], |own| own.slow_to_start.as_slice()), &tally.slow_to_start);
        if !slow.is_empty() {
            let what = format!("the beginning, or all, of {}: not started in time", listed(&slow));
            self.lost(Kind::SlowStart, what, "");
        }
        let slow = names(own.map_or(&[], |own| own.slow_to_flush.as_slice()), &tally.slow_to_flush);
        if !slow.is_empty() {
            let what = format!("perhaps the last moments of {}: not handed over in time", listed(&slow));
            self.lost(Kind::SlowFlush, what, "give them more with flush_timeout_ms in a config");
        } else if stats.is_some_and(|s| s.final_flush_outcome() == FinalFlushOutcome::FinalFlushFailed) {
            let what = "perhaps the last moments: not every source handed over its last data in time";
            self.lost(Kind::SlowFlush, what, "");
        }
    }

    /// The gaps that the packets themselves report, if nothing above explains them.
    fn gaps(&mut self) {
        let losses = &self.evidence.tally.losses;
        let explains = |loss: &Loss| {
            use Kind::{BrokenData, BufferFull, ChunksRefused, InvalidPackets, Overwritten, PatchesTooLate};
            matches!(
                loss.kind,
                Overwritten
                    | BufferFull
                    | ChunksRefused
                    | BrokenData
                    | PatchesTooLate
                    | InvalidPackets
                    | Kind::SharedMemory
            )
        };
        if losses.packets == 0 || self.verdict.losses.iter().any(explains) {
            return;
        }
        if losses.shared_memory_full > 0 {
            let times = counted(losses.shared_memory_full, "time", "times");
            let what = format!("packets, {times}: a program wrote faster than its shared memory was emptied");
            return self.lost(Kind::SharedMemory, what, more_shared_memory(self.evidence.plan));
        }
        // A ring's oldest packets follow on others that were forgotten.
        if self.evidence.plan.is_ring {
            return;
        }
        let gaps = counted(losses.packets, "gap", "gaps");
        let places = counted(losses.sequences(), "sequence", "sequences");
        let why = if losses.overwritten > 0 { ": a buffer was overwritten" } else { "" };
        self.lost(Kind::Gaps, format!("{gaps} in {places} of packets{why}"), "");
    }

    /// What is in the trace and cannot be read.
    fn trace(&mut self) {
        let tally = self.evidence.tally;
        if tally.readable.without_names > 0 {
            let packets = counted(tally.readable.without_names, "packet", "packets");
            let what = format!("{packets} that nobody can read: the names that they refer to were lost");
            self.lost(
                Kind::Names,
                what,
                "have names repeated more often, with clear_period_ms in incremental_state_config",
            );
        }
        if tally.readable.without_time > 0 {
            let packets = counted(tally.readable.without_time, "packet", "packets");
            let what = format!("{packets} whose time nobody can tell: on a clock without a clock snapshot");
            self.lost(Kind::Clocks, what, "");
        }
        let stats = self.evidence.stats.or(tally.stats.as_ref());
        let dropped =
            stats.iter().flat_map(|stats| &stats.buffer_stats).map(BufferStats::oversized_packets_dropped);
        let oversized = dropped.fold(tally.oversized, u64::saturating_add);
        if oversized > 0 {
            let packets = counted(oversized, "packet", "packets");
            self.lost(Kind::Oversized, format!("{packets} too large to be read"), "");
        }
        if tally.undecodable > 0 {
            let packets = counted(tally.undecodable, "packet", "packets");
            self.lost(Kind::Undecodable, format!("{packets} of the trace that cannot be decoded"), "");
        }
        if self.evidence.torn || tally.cut_short {
            let what = "the file ends in the middle of a packet: the service stopped while it was writing";
            self.lost(Kind::TornFile, what, "");
        }
        if tally.sealed > 0 {
            self.unknown(counted(
                tally.sealed,
                "batch of compressed packets",
                "batches of compressed packets",
            ));
        }
        if self.evidence.huge > 0 {
            self.unknown(counted(
                self.evidence.huge,
                "packet of more than 64 MiB",
                "packets of more than 64 MiB",
            ));
        }
        if !self.evidence.counted {
            self.unknown("the packets, which went elsewhere");
        }
    }
}

impl Evidence<'_> {
    /// Nothing is left in the buffers that could have been read.
    fn is_read_to_the_end(&self) -> bool {
        let own = self.stats.or(self.tally.stats.as_ref()).and_then(|stats| stats.losses.as_ref());
        !own.is_some_and(Losses::file_is_full)
    }
}

fn buffer_name(index: usize, buffer: &Buffer) -> String {
    let mut text = format!("buffer {index}");
    let mut facts = Vec::new();
    if !buffer.name.is_empty() {
        facts.push(format!("\"{}\"", buffer.name));
    }
    if buffer.size_kb > 0 {
        facts.push(kib(buffer.size_kb));
    }
    if !buffer.sources.is_empty() {
        facts.push(format!("for {}", listed(&buffer.sources)));
    }
    if !facts.is_empty() {
        let _ = write!(text, " ({})", facts.join(", "));
    }
    text
}

fn enlarge(plan: &Plan, index: usize, buffer: &Buffer) -> String {
    let double = buffer.size_kb.saturating_mul(2).max(1);
    match plan.from_file {
        _ if plan.is_ring => "enlarge it".to_owned(),
        true => format!("enlarge it with size_kb: {double} in the config's buffers number {}", index + 1),
        false => format!("enlarge it with --buffer {}mb", double.div_ceil(1024)),
    }
}

fn more_shared_memory(plan: &Plan) -> String {
    let known = if plan.shared_memory_kb > 0 { plan.shared_memory_kb } else { ASSUMED_SHARED_MEMORY_KB };
    let double = known.saturating_mul(2);
    match plan.from_file {
        _ if known >= MAX_SHARED_MEMORY_KB => {
            "it has as much as there can be: let the program wait for room, or write less".to_owned()
        }
        true => {
            format!("enlarge it with producers {{ producer_name: … shm_size_kb: {double} }} in the config")
        }
        false => format!("give it more with --shared-memory {}mb", double.div_ceil(1024)),
    }
}

/// The names, or the first of them and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(MAX_LISTED).map(|name| printable(name)).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

#[cfg(test)]
mod tests;
