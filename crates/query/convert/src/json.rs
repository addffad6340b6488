//! Chrome's trace events (JSON), for chrome://tracing and what is like it, and for the Perfetto UI.
//!
//! The format is that of the document "Trace Event Format", as Trace Processor reads it: slices of threads are complete events (`X`, or `B`
//! without an end), other slices nestable asynchronous ones (`b`, `e`) of their track, instants `i`, counters `C`, flows are numbers that slices
//! share (`bind_id`), and `s` and `f` where a slice is on more than one. An instant on a flow is a slice of no length (`X`, `n`), as readers want
//! no flows of instants. What the
//! kernel switched and woke is ftrace's text in `systemTraceEvents`. Times are microseconds with three decimals, so none is lost.

use std::collections::HashMap;
use std::io;

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{SliceId, Str, TrackId};
use serde_json::{Map, Value, json};

use crate::owners::{Owner, process_name, thread_name};
use crate::{Error, Form, Format, Options, Out, Source, args, text};

/// Chrome's trace events.
pub const FORMAT: Format = Format {
    name: "json",
    doc: "Chrome's trace events, for chrome://tracing and its like",
    extension: "json",
    is_binary: false,
    form: Form::Trace(write),
};

fn write(source: &Source<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let mut events = Events { tables: source.tables, out, is_first: true, chains: Chains::of(source.tables) };
    events.out.write_all(b"{\"traceEvents\":[\n")?;
    events.names()?;
    events.slices()?;
    events.counters()?;
    events.flows()?;
    events.out.write_all(b"\n]")?;
    if !source.tables.sched.is_empty() {
        let mut lines = Vec::new();
        text::write_events(source.tables, &mut lines)?;
        events.out.write_all(b",\n\"systemTraceEvents\":")?;
        serde_json::to_writer(&mut *events.out, &String::from_utf8_lossy(&lines)).map_err(io::Error::from)?;
    }
    events.out.write_all(b",\n\"metadata\":{\"converted-by\":\"ferretto\"}}\n")?;
    Ok(())
}

struct Events<'a, 'b> {
    tables: &'a Tables,
    out: &'a mut Out<'b>,
    is_first: bool,
    chains: Chains,
}

/// Flows from slice to slice that slices themselves can tell of: each has room for one. (A flow that is an event of its own can only be at
/// slices of threads.)
///
/// A reader goes through a chain in the order of time: from a slice that says it goes out, to each that says it comes in, until one says both,
/// from which it goes on. So one slice may lead to several.
#[derive(Default)]
struct Chains {
    of_slices: HashMap<SliceId, Link>,
    all: Vec<Chain>,
    /// Rows of `flow` for which there was no room.
    rest: Vec<usize>,
}

/// A slice's place in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link {
    chain: usize,
    arrives: bool,
    leaves: bool,
}

/// How far a chain is.
struct Chain {
    /// From where it goes on.
    from: SliceId,
    /// Where it has come to last.
    latest: SliceId,
}

/// Numbers of chains begin here. Readers number flows that are events of their own from 0, and take them for chains of the same number.
const FIRST_CHAIN: u64 = 1 << 32;

impl Chains {
    fn of(tables: &Tables) -> Self {
        let ts = |slice: SliceId| tables.slice.ts.get(slice.index()).unwrap_or(0);
        let flow = |row: usize| (tables.flow.slice_out.at(row), tables.flow.slice_in.at(row));
        let is_own = |slice: SliceId| {
            tables.slice.track_id.get(slice.index()).is_some_and(|track| is_own(tables, track))
        };
        let is_later = |one: SliceId, other: SliceId| (ts(one), one) < (ts(other), other);
        let mut rows: Vec<usize> = (0..tables.flow.len()).collect();
        // First those that cannot be said otherwise.
        rows.sort_by_key(|row| {
            let (from, to) = flow(*row);
            (is_own(from) && is_own(to), ts(to), to)
        });
        let mut chains = Self::default();
        for row in rows {
            let (from, to) = flow(row);
            let has_room = is_later(from, to) && !chains.of_slices.contains_key(&to);
            if !has_room || !chains.join(from, to, is_later) {
                chains.rest.push(row);
            }
        }
        chains.rest.sort_unstable();
        chains
    }

    /// Whether a chain leads there.
    fn join(&mut self, from: SliceId, to: SliceId, is_later: impl Fn(SliceId, SliceId) -> bool) -> bool {
        let next = self.all.len();
        let link = self.of_slices.entry(from).or_insert(Link { chain: next, arrives: false, leaves: true });
        if link.chain == next {
            self.all.push(Chain { from, latest: from });
        }
        let chain = link.chain;
        let Some(it) = self.all.get_mut(chain) else { return false };
        // Where it has come to last, it can go on from.
        if it.from != from && it.latest != from || !is_later(it.latest, to) {
            return false;
        }
        it.from = from;
        link.leaves = true;
        it.latest = to;
        self.of_slices.insert(to, Link { chain, arrives: true, leaves: false });
        true
    }
}

/// Whether a thread's calls are on it, which there is one track for.
fn is_own(tables: &Tables, track: TrackId) -> bool {
    let type_ = tables.track.type_.get(track.index()).copied().flatten();
    type_.is_some_and(|type_| tables.strings.get(type_) == "thread_execution")
}

/// Nanoseconds as microseconds, exactly.
struct Micros(i64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:03}", ns / 1000, ns % 1000)
    }
}

impl Events<'_, '_> {
    /// One event; `more` is what its kind adds.
    fn event(
        &mut self,
        phase: &str,
        owner: Owner,
        ts: Option<i64>,
        more: &Map<String, Value>,
    ) -> Result<(), Error> {
        let (pid, tid) = owner.pid_tid(self.tables);
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        write!(self.out, "{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{tid}")?;
        if let Some(ts) = ts {
            write!(self.out, ",\"ts\":{}", Micros(ts))?;
        }
        for (key, value) in more {
            write!(self.out, ",\"{key}\":")?;
            serde_json::to_writer(&mut *self.out, value).map_err(io::Error::from)?;
        }
        self.out.write_all(b"}")?;
        Ok(())
    }

    fn names(&mut self) -> Result<(), Error> {
        for row in 0..self.tables.process.len() {
            let upid = ferretto_trace_tables::Upid(row as u32);
            if self.tables.process.name.get(row).is_some_and(Option::is_some) {
                let name = process_name(self.tables, upid);
                self.event("M", Owner::Process(upid), None, &named("process_name", &name))?;
            }
        }
        for row in 0..self.tables.thread.len() {
            let utid = ferretto_trace_tables::Utid(row as u32);
            if self.tables.thread.name.get(row).is_some_and(Option::is_some) {
                let name = thread_name(self.tables, utid);
                self.event("M", Owner::Thread(utid), None, &named("thread_name", &name))?;
            }
        }
        Ok(())
    }

    fn slices(&mut self) -> Result<(), Error> {
        let slices = &self.tables.slice;
        for row in 0..slices.len() {
            let (ts, dur, track) = (slices.ts.at(row), slices.dur.at(row), slices.track_id.at(row));
            let owner = Owner::of(self.tables, track);
            let is_own = matches!(owner, Owner::Thread(_)) && is_own(self.tables, track);
            let mut more = self.label(row);
            // Of instants readers want no flows.
            let has_flow = self.chains.of_slices.contains_key(&SliceId(row as u32));
            match (is_own, dur) {
                (_, 0) if !has_flow => {
                    let scope = match owner {
                        Owner::Thread(_) => "t",
                        Owner::Process(_) => "p",
                        Owner::Cpu(_) | Owner::Trace => "g",
                    };
                    more.insert("s".to_owned(), scope.into());
                    self.event("i", owner, Some(ts), &more)?;
                }
                (true, ..0) => self.event("B", owner, Some(ts), &more)?,
                (true, _) => {
                    more.insert("dur".to_owned(), raw_micros(dur));
                    if let (Some(tts), Some(tdur)) = (slices.thread_ts.get(row), slices.thread_dur.get(row)) {
                        more.insert("tts".to_owned(), raw_micros(tts));
                        more.insert("tdur".to_owned(), raw_micros(tdur));
                    }
                    self.event("X", owner, Some(ts), &more)?;
                }
                (false, _) => self.asynchronous(owner, track, ts, dur, &more)?,
            }
        }
        Ok(())
    }

    /// Tracks that are no thread's are kept apart by their number. An end says no name: it ends the innermost.
    fn asynchronous(
        &mut self,
        owner: Owner,
        track: TrackId,
        ts: i64,
        dur: i64,
        label: &Map<String, Value>,
    ) -> Result<(), Error> {
        let id = json!({ "local": format!("{:#x}", track.0 + 1) });
        let mut more = label.clone();
        more.entry("cat").or_insert_with(|| "none".into());
        more.insert("id2".to_owned(), id);
        self.event(if dur == 0 { "n" } else { "b" }, owner, Some(ts), &more)?;
        if dur > 0 {
            for key in ["args", "bind_id", "flow_in", "flow_out"] {
                more.shift_remove(key);
            }
            self.event("e", owner, Some(ts.saturating_add(dur)), &more)?;
        }
        Ok(())
    }

    fn label(&self, row: usize) -> Map<String, Value> {
        let slices = &self.tables.slice;
        let mut label = Map::new();
        let mut insert = |key: &str, text: Option<Str>| {
            if let Some(text) = text {
                label.insert(key.to_owned(), self.tables.strings.get(text).into());
            }
        };
        insert("name", slices.name.at(row));
        insert("cat", slices.category.at(row));
        if let Some(link) = self.chains.of_slices.get(&SliceId(row as u32)) {
            let number = FIRST_CHAIN + link.chain as u64;
            label.insert("bind_id".to_owned(), format!("{number:#x}").into());
            if link.arrives {
                label.insert("flow_in".to_owned(), true.into());
            }
            if link.leaves {
                label.insert("flow_out".to_owned(), true.into());
            }
        }
        if let Some(set) = slices.arg_set_id.get(row) {
            label.insert("args".to_owned(), Value::Object(args::to_json(self.tables, set)));
        }
        label
    }

    fn counters(&mut self) -> Result<(), Error> {
        let counters = &self.tables.counter;
        for row in 0..counters.len() {
            let track = counters.track_id.at(row);
            let name = self.tables.track.name.get(track.index()).copied().flatten();
            let name = name.map_or("counter", |name| self.tables.strings.get(name));
            let mut more = Map::new();
            let owner = Owner::of(self.tables, track);
            let name = match owner {
                Owner::Cpu(cpu) => format!("{name} (CPU {cpu})"),
                _ => name.to_owned(),
            };
            more.insert("name".to_owned(), name.into());
            more.insert("args".to_owned(), json!({ "value": counters.value.at(row) }));
            self.event("C", owner, Some(counters.ts.at(row)), &more)?;
        }
        Ok(())
    }

    /// Those for which slices had no room. Where one end is on no thread's own track, there is no way to say it.
    fn flows(&mut self) -> Result<(), Error> {
        let flows = &self.tables.flow;
        for row in std::mem::take(&mut self.chains.rest) {
            let ends = [flows.slice_out.at(row), flows.slice_in.at(row)].map(|slice| self.place_of(slice));
            let [Some(from), Some(to)] = ends else { continue };
            if !is_own(self.tables, from.1) || !is_own(self.tables, to.1) {
                continue;
            }
            for (phase, (ts, track)) in [("s", from), ("f", to)] {
                let mut more = Map::new();
                more.insert("name".to_owned(), "flow".into());
                more.insert("cat".to_owned(), "flow".into());
                more.insert("id".to_owned(), (row + 1).into());
                more.insert("bp".to_owned(), "e".into());
                self.event(phase, Owner::of(self.tables, track), Some(ts), &more)?;
            }
        }
        Ok(())
    }

    fn place_of(&self, slice: SliceId) -> Option<(i64, TrackId)> {
        let slices = &self.tables.slice;
        Some((slices.ts.get(slice.index())?, slices.track_id.get(slice.index())?))
    }
}

fn named(what: &str, name: &str) -> Map<String, Value> {
    let mut more = Map::new();
    more.insert("name".to_owned(), what.into());
    more.insert("args".to_owned(), json!({ "name": name }));
    more
}

/// A number that is written as it stands.
fn raw_micros(ns: i64) -> Value {
    let number: serde_json::Number = Micros(ns).to_string().parse().unwrap_or_else(|_| 0.into());
    Value::Number(number)
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::{FlowRow, FlowTable, SliceRow, SliceTable};

    use super::*;
    use crate::testing::{small, written};

    #[test]
    fn every_kind_of_event_is_there() {
        let json: Value = serde_json::from_slice(&written(FORMAT, &small()).unwrap()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let expected = [
            r#"{"ph":"M","pid":10,"tid":10,"name":"process_name","args":{"name":"app"}}"#,
            r#"{"ph":"M","pid":10,"tid":10,"name":"thread_name","args":{"name":"main"}}"#,
            r#"{"ph":"X","pid":10,"tid":10,"ts":1.0,"name":"outer","cat":"app","dur":5.0}"#,
            r#"{"ph":"X","pid":10,"tid":10,"ts":2.0,"name":"inner","bind_id":"0x100000000","flow_out":true,"args":{"round":7},"dur":2.0}"#,
            r#"{"ph":"i","pid":10,"tid":10,"ts":5.0,"name":"tick","s":"t"}"#,
            r#"{"ph":"b","pid":10,"tid":10,"ts":5.5,"name":"request","bind_id":"0x100000000","flow_in":true,"cat":"none","id2":{"local":"0x2"}}"#,
            r#"{"ph":"e","pid":10,"tid":10,"ts":6.0,"name":"request","cat":"none","id2":{"local":"0x2"}}"#,
            r#"{"ph":"b","pid":10,"tid":10,"ts":7.0,"name":"endless","cat":"none","id2":{"local":"0x2"}}"#,
            r#"{"ph":"C","pid":10,"tid":10,"ts":1.5,"name":"fps","args":{"value":59.5}}"#,
        ];
        let expected: Vec<Value> =
            expected.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        assert_eq!(events, &expected);
    }

    /// Slices of the thread and, from `f`, of the process's track: `f` and `g` at once, the others one after the other; `d` and `h` are instants.
    fn with_flows(flows: &[(u32, u32)]) -> Tables {
        let mut tables = small();
        tables.slice = SliceTable::default();
        tables.flow = FlowTable::default();
        for (at, name) in ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().enumerate() {
            let name = Some(tables.strings.intern(name));
            let dur = if at % 4 == 3 { 0 } else { 500 };
            let track_id = TrackId(u32::from(at > 4));
            let ts = 1_000 * (at as i64 + 1);
            tables.slice.push(SliceRow { ts, dur, track_id, name, ..SliceRow::default() });
        }
        for (from, to) in flows {
            let (slice_out, slice_in) = (SliceId(*from), SliceId(*to));
            tables.flow.push(FlowRow { slice_out, slice_in, ..FlowRow::default() });
        }
        tables
    }

    #[test]
    fn flows_are_read_as_they_were_at_instants_and_on_any_track_too() {
        for flows in [
            &[(0, 1), (1, 2)][..],
            &[(0, 3), (3, 4)],
            &[(0, 5), (5, 7), (7, 7)][..2],
            &[(0, 1), (0, 2), (0, 5), (2, 4)],
            &[(5, 6), (5, 7)],
            &[(0, 1), (0, 3), (3, 4), (1, 2)],
            &[(0, 2), (1, 2), (0, 4), (1, 4)],
            &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (0, 2), (1, 4)],
        ] {
            let tables = with_flows(flows);
            let json = written(FORMAT, &tables).unwrap();
            let options = ferretto_import::Options::default();
            let (read, _) = ferretto_import::import(json.as_slice(), &options, &mut |_| true).unwrap();
            let mut found: Vec<_> = (0..read.flow.len())
                .map(|row| (read.flow.slice_out.at(row).0, read.flow.slice_in.at(row).0))
                .collect();
            found.sort_unstable();
            let mut expected = flows.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&json));
            assert_eq!(read.slice.len(), tables.slice.len());
        }
    }

    #[test]
    fn times_are_exact() {
        for (ns, text) in
            [(0, "0.000"), (1, "0.001"), (-1_500, "-1.500"), (9_007_199_254_740_993, "9007199254740.993")]
        {
            assert_eq!(Micros(ns).to_string(), text);
        }
    }
}
