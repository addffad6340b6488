//! `ferretto profile`: where the time of a command, of processes or of the machine goes, or who allocates in a command, as a trace and as a few lines.

mod event;
pub(crate) mod heap;
mod heap_report;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use ferretto_profile::{MAX_FREQUENCY_HZ, Target};

use self::event::Event;
use crate::record::sampling::{Running, Sampling, Time, What};
use crate::record::{self, RecordArgs};
use crate::report::UserError;
use crate::units;

/// Samples where a command spends its processor time: stacks of all of its threads and children, from the first instruction to the last. Or where
/// processes that run already do (-p), or all of the machine (-a).
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

    /// Processes that run already, with all of their threads and what they start; until they have ended, or until Ctrl-C.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all", "command"])]
    pid: Vec<u32>,

    /// All that runs on the machine; while COMMAND runs, or until Ctrl-C. For root, mostly.
    #[arg(short, long)]
    all: bool,

    /// What a sample is made at, instead of moments of a processor's time: a counter, such as page-faults, context-switches or cache-misses, or a tracepoint,
    /// such as syscalls:sys_enter_write.
    #[arg(short, long, value_name = "EVENT", value_parser = event::parse, default_value = event::DEFAULT)]
    event: Event,

    /// Where a program uses memory for the first time: the same as --event page-faults.
    #[arg(long, conflicts_with = "event")]
    faults: bool,

    /// Where threads wait, instead of where they run: for locks, files, answers, time. For root, mostly.
    #[arg(long, conflicts_with_all = ["event", "faults", "every"])]
    off_cpu: bool,

    /// A sample at each so many events [default: 1 of events that do not go on by themselves].
    #[arg(long, value_name = "COUNT", conflicts_with = "frequency_hz", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,

    /// Of a tracepoint only those that this says, in the kernel's words, such as "count > 4096".
    #[arg(long, value_name = "CONDITION", requires = "event")]
    filter: Option<String>,

    /// Who allocates memory, instead of where the time goes: what is not freed, what there is at the most, by stack; of all threads, of children and of what they
    /// run. Needs the library libferretto_preload.so, which stands before the program's allocator.
    #[arg(long, conflicts_with_all = ["event", "faults", "off_cpu", "every", "frequency_hz", "pid", "all"], requires = "command")]
    heap: bool,

    /// Of the heap a sample at each so many bytes on average; 1 is every block.
    #[arg(long, value_name = "BYTES", requires = "heap", default_value = "32k", value_parser = heap::interval)]
    interval: u64,

    /// Memory between each program and the profiler, from 4mb on, for samples that were not read yet.
    #[arg(long, value_name = "SIZE", requires = "heap", default_value = "8mb", value_parser = heap::ring_kb)]
    ring: u64,

    /// What the heap is each so often, besides at the end.
    #[arg(long, value_name = "TIME", requires = "heap", conflicts_with = "at_peak", value_parser = units::parse_duration)]
    dump_every: Option<Duration>,

    /// What the heap was when there was most of it, instead of at the end.
    #[arg(long, requires = "heap")]
    at_peak: bool,

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
    #[arg(last = true, required_unless_present_any = ["pid", "all"], value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  ferretto profile -- ./my-program --its-flags
  ferretto profile -o build.pftrace --with sched -- make -j8
  ferretto profile -p $(pidof my-server) -t 10s
  sudo ferretto profile -a -t 5s
  ferretto profile --faults -- ./my-program
  sudo ferretto profile --off-cpu -p $(pidof my-server) -t 10s
  ferretto profile --heap -- ./my-program
  ferretto query build.pftrace 'select name, count(*) from perf_sample join stack_profile_callsite c on c.id = callsite_id join stack_profile_frame f on f.id = frame_id group by 1 order by 2 desc limit 10'";

/// Runs the command.
pub(crate) fn main(args: &ProfileArgs) -> Result<ExitCode> {
    let sampling = Sampling {
        what: if args.heap { What::Heap(heap::prepare(args)?) } else { What::Time(time(args)?) },
        until: args.pid.iter().map(|pid| Running::find(*pid)).collect::<Result<_>>()?,
        with_machine: args.with.is_some(),
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
        let text = match &sampling.what {
            What::Time(time) => report::render(&lock(&time.summary), args.functions),
            What::Heap(heap) => heap_report::render(&lock(&heap.summary), args.functions),
        };
        eprint!("{text}");
    }
    Ok(status)
}

/// What panics elsewhere leaves what was counted whole.
fn lock<T>(summary: &Mutex<T>) -> MutexGuard<'_, T> {
    summary.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be sampled of the time, if the kernel lets this user.
fn time(args: &ProfileArgs) -> Result<Time> {
    if args.filter.is_some() && !args.event.is_tracepoint() {
        let error = UserError::new("--filter is of tracepoints, and the event is none");
        return Err(error.help("name one: --event syscalls:sys_enter_write, for instance").into());
    }
    let event =
        if args.faults { event::parse("page-faults").map_err(UserError::new)? } else { args.event.clone() };
    let timebase = match args.off_cpu {
        true => event::off_cpu(),
        false => event.timebase(args.every, args.frequency_hz, args.filter.clone()),
    };
    let mut time = Time {
        timebase,
        waits_hz: args.off_cpu.then_some(args.frequency_hz),
        target: args.target(),
        group: None,
        summary: Arc::default(),
    };
    time.gather();
    match ferretto_profile::can_sample(&time.target, &time.config()) {
        Ok(()) => Ok(time),
        Err(refused) => {
            let error = UserError::new(format!("cannot profile: {refused}"));
            Err(match refused.advice() {
                Some(advice) => error.help(advice).into(),
                None => error.into(),
            })
        }
    }
}

impl ProfileArgs {
    fn target(&self) -> Target {
        match self.pid.is_empty() {
            false => Target::Processes(self.pid.clone()),
            true if self.all => Target::Machine,
            // Of the thread that starts the command: this one.
            true => Target::ChildrenOf(rustix::thread::gettid().as_raw_nonzero().get()),
        }
    }
}
