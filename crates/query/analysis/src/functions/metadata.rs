//! `extract_metadata(name)` and its like: a fact of the trace, of a machine or of a file.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use ferretto_trace_tables::{Tables, Value};

use crate::functions::of_tables::{OfTables, Returns, are_set, array, cell};
use crate::functions::text::{ints, texts};

pub(crate) fn all(tables: &Arc<Tables>) -> Vec<OfTables> {
    vec![
        OfTables::new(tables, "extract_metadata", 1, Returns::Of(0, type_of), |tables, args, to| {
            let [names] = args else { return Ok(array(tables, to, std::iter::empty())) };
            found(tables, args, names, to, |_, _| true)
        }),
        of_one(tables, "extract_metadata_for_machine", |tables, args, to| of(tables, args, to, "machine_id")),
        of_one(tables, "extract_metadata_for_trace", |tables, args, to| of(tables, args, to, "trace_id")),
    ]
}

fn of_one(
    tables: &Arc<Tables>,
    name: &'static str,
    run: fn(&Tables, &[ArrayRef], &DataType) -> Result<ArrayRef>,
) -> OfTables {
    OfTables::new(tables, name, 2, Returns::Of(1, type_of), run)
}

/// Of the machine or the file that the first argument is.
fn of(tables: &Tables, args: &[ArrayRef], to: &DataType, column: &str) -> Result<ArrayRef> {
    let [whose, names] = args else { return Ok(array(tables, to, std::iter::empty())) };
    let whose = ints(whose)?;
    found(tables, args, names, to, |row, fact| {
        cell(&tables.metadata, column, fact) == Value::Int(whose.value(row))
    })
}

/// For each row the first fact of its name that is meant: that of the first machine and the first file, if several have it.
fn found(
    tables: &Tables,
    args: &[ArrayRef],
    names: &ArrayRef,
    to: &DataType,
    is_meant: impl Fn(usize, usize) -> bool,
) -> Result<ArrayRef> {
    let names = texts(names)?;
    let values = (0..names.len()).map(|row| {
        if !are_set(args, row) {
            return Value::Null;
        }
        let Some(name) = tables.strings.find(names.value(row)) else { return Value::Null };
        let facts = (0..tables.metadata.len())
            .filter(|fact| cell(&tables.metadata, "name", *fact) == Value::Str(name) && is_meant(row, *fact));
        let order = |fact: &usize| {
            ["machine_id", "trace_id"].map(|column| match cell(&tables.metadata, column, *fact) {
                Value::Int(number) => number,
                _ => -1,
            })
        };
        facts.min_by_key(order).map_or(Value::Null, |fact| value(tables, fact))
    });
    Ok(array(tables, to, values))
}

fn value(tables: &Tables, fact: usize) -> Value {
    match cell(&tables.metadata, "str_value", fact) {
        Value::Null => cell(&tables.metadata, "int_value", fact),
        text => text,
    }
}

/// Integers if all facts of the name are.
fn type_of(tables: &Tables, name: &str) -> DataType {
    let Some(name) = tables.strings.find(name) else { return DataType::Utf8View };
    let facts =
        (0..tables.metadata.len()).filter(|fact| cell(&tables.metadata, "name", *fact) == Value::Str(name));
    let mut values = facts.map(|fact| value(tables, fact)).filter(|value| *value != Value::Null).peekable();
    match values.peek().is_some() && values.all(|value| matches!(value, Value::Int(_))) {
        true => DataType::Int64,
        false => DataType::Utf8View,
    }
}
