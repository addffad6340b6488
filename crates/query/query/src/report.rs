//! `ferretto report`: why was this slow, and what has changed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ferretto_report::{Document, Form, Options, render};

use crate::failure::Failure;
use crate::input::{self, Reading};
use crate::stage::{NewFile, stdout};

/// Says why a trace was slow: who had the CPUs, who waited for them, what blocked, which slices took long, what was lost.
///
/// With --compare and two traces it says what has changed between them, by name, the largest changes first.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// The trace, of any format that `ferretto convert` reads; with --compare the one before and the one after.
    #[arg(value_name = "TRACE", required = true, num_args = 1..=2)]
    traces: Vec<PathBuf>,
    /// Compares two traces.
    #[arg(long)]
    compare: bool,
    /// Makes a page with pictures: one file that needs nothing else.
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// Makes JSON for programs; times are in nanoseconds.
    #[arg(long)]
    json: bool,
    /// Rows of each table: 8 without it, 20 of a page, 100 of JSON.
    #[arg(short = 'n', long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rows: Option<u32>,
    /// A file to write instead of stdout; it has its name only when it is whole.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Shows nothing but the report and errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto report trace.pftrace
  ferretto report trace.pftrace --html -o report.html
  ferretto report --compare before.pftrace after.pftrace
  ferretto report trace.pftrace --json | jq '.latency_worst.rows[0]'";

/// Of what is no terminal, or does not say.
const DEFAULT_WIDTH: usize = 100;

/// Runs the command.
pub(crate) fn main(args: &ReportArgs) -> Result<(), Failure> {
    let (form, rows) = match (args.html, args.json) {
        (true, _) => (Form::Html, 20),
        (_, true) => (Form::Json, 100),
        _ => (Form::Terminal(width()), 8),
    };
    let rows = args.rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(rows);
    let options = Options { rows, has_pictures: args.html || args.json };
    let text = render(&document(args, &options)?, form);
    let fail = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::NobodyListens,
        _ => Failure::of("write", args.output.as_deref().unwrap_or(Path::new("the report")), error),
    };
    match &args.output {
        None => {
            let mut out = stdout(false)?;
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(fail)
        }
        Some(path) => {
            let mut file = NewFile::create(path)?;
            file.write_all(text.as_bytes()).and_then(|()| file.finish().map(drop)).map_err(fail)
        }
    }
}

fn document(args: &ReportArgs, options: &Options) -> Result<Document, Failure> {
    match (args.compare, args.traces.as_slice()) {
        (false, [path]) => {
            let trace = input::load(path, &args.reading, args.quiet)?;
            ferretto_report::report(&name(path), &trace, options).map_err(|error| fail(path, &error))
        }
        (true, [before, after]) => {
            let first = input::load(before, &args.reading, args.quiet)?;
            let second = input::load(after, &args.reading, args.quiet)?;
            ferretto_report::compare((&name(before), &first), (&name(after), &second), options)
                .map_err(|error| fail(after, &error))
        }
        (true, _) => Err(Failure::new("--compare wants two traces, the one before and the one after")),
        (false, _) => Err(Failure::new("a report is on one trace").help("--compare compares two")),
    }
}

fn fail(path: &Path, error: &ferretto_report::Error) -> Failure {
    Failure::of("report on", path, error)
        .help("if memory is what is missing, --memory allows more, as in --memory 4G")
}

/// What a trace is called: its file, without the folders.
fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
}
