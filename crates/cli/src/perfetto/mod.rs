//! `ferretto perfetto …`, or the binary under the name `perfetto`: upstream's command line.

mod args;
mod existing;
mod getopt;
mod light_config;
mod out_file;
mod query;
mod session;
mod snapshots;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use self::args::{Action, Background};

/// What `--is_detached` and a failed `--attach` exit with when there is no such session.
const EXIT_NO_SESSION: u8 = 2;

/// Runs one command line, given without the program's name.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let action = match args::parse(args) {
        Ok(action) => action,
        Err(message) => {
            eprintln!("perfetto: {message}\nTry 'perfetto --help'.");
            return ExitCode::FAILURE;
        }
    };
    run(action).unwrap_or_else(|error| {
        crate::report::print(&error);
        ExitCode::FAILURE
    })
}

fn run(action: Action) -> Result<ExitCode> {
    match action {
        Action::Help => print!("{}", args::USAGE),
        Action::Version => println!("{}", crate::version()),
        Action::ResetGuardrails => eprintln!("perfetto: there are no guardrails to reset on Linux"),
        Action::Query { long, raw } => query::run(long, raw)?,
        Action::IsDetached { key } => return existing::is_detached(&key),
        Action::Attach(attach) => return existing::attach(&attach),
        Action::Clone(request) => return existing::clone(&request),
        Action::Record(record) => return session::run(&record),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a command line needs around it, for `tracebox`.
#[derive(Debug, PartialEq)]
pub(crate) enum Needs {
    Nothing,
    Service,
    /// A service, and to be in the background before it is started.
    Background,
}

/// Looks at a command line without running it.
pub(crate) fn needs(args: &[String]) -> Needs {
    match args::parse(args) {
        Ok(Action::Record(record)) if record.background != Background::No => Needs::Background,
        Ok(Action::Help | Action::Version | Action::ResetGuardrails) | Err(_) => Needs::Nothing,
        Ok(_) => Needs::Service,
    }
}

/// How long the parent of `-D` waits for all data sources.
pub(crate) fn start_timeout(args: &[String]) -> Option<Duration> {
    match args::parse(args) {
        Ok(Action::Record(record)) => session::start_timeout(&record),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_work_needs_a_service() {
        let needs = |line: &str| needs(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(needs("--help"), Needs::Nothing);
        assert_eq!(needs("--nonsense"), Needs::Nothing);
        assert_eq!(needs("--query"), Needs::Service);
        assert_eq!(needs("-t 1s -o f"), Needs::Service);
        assert_eq!(needs("-t 1s -o f -D"), Needs::Background);
    }
}
