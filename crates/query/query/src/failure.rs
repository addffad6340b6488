//! Errors as people read them: what is wrong, then what to do about it. Each is one line, whatever the names in it are.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use ferretto_printable::printable;

/// Says what is worth knowing beside.
pub(crate) fn note(text: &str) {
    eprintln!("note: {}", printable(text));
}

/// Why a command ends.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What is wrong, and advice if there is any.
    Error {
        /// What is wrong.
        message: String,
        /// Where that is in a text of the user's: lines to show below.
        place: Vec<String>,
        /// What to do about it.
        help: Option<String>,
    },
    /// Whoever took the output wants no more: `… | head`.
    NobodyListens,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), place: Vec::new(), help: None }
    }

    /// What happened to a file.
    pub(crate) fn of(doing: &str, path: &Path, error: impl Display) -> Self {
        Self::new(format!("cannot {doing} {}: {error}", path.display()))
    }

    pub(crate) fn help(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Error { message, place, .. } => Self::Error { message, place, help: Some(advice.into()) },
            other => other,
        }
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Error { message, .. } => message,
            Self::NobodyListens => "nobody listens",
        }
    }

    /// Shows where it is, in these lines.
    pub(crate) fn place(self, lines: Vec<String>) -> Self {
        match self {
            Self::Error { message, help, .. } => Self::Error { message, place: lines, help },
            other => other,
        }
    }

    /// Prints it.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Error { message, place, help } => {
                eprintln!("error: {}", printable(message));
                place.iter().for_each(|line| eprintln!("{}", printable(line)));
                if let Some(help) = help {
                    eprintln!("help: {}", printable(help));
                }
                ExitCode::FAILURE
            }
            Self::NobodyListens => ExitCode::SUCCESS,
        }
    }
}
