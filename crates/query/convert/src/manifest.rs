//! What a folder says of itself: `manifest.json`.
//!
//! Which trace it was made of (size and hash of its file), by which version of the schema, which tables there are, and what was lost when the
//! trace was recorded and read: who has the folder need not ask for the trace.

use std::io;

use ferretto_trace_tables::{Str, Tables};

use crate::json_text::string;
use crate::{Format, Out, SCHEMA_VERSION, Source, Written};

/// The name of the file.
pub const FILE_NAME: &str = "manifest.json";

pub(crate) fn write(
    format: &Format,
    source: &Source<'_>,
    written: &[Written],
    out: &mut Out<'_>,
) -> io::Result<()> {
    let end = &source.imported.end;
    write!(out, "{{\n  \"schema_version\": {SCHEMA_VERSION},\n  \"format\": ")?;
    string(format.name, out)?;
    write!(
        out,
        ",\n  \"made_by\": \"ferretto-query {}\",\n  \"source\": {{\"name\": ",
        env!("CARGO_PKG_VERSION")
    )?;
    string(source.name, out)?;
    let file = &source.imported.source;
    write!(out, ", \"bytes\": {}, \"sha256\": ", file.bytes)?;
    match &file.sha256 {
        Some(sha256) => string(sha256, out)?,
        None => write!(out, "null")?,
    }
    write!(out, ", \"packets\": {}, \"torn_at\": ", end.packets)?;
    number(end.torn_at, out)?;
    write!(out, ", \"broken_at\": ")?;
    number(end.broken_at, out)?;
    write!(out, "}},\n  \"tables\": [")?;
    for (index, table) in written.iter().enumerate() {
        write!(out, "{}\n    {{\"name\": ", separator(index))?;
        string(table.table, out)?;
        write!(out, ", \"file\": ")?;
        string(&table.file, out)?;
        write!(out, ", \"rows\": {}, \"bytes\": {}}}", table.rows, table.bytes)?;
    }
    write!(out, "\n  ],\n  \"stats\": [")?;
    stats(source.tables, out)?;
    writeln!(out, "\n  ]\n}}")
}

/// Counters that do not stand at 0.
fn stats(tables: &Tables, out: &mut Out<'_>) -> io::Result<()> {
    let stats = &tables.stats;
    let text = |column: &Vec<Option<Str>>, row: usize| {
        column.get(row).copied().flatten().map_or("", |it| tables.strings.get(it))
    };
    let raised = stats.value.iter().enumerate().filter(|(_, value)| **value != 0);
    for (index, (row, value)) in raised.enumerate() {
        write!(out, "{}\n    {{\"name\": ", separator(index))?;
        string(text(&stats.name, row), out)?;
        write!(out, ", \"idx\": ")?;
        number(stats.idx.get(row), out)?;
        write!(out, ", \"severity\": ")?;
        string(text(&stats.severity, row), out)?;
        write!(out, ", \"value\": {value}}}")?;
    }
    Ok(())
}

fn number(value: Option<impl std::fmt::Display>, out: &mut Out<'_>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, "{value}"),
        None => out.write_all(b"null"),
    }
}

fn separator(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}

#[cfg(test)]
mod tests {
    use crate::write::tests::{folder, tables};

    #[test]
    fn it_names_the_source_the_tables_and_what_was_lost() {
        let text = String::from_utf8(folder("csv", &tables(2))["manifest.json"].clone()).unwrap();
        for part in [
            "\"schema_version\": 1",
            "\"format\": \"csv\"",
            "{\"name\": \"my \\\"trace\\\"\", \"bytes\": 1234, \"sha256\": \"00ff\", \"packets\": 0, \"torn_at\": null",
            "{\"name\": \"slice\", \"file\": \"slice.csv\", \"rows\": 2, \"bytes\": ",
            "{\"name\": \"error\", \"idx\": null, \"severity\": \"error\", \"value\": 3}",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
