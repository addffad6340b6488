//! Many traces that are asked as one, beside each of them asked by itself.

mod common;

use std::collections::HashMap;
use std::io::{self, Cursor};
use std::sync::Arc;

use arrow::array::RecordBatch;
use common::cell;
use ferretto_analysis::fleet::{Fleet, Places, Source, State};
use ferretto_analysis::{Error, Options, Rows, Trace};
use ferretto_import::{Options as ImportOptions, import};
use ferretto_protos::fields::{debug_annotation, trace_packet as field, track_event};
use ferretto_protozero::Message;

/// An argument of a slice.
#[derive(Clone, Copy)]
enum Arg {
    No,
    Int(i64),
    Real(f64),
    Text(&'static str),
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const TRACK: u64 = 7;

/// A trace of slices on a track: their names, begins, lengths, and an argument `debug.arg`.
fn trace(slices: &[(&str, u64, u64, Arg)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut trace = Message::new(&mut bytes);
    trace.nested(1).bytes(field::TRACK_DESCRIPTOR, b"\x08\x07\x12\x05track");
    for (name, ts, dur, arg) in slices {
        let mut packet = trace.nested(1);
        let mut event = event_at(&mut packet, *ts, BEGIN);
        event.string(track_event::NAME, name);
        if !matches!(arg, Arg::No) {
            let mut annotation = event.nested(track_event::DEBUG_ANNOTATIONS);
            annotation.string(debug_annotation::NAME, "arg");
            match arg {
                Arg::No => {}
                Arg::Int(value) => annotation.int(debug_annotation::INT_VALUE, *value),
                Arg::Real(value) => annotation.double(debug_annotation::DOUBLE_VALUE, *value),
                Arg::Text(text) => annotation.string(debug_annotation::STRING_VALUE, text),
            }
        }
        drop(event);
        drop(packet);
        drop(event_at(&mut trace.nested(1), ts + dur, END));
    }
    drop(trace);
    bytes
}

fn event_at<'m>(packet: &'m mut Message<'_, Vec<u8>>, ts: u64, kind: u64) -> Message<'m, Vec<u8>> {
    packet.varint(field::TIMESTAMP, ts);
    packet.varint(field::TRUSTED_PACKET_SEQUENCE_ID, 1);
    let mut event = packet.nested(field::TRACK_EVENT);
    event.varint(track_event::TYPE, kind);
    event.varint(track_event::TRACK_UUID, TRACK);
    event
}

/// Traces that lie in memory.
#[derive(Debug)]
struct InMemory(HashMap<String, Vec<u8>>);

impl Places for InMemory {
    fn open(&self, path: &str) -> io::Result<Source> {
        let bytes = self.0.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Source { file: Box::new(Cursor::new(bytes)), again: None })
    }
}

fn fleet(traces: &[(&str, Vec<u8>)], threads: usize) -> Fleet {
    let paths = traces.iter().map(|(path, _)| (*path).to_owned()).collect();
    let there = traces.iter().filter(|(_, bytes)| !bytes.is_empty());
    let places = InMemory(there.map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).collect());
    let options = Options { threads, ..Options::default() };
    Fleet::new(paths, Arc::new(places), ImportOptions::default(), &options, Arc::new(|_, _| {})).unwrap()
}

/// Three traces, and among them one that is none.
fn three() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a", trace(&[("x", 100, 10, Arg::Int(1)), ("y", 120, 30, Arg::Int(7))])),
        ("bad", b"no trace at all".to_vec()),
        ("b", trace(&[("x", 100, 5, Arg::Int(2)), ("z", 300, 7, Arg::No)])),
        ("c", trace(&[("y", 50, 1, Arg::Int(3))])),
    ]
}

fn lines(rows: Rows) -> Result<Vec<String>, Error> {
    let batches: Vec<RecordBatch> = rows.collect::<Result<_, _>>()?;
    let line = |batch: &RecordBatch, row| {
        batch.columns().iter().map(|array| cell(array, row)).collect::<Vec<_>>().join("|")
    };
    Ok(batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| line(batch, row))).collect())
}

fn ask(fleet: &Fleet, sql: &str) -> Vec<String> {
    fleet.query(sql).and_then(lines).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn wrong(fleet: &Fleet, sql: &str) -> String {
    fleet.query(sql).and_then(lines).map_or_else(|error| error.to_string(), |rows| panic!("{sql}: {rows:?}"))
}

#[test]
fn what_the_outermost_select_reads_is_of_each_trace_and_the_rest_over_all() {
    for (sql, expected) in [
        ("select _trace, name, dur from slice", "a|x|10 a|y|30 b|x|5 b|z|7 c|y|1"),
        ("select count(*) from slice", "5"),
        ("select name, count(*), sum(dur) from slice group by name", "x|2|15 y|2|31 z|1|7"),
        ("select _trace, count(*) from slice group by _trace order by 2, 1 desc", "c|1 b|2 a|2"),
        ("select _trace, count(*) n from slice group by 1 having n > 1", "a|2 b|2"),
        ("select distinct name from slice order by name desc", "z y x"),
        ("select name, dur from slice order by dur desc limit 2", "y|30 x|10"),
        ("select dur from slice limit 3", "10 30 5"),
        ("select dur from slice limit 2 offset 2", "5 7"),
        ("select name, max(dur), _trace from slice group by name", "x|10|a y|30|a z|7|b"),
        ("select sum(dur) over (order by dur) from slice order by 1", "1 6 13 23 53"),
        ("select count(distinct name), group_concat(name) from slice", "3|x,y,x,z,y"),
        ("select avg(dur) from slice where _trace != 'a' and dur > 1", "6.0"),
        // Each trace has its own subqueries, unions, views, ids.
        ("select sum(n) from (select count(*) n from slice where dur > 5)", "3"),
        ("select count(*) from (select name from slice limit 1)", "3"),
        (
            "with q as (select max(dur) m from slice) select s._trace, name from slice s, q where dur = m",
            "a|y b|z c|y",
        ),
        ("select name from slice s where dur = (select max(dur) from slice)", "y z y"),
        ("select count(*) from slice a join slice b using (id)", "5"),
        ("select name from slice union select 'w' order by 1", "w x y z"),
        ("select name from slice union all select 'w'", "x y w x z w y w"),
        ("select 1", "1 1 1"),
        ("select _trace, trace_dur() from slice where name = 'y'", "a|50 c|1"),
        ("select max(trace_start()), sum(extract_arg(arg_set_id, 'debug.arg')) from slice", "100|13"),
        (
            "select extract_arg(arg_set_id, 'debug.arg') v, count(*) from slice group by v",
            "NULL|1 1|1 2|1 3|1 7|1",
        ),
        ("select name from slice order by extract_arg(arg_set_id, 'debug.arg') desc, ts", "y y x x z"),
        (
            "select name, row_number() over (order by trace_dur(), ts) from slice order by 2",
            "y|1 x|2 y|3 x|4 z|5",
        ),
        (
            "create perfetto table t as select name, dur from slice where dur > 5; \
            create perfetto view v as select name n, max(dur) d from t group by name; \
            create perfetto function double(x long) returns long as select $x * 2; \
            select _trace, n, double(d) from v",
            "a|x|20 a|y|60 b|z|14",
        ),
        ("create perfetto macro m(e Expr) returns Expr as $e + 1; select sum(m!(dur)) from slice", "58"),
        ("include perfetto module slices.with_context; select count(*) from thread_slice", "0"),
        // A table over all is asked as a whole.
        (
            "create table t as select name, dur from slice; \
            select count(*), (select max(dur) from t), max(_trace) from t where dur < (select avg(dur) from t)",
            "4|30|c",
        ),
        (
            "create table t as select name, sum(dur) d from slice group by name; \
            create view v as select max(d) m from t; select t.* from t, v where d = m",
            "y|31",
        ),
        ("select path from trace_errors", "bad"),
    ] {
        for threads in [1, 3] {
            assert_eq!(ask(&fleet(&three(), threads), sql).join(" "), expected, "{sql}");
        }
    }
}

#[test]
fn what_cannot_be_asked_of_many_is_said() {
    let fleet = fleet(&three(), 2);
    for (sql, expected) in [
        ("select nam from slice", "there is no column nam"),
        ("select 1 from slcie", "there is no table or view slcie"),
        ("select name, sum(dur) / trace_dur() from slice group by name", "trace_dur() is asked of one trace"),
        (
            "select count(*) n from slice having n > (select max(dur) from slice)",
            "a query within an expression is asked",
        ),
        (
            "create table t as select * from slice; select * from t, slice",
            "t is over all traces, and slice is of each",
        ),
        ("select extract_arg(1, 'x') from t", "extract_arg() is of each trace"),
        ("create perfetto view t as select 1", "there is a table or view t already"),
        ("explain select 1", "no statement that is known here"),
    ] {
        let said = wrong(&fleet, sql);
        assert!(said.contains(expected), "{sql}: {said}");
    }
}

/// As many columns as a query may have over both: what is asked of a table of all rows is the same.
#[test]
fn groups_orders_and_windows_are_those_of_a_table_of_all_rows() {
    let names = ["x", "y", "z", "w"];
    let traces: Vec<(String, Vec<u8>)> = (0..40u64)
        .map(|n| {
            let slice =
                |k: u64| (names[((n * 7 + k * 3) % 4) as usize], 100 * k, (n * 31 + k * 17) % 50, Arg::No);
            (format!("t{n:02}"), trace(&(0..n % 9).map(slice).collect::<Vec<_>>()))
        })
        .collect();
    let traces: Vec<(&str, Vec<u8>)> =
        traces.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
    let (one, three) = (fleet(&traces, 1), fleet(&traces, 3));
    assert_eq!(
        ask(&one, "create table t as select * from slice; select count(*) from t"),
        ask(&three, "select count(*) from slice")
    );
    for query in [
        "select name, count(*), sum(dur), min(ts), avg(dur / 4.0), count(distinct dur) from TABLE group by name",
        "select dur % 7 k, max(dur), name from TABLE where dur > 3 group by k having count(*) > 2",
        "select distinct name, dur % 3 from TABLE order by 1, 2",
        "select ts, dur, name from TABLE order by dur desc, ts, name limit 20 offset 5",
        "select dur, sum(dur) over (partition by name order by dur rows unbounded preceding), lag(ts) over (order by ts, dur, name) from TABLE order by 1, 2, 3",
        "select name, ntile(4) over (order by count(*)), sum(sum(dur)) over () from TABLE group by name",
        "select ts, dur from TABLE",
        "select ts from TABLE limit 17",
        "select group_concat(dur) from TABLE where name = 'x'",
        "select count(*), sum(dur) from TABLE where 1 = 2",
        "select case when dur > 20 then 'long' else 'short' end k, sum(dur) from TABLE group by 1 order by 2 desc",
    ] {
        let of_traces = query.replace("TABLE", "slice");
        let expected = ask(&one, &query.replace("TABLE", "t"));
        assert_eq!(ask(&one, &of_traces), expected, "{query}");
        assert_eq!(ask(&three, &of_traces), expected, "{query}");
    }
}

#[test]
fn rows_are_those_of_each_trace_one_behind_the_other() {
    let traces = three();
    let sql = "select s.name, ts, dur, extract_arg(s.arg_set_id, 'debug.arg') from slice s join track t on t.id = s.track_id";
    let mut expected = Vec::new();
    for (_, bytes) in traces.iter().filter(|(path, _)| *path != "bad") {
        let (tables, _) = import(bytes.as_slice(), &ImportOptions::default(), &mut |_| true).unwrap();
        let one = Trace::of(tables, &Options::default()).unwrap();
        expected.extend(one.query(sql).and_then(lines).unwrap());
    }
    assert_eq!(ask(&fleet(&traces, 2), sql), expected);
}

#[test]
fn types_that_differ_from_trace_to_trace_become_one() {
    let with = |arg| trace(&[("x", 100, 10, arg)]);
    let sql = "select extract_arg(arg_set_id, 'debug.arg') from slice";
    for (args, expected) in [
        // A trace without one says nothing of the type.
        (vec![Arg::No, Arg::Int(1)], "NULL 1"),
        (vec![Arg::Int(1), Arg::No, Arg::Real(0.5)], "1.0 NULL 0.5"),
        (vec![Arg::Real(0.5), Arg::Int(1)], "0.5 1.0"),
        (vec![Arg::Int(1), Arg::Text("a"), Arg::Real(0.5)], "1 a 0.5"),
    ] {
        let paths = ["a", "b", "c"];
        let traces: Vec<_> = paths.into_iter().zip(args.iter().map(|arg| with(*arg))).collect();
        for threads in [1, 3] {
            assert_eq!(ask(&fleet(&traces, threads), sql).join(" "), expected);
        }
    }
    let mixed = [("a", with(Arg::Int(1))), ("b", with(Arg::Real(0.5)))];
    let sum = "select sum(extract_arg(arg_set_id, 'debug.arg')) from slice";
    assert_eq!(ask(&fleet(&mixed, 2), sum), ["1.5"]);
    // A trace that has none, first or last, is asked for numbers, too.
    for args in [[Arg::No, Arg::Int(2)], [Arg::Int(2), Arg::No]] {
        let traces: Vec<_> = ["a", "b"].into_iter().zip(args.map(with)).collect();
        assert_eq!(ask(&fleet(&traces, 2), sum), ["2"]);
        assert_eq!(ask(&fleet(&traces, 2), &sum.replace("sum", "1 + max")), ["3"]);
    }
}

#[test]
fn a_trace_that_cannot_be_read_costs_no_other() {
    let mut traces = three();
    traces.push(("gone", Vec::new()));
    let fleet = fleet(&traces, 2);
    assert_eq!(ask(&fleet, "select count(*) from slice"), ["5"]);
    let errors = ask(&fleet, "select path, error from trace_errors order by path");
    assert!(
        matches!(errors.as_slice(), [bad, gone] if bad.starts_with("bad|") && gone.starts_with("gone|")),
        "{errors:?}"
    );
    let bad = fleet.states().into_iter().filter(|(_, state)| matches!(state, State::Bad(_))).count();
    assert_eq!(bad, 2);
    let none = self::fleet(&[("gone", Vec::new()), ("bad", b"?".to_vec())], 2);
    assert!(wrong(&none, "select count(*) from slice").starts_with("none of 2 traces can be read; gone: "));
    assert_eq!(ask(&none, "select count(*) from trace_errors"), ["2"]);
}
