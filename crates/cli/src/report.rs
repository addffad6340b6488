//! Errors as people read them: what is wrong, then what to do about it. Each is one line, whatever the names in it are, so that no file that
//! somebody has named cleverly says something of its own.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};

use ferretto_printable::printable;

/// An error with advice. Printed as `error: …`, then one `help: …` line for each piece of advice.
#[derive(Debug)]
pub(crate) struct UserError {
    message: String,
    picture: String,
    help: Vec<String>,
}

impl UserError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), picture: String::new(), help: Vec::new() }
    }

    /// Lines that show the place, to stand below the message. Each begins with a space.
    #[must_use]
    pub(crate) fn picture(mut self, lines: impl Into<String>) -> Self {
        self.picture = lines.into();
        self
    }

    #[must_use]
    pub(crate) fn help(mut self, advice: impl Into<String>) -> Self {
        self.help.push(advice.into());
        self
    }

    /// What helps, if anything does.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.help.first().map(String::as_str)
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.message))?;
        for line in self.picture.lines() {
            // Tabs are beside tabs, so that what is below something stays there.
            let parts: Vec<_> = line.split('\t').map(printable).collect();
            write!(f, "\n{}", parts.join("\t"))?;
        }
        Ok(())
    }
}

impl Error for UserError {}

/// Prints what was asked for. Whoever reads may have seen enough.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints an error with its causes and advice to stderr.
pub(crate) fn print(error: &anyhow::Error) {
    eprint!("{}", render(error));
}

/// What `print` prints.
pub(crate) fn render(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(words).collect();
    let mut text = format!("error: {}\n", join_causes(&causes));
    // An outermost error that was attached as context is not among the causes as what it is.
    let outermost = error.downcast_ref::<UserError>();
    let inner = error.chain().filter_map(|cause| cause.downcast_ref::<UserError>());
    let mut said: Vec<&str> = Vec::new();
    for advice in outermost.into_iter().chain(inner).flat_map(|error| &error.help) {
        if !said.contains(&advice.as_str()) {
            said.push(advice);
            text.push_str(&format!("help: {}\n", printable(advice)));
        }
    }
    text
}

/// What one of several causes says.
fn words(cause: &(dyn Error + 'static)) -> String {
    match cause.is::<UserError>() {
        true => cause.to_string(),
        false => printable(&cause.to_string()).into_owned(),
    }
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

    #[test]
    fn names_of_files_say_nothing_of_their_own() {
        let name = "/tmp/t\nLost: \u{1b}[31mforged";
        let user_error = || UserError::new(format!("cannot write {name}")).help(format!("remove {name}"));
        let shown = "/tmp/t\\nLost: \\u{1b}[31mforged";
        for error in [user_error().into(), anyhow::Error::new(user_error()).context(name)] {
            let said = render(&error);
            assert!(said.ends_with(&format!("cannot write {shown}\nhelp: remove {shown}\n")), "{said}");
            assert_eq!(said.lines().count(), 2, "{said}");
        }
        let said = render(&anyhow::anyhow!("no such file").context(user_error()));
        assert_eq!(said, format!("error: cannot write {shown}: no such file\nhelp: remove {shown}\n"));
        let pictured = UserError::new(name).picture(" 1 | bad\u{7}\n   | ^");
        assert_eq!(render(&pictured.into()), format!("error: {shown}\n 1 | bad\\u{{7}}\n   | ^\n"));
    }
}
