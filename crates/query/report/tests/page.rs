//! docs/analysis.md: each of its queries runs, has rows where there are some to be had, and the columns that the page shows.

mod common;

use std::path::Path;

use common::{MS, tables, trace};
use ferretto_analysis::Trace;
use ferretto_trace_tables::tables::{ArgRow, CounterRow, FlowRow, SliceRow, TrackRow};
use ferretto_trace_tables::{ArgSetId, SliceId, Tables, TrackId, Upid};

/// What the page promises.
const QUESTIONS: usize = 20;

/// A question: its heading, the query, and what the page shows as its rows.
#[derive(Debug)]
struct Question {
    heading: String,
    sql: String,
    output: String,
}

fn questions(page: &str) -> Vec<Question> {
    let sections = page.split("\n### ").skip(1);
    sections
        .map(|section| {
            let heading = section.lines().next().unwrap_or_default().to_owned();
            let mut blocks = section.split("\n```");
            let sql = blocks.find_map(|block| block.strip_prefix("sql\n")).unwrap_or_default().to_owned();
            // Behind the query's end.
            let output = blocks.nth(1).unwrap_or_default().trim_start().to_owned();
            Question { heading, sql, output }
        })
        .collect()
}

/// What is wrong with a question, if anything is.
fn check(question: &Question, trace: &Trace) -> Result<(), String> {
    let said = |what: String| format!("{}: {what}", question.heading);
    let rows = trace.query(&question.sql).map_err(|error| said(error.to_string()))?;
    let columns: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut count = 0;
    for batch in rows {
        count += batch.map_err(|error| said(error.to_string()))?.num_rows();
    }
    if count == 0 {
        return Err(said("it has no rows".to_owned()));
    }
    let shown: Vec<&str> =
        question.output.lines().next().unwrap_or_default().split('│').map(str::trim).collect();
    match shown == columns {
        true => Ok(()),
        false => Err(said(format!("the page shows the columns {shown:?}, and there are {columns:?}"))),
    }
}

/// With what the questions are about: paths of requests, who has sent them, memory of processes, commands that end.
fn tables_of_page() -> Tables {
    let mut tables = tables();
    let mut text = |text: &str| Some(tables.strings.intern(text));
    let [path, search, string, rss] = ["debug.path", "/search", "string", "mem.rss"].map(&mut text);
    let [accept, counter, of_memory] = ["accept", "counter", "process_memory"].map(&mut text);
    tables.args.push(ArgRow {
        key: path,
        flat_key: path,
        string_value: search,
        value_type: string,
        ..ArgRow::default()
    });
    tables.slice.arg_set_id.set(0, Some(ArgSetId(0)));
    tables.slice.push(SliceRow {
        ts: 90 * MS,
        dur: MS,
        track_id: TrackId(0),
        name: accept,
        ..SliceRow::default()
    });
    tables.flow.push(FlowRow { slice_out: SliceId(4), slice_in: SliceId(2), ..FlowRow::default() });
    let track = TrackRow {
        event_type: counter,
        type_: of_memory,
        name: rss,
        upid: Some(Upid(0)),
        ..TrackRow::default()
    };
    let track = TrackId(tables.track.push(track));
    tables.counter.push(CounterRow { ts: MS, track_id: track, value: 5e6, arg_set_id: None });
    tables.process.start_ts.set(1, Some(5 * MS));
    tables.process.end_ts.set(1, Some(100 * MS));
    tables
}

fn page() -> Vec<Question> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/analysis.md");
    questions(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn every_query_of_the_page_runs_and_has_the_columns_that_it_shows() {
    let trace = trace(tables_of_page());
    let page = page();
    assert_eq!(page.len(), QUESTIONS);
    let wrong: Vec<String> = page.iter().filter_map(|question| check(question, &trace).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_query_that_is_wrong_would_be_noticed() {
    let trace = trace(tables_of_page());
    let wrong = |sql: &str, output: &str| {
        let text = format!("# A page\n\n### 1. A question\n\n```sql\n{sql}\n```\n\n```\n{output}\n```\n");
        check(&questions(&text)[0], &trace).unwrap_err()
    };
    assert!(wrong("select nam from slice", "nam").contains("there is no column nam"));
    assert!(wrong("select name from slice where dur > 1e15", "name").contains("no rows"));
    assert!(wrong("select name from slice", "title").contains("\"title\""));
    assert!(wrong("", "").starts_with("1. A question"));
}
