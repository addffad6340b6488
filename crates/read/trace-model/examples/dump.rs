//! Prints the tables of a trace, a JSON object a row: `dump TRACE [TABLE…]`. Without tables it prints how many rows each has.

use std::io::{BufWriter, Write};

use ferretto_trace_model::Import;
use ferretto_trace_read::Reader;
use ferretto_trace_read::container::unpacked;
use ferretto_trace_tables::{Table, Tables, Value};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or_else(|| std::io::Error::other("usage: dump TRACE [TABLE…]"))?;
    let names: Vec<String> = args.collect();
    let mut import = Import::default();
    let end = Reader::new(unpacked(std::fs::File::open(path)?)?)
        .for_each(|packet, place| import.push(packet, place))?;
    let tables = import.finish();
    let mut out = BufWriter::new(std::io::stdout().lock());
    if names.is_empty() {
        writeln!(out, "{end:?}")?;
        for table in tables.all() {
            writeln!(out, "{:10} {}", table.len(), table.name())?;
        }
        return Ok(());
    }
    for name in names {
        match tables.find(&name) {
            Some(table) => print(table, &tables, &mut out)?,
            None => eprintln!("there is no table {name}"),
        }
    }
    Ok(())
}

fn print(table: &dyn Table, tables: &Tables, out: &mut impl Write) -> std::io::Result<()> {
    let columns = table.columns();
    for row in 0..table.len() {
        write!(out, "{{\"id\":{row}")?;
        for column in &columns {
            write!(out, ",\"{}\":", column.name)?;
            match column.data.get(row) {
                Value::Null => write!(out, "null")?,
                Value::Int(value) => write!(out, "{value}")?,
                Value::Real(value) => write!(out, "{value}")?,
                Value::Bool(value) => write!(out, "{}", i32::from(value))?,
                Value::Str(text) => write!(out, "{}", quoted(tables.strings.get(text)))?,
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
