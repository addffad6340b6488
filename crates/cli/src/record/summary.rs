//! The words at the end of a recording: what is in it, what was lost and why, what was left out, how to open it.
//!
//! Pure: everything is counted elsewhere, so each sentence can be tested.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ferretto_printable::printable;
use ferretto_protos::TraceStats;
use ferretto_trace_info::Tally;
use ferretto_trace_info::tally::Ftrace;

use super::plan::Plan;
use crate::losses::{self, Evidence, Verdict};
use crate::units::{bytes, counted, duration};

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
    /// Packets too large to be looked into.
    pub(crate) huge: u64,
    pub(crate) left_out: &'a [LeftOut],
    /// What programs say that could not be recorded from their start on: process id, name, and why.
    pub(crate) reports: &'a [String],
    /// Programs that go on after the command that started them: name and process id.
    pub(crate) outliving: &'a [String],
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
    text.push_str(&losses(summary).render());
    let left_out: Vec<String> = summary.left_out.iter().map(left_out_sentence).collect();
    text.push_str(&list("Left out:", &left_out));
    text.push_str(&how_to_open(summary.path));
    text
}

fn headline(summary: &Summary<'_>) -> String {
    let place = summary.path.map_or_else(|| "a pipe or device".to_owned(), shown);
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
        let _ = writeln!(text, "  {source:width$}  {}", content_of(source, summary));
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

fn content_of(source: &str, summary: &Summary<'_>) -> String {
    let tally = summary.tally;
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
        "linux.perf" => vec![some(tally.samples, "sample", "samples")],
        "android.heapprofd" => {
            vec![some(tally.heap_dumps, "heap, by who has allocated it", "heaps, by who has allocated them")]
        }
        "track_event" => return track_event_contents(summary),
        _ if tally.others > 0 => return "see the other packets below".to_owned(),
        _ => Vec::new(),
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true if tally.sealed > 0 => UNKNOWN.to_owned(),
        true => nothing_of(source, summary),
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

fn track_event_contents(summary: &Summary<'_>) -> String {
    let tally = summary.tally;
    match tally.track_events {
        0 if tally.sealed > 0 => UNKNOWN.to_owned(),
        0 => match summary.takers("track_event") {
            None => "nothing; whether instrumented programs took part is not known".to_owned(),
            Some(0) => "nothing: no instrumented program connected".to_owned(),
            Some(n) => format!(
                "nothing: {} took part and emitted no event of the categories that are recorded",
                counted(n, "instrumented program", "instrumented programs")
            ),
        },
        n => format!(
            "{} from {}",
            counted(n, "event", "events"),
            counted(tally.app_sequences(), "thread", "threads")
        ),
    }
}

/// Of a source of which there is nothing in the trace.
fn nothing_of(source: &str, summary: &Summary<'_>) -> String {
    match summary.takers(source) {
        Some(0) => "nothing: nobody offered it".to_owned(),
        _ => "nothing".to_owned(),
    }
}

impl Summary<'_> {
    /// How many programs had a data source, as far as the service counts it.
    fn takers(&self, source: &str) -> Option<u64> {
        let stats = self.stats.or(self.tally.stats.as_ref())?;
        let sources = &stats.losses.as_ref()?.sources;
        Some(sources.iter().find(|taker| taker.name() == source).map_or(0, |taker| taker.producers()))
    }
}

fn some(n: u64, singular: &str, plural: &str) -> Option<String> {
    (n > 0).then(|| counted(n, singular, plural))
}

/// Every cause of loss, with what to change, and what could not be asked.
pub(crate) fn losses(summary: &Summary<'_>) -> Verdict {
    losses::find(&Evidence {
        plan: summary.plan,
        tally: summary.tally,
        stats: summary.stats,
        counted: summary.counted,
        is_over: summary.span == Span::Whole,
        torn: summary.torn,
        huge: summary.huge,
        reports: summary.reports,
        outliving: summary.outliving,
    })
}

fn left_out_sentence(left_out: &LeftOut) -> String {
    let grant = left_out.grant.as_ref().map(|command| format!("\n      to grant it: {command}"));
    format!("{}: {}{}", left_out.what, left_out.why, grant.unwrap_or_default())
}

fn list(heading: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let mut text = format!("{heading}\n");
    for sentence in sentences {
        let _ = writeln!(text, "  - {sentence}");
    }
    text
}

/// A name on one line: nothing in it says anything of its own.
fn shown(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

fn how_to_open(path: Option<&Path>) -> String {
    let Some(path) = path else { return String::new() };
    let path = shown(path);
    format!(
        "Open it: `ferretto open {path}`, or drag {path} into https://ui.perfetto.dev (it stays in your browser),\n\
         or query it: trace_processor {path}\n"
    )
}

#[cfg(test)]
mod tests {
    use ferretto_protos::trace_stats::losses::Source;
    use ferretto_protos::trace_stats::{BufferStats, Losses};

    use super::*;
    use crate::record::plan::Buffer;

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
            losses: Some(Losses::default()),
            ..TraceStats::default()
        }
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
            huge: 0,
            left_out: &[],
            reports: &[],
            outliving: &[],
        }
    }

    #[test]
    fn a_whole_summary() {
        let (plan, mut tally, stats) = (plan(), Tally::default(), no_stats());
        tally.packets = 4321;
        tally.ftrace.switches = 123_456;
        tally.ftrace.wakings = 1;
        tally.ftrace.has_end = true;
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
  linux.process_stats  nothing: nobody offered it
  track_event          nothing: no instrumented program connected
Lost: nothing.
Left out:
  - battery: you may not read it
      to grant it: sudo chmod a+r /battery
Open it: `ferretto open t.pftrace`, or drag t.pftrace into https://ui.perfetto.dev (it stays in your browser),
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
    fn nothing_of_programs_says_whether_there_were_any() {
        let (plan, tally, mut stats) = (plan(), Tally::default(), no_stats());
        let said = |stats: &TraceStats| track_event_contents(&summary(&plan, &tally, stats));
        assert_eq!(said(&stats), "nothing: no instrumented program connected");
        let took_part = Source { name: Some("track_event".to_owned()), producers: Some(2) };
        stats.losses.get_or_insert_default().sources.push(took_part);
        assert_eq!(
            said(&stats),
            "nothing: 2 instrumented programs took part and emitted no event of the categories that are recorded"
        );
        stats.losses = None;
        assert_eq!(said(&stats), "nothing; whether instrumented programs took part is not known");
    }

    #[test]
    fn statistics_that_are_missing_are_not_called_no_loss() {
        let (plan, tally, stats) = (plan(), Tally::default(), no_stats());
        let text = render(&Summary { stats: None, torn: true, ..summary(&plan, &tally, &stats) });
        assert!(text.contains("Lost:\n  - the file ends in the middle of a packet"), "{text}");
        assert!(text.contains("perhaps more; could not be asked: the service's statistics"), "{text}");
    }
}
