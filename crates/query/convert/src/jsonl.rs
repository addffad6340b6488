//! Lines of JSON: an object a row, which has all columns, also those without a value.

use ferretto_arrow_tables::Relation;
use ferretto_trace_tables::Value;

use crate::{Error, Form, Format, Options, Out, json_text};

/// A table as lines of JSON.
pub const FORMAT: Format = Format {
    name: "jsonl",
    doc: "JSON, an object a row, a file a table",
    extension: "jsonl",
    is_binary: false,
    form: Form::Table(write),
};

fn write(relation: &Relation<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    for row in 0..relation.len() {
        for (index, column) in relation.columns().iter().enumerate() {
            // Names of columns are plain words.
            write!(out, "{}\"{}\":", if index == 0 { '{' } else { ',' }, column.name)?;
            match relation.cell(column, row) {
                Value::Null => out.write_all(b"null")?,
                Value::Int(value) => write!(out, "{value}")?,
                Value::Real(value) => json_text::real(value, out)?,
                Value::Bool(value) => write!(out, "{value}")?,
                Value::Str(text) => json_text::string(relation.text(text), out)?,
            }
        }
        out.write_all(b"}\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::{CounterRow, Tables, ThreadRow};

    use super::*;

    fn lines(relation: &Relation<'_>) -> String {
        let mut out = Vec::new();
        write(relation, &Options::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_is_an_object_with_all_columns() {
        let mut tables = Tables::default();
        let name = Some(tables.strings.intern("a \"b\""));
        tables.thread.push(ThreadRow { tid: 7, name, is_main_thread: Some(true), ..ThreadRow::default() });
        tables.counter.push(CounterRow { ts: 1, value: 2.0, ..CounterRow::default() });
        assert_eq!(
            lines(&Relation::of_table(&tables.thread, &tables.strings)),
            "{\"id\":0,\"tid\":7,\"name\":\"a \\\"b\\\"\",\"start_ts\":null,\"end_ts\":null,\"upid\":null,\
             \"is_main_thread\":true,\"is_idle\":false,\"machine_id\":null,\"arg_set_id\":null}\n"
        );
        assert_eq!(
            lines(&Relation::of_table(&tables.counter, &tables.strings)),
            "{\"id\":0,\"ts\":1,\"track_id\":0,\"value\":2.0,\"arg_set_id\":null}\n"
        );
    }
}
