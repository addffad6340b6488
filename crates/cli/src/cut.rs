//! `ferretto cut`: a part of a trace, as a trace of its own.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use ferretto_cut::{Around, Moment, Options, Report, UnpackedFile};

use crate::no_trace::refusal_of_file;
use crate::private;
use crate::record::output::{Output, plain};
use crate::report::UserError;
use crate::units;

/// Cuts a time out of a trace.
///
/// The result is a trace like any other. About that time every question has the answer that it has in the whole trace: what reaches into it
/// from before or beyond keeps its true begin and end, counters have their last value before it, and names are known. What else lies
/// outside is left out.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CutArgs {
    /// The trace; `-` is stdin. It may be packed with gzip or zstd.
    trace: PathBuf,

    /// The cut; `-` is stdout.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// From when on [default: the trace's begin].
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true)]
    from: Option<Moment>,

    /// Until before when [default: the trace's end].
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true)]
    to: Option<Moment>,

    /// As long as the first slice of this name that a program has recorded.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "to"])]
    around: Option<String>,

    /// How much before and after that slice, too.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ns, requires = "around", default_value = "0")]
    margin: i64,

    /// Of events and samples only those of the processes of this name, as `ps` shows it with or without its folder. What the machine did
    /// stays.
    #[arg(long, value_name = "NAME")]
    process: Option<String>,

    /// Of programs' events only those of this category.
    #[arg(long, value_name = "CATEGORY")]
    keep_category: Option<String>,

    /// Several files of about this size, one after the other in time, each of which can be read alone: with `-o t.pftrace` they are
    /// t.1.pftrace, t.2.pftrace, …
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    split: Option<u64>,
}

const EXAMPLES: &str = "\
A TIME is
  5s, 250ms, 1.5ms, 20us, 2m    from the trace's first event
  123456789                     nanoseconds from the trace's first event
  @13864468973897               nanoseconds of the trace's clock, as queries show them

Examples:
  ferretto cut --from 5s --to 7s trace.pftrace -o part.pftrace
  ferretto cut --around 'load page' --margin 100ms trace.pftrace -o part.pftrace
  ferretto cut --split 100mb long.pftrace -o part.pftrace
  zcat trace.gz | ferretto cut --to 1s - -o -  | wc -c";

pub(crate) fn main(args: &CutArgs) -> Result<ExitCode> {
    let options = Options {
        from: args.from,
        to: args.to,
        around: args.around.clone().map(|name| Around { name, margin_ns: args.margin }),
        process: args.process.clone(),
        category: args.keep_category.clone(),
    };
    let source = open(&args.trace)?;
    let name = args.trace.display().to_string();
    if let Some(bytes) = args.split {
        return split(args, &source, &name, &options, bytes);
    }
    let mut output = Output::open(&args.output)?;
    let report = ferretto_cut::cut(&source, &name, &options, output.file());
    let report = report.map_err(|error| told(&error, &args.trace, &mut output))?;
    output.finish()?;
    say(&args.trace, &args.output, &report);
    Ok(ExitCode::SUCCESS)
}

/// A trace that can be read several times: the file, or what came from a pipe, in a file without a name.
pub(crate) fn open(path: &Path) -> Result<UnpackedFile> {
    let cannot =
        |error: &io::Error| UserError::new(format!("cannot read {}: {}", path.display(), plain(error)));
    let mut from: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let mut file = File::open(path).map_err(|error| cannot(&error))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(UserError::new(format!("{} is a directory", path.display())).into());
        }
        match file.rewind() {
            Ok(()) => return Ok(UnpackedFile::new(file)),
            Err(_) => Box::new(file),
        }
    };
    let mut spool = spool()?;
    io::copy(&mut from, &mut spool).map_err(|error| cannot(&error))?;
    Ok(UnpackedFile::new(spool))
}

/// A file that is gone when it is closed.
fn spool() -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = private::temporary_path("ferretto-cut");
    let opened = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = opened.with_context(|| format!("cannot make the temporary file {}", path.display()))?;
    // It lives as long as it is open.
    let _ = std::fs::remove_file(&path);
    Ok(file)
}

/// The error as people read it. Of a cut that failed nothing is left.
fn told(error: &ferretto_cut::Error, trace: &Path, output: &mut Output) -> anyhow::Error {
    output.discard();
    explain(error, trace)
}

pub(crate) fn explain(error: &ferretto_cut::Error, trace: &Path) -> anyhow::Error {
    use ferretto_cut::Error as Why;
    let name = trace.display();
    match error {
        Why::Read(error) => UserError::new(format!("cannot read {name}: {}", plain(error))).into(),
        Why::Write(error) => UserError::new(format!("cannot write: {}", plain(error))).into(),
        Why::NotATrace { .. } => refusal_of_file(trace, "cut")
            .unwrap_or_else(|| UserError::new(format!("{name} is no Perfetto trace: {error}")))
            .into(),
        _ => UserError::new(format!("{name}: {error}")).into(),
    }
}

/// To stderr, as stdout may be the cut.
fn say(trace: &Path, output: &Path, report: &Report) {
    let (start, end) = report.span;
    let seconds = |ns: i64| ns.saturating_sub(start) as f64 / 1e9;
    eprintln!(
        "{}: {:.6} s to {:.6} s of {:.6} s, {} packets, {}",
        output.display(),
        seconds(report.range.from.max(start)),
        seconds(report.range.to.min(end)),
        seconds(end),
        units::count(report.packets),
        units::bytes(report.bytes)
    );
    warn(trace, report);
}

fn warn(trace: &Path, report: &Report) {
    let name = trace.display();
    let read = &report.read;
    if let Some(at) = read.broken_at {
        eprintln!("warning: {name} is no trace from offset {at} on; what follows was not read");
    }
    if let Some(at) = read.torn_at {
        eprintln!("warning: the last packet of {name}, at offset {at}, is cut off; it was left out");
    }
    if let Some(place) = read.first_broken_batch {
        let count = units::counted(read.broken_batches, "batch", "batches");
        eprintln!("warning: {count} of compressed packets in {name} cannot be read, the first at {place}");
    }
    if report.left_out + read.huge_packets > 0 {
        let count = units::counted(report.left_out + read.huge_packets, "packet", "packets");
        eprintln!("warning: {count} of {name} cannot be read, and were left out");
    }
    if report.beyond > 0 {
        let count = units::counted(report.beyond, "thing", "things");
        eprintln!("warning: more than can be followed: {count} that reach into the range may be missing");
    }
}

fn split(
    args: &CutArgs,
    source: &UnpackedFile,
    name: &str,
    options: &Options,
    bytes: u64,
) -> Result<ExitCode> {
    if args.output == Path::new("-") {
        return Err(UserError::new("several files cannot go to stdout").help("name one with -o").into());
    }
    let mut outputs: Vec<(PathBuf, Output)> = Vec::new();
    let reports = ferretto_cut::split(source, name, options, bytes, |number| {
        let path = numbered(&args.output, number + 1);
        let output = Output::open(&path).map_err(|error| io::Error::other(format!("{error:#}")))?;
        let file = output.file().try_clone()?;
        outputs.push((path, output));
        Ok(file)
    });
    let reports = reports.map_err(|error| {
        outputs.iter_mut().for_each(|(_, output)| {
            told(&error, &args.trace, output);
        });
        explain(&error, &args.trace)
    })?;
    for (path, output) in &mut outputs {
        output.finish().with_context(|| format!("cannot finish {}", path.display()))?;
    }
    for ((path, _), report) in outputs.iter().zip(&reports) {
        let (start, _) = report.span;
        let seconds = |ns: i64| ns.saturating_sub(start) as f64 / 1e9;
        let range = report.range;
        eprintln!(
            "{}: {:.6} s to {:.6} s, {} packets, {}",
            path.display(),
            seconds(range.from.max(start)),
            seconds(range.to.min(report.span.1)),
            units::count(report.packets),
            units::bytes(report.bytes)
        );
    }
    if let Some(report) = reports.first() {
        warn(&args.trace, report);
    }
    io::stderr().flush()?;
    Ok(ExitCode::SUCCESS)
}

/// `t.pftrace` is `t.3.pftrace`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{number}.{}", extension.to_string_lossy())),
        None => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            name.into()
        }
    }
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    match text.strip_prefix('@') {
        Some(absolute) => absolute
            .parse()
            .map(Moment::Absolute)
            .map_err(|_| "after @ comes a number of nanoseconds, as in @13864468973897".to_owned()),
        None => parse_duration_ns(text).map(Moment::FromStart),
    }
}

/// Nanoseconds of `5s`, `1.5ms`, `20us`, `7ns`, `2m`, `1h`; a bare number is nanoseconds.
fn parse_duration_ns(text: &str) -> Result<i64, String> {
    let sign_len = usize::from(text.starts_with('-'));
    let (sign, rest) = text.split_at(sign_len);
    let number_len = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = rest.split_at(number_len);
    let scale: i64 = match unit {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => return Err(format!("unknown unit '{other}'; use ns, us, ms, s, m or h, as in 250ms, 5s")),
    };
    let expected = || "expected a time, as in 5s, 250ms or 123456789 (nanoseconds)".to_owned();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut ns = whole.parse::<i64>().map_err(|_| expected())?.checked_mul(scale).ok_or_else(expected)?;
    let mut digit_ns = scale;
    for digit in fraction.bytes() {
        digit_ns /= 10;
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0')).ok_or_else(expected)?;
        ns = ns.saturating_add(digit * digit_ns);
    }
    Ok(if sign.is_empty() { ns } else { -ns })
}

/// Bytes of `100mb`, `1gb`, `500k`: decimal, as files are shown.
fn parse_size(text: &str) -> Result<u64, String> {
    /// Smaller pieces would be more state than trace.
    const LEAST: u64 = 10_000;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        _ => return Err("expected a size, as in 100mb or 1gb".to_owned()),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    size.filter(|size| *size >= LEAST)
        .ok_or_else(|| "expected a size of at least 10kb, as in 100mb".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_they_say() {
        let cases = [
            ("5s", Moment::FromStart(5_000_000_000)),
            ("1.5ms", Moment::FromStart(1_500_000)),
            ("0.000000001s", Moment::FromStart(1)),
            ("123", Moment::FromStart(123)),
            ("2m", Moment::FromStart(120_000_000_000)),
            ("-20us", Moment::FromStart(-20_000)),
            ("@13864468973897", Moment::Absolute(13_864_468_973_897)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_moment(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "5 s", "5parsecs", "@", "@5s", "1.2.3s", "99999999999h", "--5s"] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_decimal() {
        assert_eq!(parse_size("100mb"), Ok(100_000_000));
        assert_eq!(parse_size("2G"), Ok(2_000_000_000));
        for text in ["", "mb", "100", "1kb", "5 mb", "99999999999gb"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pieces_have_a_number_before_their_ending() {
        assert_eq!(numbered(Path::new("a/t.pftrace"), 3), Path::new("a/t.3.pftrace"));
        assert_eq!(numbered(Path::new("t"), 12), Path::new("t.12"));
    }
}
