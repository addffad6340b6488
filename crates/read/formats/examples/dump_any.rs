//! Prints the tables of a file of another format, a JSON object a row: `dump_any FILE TABLE…`.

use std::io::{BufReader, Cursor, Read, Write};

use ferretto_trace_formats::read;
use ferretto_trace_formats::recognize::{HEAD_BYTES, recognize};
use ferretto_trace_model::model::Model;
use ferretto_trace_read::container::unpacked;
use ferretto_trace_tables::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: dump_any FILE TABLE…")?;
    let mut file = unpacked(std::fs::File::open(path)?)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let format = recognize(&head).ok_or("no format that is known")?;
    let mut model = Model::default();
    if let Err(error) = read(format, BufReader::new(Cursor::new(head).chain(file)), &mut model) {
        eprintln!("{error}");
    }
    let tables = model.finish();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for name in args {
        let table = tables.find(&name).ok_or_else(|| format!("there is no table {name}"))?;
        for row in 0..table.len() {
            write!(out, "{{\"id\":{row}")?;
            for column in table.columns() {
                let value = match column.data.get(row) {
                    Value::Null => "null".to_owned(),
                    Value::Int(value) => value.to_string(),
                    Value::Real(value) => value.to_string(),
                    Value::Bool(value) => i32::from(value).to_string(),
                    Value::Str(text) => {
                        format!("\"{}\"", tables.strings.get(text).replace('\\', "\\\\").replace('"', "\\\""))
                    }
                };
                write!(out, ",\"{}\":{value}", column.name)?;
            }
            writeln!(out, "}}")?;
        }
    }
    Ok(())
}
