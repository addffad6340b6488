//! `ferretto query`: SQL on a trace.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use ferretto_analysis::{Error, Options, Trace};
use ferretto_trace_tables::Tables;

use crate::answer::{FORMATS, Format};
use crate::input::{self, size};
use crate::progress::Progress;
use crate::report::Failure;
use crate::stage::{NewFile, stdout};

/// Runs SQL on a trace.
///
/// The tables, the views and the language are those of Perfetto's Trace Processor, PerfettoSQL: what works there should work here. Of several
/// statements, with semicolons between them, the rows of the last one are shown.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QueryArgs {
    /// The trace, of any format that `ferretto convert` reads; `-` is stdin.
    #[arg(value_name = "TRACE")]
    input: PathBuf,
    /// The statements.
    #[arg(value_name = "SQL", required_unless_present = "file", conflicts_with = "file")]
    sql: Option<String>,
    /// A file with the statements; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How rows are shown; without it as a table on a terminal, and as csv elsewhere.
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<&'static Format>,
    /// A file to write instead of stdout; it has its name only when it is whole.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// What may be used of memory, such as 2G or 500M: without it a quarter of the machine's.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Shows nothing but rows and errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto query trace.pftrace 'select name, count(*) n, sum(dur) dur from slice group by name order by dur desc limit 10'
  ferretto query trace.pftrace -f report.sql --format markdown
  ferretto query trace.json 'select * from thread' --format jsonl | jq .name
  ferretto query trace.pftrace 'select * from sched' -o sched.parquet --format parquet";

fn formats() -> impl clap::builder::TypedValueParser<Value = &'static Format> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.doc));
    PossibleValuesParser::new(values).try_map(|name| {
        FORMATS.iter().find(|format| format.name == name).ok_or_else(|| format!("there is no format {name}"))
    })
}

/// Runs the command.
pub(crate) fn main(args: &QueryArgs) -> Result<(), Failure> {
    let (sql, name) = sql(args)?;
    let format = format(args);
    let mut progress = Progress::start(args.quiet);
    let input = input::open(&args.input)?;
    let tables = match is_empty(&args.input) {
        true => Tables::default(),
        false => {
            let (tables, imported) =
                input::read(&args.input, input::options(args.memory), input, &mut progress)?;
            drop(progress);
            if !args.quiet {
                input::notes(&args.input, &imported);
            }
            tables
        }
    };
    let mut options = Options::default();
    options.memory_bytes = args.memory.unwrap_or(options.memory_bytes);
    let fail = |error: Error| fail(&name, &error);
    let trace = Trace::of(tables, &options).map_err(fail)?;
    let rows = trace.query(&sql).map_err(fail)?;
    if !rows.is_query() {
        return Ok(());
    }
    let written = match &args.output {
        None => (format.write)(rows, &mut stdout(format.is_binary)?),
        Some(path) => {
            let mut file = NewFile::create(path)?;
            (format.write)(rows, &mut file).and_then(|()| Ok(file.finish().map(drop)?))
        }
    };
    written.map_err(|error| match error {
        crate::answer::Error::Query(error) => fail(error),
        crate::answer::Error::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Failure::NobodyListens
        }
        other => Failure::of("write", args.output.as_deref().unwrap_or(Path::new("the rows")), other),
    })
}

/// Whether it is a file without a byte: the tables of no trace, which statements that need none may be tried on.
fn is_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0)
}

/// The statements, and what they are called.
fn sql(args: &QueryArgs) -> Result<(String, String), Failure> {
    let Some(path) = &args.file else {
        return Ok((args.sql.clone().unwrap_or_default(), "query".to_owned()));
    };
    if path == Path::new("-") {
        if args.input == Path::new("-") {
            return Err(Failure::new("stdin cannot be both the trace and the statements"));
        }
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::of("read", path, error))?;
        return Ok((text, "stdin".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::of("read", path, error))?;
    Ok((text, path.display().to_string()))
}

fn format(args: &QueryArgs) -> &'static Format {
    let is_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let otherwise = if is_terminal { "table" } else { "csv" };
    let [first, ..] = &FORMATS;
    args.format.or_else(|| FORMATS.iter().find(|format| format.name == otherwise)).unwrap_or(first)
}

/// What is wrong with a query, and the line that it is in.
fn fail(name: &str, error: &Error) -> Failure {
    let failure = Failure::new(error.to_string());
    let failure = match error.place() {
        None => failure,
        Some(place) => {
            let number = place.line.to_string();
            let margin = " ".repeat(number.len());
            // Of a long line the part around the place.
            const BEFORE: usize = 60;
            const SHOWN: usize = 120;
            let column = usize::try_from(place.column).unwrap_or(1).saturating_sub(1);
            let skipped = if column > SHOWN - 20 { column - BEFORE } else { 0 };
            let text: String = place.text.chars().skip(skipped).take(SHOWN).collect();
            failure.place(vec![
                format!("{margin}--> {name}:{}:{}", place.line, place.column),
                format!("{margin} |"),
                format!("{number} | {text}"),
                format!("{margin} | {}^", " ".repeat(column - skipped)),
            ])
        }
    };
    match error.help() {
        Some(help) => failure.help(help),
        None => failure,
    }
}
