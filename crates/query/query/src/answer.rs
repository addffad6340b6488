//! The rows of an answer, a format a file.

mod binary;
mod json;
mod lines;
mod pretty;

use std::io::{self, Write};

use ferretto_analysis::{Cell, Rows};

/// A format.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// It would garble a terminal.
    pub(crate) is_binary: bool,
    pub(crate) write: fn(Rows, &mut dyn Out) -> Result<(), Error>,
}

/// Where rows go.
pub(crate) trait Out: Write + Send {}

impl<T: Write + Send> Out for T {}

/// All formats.
pub(crate) const FORMATS: [Format; 7] = [
    Format { name: "table", doc: "For people", is_binary: false, write: pretty::table },
    Format { name: "csv", doc: "A line a row, with commas between", is_binary: false, write: lines::csv },
    Format { name: "jsonl", doc: "An object a row, a line each", is_binary: false, write: json::lines },
    Format { name: "json", doc: "An array of objects", is_binary: false, write: json::array },
    Format { name: "markdown", doc: "A table for pages", is_binary: false, write: lines::markdown },
    Format {
        name: "arrow",
        doc: "An Arrow IPC stream, for pandas and polars",
        is_binary: true,
        write: binary::arrow,
    },
    Format { name: "parquet", doc: "A Parquet file", is_binary: true, write: binary::parquet },
];

/// Why rows were not written.
#[derive(Debug)]
pub(crate) enum Error {
    /// They could not be made.
    Query(ferretto_analysis::Error),
    Io(io::Error),
    Other(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Query(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<ferretto_analysis::Error> for Error {
    fn from(error: ferretto_analysis::Error) -> Self {
        Self::Query(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A cell as text; nothing for NULL.
fn as_text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Int(value) => value.to_string(),
        Cell::Real(value) => real(value),
        Cell::Text(text) => text.to_owned(),
        Cell::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// With a point or an exponent: it is told from an integer.
fn real(value: f64) -> String {
    format!("{value:?}")
}

/// Names of the columns.
fn names(rows: &Rows) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}
