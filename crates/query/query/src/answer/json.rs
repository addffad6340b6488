//! Objects of JSON, columns in their order: NULL is null, integers have no point, doubles have one or an exponent.

use ferretto_analysis::json::quoted;
use ferretto_analysis::{Cell, Rows, Shown};

use crate::answer::{Error, Out, as_text, names, real};

/// A line each.
pub(crate) fn lines(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let keys = keys(&rows);
    for batch in rows.shown() {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            writeln!(out, "{}", object(&keys, &batch, row))?;
        }
    }
    Ok(out.flush()?)
}

/// In an array.
pub(crate) fn array(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let keys = keys(&rows);
    let mut between = "[\n";
    for batch in rows.shown() {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            write!(out, "{between}{}", object(&keys, &batch, row))?;
            between = ",\n";
        }
    }
    writeln!(out, "{}", if between == "[\n" { "[]" } else { "\n]" })?;
    Ok(out.flush()?)
}

fn keys(rows: &Rows) -> Vec<String> {
    names(rows).iter().map(|name| quoted(name)).collect()
}

fn object(keys: &[String], batch: &Shown, row: usize) -> String {
    let mut text = String::from("{");
    for (at, (key, cell)) in keys.iter().zip(batch.cells(row)).enumerate() {
        text.push_str(if at > 0 { "," } else { "" });
        text.push_str(key);
        text.push(':');
        text.push_str(&match cell {
            Cell::Null => "null".to_owned(),
            Cell::Real(value) if !value.is_finite() => "null".to_owned(),
            Cell::Real(value) => real(value),
            Cell::Int(value) => value.to_string(),
            Cell::Text(string) => quoted(string),
            bytes @ Cell::Bytes(_) => quoted(&as_text(bytes)),
        });
    }
    text.push('}');
    text
}
