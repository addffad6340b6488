//! `ferretto query`: SQL on a trace, or on many.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use ferretto_analysis::fleet::{Files, Fleet, Places, State};
use ferretto_analysis::{Error, Options, Rows, Trace};
use ferretto_trace_tables::Tables;

use crate::answer::{FORMATS, Format};
use crate::failure::{Failure, note};
use crate::input::{self, Reading, time};
use crate::kept::KeptFiles;
use crate::progress::Progress;
use crate::prompt;
use crate::stage::{NewFile, stdout};
use crate::traces;

/// Runs SQL on a trace, or on many.
///
/// The tables, the views and the language are those of Perfetto's Trace Processor, PerfettoSQL: what works there should work here. Of several
/// statements, with semicolons between them, the rows of the last one are shown. Without statements there is a prompt on a terminal, and else
/// they are read from stdin.
///
/// Of several traces, what the outermost SELECT reads is of each by itself, and its groups, its order and its limit are over all; the column _trace
/// says which one a row is of, and the table trace_errors which could not be read.
#[derive(clap::Args, Debug)]
#[command(
    after_help = EXAMPLES,
    override_usage = "ferretto query [OPTIONS] <TRACE>... <SQL>\n       ferretto query [OPTIONS] --file <FILE> <TRACE>..."
)]
pub(crate) struct QueryArgs {
    /// The traces, of any format that `ferretto convert` reads, and the statements behind them: files, folders with all traces below, patterns
    /// in quotes; `-` alone is stdin.
    #[arg(value_name = "TRACE... SQL", required = true, num_args = 1..)]
    args: Vec<OsString>,
    /// A file with the statements; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Asks for statements of one trace, one by one, and shows the rows of each: on a terminal with a prompt, else from stdin.
    #[arg(short, long, conflicts_with = "output")]
    interactive: bool,
    /// How rows are shown; without it as a table on a terminal, and as csv elsewhere.
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<&'static Format>,
    /// A file to write instead of stdout; it has its name only when it is whole.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Leaves out events of programs before the range of interest, if the trace says one.
    #[arg(long)]
    crop_track_events: bool,
    #[command(flatten)]
    reading: Reading,
    /// Threads: so many traces are asked at once. Without it as many as there are processors.
    #[arg(long, value_name = "COUNT")]
    threads: Option<std::num::NonZeroUsize>,
    /// How long a statement may work on a trace, such as 30s, 10m or 2h.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    timeout: Duration,
    /// Shows nothing but rows and errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto query trace.pftrace 'select name, count(*) n, sum(dur) dur from slice group by name order by dur desc limit 10'
  ferretto query trace.pftrace -f report.sql --format markdown
  ferretto query trace.json 'select * from thread' --format jsonl | jq .name
  ferretto query trace.pftrace 'select * from sched' -o sched.parquet --format parquet
  ferretto query traces/ 'select _trace, count(*) n, max(dur) from slice group by _trace order by n desc'";

fn formats() -> impl clap::builder::TypedValueParser<Value = &'static Format> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.doc));
    PossibleValuesParser::new(values).try_map(|name| {
        FORMATS.iter().find(|format| format.name == name).ok_or_else(|| format!("there is no format {name}"))
    })
}

/// What is asked, and of what.
struct Question {
    traces: Vec<PathBuf>,
    /// Nothing where they are asked for.
    sql: Option<String>,
    /// What the statements are called where one of them is wrong.
    name: String,
}

/// Runs the command.
pub(crate) fn main(args: &QueryArgs) -> Result<(), Failure> {
    let question = question(args)?;
    match question.traces.as_slice() {
        [trace] if !traces::is_several(trace) => ask_one(args, trace, &question),
        several => match &question.sql {
            Some(sql) if !args.interactive => ask_all(args, several, sql, &question.name),
            _ => Err(Failure::new("the statements are missing: a prompt asks for them of one trace only")
                .help("name them behind the traces, or a file of them with -f")),
        },
    }
}

fn ask_one(args: &QueryArgs, path: &Path, question: &Question) -> Result<(), Failure> {
    let tables = match is_empty(path) {
        true => Tables::default(),
        false => input::tables(path, import(args), args.reading.cache, args.quiet)?,
    };
    let fail = |error: Error| fail(&question.name, &error);
    let options = Options { path: Some(path.display().to_string()), ..options(args) };
    let trace = Trace::of(tables, &options).map_err(fail)?;
    match &question.sql {
        Some(sql) if !args.interactive => {
            let rows = trace.query(sql).map_err(fail)?;
            write(args, rows, &question.name)
        }
        Some(sql) => {
            prompt::show(&trace, sql, &question.name, format(args))?;
            prompt::run(&trace, format(args), args.quiet)
        }
        None => prompt::run(&trace, format(args), args.quiet),
    }
}

fn ask_all(args: &QueryArgs, traces: &[PathBuf], sql: &str, name: &str) -> Result<(), Failure> {
    let fail = |error: Error| fail(name, &error);
    let paths = traces::find(traces)?;
    let progress = Arc::new(Mutex::new(Some(Progress::start(args.quiet))));
    let shown = progress.clone();
    let watch = move |done: usize, all: usize| {
        let mut progress = shown.lock().unwrap_or_else(PoisonError::into_inner);
        progress.iter_mut().for_each(|it| it.show(|| format!("{done} of {all} traces were asked")));
    };
    let places: Arc<dyn Places> = if args.reading.cache { Arc::new(KeptFiles) } else { Arc::new(Files) };
    let fleet = Fleet::new(paths, places, import(args), &options(args), Arc::new(watch)).map_err(fail)?;
    let rows = fleet.query(sql);
    // From now on there are rows on the terminal.
    drop(progress.lock().unwrap_or_else(PoisonError::into_inner).take());
    let written = rows.map_err(fail).and_then(|rows| write(args, rows, name));
    let states = fleet.states();
    say_bad(&states, args.quiet);
    written?;
    match states.iter().all(|(_, state)| matches!(state, State::Bad(_))) {
        true => Err(Failure::new("none of the traces can be read")),
        false => Ok(()),
    }
}

/// Which traces could not be read, or not to their end.
fn say_bad(states: &[(String, State)], quiet: bool) {
    const SHOWN: usize = 5;
    let bad = states.iter().filter_map(|(path, state)| match state {
        State::Bad(error) => Some((path, error)),
        _ => None,
    });
    for (path, error) in bad.clone().take(SHOWN) {
        note(&format!("{path} was left out: {error}"));
    }
    match bad.count().saturating_sub(SHOWN) {
        0 => {}
        more => note(&format!("{more} more were left out: select * from trace_errors")),
    }
    let mut torn = states.iter().filter(|(_, state)| *state == State::Torn);
    if let Some((path, _)) = torn.next().filter(|_| !quiet) {
        let others = match torn.count() {
            0 => String::new(),
            others => format!(", and {others} others are not"),
        };
        note(&format!("{path} is not whole{others}: something of it was not read"));
    }
}

/// How traces are read.
fn import(args: &QueryArgs) -> ferretto_import::Options {
    let options = input::options(args.reading.memory);
    ferretto_import::Options { crop_track_events: args.crop_track_events, ..options }
}

fn options(args: &QueryArgs) -> Options {
    let options = Options::default();
    Options {
        memory_bytes: args.reading.memory.unwrap_or(options.memory_bytes),
        threads: args.threads.map_or(options.threads, usize::from),
        timeout: args.timeout,
        ..options
    }
}

/// Writes the rows, if there are some to be had.
fn write(args: &QueryArgs, rows: Rows, name: &str) -> Result<(), Failure> {
    if !rows.is_query() {
        return Ok(());
    }
    let format = format(args);
    let written = match &args.output {
        None => (format.write)(rows, &mut stdout(format.is_binary)?),
        Some(path) => {
            let mut file = NewFile::create(path)?;
            (format.write)(rows, &mut file).and_then(|()| Ok(file.finish().map(drop)?))
        }
    };
    let to = args.output.as_deref().unwrap_or(Path::new("the rows"));
    written.map_err(|error| not_written(name, to, error))
}

/// Why rows were not written.
pub(crate) fn not_written(name: &str, to: &Path, error: crate::answer::Error) -> Failure {
    match error {
        crate::answer::Error::Query(error) => fail(name, &error),
        crate::answer::Error::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Failure::NobodyListens
        }
        other => Failure::of("write", to, other),
    }
}

/// Whether it is a file without a byte: the tables of no trace, which statements that need none may be tried on.
fn is_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0)
}

/// The traces, and the statements: of a file, or of the last argument.
fn question(args: &QueryArgs) -> Result<Question, Failure> {
    let paths = |args: &[OsString]| args.iter().map(PathBuf::from).collect::<Vec<_>>();
    let question = match (&args.file, args.args.as_slice()) {
        (Some(file), traces) => {
            let traces = paths(traces);
            let (sql, name) = statements(file, &traces)?;
            Question { traces, sql: Some(sql), name }
        }
        // A file is a trace and no statement, whatever it is called.
        (None, [traces @ .., sql]) if !traces.is_empty() && !Path::new(sql).exists() => {
            let sql = sql.to_str().ok_or_else(|| Failure::new("the statements are no UTF-8"))?;
            Question { traces: paths(traces), sql: Some(sql.to_owned()), name: "query".to_owned() }
        }
        (None, traces) => {
            if traces.iter().any(|trace| trace == "-") {
                return Err(Failure::new("stdin cannot be both the trace and the statements"));
            }
            Question { traces: paths(traces), sql: None, name: "query".to_owned() }
        }
    };
    if question.traces.len() > 1 && question.traces.iter().any(|trace| trace == Path::new("-")) {
        return Err(Failure::new("stdin cannot be one of several traces"));
    }
    Ok(question)
}

/// The statements of a file, and what it is called.
fn statements(path: &Path, traces: &[PathBuf]) -> Result<(String, String), Failure> {
    if path == Path::new("-") {
        if traces.iter().any(|trace| trace == path) {
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
pub(crate) fn fail(name: &str, error: &Error) -> Failure {
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
