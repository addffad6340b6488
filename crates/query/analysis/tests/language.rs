//! Queries and their rows, out of `language/*.sql`.
//!
//! A file is cases, one behind the other: statements, a line `----`, and the rows that the last one gives, a line each, cells between `|`; or
//! `error:` and words of its message. An empty line stands between cases.

mod common;

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use common::cell;
use ferretto_analysis::{Options, Trace};
use ferretto_trace_tables::tables::{ArgRow, SliceRow, ThreadRow, TrackRow};
use ferretto_trace_tables::{ArgSetId, SliceId, Tables, TrackId, Utid};

/// Four slices on the tracks of two threads, some with arguments.
fn tables() -> Tables {
    let mut tables = Tables::default();
    for (tid, name) in [(10, "main"), (11, "worker")] {
        let name = Some(tables.strings.intern(name));
        let utid = Utid(tables.thread.push(ThreadRow { tid, name, ..ThreadRow::default() }));
        let event_type = Some(tables.strings.intern("slice"));
        tables.track.push(TrackRow { name, event_type, utid: Some(utid), ..TrackRow::default() });
    }
    for (key, int, text) in [("count", Some(7), None), ("what", None, Some("a text"))] {
        let row = ArgRow {
            arg_set_id: ArgSetId(0),
            key: Some(tables.strings.intern(key)),
            flat_key: Some(tables.strings.intern(key)),
            int_value: int,
            string_value: text.map(|text| tables.strings.intern(text)),
            value_type: Some(tables.strings.intern(if int.is_some() { "int" } else { "string" })),
            ..ArgRow::default()
        };
        tables.args.push(row);
    }
    for (ts, dur, track, name, parent, args) in [
        (100, 50, 0, Some("frame"), None, Some(0)),
        (110, 10, 0, Some("draw"), Some(0), None),
        (120, 200, 1, Some("Load"), None, None),
        (400, -1, 1, None, None, None),
    ] {
        let row = SliceRow {
            ts,
            dur,
            track_id: TrackId(track),
            name: name.map(|name| tables.strings.intern(name)),
            depth: u32::from(parent.is_some()),
            parent_id: parent.map(SliceId),
            arg_set_id: args.map(ArgSetId),
            ..SliceRow::default()
        };
        tables.slice.push(row);
    }
    tables
}

fn answer(sql: &str) -> Result<Vec<String>, ferretto_analysis::Error> {
    let trace = Trace::of(tables(), &Options { threads: 1, ..Options::default() })?;
    let batches: Vec<RecordBatch> = trace.query(sql)?.collect::<Result<_, _>>()?;
    let line = |batch: &RecordBatch, row| {
        batch.columns().iter().map(|array| cell(array, row)).collect::<Vec<_>>().join("|")
    };
    Ok(batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| line(batch, row))).collect())
}

#[test]
fn queries_have_the_rows_that_sqlite_and_trace_processor_give() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language");
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for case in text.split("\n\n").filter(|case| !case.trim().is_empty()) {
            let (sql, expected) = case.split_once("\n----").unwrap_or_else(|| panic!("{path:?}: {case}"));
            let expected = expected.trim();
            let found = match answer(sql) {
                Ok(rows) => rows.join("\n"),
                Err(error) => format!("error: {error}"),
            };
            let is_right = match expected.strip_prefix("error:") {
                Some(words) => found.starts_with("error:") && found.contains(words.trim()),
                None => found == expected,
            };
            count += 1;
            if !is_right {
                wrong.push(format!("{}\n--- expected\n{expected}\n--- found\n{found}", sql.trim()));
            }
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{} of {count}:\n\n{}", wrong.len(), wrong.join("\n\n"));
}
