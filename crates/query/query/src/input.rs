//! The trace that a command is about.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferretto_analysis::Trace;
use ferretto_import::{self as import, Imported, Progress as Step};
use ferretto_printable::printable;
use ferretto_trace_tables::Tables;

use crate::failure::{Failure, note};
use crate::kept;
use crate::progress::{Progress, megabytes, percent};

/// A trace.
pub(crate) struct Input {
    pub(crate) file: Box<dyn Read + Send>,
    /// Its size if that is known.
    pub(crate) size: u64,
    /// The file again, if it is one of which any part can be asked for.
    pub(crate) again: Option<Arc<File>>,
}

pub(crate) fn open(path: &Path) -> Result<Input, Failure> {
    let fail = |error: std::io::Error| Failure::of("read", path, error);
    if path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            return Err(
                Failure::new("stdin is a terminal, and a trace is binary").help("name the trace's file")
            );
        }
        return Ok(Input { file: Box::new(std::io::stdin()), size: 0, again: None });
    }
    let file = File::open(path).map_err(fail)?;
    let meta = file.metadata().map_err(fail)?;
    if meta.is_dir() {
        return Err(Failure::new(format!("{} is a folder", path.display())));
    }
    if !meta.is_file() {
        return Ok(Input { file: Box::new(file), size: 0, again: None });
    }
    let again = file.try_clone().map_err(fail)?;
    Ok(Input { file: Box::new(file), size: meta.len(), again: Some(Arc::new(again)) })
}

/// How it is read. `memory` is what its tables may have, if somebody says.
pub(crate) fn options(memory: Option<u64>) -> import::Options {
    let mut options = import::Options::default();
    options.memory_bytes = memory.unwrap_or(options.memory_bytes);
    options.config_printer = Some(print_config);
    options
}

/// How a command reads a trace that it asks.
#[derive(clap::Args, Debug)]
pub(crate) struct Reading {
    /// What may be used of memory, such as 2G or 500M: without it a quarter of the machine's.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Keeps the tables of a trace in a file beside it, TRACE.tables, and asks that as long as neither the trace nor this program changes.
    #[arg(long)]
    pub(crate) cache: bool,
}

/// Its tables, and what its reading has shown.
pub(crate) fn read(
    path: &Path,
    options: import::Options,
    Input { file, size, again }: Input,
    progress: &mut Progress,
) -> Result<(Tables, Imported), Failure> {
    let options = import::Options { file: again, ..options };
    import::import(file, &options, &mut shown(size, progress)).map_err(|error| unread(path, error))
}

/// Its tables, of which it is said what was met at its end.
pub(crate) fn tables(
    path: &Path,
    options: import::Options,
    cache: bool,
    quiet: bool,
) -> Result<Tables, Failure> {
    let mut progress = Progress::start(quiet);
    let input = open(path)?;
    let (tables, notes) = if cache {
        let none =
            || Failure::new(format!("--cache keeps tables beside a file, and {} is none", path.display()));
        let trace = input.again.as_ref().ok_or_else(none)?;
        kept::tables(path, trace, &options, &mut shown(input.size, &mut progress))
            .map_err(|error| unread(path, error))?
    } else {
        let (tables, imported) = read(path, options, input, &mut progress)?;
        (tables, notes(&imported))
    };
    drop(progress);
    if !quiet {
        say(path, &notes);
    }
    Ok(tables)
}

/// A trace to be asked. Its tables, and then queries, may have so much memory.
pub(crate) fn load(path: &Path, reading: &Reading, quiet: bool) -> Result<Trace, Failure> {
    let tables = tables(path, options(reading.memory), reading.cache, quiet)?;
    let mut options = ferretto_analysis::Options::default();
    options.memory_bytes = reading.memory.unwrap_or(options.memory_bytes);
    Trace::of(tables, &options).map_err(|error| Failure::of("read", path, error))
}

/// Shows how far it is.
fn shown(size: u64, progress: &mut Progress) -> impl FnMut(Step) -> bool {
    move |step| {
        progress.show(|| match step {
            Step::Reading { bytes } => format!("reading{} · {}", percent(bytes, size), megabytes(bytes)),
            Step::Rows { done, all } => format!("making tables{}", percent(done as u64, all as u64)),
        });
        true
    }
}

fn unread(path: &Path, error: import::Error) -> Failure {
    let is_memory = matches!(error, import::Error::Memory { .. });
    let failure = Failure::of("read", path, error);
    if is_memory { failure.help("--memory allows more, as in --memory 4G") } else { failure }
}

/// A trace's config as text, which stands in its metadata.
fn print_config(config: &[u8]) -> Option<String> {
    ferretto_protos::text::format("perfetto.protos.TraceConfig", config).ok()
}

/// What was met at the end of the trace, a line each.
pub(crate) fn notes(imported: &Imported) -> Vec<String> {
    let end = &imported.end;
    let mut notes = Vec::new();
    if let Some(at) = end.torn_at {
        notes.push(format!("its last packet is not whole (offset {at})"));
    }
    if let Some(at) = end.broken_at {
        notes.push(format!("it was not read on where bytes begin that are no trace (offset {at})"));
    }
    const SHOWN: usize = 5;
    let mut troubled = imported.members.iter().filter_map(|member| Some((member, member.trouble.as_ref()?)));
    let first = troubled.by_ref().take(SHOWN);
    notes
        .extend(first.map(|(member, trouble)| printable(&format!("{}: {trouble}", member.name)).to_string()));
    if troubled.next().is_some() {
        notes.push("and others were not read, or not to their end".to_owned());
    }
    if let Some(place) = end.first_broken_batch {
        let count = end.broken_batches;
        notes.push(format!(
            "{count} compressed batches cannot be unpacked to their end, the first at {place}"
        ));
    }
    notes
}

/// Says what was met.
pub(crate) fn say(path: &Path, notes: &[String]) {
    notes.iter().for_each(|line| note(&format!("{}: {line}", path.display())));
}

/// Bytes of `2G`, `500M`, `64k`, `1000`: powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("expected a number and a unit, as in 500M or 2G".to_owned()),
    };
    let number: u64 =
        number.parse().map_err(|_| "expected a number and a unit, as in 500M or 2G".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "it is more than anybody has".to_owned())
}

/// `30s`, `10m`, `2h`, `500ms`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected a number and a unit, as in 30s or 10m".to_owned()),
    };
    let number: u64 =
        number.parse().map_err(|_| "expected a number and a unit, as in 30s or 10m".to_owned())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "nobody waits for so long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        for text in ["", "10", "s", "-1s", "1.5s", "99999999999999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("1000", 1000),
            ("64k", 64 << 10),
            ("500M", 500 << 20),
            ("2G", 2 << 30),
            ("2GiB", 2 << 30),
            ("1tb", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(expected));
        }
        for text in ["", "G", "2X", "-1", "99999999999G", "1.5G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
