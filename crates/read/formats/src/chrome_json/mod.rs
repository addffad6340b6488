//! Chrome's trace events: JSON, as Chrome's own tracing and many programs write it (upstream: importers/json).
//!
//! The format is the document "Trace Event Format", and what Trace Processor makes of it: strings for numbers, numbers for strings, lists
//! without their end. Times are microseconds, and those of the file's own clock.
//!
//! | module | what it does |
//! |---|---|
//! | `scan` | finds the events in a file that comes in pieces |
//! | `event` | an event out of its JSON |
//! | `apply` | an event in its turn: slices, counters, flows, names, states of threads |
//!
//! Memory: all events, some 100 bytes each, until the file has ended: they may come in any order. Arguments are kept once.

mod apply;
mod event;
mod scan;

use std::io::BufRead;

use ferretto_trace_model::args::ArgValue;
use ferretto_trace_model::import_logs::Where;
use ferretto_trace_model::metadata::Metadatum;
use ferretto_trace_model::model::Model;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_read::Place;
use ferretto_trace_read::clocks::TRACE_FILE;

use crate::Error;
use crate::ftrace_text;
use apply::Counters;
use event::{Event, Phase};
use scan::{Found, Scanner};

/// Of an event that cannot be read, so much is shown.
const SHOWN_BYTES: usize = 200;

/// Reads a file.
///
/// # Errors
///
/// If its bytes cannot be had, or are no JSON from some place on. Events before it are in the model.
pub fn read(mut file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let (tables, processes) = model.processes(model.file_machine());
    processes.disown_idle(tables);
    let mut scanner = Scanner::default();
    let mut events = Vec::new();
    let mut kernel = ftrace_text::Events::of_clock(TRACE_FILE);
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        let len = piece.len();
        scanner.push(piece, &mut |found, offset| match found {
            Found::Event(bytes) => take_event(bytes, offset, model, &mut events),
            Found::Member(key, value) => take_member(key, value, model, &mut kernel),
        });
        file.consume(len);
        if scanner.broken_at().is_some() {
            break;
        }
    }
    events.sort_by_key(order);
    let mut counters = Counters::default();
    let mut kernel = kernel.in_order();
    for event in events {
        while kernel.next_ts().is_some_and(|ts| ts < event.ts) {
            kernel.apply_next(model);
        }
        apply::apply(model, &event, &mut counters);
    }
    while kernel.next_ts().is_some() {
        kernel.apply_next(model);
    }
    counters.finish(model);
    match (scanner.broken_at(), scanner.is_whole()) {
        (Some(offset), _) => Err(Error::Broken { offset, what: "this is no JSON of a trace" }),
        (None, false) => Err(Error::Broken { offset: scanner.offset(), what: "the file ends within this" }),
        (None, true) => Ok(()),
    }
}

fn take_event(bytes: &[u8], offset: u64, model: &mut Model, events: &mut Vec<Event>) {
    match Event::read(bytes, model) {
        Ok(Some(event)) if event.ts < 0 => model.stats.count(Stat::TraceSorterNegativeTimestampDropped),
        Ok(Some(event)) => {
            let ts = model.time_of_file(TRACE_FILE, event.ts);
            events.push(Event { ts, ..event });
        }
        Ok(None) => {}
        Err(()) => {
            let shown = bytes.get(..bytes.len().min(SHOWN_BYTES)).unwrap_or_default();
            let raw = ArgValue::Text(model.tables.strings.intern_bytes(shown));
            let place = Place { offset, in_batch: None };
            model.log(Stat::JsonTokenizerFailure, Some(Where::At(place)), &[("raw_event", raw)]);
        }
    }
}

fn take_member(key: &[u8], value: &[u8], model: &mut Model, kernel: &mut ftrace_text::Events) {
    match key {
        b"displayTimeUnit" => model.stats.count(Stat::JsonDisplayTimeUnit),
        b"metadata" => {
            let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(value) else { return };
            for (name, value) in members {
                let value = match value {
                    serde_json::Value::String(text) => Metadatum::Text(model.tables.strings.intern(&text)),
                    other => match other.as_i64() {
                        Some(number) => Metadatum::Int(number),
                        None => Metadatum::Text(model.tables.strings.intern(&other.to_string())),
                    },
                };
                model.set_dynamic_metadata(&format!("json_metadata.{name}"), model.file_machine(), value);
            }
        }
        b"systemTraceEvents" => {
            let Ok(text) = serde_json::from_slice::<String>(value) else { return };
            text.lines().for_each(|line| kernel.push(line.as_bytes(), model));
        }
        _ => {}
    }
}

/// By time. At one time ends come first, then what is complete, the longest first, then all others (upstream: trace_sorter.h).
fn order(event: &Event) -> (i64, i64) {
    let rank = match event.phase {
        Phase::End => i64::MIN,
        Phase::Complete => i64::MAX.saturating_sub(event.dur.unwrap_or(0)),
        _ => i64::MAX,
    };
    (event.ts, rank)
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::{Tables, consistency};
    use proptest::prelude::*;

    use super::*;

    /// Every kind of event, and what is none.
    const FILE: &str = r#"[
        {"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"browser"}},
        {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"io"}},
        {"ph":"B","pid":1,"tid":2,"ts":10,"name":"outer","cat":"a,b","args":{"list":[1,{"x":true},null,"t"],"f":0.5}},
        {"ph":"X","pid":1,"tid":2,"ts":12.5,"dur":"3","name":"inner","tts":1,"tdur":2},
        {"ph":"X","pid":1,"tid":2,"ts":14,"dur":4,"name":"overlapping"},
        {"ph":"E","pid":1,"tid":2,"ts":30,"args":{"end":1}},
        {"ph":"b","pid":1,"tid":2,"ts":11,"name":"req","cat":"net","id":"0x12"},
        {"ph":"e","pid":1,"tid":2,"ts":21,"name":"req","cat":"net","id":"0x12"},
        {"ph":"n","pid":1,"tid":2,"ts":15,"name":"step","cat":"net","id":7},
        {"ph":"C","pid":1,"ts":13,"name":"mem","args":{"used":5,"free":"7.5"}},
        {"ph":"i","pid":1,"tid":2,"ts":16,"name":"tick","s":"g"},
        {"ph":"i","pid":1,"tid":2,"ts":17,"name":"tock","s":"p"},
        {"ph":"s","pid":1,"tid":2,"ts":12,"id":1,"name":"fl","cat":"f"},
        {"ph":"X","pid":"proc","tid":"thr","ts":19,"dur":2,"name":"a \"named\" one"},
        {"ph":"f","pid":"proc","tid":"thr","ts":20,"id":1,"name":"fl","cat":"f","bp":"e"},
        {"ph":"X","pid":3,"tid":3,"ts":40,"dur":2,"name":"from","bind_id":"0xabc","flow_out":true},
        {"ph":"X","pid":3,"tid":4,"ts":50,"dur":2,"bind_id":"0xabc","flow_in":true},
        {"ph":"T","pid":3,"tid":4,"ts":60,"dur":5,"name":"Running","args":{"cpu":2}},
        {"ph":"Z","pid":3,"ts":1},{"pid":3},{}, ,
        {"ph":"X","pid":3,"tid":3,"ts":70,"name":"without a length"},
    "#;

    fn tables_of(file: impl BufRead) -> (Tables, Result<(), Error>) {
        let mut model = Model::default();
        let end = read(file, &mut model);
        let tables = model.finish();
        consistency::check(&tables).unwrap();
        (tables, end)
    }

    fn slices(tables: &Tables) -> Vec<(String, i64, i64, u32)> {
        let rows = 0..tables.slice.len();
        let name = |row: usize| {
            tables.slice.name.at(row).map_or(String::new(), |name| tables.strings.get(name).to_owned())
        };
        rows.map(|row| {
            (name(row), tables.slice.ts.at(row), tables.slice.dur.at(row), tables.slice.depth.at(row))
        })
        .collect()
    }

    #[test]
    fn events_of_every_kind_become_rows_as_trace_processor_has_them() {
        let (tables, end) = tables_of(FILE.as_bytes());
        end.unwrap();
        let expected = [
            ("outer", 10_000, 20_000, 0),
            ("req", 11_000, 10_000, 0),
            ("inner", 12_500, 3_000, 1),
            ("overlapping", 14_000, 4_000, 0),
            ("step", 15_000, 0, 0),
            ("tick", 16_000, 0, 0),
            ("tock", 17_000, 0, 0),
            ("a \"named\" one", 19_000, 2_000, 0),
            ("from", 40_000, 2_000, 0),
            ("[No name]", 50_000, 2_000, 0),
        ];
        let expected: Vec<_> =
            expected.map(|(name, ts, dur, depth)| (name.to_owned(), ts, dur, depth)).into();
        assert_eq!(slices(&tables), expected);
        assert_eq!(tables.counter.value, [5.0, 7.5]);
        assert_eq!(tables.flow.len(), 2);
        assert_eq!((tables.thread_state.len(), tables.sched.len()), (1, 1));
        let args: Vec<_> = tables.args.key.iter().flatten().map(|key| tables.strings.get(key)).collect();
        assert!(args.starts_with(&["source"]) || args.contains(&"args.list[1].x"), "{args:?}");
    }

    #[test]
    fn events_of_the_kernel_have_their_turns_between_those_of_programs() {
        let file = r##"{"systemTraceEvents":"# tracer: nop\nx-2 ( 1) [000] .... 0.000011: print: B|1|kernel\nbad\n\nx-2 ( 1) [000] .... 0.000013: print: E|1\n",
            "traceEvents":[{"ph":"X","pid":1,"tid":2,"ts":12,"dur":0,"name":"of JSON"},{"ph":"B","pid":1,"tid":2,"ts":10,"name":"outer"}]}"##;
        let (tables, end) = tables_of(file.as_bytes());
        end.unwrap();
        let found = slices(&tables);
        let found: Vec<_> =
            found.iter().map(|(name, ts, dur, depth)| (name.as_str(), *ts, *dur, *depth)).collect();
        assert_eq!(
            found,
            [("outer", 10_000, -1, 0), ("kernel", 11_000, 2_000, 1), ("of JSON", 12_000, 0, 2)]
        );
    }

    #[test]
    fn a_list_needs_no_end_and_an_object_does() {
        let event = r#"{"ph":"X","pid":1,"ts":1,"dur":1,"name":"x"}"#;
        for (file, is_whole) in [
            (format!("[{event}"), true),
            (format!("[{event},\n"), true),
            (format!("[{event}]\n"), true),
            (format!("{{\"traceEvents\":[{event}]}}"), true),
            (
                format!(
                    "{{\"other\":[{{}},\"]}}\"],\"traceEvents\": [{event}], \"displayTimeUnit\":\"ns\"}}"
                ),
                true,
            ),
            (format!("{{\"traceEvents\":[{event}]"), false),
            (format!("[{event},{{\"ph\":"), false),
            (format!("[{event} nonsense"), false),
        ] {
            let (tables, end) = tables_of(file.as_bytes());
            assert_eq!((tables.slice.len(), end.is_ok()), (1, is_whole), "{file}");
        }
    }

    #[test]
    fn a_file_that_ends_anywhere_is_read_up_to_there() {
        let whole = slices(&tables_of(FILE.as_bytes()).0).len();
        for len in 0..FILE.len() {
            assert!(slices(&tables_of(&FILE.as_bytes()[..len]).0).len() <= whole);
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(piece_bytes in 1usize..200) {
            let pieces = std::io::BufReader::with_capacity(piece_bytes, FILE.as_bytes());
            prop_assert_eq!(slices(&tables_of(pieces).0), slices(&tables_of(FILE.as_bytes()).0));
        }

        #[test]
        fn any_change_leaves_tables_that_hang_together(at in 0..FILE.len(), byte: u8) {
            let mut file = FILE.as_bytes().to_vec();
            file[at] = byte;
            let _end = tables_of(file.as_slice());
        }
    }
}
