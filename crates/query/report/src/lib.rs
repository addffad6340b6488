//! Why was this slow? A trace summed up on a page or two, and two traces beside each other.
//!
//! What is asked of a trace are the queries in `questions`, which anybody can run with `ferretto query`. Their rows become sections of a
//! [`Document`]: tables and pictures. A document knows nothing of where it is shown: a terminal, a page, a program.
//!
//! | module | what it does |
//! |---|---|
//! | `questions` | the queries, a file each, and their rows |
//! | `facts` | the rows of all of them, of one trace |
//! | `sections` | what is made of them, a section a file |
//! | `compare` | the same of two traces, by name |
//! | [`document`] | sections, tables, values |
//! | `pictures` | areas, bars, charts and flame graphs in SVG |
//! | `render` | a document on a terminal, as a page, as JSON |
//! | `units`, `names` | times as people read them, names that others have chosen |
//!
//! What a trace has nothing for is left out, and said in a line with what to record.
#![forbid(unsafe_code)]

mod compare;
pub mod document;
mod facts;
mod names;
mod pictures;
mod questions;
mod render;
mod sections;
mod units;

use ferretto_analysis::Trace;

pub use crate::document::Document;
use crate::facts::Facts;
pub use crate::render::{Form, render};

/// How much is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rows of each table.
    pub rows: usize,
    /// Whether pictures are made: a terminal has none, and they take time.
    pub has_pictures: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { rows: 8, has_pictures: false }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A query cannot be run to its end: of memory there is too little.
    #[error(transparent)]
    Query(#[from] ferretto_analysis::Error),
}

/// What a trace is about. `name` is what it is called in the heading.
///
/// # Errors
///
/// If there is too little memory for a query.
pub fn report(name: &str, trace: &Trace, options: &Options) -> Result<Document, Error> {
    let facts = Facts::of(trace, options)?;
    Ok(sections::document(name, &facts, options))
}

/// What has changed from a first trace to a second: what both have by name, sorted by the size of the change, with what is new and what is gone.
///
/// # Errors
///
/// If there is too little memory for a query.
pub fn compare(
    (first_name, first): (&str, &Trace),
    (second_name, second): (&str, &Trace),
    options: &Options,
) -> Result<Document, Error> {
    let of_both = Options { has_pictures: false, ..*options };
    let (first, second) = (Facts::of(first, &of_both)?, Facts::of(second, &of_both)?);
    Ok(compare::document((first_name, &first), (second_name, &second), options))
}
