//! Tables as a test of a reader makes them and looks at them.

use ferretto_trace_formats::recognize::Format;
use ferretto_trace_formats::{Error, read};
use ferretto_trace_model::model::Model;
use ferretto_trace_tables::{Tables, Value, consistency};

/// The tables of a file, which hold together, and how reading it ended.
pub(crate) fn import(format: Format, file: &[u8]) -> (Tables, Result<(), Error>) {
    let mut model = Model::default();
    let end = read(format, file, &mut model);
    let tables = model.finish();
    consistency::check(&tables).unwrap_or_else(|error| panic!("{error}"));
    (tables, end)
}

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
