//! Errors as people read them: what is wrong, then what to do about it.

use std::fmt;

use crate::printable::printable_lines;

/// An error with advice. Printed as `error: …`, then one `help: …` line for each piece of advice.
#[derive(Debug)]
pub(crate) struct UserError {
    message: String,
    help: Vec<String>,
}

impl UserError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: Vec::new() }
    }

    #[must_use]
    pub(crate) fn help(mut self, advice: impl Into<String>) -> Self {
        self.help.push(advice.into());
        self
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UserError {}

/// Prints an error with its causes and advice to stderr.
pub(crate) fn print(error: &anyhow::Error) {
    eprint!("{}", render(error));
}

/// What `print` prints.
pub(crate) fn render(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mut text = format!("error: {}\n", join_causes(&causes));
    // An outermost error that was attached as context is not among the causes as what it is.
    let outermost = error.downcast_ref::<UserError>();
    let inner = error.chain().filter_map(|cause| cause.downcast_ref::<UserError>());
    let mut said: Vec<&str> = Vec::new();
    for advice in outermost.into_iter().chain(inner).flat_map(|error| &error.help) {
        if !said.contains(&advice.as_str()) {
            said.push(advice);
            text.push_str(&format!("help: {advice}\n"));
        }
    }
    printable_lines(&text).into_owned()
}

/// Joins a chain of causes, leaving out those that the one before already quotes.
fn join_causes(causes: &[String]) -> String {
    let mut text = String::new();
    for cause in causes {
        if text.is_empty() {
            text.push_str(cause);
        } else if !text.contains(cause.as_str()) {
            text.push_str(": ");
            text.push_str(cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_error() {
        let inner = UserError::new("permission denied").help("run it as root").help("or look elsewhere");
        let error = anyhow::Error::new(inner).context("cannot write /trace");
        assert_eq!(
            render(&error),
            "error: cannot write /trace: permission denied\nhelp: run it as root\nhelp: or look elsewhere\n"
        );
    }

    #[test]
    fn advice_of_all_levels_is_given_once() {
        let inner = UserError::new("disk full").help("remove something");
        let error = anyhow::Error::new(inner).context(UserError::new("it failed").help("the rest is in x"));
        assert_eq!(
            render(&error),
            "error: it failed: disk full\nhelp: the rest is in x\nhelp: remove something\n"
        );
    }

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let error = anyhow::anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(render(&error), "error: cannot read x: no such file\n");
    }
}
