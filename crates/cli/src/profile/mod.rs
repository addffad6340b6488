//! `ferretto profile`: where a command's time goes, as a trace and as a few lines.

mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::Result;
use ferretto_profile::MAX_FREQUENCY_HZ;

use crate::record::sampling::Sampling;
use crate::record::{self, RecordArgs};
use crate::report::UserError;
use crate::units;

/// Samples where a command spends its processor time: stacks of all of its threads and children, from the first instruction to the last.
///
/// The trace shows them as flame graphs in the Perfetto UI; the functions with most of the time are printed at the end. No rights are
/// needed for it, and the program need not be built in any special way, but as an optimised one that has its symbols (not stripped).
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProfileArgs {
    /// The trace; `-` is stdout [default: trace-YYYYMMDD-HHMMSS.pftrace here, the time in UTC].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Samples a second of a processor's time. The usual number is none that programs do something at.
    #[arg(short = 'F', long = "freq", value_name = "HZ", default_value_t = 999, value_parser = clap::value_parser!(u64).range(1..=MAX_FREQUENCY_HZ))]
    frequency_hz: u64,

    /// What else to record on the same time line: `sched` is all that `ferretto record` records.
    #[arg(long, value_name = "WHAT", value_parser = ["sched"])]
    with: Option<String>,

    /// At most so long, such as 500ms, 5s, 2m or 1h [default: until COMMAND ends].
    #[arg(short, long, value_name = "TIME", value_parser = units::parse_duration)]
    time: Option<Duration>,

    /// Functions that are printed.
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 15)]
    functions: usize,

    /// Start a tracing service even if one runs.
    #[arg(long)]
    own: bool,

    /// Show nothing but errors and losses.
    #[arg(short, long)]
    quiet: bool,

    /// What to run.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  ferretto profile -- ./my-program --its-flags
  ferretto profile -o build.pftrace --with sched -- make -j8
  ferretto query build.pftrace 'select name, count(*) from perf_sample join stack_profile_callsite c on c.id = callsite_id join stack_profile_frame f on f.id = frame_id group by 1 order by 2 desc limit 10'";

/// Runs the command.
pub(crate) fn main(args: &ProfileArgs) -> Result<ExitCode> {
    if let Err(refused) = ferretto_profile::can_sample() {
        let error = UserError::new(format!("cannot profile: {refused}"));
        return Err(match refused.advice() {
            Some(advice) => error.help(advice).into(),
            None => error.into(),
        });
    }
    let sampling = Sampling {
        frequency_hz: args.frequency_hz,
        with_machine: args.with.is_some(),
        summary: Arc::default(),
    };
    let record = RecordArgs {
        output: args.output.clone(),
        time: args.time,
        own: args.own,
        quiet: args.quiet,
        command: args.command.clone(),
        ..RecordArgs::default()
    };
    let status = record::record(&record, Some(&sampling))?;
    if !args.quiet {
        let summary = sampling.summary.lock().unwrap_or_else(PoisonError::into_inner);
        eprint!("{}", report::render(&summary, args.functions));
    }
    Ok(status)
}
