//! CSV (RFC 4180), and tables of Markdown.

use ferretto_analysis::Rows;

use crate::answer::{Error, Out, as_text, names};

pub(crate) fn csv(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let quoted = |text: String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let heads: Vec<_> = names(&rows).into_iter().map(quoted).collect();
    writeln!(out, "{}", heads.join(","))?;
    for batch in rows.shown() {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = batch.cells(row).map(|cell| quoted(as_text(cell))).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
    }
    Ok(out.flush()?)
}

pub(crate) fn markdown(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let cell = |text: String| text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ");
    let schema = rows.schema();
    let heads: Vec<_> = names(&rows).into_iter().map(cell).collect();
    let rules =
        schema.fields().iter().map(|field| if field.data_type().is_numeric() { "---:" } else { "---" });
    writeln!(out, "| {} |\n|{}|", heads.join(" | "), rules.collect::<Vec<_>>().join("|"))?;
    for batch in rows.shown() {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = batch.cells(row).map(|value| cell(as_text(value))).collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
    }
    Ok(out.flush()?)
}
