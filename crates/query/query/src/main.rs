//! The `ferretto-query` command: what needs Arrow. `ferretto convert` runs it, which is built without.
//!
//! | module | what it does |
//! |---|---|
//! | [`convert`] | `convert`: a trace in another format |
//! | [`stage`] | outputs, which have no good name before they are whole, and leave nothing behind if they never are |
//! | [`progress`] | one line on a terminal when something takes long |
//! | [`report`] | errors: what is wrong, then what to do about it |
#![forbid(unsafe_code)]

mod convert;
mod progress;
mod report;
mod stage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Makes something else of traces.
#[derive(Parser, Debug)]
#[command(name = "ferretto-query", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Convert(convert::ConvertArgs),
}

fn main() -> ExitCode {
    let Command::Convert(args) = Cli::parse().command;
    match stage::watch_signals().and_then(|()| convert::main(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
