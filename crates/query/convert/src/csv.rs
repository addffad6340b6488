//! Comma-separated values (RFC 4180): a line of names, then a line a row.
//!
//! Fields with a comma, a quote or a line break are quoted, and so is an empty text, which an empty field is not: that one is no value. Lines end
//! with a line feed.

use std::io;

use ferretto_arrow_tables::Relation;
use ferretto_trace_tables::Value;

use crate::{Error, Form, Format, Options, Out};

/// A table as comma-separated values.
pub const FORMAT: Format = Format {
    name: "csv",
    doc: "comma-separated values, a file a table",
    extension: "csv",
    is_binary: false,
    form: Form::Table(write),
};

fn write(relation: &Relation<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let names: Vec<_> = relation.columns().iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in 0..relation.len() {
        for (index, column) in relation.columns().iter().enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            match relation.cell(column, row) {
                Value::Null => {}
                Value::Int(value) => write!(out, "{value}")?,
                Value::Real(value) => write!(out, "{value:?}")?,
                Value::Bool(value) => write!(out, "{value}")?,
                Value::Str(text) => field(relation.text(text), out)?,
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn field(text: &str, out: &mut Out<'_>) -> io::Result<()> {
    if !text.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return out.write_all(text.as_bytes());
    }
    out.write_all(b"\"")?;
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            out.write_all(b"\"\"")?;
        }
        out.write_all(part.as_bytes())?;
    }
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::{ArgRow, Tables};

    use super::*;

    #[test]
    fn texts_are_quoted_where_they_must_be_and_nothing_is_nothing() {
        let mut tables = Tables::default();
        for text in [Some("plain"), Some(""), None, Some("a,b"), Some("say \"x\""), Some("two\nlines")] {
            let string_value = text.map(|text| tables.strings.intern(text));
            tables.args.push(ArgRow { string_value, real_value: Some(0.5), ..ArgRow::default() });
        }
        let relation = Relation::of_table(&tables.args, &tables.strings);
        let mut out = Vec::new();
        write(&relation, &Options::default(), &mut out).unwrap();
        let expected = "id,arg_set_id,flat_key,key,int_value,string_value,real_value,value_type\n\
             0,0,,,,plain,0.5,\n1,0,,,,\"\",0.5,\n2,0,,,,,0.5,\n3,0,,,,\"a,b\",0.5,\n\
             4,0,,,,\"say \"\"x\"\"\",0.5,\n5,0,,,,\"two\nlines\",0.5,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
