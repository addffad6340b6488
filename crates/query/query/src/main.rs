//! The `ferretto-query` command: what needs Arrow. `ferretto convert`, `query`, `report` and `serve` run it; they are built without.
//!
//! | module | what it does |
//! |---|---|
//! | [`convert`] | `convert`: a trace in another format |
//! | [`query`] | `query`: SQL on a trace, or on many |
//! | [`report`] | `report`: why it was slow, and what has changed |
//! | [`prompt`] | `query -i`: statements one by one |
//! | [`serve`] | `serve`: the same over HTTP |
//! | [`answer`] | the rows of an answer, a format a file |
//! | [`input`] | the trace that a command is about |
//! | [`traces`] | the traces that are meant by folders and patterns |
//! | [`stage`] | outputs, which have no good name before they are whole, and leave nothing behind if they never are |
//! | [`progress`] | one line on a terminal when something takes long |
//! | [`failure`] | errors: what is wrong, then what to do about it |
#![forbid(unsafe_code)]

mod answer;
mod convert;
mod failure;
mod input;
mod kept;
mod progress;
mod prompt;
mod query;
mod report;
mod serve;
mod stage;
mod traces;

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
    Query(query::QueryArgs),
    Report(report::ReportArgs),
    Serve(serve::ServeArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let run = || match &command {
        Command::Convert(args) => convert::main(args),
        Command::Query(args) => query::main(args),
        Command::Report(args) => report::main(args),
        Command::Serve(args) => serve::main(args),
    };
    match stage::watch_signals().and_then(|()| run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
