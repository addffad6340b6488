//! Why a query has no answer.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use sqlparser::tokenizer::Location;

use crate::sql::text::Text;

/// Why a query has no answer, and where in its text.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
    place: Option<Place>,
    help: Option<String>,
}

/// A place in a query's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the line, from 1.
    pub line: u64,
    /// The number of the character in it, from 1.
    pub column: u64,
    /// The line.
    pub text: String,
}

impl Error {
    /// What is wrong, without a place.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: cut(message.into()), place: None, help: None }
    }

    pub(crate) fn at(text: &Text<'_>, place: Location, message: impl Into<String>) -> Self {
        Self::plain(message).with_place(text, place)
    }

    pub(crate) fn with_place(mut self, text: &Text<'_>, place: Location) -> Self {
        // Nothing has no place.
        if place.line > 0 && self.place.is_none() {
            let line = text.line(place).to_owned();
            self.place = Some(Place { line: place.line, column: place.column, text: line });
        }
        self
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(cut(help.into()));
        self
    }

    /// Where in the query it is, if that is known.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What to do about it, if anybody knows.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// Letters of a message: names may have any number.
const MAX_MESSAGE: usize = 500;

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MAX_MESSAGE) {
        text.truncate(at);
        text.push('…');
    }
    text
}

impl Error {
    /// What is wrong, in words.
    pub(crate) fn from_ref(error: &DataFusionError) -> String {
        words(error)
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let said = Self::plain(words(&error));
        match is_of_memory(&error) {
            true => said.with_help("--memory allows more, as in --memory 4G, or Options::memory_bytes"),
            false => said,
        }
    }
}

fn is_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(text) if !is_of_files(text))
}

/// Whether it is temporary files that there is no more room for.
fn is_of_files(text: &str) -> bool {
    text.contains("spilling")
}

impl From<ferretto_import::Error> for Error {
    fn from(error: ferretto_import::Error) -> Self {
        Self::plain(error.to_string())
    }
}

/// What is wrong, without the layers that it came through.
fn words(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Diagnostic(_, below) | DataFusionError::Context(_, below) => words(below),
        DataFusionError::Shared(below) => words(below),
        DataFusionError::Collection(errors) => errors.first().map(words).unwrap_or_default(),
        DataFusionError::SQL(error, _) => error.to_string(),
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, .. } => format!("there is no column {}", field.flat_name()),
            SchemaError::AmbiguousReference { field } => {
                format!("{} is a column of more than one table", field.name)
            }
            other => other.to_string(),
        },
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => text.clone(),
        DataFusionError::NotImplemented(text) => format!("not implemented: {text}"),
        DataFusionError::ArrowError(error, _) => error.to_string(),
        DataFusionError::External(error) => error.to_string(),
        DataFusionError::ResourcesExhausted(text) if is_of_files(text) => {
            "the query needs more than 8 GB of temporary files".to_owned()
        }
        DataFusionError::ResourcesExhausted(_) => "the query needs more memory than it may have".to_owned(),
        other => other.to_string(),
    }
}

/// The column that there is not, and those that there are.
pub(crate) fn missing_column(error: &DataFusionError) -> Option<(String, Vec<String>)> {
    match error {
        DataFusionError::Diagnostic(_, below) | DataFusionError::Context(_, below) => missing_column(below),
        DataFusionError::Shared(below) => missing_column(below),
        DataFusionError::Collection(errors) => errors.iter().find_map(missing_column),
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let names = valid_fields.iter().map(|field| field.name.clone()).collect();
                Some((field.name.clone(), names))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Letters of a name that another may be near to.
const MAX_NAME: usize = 100;

/// Of these names the one that was meant, perhaps.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = name.chars().count() / 3 + 1;
    if far > MAX_NAME / 3 {
        return None;
    }
    let near = names.into_iter().map(|other| (distance(name, other), other));
    near.filter(|(distance, _)| *distance <= far).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How many characters must be put in, left out or changed to make one of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, a) in one.chars().enumerate() {
        let mut line = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let at = |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX - 1);
            let changed = at(&above, column) + usize::from(!a.eq_ignore_ascii_case(b));
            line.push(changed.min(at(&above, column + 1) + 1).min(at(&line, column) + 1));
        }
        above = line;
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_was_perhaps_meant() {
        let names = ["slice", "sched", "thread", "thread_track"];
        assert_eq!(nearest("slcie", names), Some("slice"));
        assert_eq!(nearest("THREADS", names), Some("thread"));
        assert_eq!(nearest("counter", names), None);
    }
}
