//! The kernel's events as text: tracefs' `trace`, systrace and its HTML, `trace-cmd report` (upstream: importers/systrace).
//!
//! ```text
//! # tracer: nop
//!  bash-1977  ( 1977) [000] d..2.  162.529430: sched_waking: comm=kworker/1:1 pid=52 prio=120 target_cpu=001
//! ```
//!
//! Times go through a floating-point number, as upstream's do, so those of machines that are up for long have lost some nanoseconds. A line
//! that is none of these is counted, and costs no other. A last line without its end is left out.
//!
//! | module | what it does |
//! |---|---|
//! | [`line`] | takes a line apart |
//! | `event` | what its arguments say |
//! | `sections` | which lines are of the trace: the others, of HTML and of lists of processes |
//!
//! Memory: some 50 bytes a line and its arguments until the file has ended: lines of several processors may come in any order.

mod event;
mod line;
mod sections;

use std::io::{BufRead, Read};

use ferretto_trace_model::ftrace::text::{Origin, TextFeed};
use ferretto_trace_model::ftrace::{Cpu, MAX_CPUS};
use ferretto_trace_model::model::Model;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_read::clocks::MONOTONIC;

use crate::Error;
use crate::lines::Lines;
use event::Kind;
use line::Line;
use sections::{Sections, Turn};

/// `atrace` writes this before the trace.
const MARKER: &[u8] = b"TRACE:\n";
/// It is looked for in so many bytes. Upstream's.
const MARKER_BYTES: u64 = 128;
/// What the kernel, and what Trace Processor and `convert`, write for a name that they have not.
const UNKNOWN_COMMS: [&[u8]; 2] = [b"<...>", b"<unknown>"];

/// Reads a file. Its times are those of the trace.
///
/// # Errors
///
/// If its bytes cannot be had, if a list of processes has no numbers, or if it seemed to be such a text and no line of it is an event: it is
/// recognized by little, so it may be anything. Events before it are in the model.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut events = Events::of_clock(MONOTONIC);
    let end = read_lines(file, model, &mut events);
    let mut queue = events.in_order();
    while queue.next_ts().is_some() {
        queue.apply_next(model);
    }
    end
}

fn read_lines(mut file: impl BufRead, model: &mut Model, events: &mut Events) -> Result<(), Error> {
    let mut head = Vec::new();
    file.by_ref().take(MARKER_BYTES).read_to_end(&mut head)?;
    let marker = head.windows(MARKER.len()).position(|window| window == MARKER);
    let skipped = marker.map_or(0, |at| at + MARKER.len());
    let head = head.get(skipped..).unwrap_or_default();
    let mut lines = Lines::new(head.chain(file));
    let mut sections = Sections::default();
    while let Some(line) = lines.read()?.filter(|line| line.is_ended) {
        match sections.turn(line.bytes) {
            Turn::Event => events.push(line.bytes, model),
            Turn::Process(process) => {
                let offset = line.offset.saturating_add(skipped as u64);
                let what = "a line of a list of processes has no numbers";
                process.apply(model).ok_or(Error::Broken { offset, what })?;
            }
            Turn::Skip => {}
            Turn::End => break,
        }
    }
    match events.events.is_empty() && (events.has_failed || sections.is_html()) {
        true => Err(Error::Broken { offset: 0, what: "no line of it is an event of the kernel's" }),
        false => Ok(()),
    }
}

/// Events that wait until all have come.
#[derive(Debug)]
pub(crate) struct Events {
    /// The clock of their times.
    clock: u32,
    events: Vec<Waiting>,
    /// The arguments of all.
    text: Vec<u8>,
    /// A line was none.
    has_failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    origin: Origin,
    kind: Kind,
    /// Where in the text its arguments begin.
    at: usize,
    len: usize,
}

impl Events {
    pub(crate) fn of_clock(clock: u32) -> Self {
        Self { clock, events: Vec::new(), text: Vec::new(), has_failed: false }
    }

    /// Takes a line of a trace; one that is no event is counted, unless it is empty or a comment.
    pub(crate) fn push(&mut self, bytes: &[u8], model: &mut Model) {
        if bytes.is_empty() || bytes.starts_with(b"#") {
            return;
        }
        let Some(line) = Line::read(bytes).filter(|line| line.cpu < MAX_CPUS) else {
            model.stats.count(Stat::SystraceParseFailure);
            self.has_failed = true;
            return;
        };
        let comm =
            (!UNKNOWN_COMMS.contains(&line.comm)).then(|| model.tables.strings.intern_bytes(line.comm));
        let cpu = Cpu { machine: model.file_machine(), cpu: line.cpu };
        let ts = model.time_of_file(self.clock, line.ts);
        let origin = Origin { ts, cpu, tid: line.tid, tgid: line.tgid, comm };
        let kind = Kind::of(line.event);
        let args = if kind == Kind::Other { &[] } else { line.args };
        self.events.push(Waiting { origin, kind, at: self.text.len(), len: args.len() });
        self.text.extend_from_slice(args);
    }

    /// All of them by time; of two at one time the first stays first.
    pub(crate) fn in_order(mut self) -> Queue {
        self.events.sort_by_key(|event| event.origin.ts);
        Queue { events: self.events.into_iter(), text: self.text, feed: TextFeed::default() }
    }
}

/// Events that have their turns.
#[derive(Debug)]
pub(crate) struct Queue {
    events: std::vec::IntoIter<Waiting>,
    text: Vec<u8>,
    feed: TextFeed,
}

impl Queue {
    /// The time of the next one.
    pub(crate) fn next_ts(&self) -> Option<i64> {
        self.events.as_slice().first().map(|event| event.origin.ts)
    }

    /// Applies the next one.
    pub(crate) fn apply_next(&mut self, model: &mut Model) {
        let Some(event) = self.events.next() else { return };
        let args = self.text.get(event.at..event.at.saturating_add(event.len)).unwrap_or_default();
        let args = String::from_utf8_lossy(args);
        self.feed.apply(model, event.origin, event.kind.read(&args));
    }
}

#[cfg(test)]
mod tests;
