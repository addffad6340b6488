//! The `ferretto` command: records a Linux machine, and stands in for upstream's programs.
//!
//! One binary, a module a command. Linked or copied as `perfetto`, `traced`, `traced_probes`, `traced_perf`, `heapprofd`, `traced_relay`, `trigger_perfetto`,
//! `websocket_bridge` or `tracebox` it is that program.
#![forbid(unsafe_code)]

mod background;
mod bridge;
mod bundle;
mod config_bytes;
mod config_file;
mod cut;
mod daemons;
mod doctor;
mod flight;
mod info;
mod json;
mod log;
mod losses;
mod merge;
mod no_trace;
mod open;
#[cfg(any(test, feature = "pages"))]
mod pages;
mod perfetto;
mod private;
mod profile;
mod protovm;
mod query;
mod record;
mod report;
mod shut_in;
mod symbolize;
mod tracebox;
mod triggers;
mod units;
mod user;
mod wake;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use crate::daemons::TracedArgs;

/// What a program of another version does not fit.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Printed by every program's `--version`: the version, and what it was built from if that is known (`build.rs`).
pub(crate) const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), env!("FERRETTO_BUILT_FROM"));

/// Records what a Linux machine does into a trace for https://ui.perfetto.dev.
#[derive(Parser, Debug)]
#[command(name = "ferretto", version = BUILD, after_help = EXAMPLES, disable_help_subcommand = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ferretto record -o trace.pftrace -t 5s    five seconds of this machine
  sudo ferretto record                      with the scheduling of all CPUs, until Ctrl-C
  ferretto record -- ./my-program           while a program runs
  ferretto info trace.pftrace               what a trace is, and what fills it
  ferretto perfetto --query                 what a running service offers

Drag the trace into https://ui.perfetto.dev to look at it.";

#[derive(Subcommand, Debug)]
enum Command {
    Record(record::RecordArgs),
    Profile(profile::ProfileArgs),
    Snapshot(flight::SnapshotArgs),
    Info(info::InfoArgs),
    Open(open::OpenArgs),
    Doctor(doctor::DoctorArgs),
    Cut(cut::CutArgs),
    Merge(merge::MergeArgs),
    Symbolize(symbolize::SymbolizeArgs),
    Bundle(bundle::BundleArgs),
    Traced(TracedArgs),
    Probes(daemons::ProbesArgs),
    Perf(daemons::PerfArgs),
    Heap(daemons::HeapArgs),
    Relay(daemons::RelayArgs),
    /// Upstream's command line client, flag for flag: see `ferretto perfetto --help`.
    #[command(disable_help_flag = true)]
    Perfetto {
        /// As of upstream's `perfetto`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Fires triggers of running sessions, as upstream's `trigger_perfetto`.
    #[command(disable_help_flag = true)]
    Trigger {
        /// Names of triggers.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    Bridge(bridge::BridgeArgs),
    Protovm(protovm::ProtovmArgs),
    /// Writes a trace in another format: Parquet, CSV, JSON, pprof, a Perfetto trace, …; see `ferretto convert --help`.
    #[command(disable_help_flag = true)]
    Convert {
        /// As of `ferretto-query convert`, which it runs.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Runs SQL on a trace, or on many, in the language of Perfetto's Trace Processor; see `ferretto query --help`.
    #[command(disable_help_flag = true)]
    Query {
        /// As of `ferretto-query query`, which it runs.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Says why a trace was slow, or what has changed between two; see `ferretto report --help`.
    #[command(disable_help_flag = true)]
    Report {
        /// As of `ferretto-query report`, which it runs.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Answers SQL on a trace over HTTP, for Python's `perfetto` and others; see `ferretto serve --help`.
    #[command(disable_help_flag = true)]
    Serve {
        /// As of `ferretto-query serve`, which it runs.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    #[cfg(any(test, feature = "pages"))]
    #[command(hide = true)]
    Pages(pages::PagesArgs),
}

fn main() -> ExitCode {
    outlive_limits_of_files();
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    match (tracebox::Applet::named(name), args.as_slice()) {
        // Without flags there is nothing to parse, and the parser's pages would be a fifth of the idle daemon's memory.
        (Some(tracebox::Applet::Traced), [_]) => daemons::traced(&TracedArgs::default()),
        (None, [_, command]) if command == "traced" => daemons::traced(&TracedArgs::default()),
        (Some(applet), _) => applet.run(args.get(1..).unwrap_or_default()),
        (None, _) => run(Cli::parse_from(args).command),
    }
}

/// Where files may not become larger (`ulimit -f`, `LimitFSIZE=`) a write is to be an error, not the end of a daemon: what it writes to may be a
/// client's, who has chosen where in it.
fn outlive_limits_of_files() {
    // Refused it is as it was. Programs that are started are not concerned: a handler goes with the program.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Record(args) => {
            log::to_stderr("error");
            record::main(&args)
        }
        Command::Profile(args) => {
            log::to_stderr("error");
            profile::main(&args)
        }
        Command::Snapshot(args) => {
            log::to_stderr("error");
            flight::main(&args)
        }
        Command::Info(args) => info::main(&args),
        Command::Open(args) => open::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Cut(args) => cut::main(&args),
        Command::Merge(args) => merge::main(&args),
        Command::Symbolize(args) => symbolize::main(&args),
        Command::Bundle(args) => bundle::main(&args),
        Command::Traced(args) => return daemons::traced(&args),
        Command::Probes(args) => return daemons::probes(&args),
        Command::Perf(args) => return daemons::perf(&args),
        Command::Heap(args) => return daemons::heap(&args),
        Command::Relay(args) => return daemons::relay(&args),
        Command::Perfetto { args } => return tracebox::Applet::Perfetto.run(&args),
        Command::Bridge(args) => bridge::main(&args),
        Command::Protovm(args) => protovm::main(&args).map(|()| ExitCode::SUCCESS),
        Command::Convert { args } => query::run("convert", &args).map(|()| ExitCode::SUCCESS),
        Command::Query { args } => query::run("query", &args).map(|()| ExitCode::SUCCESS),
        Command::Report { args } => query::run("report", &args).map(|()| ExitCode::SUCCESS),
        Command::Serve { args } => query::run("serve", &args).map(|()| ExitCode::SUCCESS),
        #[cfg(any(test, feature = "pages"))]
        Command::Pages(args) => pages::main(&args),
        Command::Trigger { args } => return tracebox::Applet::Trigger.run(&args),
    };
    result.unwrap_or_else(|error| {
        report::print(&error);
        ExitCode::FAILURE
    })
}

/// One line for `--version`.
pub(crate) fn version() -> String {
    format!("Ferretto v{BUILD}")
}
