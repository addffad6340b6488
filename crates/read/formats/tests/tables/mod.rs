//! Tables as a test of a reader looks at them.

use ferretto_trace_tables::{Tables, Value};

/// The rows of some columns, as text.
pub(crate) fn rows(tables: &Tables, table: &str, columns: &[&str]) -> Vec<String> {
    let table = tables.find(table).unwrap();
    let cell = |column: &&str, row| match table.cell(column, row) {
        Value::Null => "-".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Str(text) => tables.strings.get(text).to_owned(),
    };
    let row = |row| columns.iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" ");
    (0..table.len()).map(row).collect()
}
