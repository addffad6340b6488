//! The words at the end of a recording: what is in it, what was lost and why, what was left out, how to open it.
//!
//! Pure: everything is counted elsewhere, so each sentence can be tested.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ferretto_protos::TraceStats;
use ferretto_protos::trace_stats::{BufferStats, FinalFlushOutcome};

use super::plan::{Buffer, Plan};
use super::tally::{Ftrace, Tally};
use crate::units::{bytes, count, counted, duration, kib};

/// How many names a sentence lists before it says "and N more".
const MAX_LISTED: usize = 5;

/// What a source recorded, if that may be where nobody could look.
const UNKNOWN: &str = "nothing that could be unpacked";

/// Everything that the summary speaks about.
pub(crate) struct Summary<'a> {
    /// Absent when the trace went to stdout or a pipe.
    pub(crate) path: Option<&'a Path>,
    /// Whether the packets were seen: those that the service writes to a pipe or to a device are not.
    pub(crate) counted: bool,
    pub(crate) bytes: u64,
    pub(crate) span: Span,
    pub(crate) elapsed: Duration,
    pub(crate) plan: &'a Plan,
    pub(crate) tally: &'a Tally,
    /// The service's own count at the end of the recording.
    pub(crate) stats: Option<&'a TraceStats>,
    /// The file ends in the middle of a packet.
    pub(crate) torn: bool,
    pub(crate) left_out: &'a [LeftOut],
    /// What programs say that could not be recorded from their start on: process id, name, and why.
    pub(crate) reports: &'a [String],
}

/// What of the recording is in the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Span {
    Whole,
    /// The end of it, and how far that reaches back, if events tell.
    Last(Option<Duration>),
}

/// Something that this user may not record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeftOut {
    pub(crate) what: String,
    pub(crate) why: String,
    /// The one command that would grant it.
    pub(crate) grant: Option<String>,
}

/// The whole summary, ending in a newline.
pub(crate) fn render(summary: &Summary<'_>) -> String {
    let mut text = headline(summary);
    if summary.counted {
        text.push_str(&contents(summary));
    }
    text.push_str(&list("Lost: nothing.", "Lost:", &losses(summary)));
    let left_out: Vec<String> = summary.left_out.iter().map(left_out_sentence).collect();
    text.push_str(&list("", "Left out:", &left_out));
    text.push_str(&how_to_open(summary.path));
    text
}

fn headline(summary: &Summary<'_>) -> String {
    let place = summary.path.map_or_else(|| "a pipe or device".to_owned(), |path| path.display().to_string());
    if !summary.counted {
        return format!("Recorded {} into {place}.\n", duration(summary.elapsed));
    }
    let packets = counted(summary.tally.packets, "packet", "packets");
    let what = match summary.span {
        Span::Whole => format!("Recorded {} into", duration(summary.elapsed)),
        Span::Last(Some(time)) => format!("The last {} are in", duration(time)),
        Span::Last(None) => "The latest is in".to_owned(),
    };
    format!("{what} {place} ({}, {packets}).\n", bytes(summary.bytes))
}

fn contents(summary: &Summary<'_>) -> String {
    let tally = summary.tally;
    let width = summary.plan.sources.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for source in &summary.plan.sources {
        let _ = writeln!(text, "  {source:width$}  {}", content_of(source, tally));
    }
    if tally.others > 0 {
        let _ = writeln!(text, "  {:width$}  {}", "others", counted(tally.others, "packet", "packets"));
    }
    if tally.sealed > 0 {
        let batches = counted(tally.sealed, "batch", "batches");
        let _ = writeln!(text, "  ({batches} of compressed packets could not be unpacked and counted.)");
    }
    text
}

fn content_of(source: &str, tally: &Tally) -> String {
    let parts = match source {
        "linux.ftrace" | "linux.frozen_ftrace" => ftrace_contents(&tally.ftrace),
        "linux.process_stats" => vec![
            some(tally.processes(), "process", "processes"),
            some(tally.threads(), "thread", "threads"),
            some(tally.process_counters, "round of memory counters", "rounds of memory counters"),
        ],
        "linux.sys_stats" => {
            vec![some(tally.system_counters, "round of system counters", "rounds of system counters")]
        }
        "linux.system_info" => vec![(tally.cpu_infos > 0).then(|| "this machine's CPUs".to_owned())],
        "track_event" => return track_event_contents(tally),
        _ if tally.others > 0 => return "see the other packets below".to_owned(),
        _ => Vec::new(),
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true if tally.sealed > 0 => UNKNOWN.to_owned(),
        true => "nothing".to_owned(),
        false => parts.join(", "),
    }
}

fn ftrace_contents(ftrace: &Ftrace) -> Vec<Option<String>> {
    vec![
        some(ftrace.switches, "scheduling switch", "scheduling switches"),
        some(ftrace.wakings, "wake-up", "wake-ups"),
        some(ftrace.others, "other kernel event", "other kernel events"),
    ]
}

fn track_event_contents(tally: &Tally) -> String {
    match tally.track_events {
        0 if tally.sealed > 0 => UNKNOWN.to_owned(),
        0 => "nothing: no instrumented program emitted events".to_owned(),
        n => format!(
            "{} from {}",
            counted(n, "event", "events"),
            counted(tally.app_sequences(), "thread", "threads")
        ),
    }
}

fn some(n: u64, singular: &str, plural: &str) -> Option<String> {
    (n > 0).then(|| counted(n, singular, plural))
}

/// One sentence for each cause of loss, with what to change.
pub(crate) fn losses(summary: &Summary<'_>) -> Vec<String> {
    let mut sentences = kernel_losses(summary);
    let stats = summary.stats.or(summary.tally.stats.as_ref());
    if let Some(stats) = stats {
        for (index, buffer) in stats.buffer_stats.iter().enumerate() {
            sentences.extend(buffer_losses(summary.plan, index, buffer));
        }
        sentences.extend(service_losses(stats));
    } else {
        sentences.push("unknown: the service gave no statistics.".to_owned());
    }
    sentences.extend(flagged_losses(summary, sentences.is_empty()));
    if summary.torn {
        sentences.push(
            "the file ends in the middle of a packet: the service stopped while it was writing.".to_owned(),
        );
    }
    sentences.extend(summary.reports.iter().map(|report| report_sentence(report)));
    sentences
}

/// Of a line such as `123 org.example.server: no tracing service is where it looks`.
fn report_sentence(report: &str) -> String {
    let named = report.split_once(' ').and_then(|(pid, rest)| Some((pid, rest.split_once(": ")?)));
    match named {
        Some((pid, (name, why))) => {
            format!("what {name} (process {pid}) traced at its start, or all of it: {why}.")
        }
        None => format!("what a program traced that says: {report}."),
    }
}

fn kernel_losses(summary: &Summary<'_>) -> Vec<String> {
    let ftrace = &summary.tally.ftrace;
    let mut sentences = Vec::new();
    let overwritten = ftrace.overwritten();
    if overwritten > 0 || ftrace.lossy_bundles > 0 {
        let amount = match overwritten {
            0 => format!("{} of kernel events", counted(ftrace.lossy_bundles, "gap", "gaps")),
            n => counted(n, "kernel event", "kernel events"),
        };
        let cpus: Vec<String> = ftrace.lossy_cpus.iter().map(u64::to_string).collect();
        let cpus = if cpus.is_empty() { String::new() } else { format!(" on CPU {}", listed(&cpus)) };
        let advice = match summary.plan.from_file {
            true => "enlarge ftrace_config.buffer_size_kb, or drain more often with drain_period_ms",
            false => "give it more with --kernel-buffer",
        };
        sentences.push(format!("{amount}{cpus}: the kernel's buffer was full before it was read; {advice}."));
    }
    if ftrace.parse_errors > 0 {
        sentences.push(format!(
            "{} of the kernel's buffer could not be read; this is a mistake of ours: please report it.",
            counted(ftrace.parse_errors, "page", "pages")
        ));
    }
    sentences.extend(refused_events(
        "does not exist on this kernel",
        "do not exist on this kernel",
        &ftrace.unknown_events,
    ));
    sentences.extend(refused_events(
        "could not be switched on",
        "could not be switched on",
        &ftrace.failed_events,
    ));
    sentences
}

fn refused_events(one: &str, many: &str, events: &std::collections::BTreeSet<String>) -> Option<String> {
    let names: Vec<String> = events.iter().cloned().collect();
    match names.len() {
        0 => None,
        1 => Some(format!("kernel event {} {one}.", names[0])),
        _ => Some(format!("kernel events {} {many}.", listed(&names))),
    }
}

fn buffer_losses(plan: &Plan, index: usize, stats: &BufferStats) -> Vec<String> {
    let unknown = Buffer::default();
    let buffer = plan.buffers.get(index).unwrap_or(&unknown);
    let name = buffer_name(index, buffer);
    let mut sentences = Vec::new();
    // Forgetting the oldest is what a flight recorder is for.
    let overwritten = if plan.is_ring { 0 } else { stats.bytes_overwritten() };
    if overwritten > 0 && plan.write_into_file {
        let advice = enlarge(plan, index, buffer);
        sentences.push(format!(
            "{} in {name}: it was full before the file was written; {advice}.",
            bytes(overwritten)
        ));
    } else if overwritten > 0 {
        sentences.push(format!(
            "{} of the oldest data in {name}, a ring that keeps the newest; {} to keep more.",
            bytes(overwritten),
            enlarge(plan, index, buffer)
        ));
    }
    if stats.chunks_discarded() > 0 {
        let chunks = counted(stats.chunks_discarded(), "chunk", "chunks");
        let why = if buffer.discard { "it was full and keeps the oldest" } else { "they did not fit" };
        sentences.push(format!("{chunks} in {name}: {why}; {}.", enlarge(plan, index, buffer)));
    }
    if stats.trace_writer_packet_loss() > 0 {
        sentences.push(format!(
            "packets in {name}, {}: a program wrote faster than its shared memory was emptied; enlarge it with {}.",
            counted(stats.trace_writer_packet_loss(), "time", "times"),
            enlarge_shared_memory(plan)
        ));
    }
    let broken = stats.abi_violations() + stats.patches_failed();
    if broken > 0 {
        sentences.push(format!(
            "{} in {name}: a program's data broke the rules of the protocol, or it died while writing.",
            counted(broken, "piece", "pieces")
        ));
    }
    sentences
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

fn enlarge_shared_memory(plan: &Plan) -> &'static str {
    match plan.from_file {
        true => "producers { producer_name: \"*\" shm_size_kb: 65536 } in the config",
        false => "--shared-memory 64mb",
    }
}

fn service_losses(stats: &TraceStats) -> Vec<String> {
    let mut sentences = Vec::new();
    let discarded = stats.chunks_discarded() + stats.patches_discarded();
    if discarded > 0 {
        let pieces = counted(discarded, "piece", "pieces");
        sentences.push(format!("{pieces} of data that a program sent for a buffer that is not its own."));
    }
    if stats.invalid_packets() > 0 {
        let packets = counted(stats.invalid_packets(), "packet", "packets");
        sentences.push(format!("{packets} that a program wrote wrongly; the service left them out."));
    }
    if stats.final_flush_outcome() == FinalFlushOutcome::FinalFlushFailed {
        sentences
            .push("perhaps the last moments: not every source handed over its last data in time.".to_owned());
    }
    sentences
}

/// The gaps that the packets themselves report, if nothing above explains them.
fn flagged_losses(summary: &Summary<'_>, unexplained: bool) -> Option<String> {
    let losses = &summary.tally.losses;
    if !unexplained || losses.packets == 0 {
        return None;
    }
    // A ring's oldest packets follow on others that were forgotten.
    if summary.plan.is_ring && losses.shared_memory_full == 0 {
        return None;
    }
    let gaps = counted(losses.packets, "gap", "gaps");
    let places = counted(losses.sequences(), "sequence", "sequences");
    let why = match () {
        () if losses.shared_memory_full > 0 => ": a program's shared memory was full",
        () if losses.overwritten > 0 => ": a buffer was overwritten",
        () => "",
    };
    Some(format!("{gaps} in {places} of packets{why}."))
}

fn left_out_sentence(left_out: &LeftOut) -> String {
    let grant = left_out.grant.as_ref().map(|command| format!("\n      to grant it: {command}"));
    format!("{}: {}{}", left_out.what, left_out.why, grant.unwrap_or_default())
}

fn list(empty: &str, heading: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return if empty.is_empty() { String::new() } else { format!("{empty}\n") };
    }
    let mut text = format!("{heading}\n");
    for sentence in sentences {
        let _ = writeln!(text, "  - {sentence}");
    }
    text
}

fn how_to_open(path: Option<&Path>) -> String {
    let Some(path) = path else { return String::new() };
    let path = path.display();
    format!(
        "Open it: drag {path} into https://ui.perfetto.dev (it stays in your browser),\n\
         or query it: trace_processor {path}\n"
    )
}

pub(crate) fn listed(names: &[String]) -> String {
    match names.len() {
        n if n > MAX_LISTED => {
            format!("{} and {} more", names[..MAX_LISTED].join(", "), count((n - MAX_LISTED) as u64))
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let buffer = |name: &str, size_kb, source: &str| Buffer {
            name: name.to_owned(),
            size_kb,
            discard: false,
            sources: vec![source.to_owned()],
        };
        Plan {
            sources: ["linux.ftrace", "linux.process_stats", "track_event"].map(str::to_owned).to_vec(),
            buffers: vec![buffer("kernel", 65536, "linux.ftrace"), buffer("", 4096, "track_event")],
            write_into_file: true,
            ..Plan::default()
        }
    }

    fn no_stats() -> TraceStats {
        TraceStats {
            buffer_stats: vec![BufferStats::default(), BufferStats::default()],
            ..TraceStats::default()
        }
    }

    fn check(change: impl FnOnce(&mut Plan, &mut Tally, &mut TraceStats)) -> Vec<String> {
        let (mut plan, mut tally, mut stats) = (plan(), Tally::default(), no_stats());
        change(&mut plan, &mut tally, &mut stats);
        losses(&summary(&plan, &tally, &stats))
    }

    fn summary<'a>(plan: &'a Plan, tally: &'a Tally, stats: &'a TraceStats) -> Summary<'a> {
        Summary {
            path: Some(Path::new("t.pftrace")),
            counted: true,
            bytes: 12_345_678,
            span: Span::Whole,
            elapsed: Duration::from_secs(5),
            plan,
            tally,
            stats: Some(stats),
            torn: false,
            left_out: &[],
            reports: &[],
        }
    }

    #[test]
    fn a_whole_summary() {
        let (plan, mut tally, stats) = (plan(), Tally::default(), no_stats());
        tally.packets = 4321;
        tally.ftrace.switches = 123_456;
        tally.ftrace.wakings = 1;
        let left_out = [LeftOut {
            what: "battery".to_owned(),
            why: "you may not read it".to_owned(),
            grant: Some("sudo chmod a+r /battery".to_owned()),
        }];
        let text = render(&Summary { left_out: &left_out, ..summary(&plan, &tally, &stats) });
        assert_eq!(
            text,
            "Recorded 5.0 s into t.pftrace (12.3 MB, 4,321 packets).
  linux.ftrace         123,456 scheduling switches, 1 wake-up
  linux.process_stats  nothing
  track_event          nothing: no instrumented program emitted events
Lost: nothing.
Left out:
  - battery: you may not read it
      to grant it: sudo chmod a+r /battery
Open it: drag t.pftrace into https://ui.perfetto.dev (it stays in your browser),
or query it: trace_processor t.pftrace
"
        );
    }

    #[test]
    fn what_could_not_be_unpacked_is_not_called_nothing() {
        let (plan, mut tally, stats) = (plan(), Tally::default(), no_stats());
        tally.ftrace.switches = 2;
        tally.sealed = 3;
        assert_eq!(
            contents(&summary(&plan, &tally, &stats)),
            "  linux.ftrace         2 scheduling switches
  linux.process_stats  nothing that could be unpacked
  track_event          nothing that could be unpacked
  (3 batches of compressed packets could not be unpacked and counted.)
"
        );
    }

    #[test]
    fn nothing_lost_says_nothing() {
        assert!(check(|_, _, _| {}).is_empty());
    }

    #[test]
    fn a_buffer_too_small_is_named_with_the_flag_that_enlarges_it() {
        let lost = |stats: &mut TraceStats| stats.buffer_stats[0].bytes_overwritten = Some(5_000_000);
        assert_eq!(
            check(|_, _, stats| lost(stats)),
            [
                "5.00 MB in buffer 0 (\"kernel\", 64 MiB, for linux.ftrace): it was full before the file was written; \
              enlarge it with --buffer 128mb."
            ]
        );
        let from_file = check(|plan, _, stats| {
            plan.from_file = true;
            plan.write_into_file = false;
            lost(stats);
        });
        assert_eq!(
            from_file,
            [
                "5.00 MB of the oldest data in buffer 0 (\"kernel\", 64 MiB, for linux.ftrace), a ring that keeps the \
              newest; enlarge it with size_kb: 131072 in the config's buffers number 1 to keep more."
            ]
        );
    }

    #[test]
    fn each_cause_has_its_sentence() {
        let one = |sentences: Vec<String>| {
            assert_eq!(sentences.len(), 1, "{sentences:?}");
            sentences.into_iter().next().unwrap_or_default()
        };
        let stats = |change: fn(&mut BufferStats)| one(check(|_, _, s| change(&mut s.buffer_stats[1])));
        assert!(stats(|b| b.chunks_discarded = Some(3)).contains("3 chunks in buffer 1"));
        assert!(stats(|b| b.trace_writer_packet_loss = Some(2)).contains("2 times"));
        assert!(stats(|b| b.abi_violations = Some(1)).contains("1 piece"));
        assert!(one(check(|_, _, s| s.invalid_packets = Some(2))).contains("2 packets"));
        assert!(one(check(|_, _, s| s.chunks_discarded = Some(9))).contains("9 pieces"));
        let flush = FinalFlushOutcome::FinalFlushFailed as i32;
        assert!(one(check(|_, _, s| s.final_flush_outcome = Some(flush))).contains("last moments"));
        let kernel = one(check(|_, tally, _| {
            tally.ftrace.lossy_bundles = 2;
            tally.ftrace.lossy_cpus.extend([0, 3]);
        }));
        assert_eq!(
            kernel,
            "2 gaps of kernel events on CPU 0, 3: the kernel's buffer was full before it was read; give it more with \
             --kernel-buffer."
        );
        let unknown = one(check(|_, tally, _| tally.ftrace.unknown_events.extend(["a/b".to_owned()])));
        assert_eq!(unknown, "kernel event a/b does not exist on this kernel.");
    }

    #[test]
    fn statistics_that_are_missing_are_not_called_no_loss() {
        let (plan, tally, stats) = (plan(), Tally::default(), no_stats());
        let sentences = losses(&Summary { stats: None, torn: true, ..summary(&plan, &tally, &stats) });
        assert_eq!(sentences.len(), 2);
        assert!(sentences[0].starts_with("unknown"));
    }
}
