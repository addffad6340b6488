//! Prints the tables of a trace, a JSON object a row: `dump TRACE [TABLE…]`. Without tables it prints how many rows each has.

use std::io::{BufWriter, Read, Write};

use ferretto_trace_model::Import;
use ferretto_trace_model::trace_files::{File, HEAD_BYTES};
use ferretto_trace_read::Reader;
use ferretto_trace_read::container::unpacked;
use ferretto_trace_tables::{Table, Tables, Value};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or_else(|| std::io::Error::other("usage: dump TRACE [TABLE…]"))?;
    let names: Vec<String> = args.collect();
    let mut import = Import::default().with_config_printer(print_config);
    let mut file = std::fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut first = Vec::new();
    Read::by_ref(&mut file).take(HEAD_BYTES as u64).read_to_end(&mut first)?;
    let end = Reader::new(unpacked(std::io::Cursor::new(&first).chain(file))?)
        .for_each(|packet, place| import.push(packet, place))?;
    import.end_file(File { name: None, bytes, head: &first });
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

fn print_config(config: &[u8]) -> Option<String> {
    ferretto_protos::text::format("perfetto.protos.TraceConfig", config).ok()
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
