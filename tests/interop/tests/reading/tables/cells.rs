//! Cells and sets of arguments as texts.

use std::collections::BTreeMap;

use ferretto_interop::Table as Answer;
use ferretto_trace_tables::{Table, Tables, Value};

/// Each set of arguments as a text, by its number.
pub(super) type Sets = BTreeMap<String, String>;

/// A cell of ours, as Trace Processor's are printed.
pub(super) fn text(value: Value, tables: &Tables) -> String {
    match value {
        Value::Null => "\\N".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Bool(value) => i32::from(value).to_string(),
        Value::Str(text) => tables.strings.get(text).to_owned(),
    }
}

/// As texts, or as numbers up to what the printing of real ones and of those above 2^53 loses.
pub(super) fn same(mine: &str, other: &str) -> bool {
    mine == other
        || match (mine.parse::<f64>(), other.parse::<f64>()) {
            (Ok(mine), Ok(other)) => (mine - other).abs() <= 1e-9 * mine.abs().max(1e-300),
            _ => false,
        }
}

pub(super) fn sets_of(args: &Answer) -> Sets {
    let mut sets = Sets::new();
    for row in &args.rows {
        sets.entry(row[0].clone()).or_default().push_str(&one_arg(&row[1..]));
    }
    sets
}

pub(super) fn our_sets(tables: &Tables) -> Sets {
    let columns = tables.args.columns();
    let mut sets = Sets::new();
    for row in 0..tables.args.len() {
        let cells: Vec<String> = columns.iter().map(|column| text(column.data.get(row), tables)).collect();
        sets.entry(cells[0].clone()).or_default().push_str(&one_arg(&cells[1..]));
    }
    sets
}

/// Keys, values and type. Numbers go through `f64`, as Trace Processor's printer has them.
fn one_arg(cells: &[String]) -> String {
    let number =
        |cell: &String| cell.parse::<f64>().map_or_else(|_| cell.clone(), |number| format!("{number:e}"));
    let (int, real) = (number(&cells[2]), number(&cells[4]));
    format!("{}|{}|{int}|{}|{real}|{}; ", cells[0], cells[1], cells[3], cells[5])
}
