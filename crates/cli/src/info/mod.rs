//! `ferretto info`: what a trace is.
//!
//! The pass over the trace is the room `trace-info`'s; here are its input, and the words: [`text`] for people, [`json`] for programs, and
//! [`formats`] for files that are no trace.

mod formats;
mod json;
mod text;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Result;
use ferretto_protos::TraceConfig;
use ferretto_trace_info::{Info, Report};
use ferretto_trace_read::Reader;
use ferretto_trace_read::container::{Container, FileBytes, unpacked};
use prost::Message;

use crate::json::Json;
use crate::losses::{self, Evidence, Verdict};
use crate::no_trace::refusal;
use crate::record::default_config;
use crate::record::output::plain;
use crate::record::plan::Plan;
use crate::report::{self, UserError};

/// Rows of each table on a screen.
const ROWS: usize = 5;
/// By these a file's format is guessed. Long enough for the magic of a tar archive.
const HEAD_BYTES: u64 = 512;

/// Says what a trace is: when and where it was recorded, what fills it, who was busy, what was lost.
#[derive(clap::Args, Debug)]
pub(crate) struct InfoArgs {
    /// Traces, plain or compressed; - is stdin.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Prints JSON: an object, or an array of them for several traces.
    #[arg(long)]
    json: bool,
    /// How many rows of each table [default: 5, with --json all that are kept].
    #[arg(short = 'n', long)]
    rows: Option<usize>,
}

/// A trace, and what is said of it.
struct Told {
    name: String,
    /// What it is packed into.
    container: Container,
    /// What is in the file, if it can be asked.
    file_bytes: Option<u64>,
    /// Why it could not be read to its end.
    trouble: Option<String>,
    report: Report,
    plan: Plan,
    verdict: Verdict,
}

/// Runs the command.
pub(crate) fn main(args: &InfoArgs) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let mut told = Vec::new();
    for path in &args.traces {
        match tell(path) {
            Ok(one) if args.json => told.push(json::of(&one, args.rows)),
            Ok(one) => {
                let gap = if told.is_empty() { "" } else { "\n" };
                let rendered = text::render(&one, args.rows.unwrap_or(ROWS));
                report::say(&format!("{gap}{rendered}"))?;
                told.push(Json::Null);
            }
            Err(error) => {
                report::print(&error);
                code = ExitCode::FAILURE;
            }
        }
    }
    match (args.json, args.traces.as_slice(), told.pop()) {
        (true, [_], Some(one)) => report::say(&format!("{one}\n"))?,
        (true, [_, _, ..], last) => {
            told.extend(last);
            report::say(&format!("{}\n", Json::List(told)))?;
        }
        _ => {}
    }
    Ok(code)
}

fn tell(path: &Path) -> Result<Told> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
    let cannot = |error: &io::Error| UserError::new(format!("cannot read {name}: {}", plain(error)));
    let (file, file_bytes): (Box<dyn Read>, _) = match is_stdin {
        true => (Box::new(io::stdin().lock()), None),
        false => {
            let file = File::open(path).map_err(|error| cannot(&error))?;
            let meta = file.metadata().map_err(|error| cannot(&error))?;
            (Box::new(file), meta.is_file().then_some(meta.len()))
        }
    };
    read(name.clone(), file, file_bytes).map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => cannot(&error).into(),
        Err(error) => error,
    })
}

/// Reads it all. An `io::Error` comes as it is.
fn read(name: String, mut file: Box<dyn Read>, file_bytes: Option<u64>) -> Result<Told> {
    let outer = head_of(&mut file)?;
    let container = Container::of(&outer);
    if outer.is_empty() {
        return Err(UserError::new(format!("{name} is empty")).into());
    }
    let whole = io::Cursor::new(outer.clone()).chain(file);
    let read_of_file = FileBytes::default();
    let Ok(trace) = unpacked(read_of_file.of(whole)) else {
        return Err(refusal(&name, &outer, "info").into());
    };
    let trouble = Rc::default();
    let mut trace = Tolerant { trace, trouble: Rc::clone(&trouble) };
    let inner = head_of(&mut trace)?;
    if !formats::begins_like_a_trace(&inner) {
        // What is inside of it cannot be told if it cannot be unpacked.
        let head = if inner.is_empty() { &outer } else { &inner };
        return Err(refusal(&name, head, "info").into());
    }
    let trace = io::Cursor::new(inner.clone()).chain(trace);
    let mut info = Info::default();
    let end = Reader::new(trace).within(read_of_file).for_each(|packet, place| info.push(packet, place))?;
    let report = info.finish(end);
    if formats::is_none_after_all(&report) {
        return Err(refusal(&name, &inner, "info").into());
    }
    let config = report.config.as_deref().and_then(|config| TraceConfig::decode(config).ok());
    let config = config.unwrap_or_default();
    let mut plan = Plan::of(&config, !default_config::is_like(&config));
    plan.is_ring = report.is_clone;
    let verdict = losses::find(&Evidence {
        plan: &plan,
        tally: &report.tally,
        stats: None,
        counted: true,
        is_over: !report.is_clone,
        torn: report.end.torn_at.is_some(),
        huge: report.end.huge_packets,
        reports: &[],
        outliving: &[],
    });
    let trouble = trouble.borrow_mut().take();
    Ok(Told { name, container, file_bytes, trouble, report, plan, verdict })
}

fn head_of(file: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// A file that ends where it cannot be read on, and says why: what stands before is of use.
struct Tolerant<R> {
    trace: R,
    trouble: Rc<RefCell<Option<String>>>,
}

impl<R: Read> Read for Tolerant<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.trace.read(into) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                *self.trouble.borrow_mut() = Some(plain(&error));
                Ok(0)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
