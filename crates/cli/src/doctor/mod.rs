//! `ferretto doctor`: what can be recorded on this machine by this user, what cannot, and what would help.
//!
//! Everything is tried where trying is possible, and nothing is changed.

mod checks;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use ferretto_printable::printable;

use crate::json::Json;
use crate::report;

/// Says what can be recorded on this machine by this user, what cannot, and which command would change that.
///
/// Tries kernel events, data sources, samples, clocks, space, and whether a tracing service runs. Changes nothing.
/// The exit status is 0, also where something is missing; 1 if nothing can be recorded at all.
#[derive(clap::Args, Debug)]
pub(crate) struct DoctorArgs {
    /// For programs: an object with `checks`, each with `about`, `state` (ok, partly, missing), `says` and, if something helps, `cure`.
    #[arg(long)]
    json: bool,
}

/// How it is with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    Partly,
    Missing,
}

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    about: &'static str,
    state: State,
    says: String,
    cure: Option<String>,
}

impl Check {
    fn ok(about: &'static str, says: impl Into<String>) -> Self {
        Self { about, state: State::Ok, says: says.into(), cure: None }
    }

    fn partly(about: &'static str, says: impl Into<String>) -> Self {
        Self { state: State::Partly, ..Self::ok(about, says) }
    }

    fn missing(about: &'static str, says: impl Into<String>) -> Self {
        Self { state: State::Missing, ..Self::ok(about, says) }
    }

    fn cure(mut self, cure: Option<impl Into<String>>) -> Self {
        self.cure = cure.map(Into::into);
        self
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Partly => "partly",
            Self::Missing => "missing",
        })
    }
}

/// Looks, and says what was found.
pub(crate) fn main(args: &DoctorArgs) -> Result<ExitCode> {
    let checks = checks::all();
    report::say(&if args.json { format!("{}\n", json(&checks)) } else { text(&checks) })?;
    let records = checks.iter().any(|check| check.about == checks::SOURCES && check.state != State::Missing);
    Ok(if records { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for each, and another one for what helps.
fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.about.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Check { about, state, says, cure } in checks {
        // Into a string nothing fails.
        let _ = writeln!(text, "{state:<8} {about:<width$}  {}", printable(says));
        if let Some(cure) = cure {
            let _ = writeln!(text, "{:<8} {:<width$}  cure: {}", "", "", printable(cure));
        }
    }
    let count = |wanted| checks.iter().filter(|check| check.state == wanted).count();
    let _ = match (count(State::Partly), count(State::Missing)) {
        (0, 0) => writeln!(text, "\nAll is there."),
        (partly, missing) => writeln!(text, "\n{partly} partly there, {missing} missing."),
    };
    text
}

fn json(checks: &[Check]) -> Json {
    let check = |Check { about, state, says, cure }: &Check| {
        Json::Object(vec![
            ("about", Json::Text((*about).to_owned())),
            ("state", Json::Text(state.to_string())),
            ("says", Json::Text(says.clone())),
            ("cure", cure.clone().map_or(Json::Null, Json::Text)),
        ])
    };
    Json::Object(vec![("checks", Json::List(checks.iter().map(check).collect()))])
}
