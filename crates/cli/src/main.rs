//! The `ferretto` command: records a Linux machine, and stands in for upstream's programs.
//!
//! One binary, a module a command. Linked or copied as `perfetto`, `traced`, `traced_probes`, `traced_relay`, `trigger_perfetto`,
//! `websocket_bridge` or `tracebox` it is that program.
#![forbid(unsafe_code)]

mod background;
mod bridge;
mod config_bytes;
mod config_file;
mod daemons;
mod flight;
mod losses;
mod perfetto;
mod protovm;
mod record;
mod report;
mod tracebox;
mod triggers;
mod units;
mod wake;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::daemons::TracedArgs;

/// Printed by every program's `--version`.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Records what a Linux machine does into a trace for https://ui.perfetto.dev.
#[derive(Parser, Debug)]
#[command(name = "ferretto", version, after_help = EXAMPLES, disable_help_subcommand = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ferretto record -o trace.pftrace -t 5s    five seconds of this machine
  sudo ferretto record                      with the scheduling of all CPUs, until Ctrl-C
  ferretto record -- ./my-program           while a program runs
  ferretto perfetto --query                 what a running service offers

Drag the trace into https://ui.perfetto.dev to look at it.";

#[derive(Subcommand, Debug)]
enum Command {
    Record(record::RecordArgs),
    Snapshot(flight::SnapshotArgs),
    Traced(TracedArgs),
    Probes(daemons::ProbesArgs),
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
}

fn main() -> ExitCode {
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

fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Record(args) => {
            log_to_stderr("error");
            record::main(&args)
        }
        Command::Snapshot(args) => {
            log_to_stderr("error");
            flight::main(&args)
        }
        Command::Traced(args) => return daemons::traced(&args),
        Command::Probes(args) => return daemons::probes(&args),
        Command::Relay(args) => return daemons::relay(&args),
        Command::Perfetto { args } => return tracebox::Applet::Perfetto.run(&args),
        Command::Bridge(args) => bridge::main(&args),
        Command::Protovm(args) => protovm::main(&args).map(|()| ExitCode::SUCCESS),
        Command::Trigger { args } => return tracebox::Applet::Trigger.run(&args),
    };
    result.unwrap_or_else(|error| {
        report::print(&error);
        ExitCode::FAILURE
    })
}

/// The programs' own log. `FERRETTO_LOG=debug`, or a filter such as `ferretto_service=trace`, shows more.
pub(crate) fn log_to_stderr(default: &str) {
    let asked = std::env::var("FERRETTO_LOG").ok();
    // A level or targets with levels: no patterns, whose engine would be a quarter of the binary.
    let filter = asked.as_deref().unwrap_or(default).parse::<Targets>().unwrap_or_else(|error| {
        eprintln!("FERRETTO_LOG is not understood ({error}); expected a level or target=level,…");
        Targets::new().with_default(LevelFilter::WARN)
    });
    // A second call keeps the first log.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let log = tracing_subscriber::registry().with(log.with_filter(filter));
    let _ = log.try_init();
}

/// One line for `--version`.
pub(crate) fn version() -> String {
    format!("Ferretto v{VERSION}")
}
