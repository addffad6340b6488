//! Errors as people read them: what is wrong, then what to do about it.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

/// Why a command ends.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What is wrong, and advice if there is any.
    Error {
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// Whoever took the output wants no more: `… | head`.
    NobodyListens,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), help: None }
    }

    /// What happened to a file.
    pub(crate) fn of(doing: &str, path: &Path, error: impl Display) -> Self {
        Self::new(format!("cannot {doing} {}: {error}", path.display()))
    }

    pub(crate) fn help(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Error { message, .. } => Self::Error { message, help: Some(advice.into()) },
            other => other,
        }
    }

    /// Prints it.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Error { message, help } => {
                eprintln!("error: {message}");
                if let Some(help) = help {
                    eprintln!("help: {help}");
                }
                ExitCode::FAILURE
            }
            Self::NobodyListens => ExitCode::SUCCESS,
        }
    }
}
