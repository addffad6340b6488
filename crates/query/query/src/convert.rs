//! `ferretto convert`: a trace in another format.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use ferretto_convert::packets::{self, Copied, Opened};
use ferretto_convert::trace::left_out;
use ferretto_convert::{
    Error, FORMATS, Form, Format, MakeSink, Options, Out, Source, into_file, into_folder, stacks,
};
use ferretto_import::{Imported, SourceFile};

use crate::failure::Failure;
use crate::input::{self, Input, size};
use crate::progress::{Progress, megabytes, percent};
use crate::stage::{NewFile, NewFolder, stdout};

/// Writes a trace in another format.
///
/// It may be of any format that is read: a trace of Perfetto, or its packets as text, Chrome's JSON, OpenTelemetry's traces, perf.data, profiles of
/// Firefox, ftrace's text, what perf script and strace print, pprof, collapsed stacks; or a zip of these. Formats of tables (parquet, arrow, csv, jsonl) become a folder with a file for each table, and a manifest.json that says what it was made
/// of; with --table they become one file. Outputs have their names only when they are whole.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The format; without it that which the output's name ends with.
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    to: Option<&'static str>,
    /// The trace, also packed by gzip or zstd, or a zip of several; `-` is stdin.
    #[arg(value_name = "TRACE")]
    input: PathBuf,
    /// The file or folder to write; `-` is stdout.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Only this table or view, as one file.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Of which stacks pprof, collapsed, svg and firefox tell: without it of the first of these that the trace has.
    #[arg(long, value_name = "WHAT", value_parser = stacks_of())]
    stacks_of: Option<&'static str>,
    /// What may be used of memory, such as 2G or 500M: without it a quarter of the machine's.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Compresses the packets of a pftrace, some together, as the tracing service can.
    #[arg(long)]
    compress: bool,
    /// Replaces a folder that was written before.
    #[arg(long)]
    force: bool,
    /// Shows nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto convert --to parquet trace.pftrace -o trace    a folder for DuckDB, pandas, Spark:
                                                          select name, sum(dur) from 'trace/slice.parquet' group by name
  ferretto convert --to csv --table sched trace.pftrace -o sched.csv
  ferretto convert --to jsonl --table slice trace.pftrace -o - | jq .name
  ferretto convert --to pftrace trace.json -o trace.pftrace
  ferretto convert --to txt trace.pftrace -o - | less     every packet; --to pftrace makes a trace of it again";

/// Stacks by the words of the command line.
const STACKS: [(&str, stacks::Of); 4] = [
    ("samples", stacks::Of::Samples),
    ("heap", stacks::Of::Heap),
    ("profile", stacks::Of::Profile),
    ("slices", stacks::Of::Slices),
];

fn formats() -> impl clap::builder::TypedValueParser<Value = &'static str> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.doc));
    PossibleValuesParser::new(values)
        .map(|name| ferretto_convert::find(&name).map_or("", |format| format.name))
}

fn stacks_of() -> impl clap::builder::TypedValueParser<Value = &'static str> {
    let words = STACKS.map(|(word, _)| word);
    PossibleValuesParser::new(words)
        .map(move |word| words.into_iter().find(|it| *it == word).unwrap_or_default())
}

/// Runs the command.
pub(crate) fn main(args: &ConvertArgs) -> Result<(), Failure> {
    let format = format(args)?;
    let to = Target::of(args, format)?;
    if args.compress && format.name != "pftrace" {
        return Err(Failure::new(format!("{} has no packets to compress", format.name))
            .help("--compress is for --to pftrace"));
    }
    let mut progress = Progress::start(args.quiet);
    let Input { file, size, again } = input::open(&args.input)?;
    let opened = packets::open(file).map_err(|error| Failure::of("read", &args.input, error))?;
    let stacks_of = STACKS.iter().find(|(word, _)| Some(*word) == args.stacks_of).map(|(_, of)| *of);
    let options = Options { stacks_of, compress: args.compress };
    let Done { imported, written, left_out } = match (format.form, opened) {
        (Form::Packets(sink), Opened::Packets(file)) => {
            copy(args, format, to, sink, (file, size), &options, &mut progress)?
        }
        (_, Opened::Packets(file) | Opened::Archive(file) | Opened::Other(file)) => {
            through_tables(args, format, to, Input { file, size, again }, &options, &mut progress)?
        }
    };
    drop(progress);
    if !args.quiet {
        input::say(&args.input, &input::notes(&imported));
        for what in left_out {
            eprintln!("warning: {}: not in {}: {what}", args.input.display(), format.name);
        }
        if let Some(written) = written {
            let (of, output) = (megabytes(imported.source.bytes), args.output.display());
            eprintln!("{output}: {} of a trace of {of}", megabytes(written));
        }
    }
    Ok(())
}

/// What was done.
struct Done {
    /// What reading the trace has shown of it.
    imported: Imported,
    /// The size of what was written, where it is known.
    written: Option<u64>,
    /// What the format has no place for.
    left_out: Vec<String>,
}

/// Reads the trace into tables, and writes them.
fn through_tables(
    args: &ConvertArgs,
    format: &Format,
    to: Target,
    input: Input,
    options: &Options,
    progress: &mut Progress,
) -> Result<Done, Failure> {
    // Only what a folder says of itself has the hash of the file.
    let import = ferretto_import::Options { sha256: to == Target::Folder, ..input::options(args.memory) };
    let (tables, imported) = input::read(&args.input, import, input, progress)?;
    let name = args.input.file_name().unwrap_or_default().to_string_lossy();
    let source = Source { name: &name, tables: &tables, imported: &imported };
    if let Some(table) = args.table.as_deref().filter(|table| source.catalog().find(table).is_none()) {
        return Err(no_table(&source, table));
    }
    let written = write(args, format, to, &source, options, progress)?;
    let left_out = match format.form {
        Form::Packets(_) => left_out(&tables),
        _ => Vec::new(),
    };
    Ok(Done { imported, written, left_out })
}

/// Packet by packet, whatever the size.
fn copy(
    args: &ConvertArgs,
    format: &Format,
    to: Target,
    sink: MakeSink,
    (mut file, size): (Box<dyn Read + Send>, u64),
    options: &Options,
    progress: &mut Progress,
) -> Result<Done, Failure> {
    let mut watch = |bytes| {
        progress.show(|| format!("copying{} · {}", percent(bytes, size), megabytes(bytes)));
    };
    let mut copy = |out: &mut Out<'_>| {
        let copied = packets::copy(&mut file, sink, options, out, &mut watch);
        copied.map_err(|error| fail(args, error))
    };
    let (Copied { end, bytes, .. }, written) = match to {
        Target::Stdout => (copy(&mut stdout(format.is_binary)?)?, None),
        Target::File | Target::Folder => {
            let mut file = NewFile::create(&args.output)?;
            let copied = copy(&mut file)?;
            (copied, Some(file.finish().map_err(|error| fail(args, error.into()))?))
        }
    };
    let source = SourceFile { bytes, ..SourceFile::default() };
    let imported = Imported { end, source, ..Imported::default() };
    Ok(Done { imported, written, left_out: Vec::new() })
}

/// What went wrong, on either side.
fn fail(args: &ConvertArgs, error: Error) -> Failure {
    match error {
        Error::Read(error) => Failure::of("read", &args.input, error),
        error if error.is_broken_pipe() => Failure::NobodyListens,
        error => Failure::of("write", &args.output, error),
    }
}

/// The format that was asked for, or that the output's name ends with.
fn format(args: &ConvertArgs) -> Result<&'static Format, Failure> {
    if let Some(format) = args.to.and_then(ferretto_convert::find) {
        return Ok(format);
    }
    let name = args.output.file_name().and_then(OsStr::to_str).unwrap_or_default();
    // Of two formats that end alike the first of the list.
    FORMATS.iter().find(|format| has_extension(name, format)).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        Failure::new("it is not said which format is wanted").help(format!("--to {}", names.join("|")))
    })
}

fn has_extension(name: &str, format: &Format) -> bool {
    name.strip_suffix(format.extension).is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
}

/// What an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Stdout,
    File,
    Folder,
}

impl Target {
    fn of(args: &ConvertArgs, format: &Format) -> Result<Self, Failure> {
        let is_stdout = args.output == Path::new("-");
        let name = args.output.file_name().and_then(OsStr::to_str).unwrap_or_default();
        match (format.form, &args.table) {
            (Form::Table(_), None) if is_stdout => {
                let message =
                    format!("{} has a file for each table: they do not fit into one stream", format.name);
                Err(Failure::new(message).help("--table NAME takes one, such as --table slice"))
            }
            (Form::Table(_), None) => Ok(Self::Folder),
            (Form::Trace(_) | Form::Files(_) | Form::Packets(_), Some(_)) => Err(Failure::new(format!(
                "{} is of the whole trace: --table is for csv and its like",
                format.name
            ))),
            _ if is_stdout => Ok(Self::Stdout),
            (Form::Files(_), None) if !has_extension(name, format) => Ok(Self::Folder),
            _ => Ok(Self::File),
        }
    }
}

/// Says how large the output is, where that is known.
fn write(
    args: &ConvertArgs,
    format: &Format,
    to: Target,
    source: &Source<'_>,
    options: &Options,
    progress: &mut Progress,
) -> Result<Option<u64>, Failure> {
    let table = args.table.as_deref();
    let fail = |error: Error| fail(args, error);
    let finished = |bytes: std::io::Result<u64>| bytes.map(Some).map_err(|error| fail(error.into()));
    match to {
        Target::Stdout => {
            let mut out = stdout(format.is_binary)?;
            into_file(format, source, table, options, &mut out).map_err(fail)?;
            Ok(None)
        }
        Target::File => {
            let mut file = NewFile::create(&args.output)?;
            let out: &mut Out<'_> = &mut file;
            into_file(format, source, table, options, out).map_err(fail)?;
            finished(file.finish())
        }
        Target::Folder => {
            let each = |name: &str| progress.show(|| format!("writing {name}"));
            let mut folder = NewFolder::create(&args.output, args.force, each)?;
            into_folder(format, source, options, &mut folder).map_err(fail)?;
            finished(folder.finish())
        }
    }
}

fn no_table(source: &Source<'_>, table: &str) -> Failure {
    let names = source.catalog().names();
    let public: Vec<_> = names.into_iter().filter(|name| !name.starts_with("__")).collect();
    Failure::new(format!("there is no table {table}")).help(format!("there are {}", public.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        args: ConvertArgs,
    }

    fn target(words: &str) -> Result<(&'static str, Target), String> {
        let args = Cli::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?.args;
        let said = |failure| format!("{failure:?}");
        let format = format(&args).map_err(said)?;
        Target::of(&args, format).map(|target| (format.name, target)).map_err(said)
    }

    #[test]
    fn formats_and_outputs_are_what_was_said_or_what_the_name_says() {
        for (words, expected) in [
            ("x t -o out --to parquet", ("parquet", Target::Folder)),
            ("x t -o out.csv", ("csv", Target::Folder)),
            ("x t -o out.csv --table slice", ("csv", Target::File)),
            ("x t -o - --to jsonl --table slice", ("jsonl", Target::Stdout)),
            ("x t -o out.json", ("json", Target::File)),
            ("x t -o out --to otlp", ("otlp", Target::Folder)),
        ] {
            assert_eq!(target(words), Ok(expected), "{words}");
        }
        for (words, expected) in [
            ("x t -o out", "which format"),
            ("x t -o out --to xls", "possible values: parquet"),
            ("x t -o - --to csv", "--table NAME"),
            ("x t -o out.json --table slice", "whole trace"),
            ("x t", "--output"),
        ] {
            let error = target(words).unwrap_err();
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
