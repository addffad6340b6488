//! Traces as text, and the rows that they become.
//!
//! Each file in `tests/scripts` is a trace in protobuf's text format and, after lines `== TABLE COLUMN…`, the rows of that table. Columns of
//! a row stand between ` | `, nothing is `-`, and a set of arguments is written out. The rows are those of upstream's Trace Processor for the
//! same packets; a file where ours are others says why.
//!
//! Packets of messages that `ferretto-protos` does without are written by numbers: see [`numbers`].
//!
//! A file that begins with the line `# keep_lost` or `# crop_track_events` is read with that option.
//!
//! `WRITE_TRACES=DIR cargo test -p ferretto-trace-model --test scripts` also writes each trace to `DIR/NAME.pftrace`, for Trace Processor to
//! be asked, and `WRITE_ROWS=1` writes our rows into the files.

mod numbers;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use ferretto_trace_model::Import;
use ferretto_trace_read::Reader;
use ferretto_trace_tables::{Table, Tables, Value};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[test]
fn traces_become_the_rows_that_stand_below_them() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts = Vec::new();
    find_scripts(&root, &mut scripts)?;
    scripts.sort();
    let mut failures = Vec::new();
    for path in &scripts {
        let text = fs::read_to_string(path)?;
        let found = run(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
        if std::env::var_os("WRITE_ROWS").is_some() {
            fs::write(path, &found)?;
        } else if found != text {
            failures.push(format!("{}:\n{}", path.display(), difference(&text, &found)));
        }
    }
    assert!(!scripts.is_empty());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn find_scripts(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_scripts(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            found.push(path);
        }
    }
    Ok(())
}

/// The script with our rows in it.
fn run(path: &Path, script: &str) -> Result<String> {
    let (trace, _) = script.split_once("\n== ").unwrap_or((script, ""));
    let named = |text: &str| Ok(ferretto_protos::text::parse("perfetto.protos.Trace", text)?);
    let bytes = numbers::parse(trace, named)?;
    if let (Some(folder), Some(name)) = (std::env::var_os("WRITE_TRACES"), path.file_stem()) {
        fs::create_dir_all(&folder)?;
        fs::write(Path::new(&folder).join(name).with_extension("pftrace"), &bytes)?;
    }
    let mut import = Import::default();
    if trace.starts_with("# keep_lost\n") {
        import = import.keep_lost();
    }
    if trace.starts_with("# crop_track_events\n") {
        import = import.crop_track_events();
    }
    Reader::new(bytes.as_slice()).for_each(|packet, place| import.push(packet, place))?;
    let tables = import.finish();
    let mut out = format!("{}\n", trace.trim_end());
    for line in script.lines().filter_map(|line| line.strip_prefix("== ")) {
        out.push_str(&format!("\n== {line}\n"));
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let table = tables.find(name).ok_or_else(|| format!("there is no table {name}"))?;
        let columns: Vec<&str> = words.collect();
        for row in 0..table.len() {
            let cells: Vec<String> =
                columns.iter().map(|column| written(&tables, table, column, row)).collect();
            // Counters that stand at 0 say nothing.
            if name != "stats" || table.cell("value", row) != Value::Int(0) {
                out.push_str(&cells.join(" | "));
                out.push('\n');
            }
        }
    }
    Ok(out)
}

fn written(tables: &Tables, table: &dyn Table, column: &str, row: usize) -> String {
    match (column, table.cell(column, row)) {
        ("id", _) => row.to_string(),
        (column, Value::Int(set)) if column.ends_with("arg_set_id") && table.name() != "args" => {
            arguments(tables, set)
        }
        (_, value) => cell(tables, value),
    }
}

fn cell(tables: &Tables, value: Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        Value::Bool(value) => i32::from(value).to_string(),
        Value::Str(text) => tables.strings.get(text).to_owned(),
    }
}

fn arguments(tables: &Tables, set: i64) -> String {
    let args = &tables.args;
    let mut out = Vec::new();
    for row in (0..args.len()).filter(|row| args.cell("arg_set_id", *row) == Value::Int(set)) {
        let values = ["int_value", "string_value", "real_value"].map(|column| args.cell(column, row));
        let value = values.into_iter().find(|value| *value != Value::Null).unwrap_or(Value::Null);
        out.push(format!("{}={}", cell(tables, args.cell("key", row)), cell(tables, value)));
    }
    format!("{{{}}}", out.join(", "))
}

fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let mut out = String::new();
    for at in 0..expected.len().max(found.len()) {
        let (a, b) = (expected.get(at), found.get(at));
        if a != b {
            for (sign, line) in [("-", a), ("+", b)] {
                if let Some(line) = line {
                    out.push_str(&format!("  {:4} {sign} {line}\n", at + 1));
                }
            }
        }
    }
    out
}
