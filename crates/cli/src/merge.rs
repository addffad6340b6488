//! `ferretto merge`: several traces as one.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use ferretto_cut::Machines;

use crate::cut::{explain, open};
use crate::record::output::Output;
use crate::report::UserError;
use crate::units;

/// Joins several traces to one.
///
/// Each keeps its own events; traces of other machines than the first one's are set beside it by what the calendar's clock showed on both.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MergeArgs {
    /// The traces; `-` is stdin. They may be packed with gzip or zstd.
    #[arg(required = true, num_args = 2..)]
    traces: Vec<PathBuf>,

    /// The one trace; `-` is stdout.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// All are of one machine, whatever they say.
    #[arg(long, conflicts_with = "other_machines")]
    same_machine: bool,

    /// Each is of another machine, whatever they say.
    #[arg(long)]
    other_machines: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto merge client.pftrace server.pftrace -o both.pftrace
  ferretto merge part.1.pftrace part.2.pftrace -o whole.pftrace";

pub(crate) fn main(args: &MergeArgs) -> Result<ExitCode> {
    let sources = args.traces.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
    let machines = match (args.same_machine, args.other_machines) {
        (true, _) => Machines::One,
        (_, true) => Machines::Apart,
        _ => Machines::ByWhatTheySay,
    };
    let mut output = Output::open(&args.output)?;
    let merged = ferretto_cut::merge(&sources, machines, output.file()).map_err(|(number, error)| {
        output.discard();
        match args.traces.get(number) {
            Some(trace) => explain(&error, trace),
            None => UserError::new(error.to_string()).into(),
        }
    })?;
    output.finish()?;
    eprintln!(
        "{}: {} of {}, {} packets, {}",
        args.output.display(),
        units::counted(args.traces.len() as u64, "trace", "traces"),
        units::counted(merged.machines, "machine", "machines"),
        units::count(merged.packets),
        units::bytes(merged.bytes)
    );
    if merged.without_calendar > 0 {
        let count = units::counted(merged.without_calendar, "trace does", "traces do");
        eprintln!(
            "warning: {count} not say what time of the calendar it was; the first one's clock is taken for theirs"
        );
    }
    if merged.left_out > 0 {
        let count = units::counted(merged.left_out, "packet", "packets");
        eprintln!("warning: {count} cannot be read, and were left out");
    }
    Ok(ExitCode::SUCCESS)
}
