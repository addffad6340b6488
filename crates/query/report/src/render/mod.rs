//! How a document is shown.

mod html;
mod json;
mod terminal;
mod words;

use crate::document::Document;

/// Where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On a terminal that is so many letters wide.
    Terminal(usize),
    /// As a page of its own, which needs nothing else.
    Html,
    /// As an object for programs, on one line.
    Json,
}

/// The document as text.
///
/// Names in it are those of the trace, which is anybody's: they steer no terminal, and are nothing but text in a page.
#[must_use]
pub fn render(document: &Document, form: Form) -> String {
    match form {
        Form::Terminal(width) => terminal::render(document, width),
        Form::Html => html::render(document),
        Form::Json => json::render(document),
    }
}
