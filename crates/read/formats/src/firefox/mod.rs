//! Profiles of Firefox, and of what writes its formats, such as samply (upstream: importers/gecko).
//!
//! There are two: what the browser dumps (*raw*: tables are rows with a schema, each thread has its own texts, other processes are profiles
//! within the profile), and what its profiler saves (*processed*: tables are columns, and may be shared by all threads). Both are read by one
//! code: a table becomes columns, whichever way it was written.
//!
//! | module | what it does |
//! |---|---|
//! | `wire` | the JSON, as far as it goes |
//! | `table` | a table of either format |
//! | `stacks` | frames and call stacks of a thread |
//!
//! Samples are rows of `__intrinsic_profiler_sample` with the source `gecko`, as upstream has them. Markers are slices of their threads, which
//! upstream leaves out: what overlaps on a thread has a track of its own, and what a marker says is arguments `data.KEY`. Times are
//! those of the file, from its own begin.
//!
//! Memory: the tables of all threads, a few times the file. A file that ends early gives the threads that are whole.

mod stacks;
mod table;
mod wire;

use std::cmp::Reverse;
use std::io::BufRead;

use ferretto_trace_model::args::{Arg, ArgList, ArgValue};
use ferretto_trace_model::model::Model;
use ferretto_trace_model::processes::{ProcessName, ThreadName};
use ferretto_trace_model::profiles::samples::ThreadSample;
use ferretto_trace_model::slices::Label;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_model::tracks::TrackType;
use ferretto_trace_read::clocks::TRACE_FILE;
use ferretto_trace_tables::{CallsiteId, TrackId, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::Error;
use crate::lanes::{Lanes, Lying, Place};
use stacks::{Mappings, Stacks};
use table::{Cell, Table};
use wire::{Process, Thread};

const NS_PER_MS: f64 = 1e6;

/// Reads a file.
///
/// # Errors
///
/// If its bytes cannot be had, or are no such JSON from some place on. Threads before it are in the model.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let (processes, end) = wire::read(file);
    let (tables, people) = model.processes(model.file_machine());
    people.disown_idle(tables);
    let mut reader = Reader { model, mappings: Mappings::default(), threads: Vec::new(), events: Vec::new() };
    let start = processes.first().map_or(0.0, |process| process.meta.start_time);
    for process in &processes {
        reader.take_process(process, process.meta.start_time - start);
    }
    reader.finish();
    end
}

/// A thread.
#[derive(Clone, Copy, Debug)]
struct Known {
    pid: i64,
    tid: i64,
    utid: Utid,
}

/// What waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Event {
    ts: i64,
    /// The thread, by its turn.
    thread: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Sample(CallsiteId),
    /// With its end, the latest time there is if it has none.
    Marker(i64, Label),
}

struct Reader<'a> {
    model: &'a mut Model,
    mappings: Mappings,
    threads: Vec<Known>,
    events: Vec<Event>,
}

impl Reader<'_> {
    /// Times of other processes are from their own begin.
    fn take_process(&mut self, process: &Process, later_ms: f64) {
        let of_all = Stacks::of_all(self.model, &mut self.mappings, &process.shared);
        for thread in &process.threads {
            let texts = if thread.texts.is_empty() { &process.shared.texts } else { &thread.texts };
            let number = self.threads.len();
            let known = self.know(thread, number);
            self.threads.push(known);
            let own = (!thread.stack_table.is_empty())
                .then(|| Stacks::of_thread(self.model, &mut self.mappings, texts, thread, &process.shared));
            self.take_samples(thread, number, own.as_ref().unwrap_or(&of_all), later_ms);
            self.take_markers(process, thread, number, later_ms);
        }
    }

    fn know(&mut self, thread: &Thread, number: usize) -> Known {
        // One that does not say who it is has a number that none has.
        let made_up = (1 << 22) + i64::try_from(number).unwrap_or(0);
        let pid = thread.pid.number().unwrap_or(made_up);
        let tid = thread.tid.number().unwrap_or(made_up);
        let (tables, processes) = self.model.processes(self.model.file_machine());
        let utid = processes.thread_of(tables, tid, pid);
        if !thread.name.is_empty() {
            let text = tables.strings.intern(&thread.name);
            processes.name_thread(tables, utid, text, ThreadName::Other);
        }
        if !thread.process_name.is_empty() {
            let text = tables.strings.intern(&thread.process_name);
            let upid = processes.process(tables, pid);
            processes.name_process(tables, upid, text, ProcessName::Other);
        }
        Known { pid, tid, utid }
    }

    fn take_samples(&mut self, thread: &Thread, number: usize, stacks: &Stacks, later_ms: f64) {
        let samples = &thread.samples;
        let mut clock = Clock::new(samples, "time", later_ms);
        for row in 0..samples.len() {
            let ts = clock.at(row);
            let stack = samples.index("stack", row).and_then(|stack| stacks.callsite(stack));
            match (ts, stack) {
                (Some(ts), _) if ts < 0 => self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped),
                (Some(ts), Some(callsite)) => {
                    self.events.push(Event { ts, thread: number, what: What::Sample(callsite) });
                }
                _ => {}
            }
        }
    }

    /// Ends are of the latest begin of the same name.
    fn take_markers(&mut self, process: &Process, thread: &Thread, number: usize, later_ms: f64) {
        mod phase {
            pub(super) const INSTANT: u32 = 0;
            pub(super) const INTERVAL: u32 = 1;
            pub(super) const INTERVAL_START: u32 = 2;
            pub(super) const INTERVAL_END: u32 = 3;
        }
        let texts = if thread.texts.is_empty() { &process.shared.texts } else { &thread.texts };
        let markers = &thread.markers;
        let mut open: HashMap<u32, Vec<usize>, RandomState> = HashMap::default();
        for row in 0..markers.len() {
            let Some(name) = markers.index("name", row) else { continue };
            let time = |column: &str| markers.number(column, row).map(|ms| ns(ms + later_ms));
            let (start, end) = (time("startTime"), time("endTime"));
            let how = markers.index("phase", row).unwrap_or(match (start, end) {
                (Some(_), Some(_)) => phase::INTERVAL,
                (None, Some(_)) => phase::INTERVAL_END,
                _ => phase::INSTANT,
            });
            let (start, end) = match (how, start, end) {
                (phase::INSTANT, Some(start), _) | (phase::INTERVAL, Some(start), None) => (start, start),
                (phase::INTERVAL, Some(start), Some(end)) => (start, end),
                (phase::INTERVAL_START, Some(start), _) => (start, i64::MAX),
                (phase::INTERVAL_END, _, Some(end)) => {
                    let begun = open.get_mut(&name).and_then(Vec::pop).and_then(|at| self.events.get_mut(at));
                    match begun {
                        Some(Event { ts, what: What::Marker(until, _), .. }) => *until = end.max(*ts),
                        _ => {
                            let label = label_of(self.model, texts, process, markers, row);
                            self.push_marker(number, (end, end), label);
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            if how == phase::INTERVAL_START {
                open.entry(name).or_default().push(self.events.len());
            }
            let label = label_of(self.model, texts, process, markers, row);
            if !self.push_marker(number, (start, end), label) && how == phase::INTERVAL_START {
                open.entry(name).or_default().pop();
            }
        }
    }

    fn push_marker(&mut self, thread: usize, (start, end): (i64, i64), label: Label) -> bool {
        if start < 0 {
            self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped);
        } else if end < start {
            self.model.stats.count(Stat::SliceNegativeDuration);
        } else {
            self.events.push(Event { ts: start, thread, what: What::Marker(end, label) });
            return true;
        }
        false
    }

    /// Nothing more comes: what waits becomes rows.
    fn finish(self) {
        let Self { model, threads, mut events, .. } = self;
        for event in &mut events {
            event.ts = model.time_of_file(TRACE_FILE, event.ts);
            if let What::Marker(end, _) = &mut event.what
                && *end != i64::MAX
            {
                *end = model.time_of_file(TRACE_FILE, *end).max(event.ts);
            }
        }
        events.sort_by_key(|event| match event.what {
            What::Sample(_) => (event.ts, Reverse(0)),
            // Where two begin at once, the longer one is the outer.
            What::Marker(end, _) => (event.ts, Reverse(end)),
        });
        let mut lanes = Lanes::default();
        let mut tracks = HashMap::default();
        for (number, event) in events.into_iter().enumerate() {
            let Some(thread) = threads.get(event.thread).copied() else { continue };
            match event.what {
                What::Sample(callsite) => {
                    model.push_thread_sample(model.file_machine(), thread.sample(event.ts, callsite))
                }
                What::Marker(end, label) => {
                    let lying = Lying { number, start: event.ts, end, parent: None, nests: true };
                    let place = lanes.place(thread.utid, lying);
                    let track = track(model, &mut tracks, thread.utid, place);
                    let (slices, mut out) = model.slices();
                    match end {
                        i64::MAX => slices.begin(&mut out, event.ts, track, label),
                        end => slices.complete(&mut out, event.ts, end - event.ts, track, label),
                    };
                }
            }
        }
    }
}

impl Known {
    fn sample(&self, ts: i64, callsite: CallsiteId) -> ThreadSample {
        ThreadSample { ts, source: "gecko", pid: Some(self.pid), tid: self.tid, name: None, callsite }
    }
}

fn track(
    model: &mut Model,
    tracks: &mut HashMap<Place, TrackId, RandomState>,
    utid: Utid,
    place: Place,
) -> TrackId {
    *tracks.entry(place).or_insert_with(|| match place.1 {
        0 => model.thread_track(model.file_machine(), utid),
        lane => {
            let lane = i64::try_from(lane).unwrap_or(i64::MAX);
            let dimensions = [("utid", ArgValue::Int(utid.0.into())), ("lane", ArgValue::Int(lane))];
            let markers = |strings: &mut ferretto_trace_tables::Strings| Some(strings.intern("Markers"));
            model
                .intern_track(model.file_machine(), TrackType::slices("gecko_marker", &dimensions), markers)
                .0
        }
    })
}

/// What a marker is called, and what it says.
fn label_of(model: &mut Model, texts: &[String], process: &Process, markers: &Table, row: usize) -> Label {
    let text = |index: Option<u32>| index.and_then(|index| texts.get(index as usize));
    let category = markers.index("category", row).and_then(|at| process.meta.categories.get(at as usize));
    let strings = &mut model.tables.strings;
    Label {
        category: category.map(|category| strings.intern(&category.name)),
        name: text(markers.index("name", row)).map(|name| strings.intern(name)),
        args: match markers.cell("data", row) {
            Some(Cell::Json(data)) => args(model, data),
            _ => ArgList::EMPTY,
        },
    }
}

/// Arguments of one marker. Ours: those of Firefox have some ten.
const MAX_ARGS: usize = 1024;

fn args(model: &mut Model, data: &serde_json::Value) -> ArgList {
    let mut args = Vec::new();
    collect("data", "data", data, model, &mut args);
    model.args.intern(&args)
}

/// The reader of JSON has a bound on how deep it goes.
fn collect(key: &str, flat: &str, value: &serde_json::Value, model: &mut Model, args: &mut Vec<Arg>) {
    use serde_json::Value;
    if args.len() >= MAX_ARGS {
        return;
    }
    let strings = &mut model.tables.strings;
    let leaf = match value {
        Value::Null => return,
        Value::Bool(value) => ArgValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => ArgValue::Int(whole),
            None => ArgValue::Real(number.as_f64().unwrap_or(0.0)),
        },
        Value::String(text) => ArgValue::Text(strings.intern(text)),
        Value::Array(values) => {
            return values.iter().enumerate().take(MAX_ARGS).for_each(|(index, value)| {
                collect(&format!("{key}[{index}]"), flat, value, model, args);
            });
        }
        Value::Object(members) => {
            return members.iter().take(MAX_ARGS).for_each(|(name, value)| {
                collect(&format!("{key}.{name}"), &format!("{flat}.{name}"), value, model, args);
            });
        }
    };
    let (flat_key, key) = (strings.intern(flat), strings.intern(key));
    args.push(Arg { flat_key, key, value: leaf });
}

/// The times of a table: each as it is, or since the one before.
struct Clock<'a> {
    table: &'a Table,
    column: &'static str,
    now_ms: f64,
}

impl<'a> Clock<'a> {
    fn new(table: &'a Table, column: &'static str, later_ms: f64) -> Self {
        Self { table, column, now_ms: later_ms }
    }

    /// To be asked of all rows, in their order.
    fn at(&mut self, row: usize) -> Option<i64> {
        if let Some(ms) = self.table.number("timeDeltas", row) {
            self.now_ms += ms;
            return Some(ns(self.now_ms));
        }
        self.table.number(self.column, row).map(|ms| ns(ms + self.now_ms))
    }
}

/// As upstream has it: what is below a nanosecond is cut off. Saturates.
fn ns(ms: f64) -> i64 {
    (ms * NS_PER_MS) as i64
}
