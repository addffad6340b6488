//! What has no order, or another one: metadata, statistics, counters.

use std::collections::BTreeMap;

use ferretto_interop::Table as Answer;
use ferretto_trace_tables::{Table, Tables};

use super::cells::{Sets, same, text};
use super::differences;

/// Rows of counters that differ are listed up to so many.
const EXAMPLES: usize = 3;

pub(super) type Rows = Vec<Vec<String>>;

pub(super) fn our_metadata(tables: &Tables) -> Rows {
    let cell = |column: &str, row| text(tables.metadata.cell(column, row), tables);
    let value = |row| match cell("int_value", row).as_str() {
        "\\N" => cell("str_value", row),
        number => number.to_owned(),
    };
    (0..tables.metadata.len()).map(|row| vec![cell("name", row), value(row)]).collect()
}

pub(super) fn our_stats(tables: &Tables) -> Rows {
    let cell = |column: &str, row| text(tables.stats.cell(column, row), tables);
    let index = |row| match cell("idx", row).as_str() {
        "\\N" => "-1".to_owned(),
        index => index.to_owned(),
    };
    let rows = (0..tables.stats.len()).map(|row| vec![cell("name", row), index(row), cell("value", row)]);
    rows.filter(|row| row[2] != "0").collect()
}

/// Sums over all machines, by v52's names.
pub(super) fn summed(stats: Rows) -> Rows {
    let mut sums = BTreeMap::<_, i64>::new();
    for row in stats {
        let key = (differences::v52_name(&row[0]).to_owned(), row[1].clone());
        *sums.entry(key).or_default() += row[2].parse::<i64>().expect("a number");
    }
    sums.into_iter().map(|((name, index), value)| vec![name, index, value.to_string()]).collect()
}

/// Facts that only one of the two has, or has otherwise.
pub(super) fn compare_facts(table: &str, ours: &Rows, theirs: &Rows, report: &mut Vec<String>) {
    let has = |rows: &Rows, name: &str| rows.iter().any(|row| row[0] == name);
    for row in ours {
        if !theirs.contains(row) && !differences::fact_may_differ(table, &row[0], true, has(theirs, &row[0]))
        {
            report.push(format!("{table}: only ours has {row:?}"));
        }
    }
    for row in theirs {
        if !ours.contains(row) && !differences::fact_may_differ(table, &row[0], has(ours, &row[0]), true) {
            report.push(format!("{table}: only Trace Processor has {row:?}"));
        }
    }
}

/// What it is of, when, its value, and what is said of it.
type Counter = (String, i64, String, String);

pub(super) fn our_counters(tables: &Tables, sets: &Sets) -> Vec<Counter> {
    let columns = &tables.counter;
    let args = |set: String| sets.get(&set).cloned().unwrap_or_default();
    let row = |row: usize| {
        let track = columns.track_id.at(row).index();
        let of = |column: &str| text(tables.track.cell(column, track), tables);
        let name = tables.track.name[track].map_or("", |name| tables.strings.get(name));
        let dimensions = args(of("dimension_arg_set_id"));
        let what = format!("{name} {} {} {dimensions}", of("type"), of("machine_id"));
        let said = args(text(columns.cell("arg_set_id", row), tables));
        (what, columns.ts.at(row), columns.value.at(row).to_string(), said)
    };
    let mut rows: Vec<_> = (0..columns.len()).map(row).filter(|row| !row.0.starts_with("mem.")).collect();
    rows.sort();
    rows
}

pub(super) fn compare_counters(ours: &[Counter], theirs: &Answer, sets: &Sets, report: &mut Vec<String>) {
    let args = |set: &str| sets.get(set).cloned().unwrap_or_default();
    let row = |row: &Vec<String>| {
        let what = format!("{} {} {} {}", row[0], row[1], row[2], args(&row[3]));
        (what, row[4].parse().expect("a time"), row[5].clone(), args(&row[6]))
    };
    let mut theirs: Vec<Counter> = theirs.rows.iter().map(row).collect();
    theirs.sort();
    if ours.len() != theirs.len() {
        report.push(format!("counter: {} rows, Trace Processor has {}", ours.len(), theirs.len()));
    }
    let differ = |(mine, other): &(&Counter, &Counter)| {
        (&mine.0, mine.1, &mine.3) != (&other.0, other.1, &other.3) || !same(&mine.2, &other.2)
    };
    for (mine, other) in ours.iter().zip(&theirs).filter(differ).take(EXAMPLES) {
        report.push(format!("counter: {mine:?}, Trace Processor has {other:?}"));
    }
}
