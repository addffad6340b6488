//! The report on a trace whose answers are known, in every form.

mod common;

use common::{MS, tables, trace};
use ferretto_report::{Document, Form, Options, compare, render, report};
use ferretto_trace_tables::tables::SliceRow;
use ferretto_trace_tables::{Tables, TrackId};
use serde_json::Value;

fn options() -> Options {
    Options { rows: 10, has_pictures: true }
}

fn document() -> Document {
    report("t.pftrace", &trace(tables()), &options()).unwrap()
}

fn json(document: &Document) -> Value {
    serde_json::from_str(&render(document, Form::Json)).unwrap()
}

/// The members of a section's rows.
fn rows(document: &Value, section: &str, members: &[&str]) -> Vec<Vec<Value>> {
    let rows = document[section]["rows"].as_array().unwrap_or_else(|| panic!("{section}: {document}"));
    rows.iter().map(|row| members.iter().map(|member| row[member].clone()).collect()).collect()
}

/// What a hostile name is shown as.
fn shown() -> Value {
    Value::from("<script>alert(1)</script>\\u{1b}[31m\"'&")
}

macro_rules! row {
    ($($cell:expr),*) => { vec![$(Value::from($cell)),*] };
}

#[test]
fn cpu_time_is_that_of_processes_and_threads() {
    let json = json(&document());
    let found = rows(&json, "cpu_by_process", &["process", "cpu_ns", "of_a_cpu", "runs"]);
    assert_eq!(found[0], row!["app 10", 70 * MS, 70.0 / 120.0, 3]);
    assert_eq!(found[1][1..], row![50 * MS, 50.0 / 120.0, 1]);
    let found = rows(&json, "cpu_by_thread", &["thread", "cpu_ns", "waiting_ns", "blocked_ns", "asleep_ns"]);
    assert_eq!(found[0], row!["main 10", 50 * MS, 50 * MS, 0, 20 * MS]);
    assert_eq!(found[1][1..], row![50 * MS, 20 * MS, 20 * MS, 0]);
    assert_eq!(found[2], row!["worker 11", 20 * MS, 5 * MS, 0, 95 * MS]);
    // The busiest process has all of the first third and of the last quarter of the time.
    let course = &json["cpu_by_process"]["over_time"];
    assert_eq!(course["bin_ns"], Value::from(500_000));
    let of_app: Vec<_> = [0, 79, 80, 179, 180, 239].map(|bin| course["series"][0]["ns"][bin].as_i64()).into();
    assert_eq!(of_app, [500_000, 500_000, 0, 0, 500_000, 500_000].map(Some));
}

#[test]
fn waits_for_a_cpu_have_their_percentiles_and_the_worst_is_named() {
    let json = json(&document());
    let found = rows(&json, "latency_by_thread", &["thread", "waits", "total_ns", "p50_ns", "p99_ns"]);
    assert_eq!(found[0], row!["main", 1, 50 * MS, 50 * MS, 50 * MS]);
    assert_eq!(found[1], vec![shown(), 1.into(), (10 * MS).into(), (10 * MS).into(), (10 * MS).into()]);
    let members = ["thread", "at_ns", "waited_ns", "cpu", "woken_by", "meanwhile", "meanwhile_ns"];
    let found = rows(&json, "latency_worst", &members);
    assert_eq!(found[0][..5], row!["main", 40 * MS, 50 * MS, 0, "preempted"]);
    assert_eq!(found[0][5..], [shown(), (50 * MS).into()]);
    assert_eq!(found[2], row!["worker", 95 * MS, 5 * MS, 0, "main", "main", 5 * MS]);
    let bins: Vec<_> = json["latency_by_thread"]["histogram"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| bin["count"].as_i64())
        .collect();
    assert_eq!(bins, [1, 1, 0, 1].map(Some), "5 to 10, 10 to 20, 20 to 50, 50 to 100 ms");
}

#[test]
fn what_blocked_has_its_cause_and_who_ended_it() {
    let json = json(&document());
    let found = rows(&json, "blocked", &["cause", "function", "times", "total_ns"]);
    assert_eq!(found[0], row!["waiting for a device (D)", "io_schedule", 1, 20 * MS]);
    assert_eq!(found[1], vec!["asleep (S)".into(), Value::Null, 2.into(), (115 * MS).into()]);
    let found = rows(&json, "wakers", &["thread", "waker", "total_ns"]);
    assert_eq!(found[0], row!["worker", "main", 95 * MS]);
    assert_eq!(found[1], vec![shown(), "main".into(), (20 * MS).into()]);
}

#[test]
fn slices_have_their_own_time_and_counters_their_course() {
    let json = json(&document());
    let members = ["name", "count", "self_ns", "total_ns", "p50_ns", "p99_ns"];
    let found = rows(&json, "slices", &members);
    assert_eq!(found[0], row!["request", 2, 80 * MS, 110 * MS, 10 * MS, 100 * MS]);
    assert_eq!(found[1][1..3], row![1, 30 * MS]);
    assert_eq!(json["slices"]["notes"][0], Value::from("1 without an end are not counted here."));
    assert_eq!(
        rows(&json, "longest_slices", &["name", "owner", "dur_ns"])[0],
        row!["request", "main", 100 * MS]
    );
    let found = rows(&json, "counters", &["counter", "values", "min", "mean", "max", "last"]);
    assert_eq!(found[0], row!["queue (app)", 3, 1.0 as i64, 2, 3, 2]);
    let course = json["counters"]["rows"][0]["course"].as_array().unwrap();
    assert_eq!((course.len(), course[59].as_f64(), course[60].as_f64()), (120, Some(1.0), Some(3.0)));
}

#[test]
fn stacks_and_losses_are_told() {
    let json = json(&document());
    assert_eq!(rows(&json, "heap", &["path", "value"])[0], row!["parse ← allocate ← app", 5_000]);
    let lost = json["losses"]["notes"][0].as_str().unwrap();
    assert_eq!(lost, "12 kernel events on CPU 0: the kernel's buffer was full before it was read");
}

#[test]
fn a_page_has_names_as_text_only_and_nothing_to_run_or_load() {
    let page = render(&document(), Form::Html);
    for hostile in ["<script", "javascript:", "http://", "https://", "\u{1b}", " onload", "url(", "@import"] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    // Areas, the histogram, a chart, the heap's and the slices' flame graph.
    assert_eq!(page.matches("<svg").count(), 5);
}

#[test]
fn a_terminal_gets_lines_that_fit_and_nothing_that_steers_it() {
    for width in [60, 100, 200] {
        let text = render(&document(), Form::Terminal(width));
        assert!(!text.contains('\u{1b}'));
        // Figures are shown whole, so that there is a width that no table goes below.
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width.max(104), "{width}: {widest}\n{text}");
    }
    let text = render(&document(), Form::Terminal(140));
    assert!(text.contains("CPUs      1 CPU, busy for 100 % of the time"), "{text}");
    assert!(text.contains("the longest 50.0 ms, of main"), "{text}");
}

#[test]
fn what_a_trace_has_nothing_for_is_said_in_a_line_with_what_to_record() {
    let document = report("empty", &trace(Tables::default()), &Options::default()).unwrap();
    let text = render(&document, Form::Terminal(100));
    for words in
        ["no scheduling: record", "no slices: record", "no counters: record", "no samples of call stacks"]
    {
        assert_eq!(text.matches(words).count(), 1, "{words}: {text}");
    }
    assert!(text.contains("Nothing that the trace's statistics count."), "{text}");
}

#[test]
fn two_traces_differ_by_name_the_largest_change_first_with_what_is_new_and_gone() {
    let mut after = tables();
    after.slice.dur.set(0, 130 * MS);
    let name = Some(after.strings.intern("only after"));
    after.slice.push(SliceRow { ts: 0, dur: 5 * MS, track_id: TrackId(0), name, ..SliceRow::default() });
    let mut before = tables();
    let name = Some(before.strings.intern("only before"));
    before.slice.push(SliceRow { ts: 0, dur: 2 * MS, track_id: TrackId(0), name, ..SliceRow::default() });
    let document = compare(("a", &trace(before)), ("b", &trace(after)), &options()).unwrap();
    let found = rows(&json(&document), "slices", &["name", "change_ns"]);
    assert_eq!(
        found[..3],
        [row!["request", 30 * MS], row!["only after", "new"], row!["only before", "gone"]]
    );
    let text = render(&document, Form::Terminal(120));
    assert!(text.contains("New: only after.") && text.contains("Gone: only before."), "{text}");
    assert!(text.contains("+30.0 ms (+37.5 %)"), "{text}");
    assert!(!render(&document, Form::Html).contains("<script"));
}

#[test]
fn a_trace_beside_itself_has_not_changed() {
    let document = compare(("a", &trace(tables())), ("b", &trace(tables())), &options()).unwrap();
    let json = json(&document);
    for (section, change) in [
        ("cpu_by_process", "change_ns"),
        ("latency_by_thread", "change_ns"),
        ("slices", "change_ns"),
        ("counters", "change"),
    ] {
        for row in rows(&json, section, &[change]) {
            assert_eq!(row, row![0], "{section}");
        }
    }
}
