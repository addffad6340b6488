//! The rows of an answer, a format a file.

mod binary;
mod json;
mod lines;
mod pretty;

use std::io::{self, Write};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use ferretto_analysis::Rows;

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

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl<'a> Cell<'a> {
    fn of(array: &'a ArrayRef, row: usize) -> Self {
        if array.is_null(row) {
            return Self::Null;
        }
        match array.data_type() {
            DataType::Int64 => Self::Int(array.as_primitive::<Int64Type>().value(row)),
            DataType::Float64 => Self::Real(array.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8View => Self::Text(array.as_string_view().value(row)),
            DataType::Binary => Self::Bytes(array.as_binary::<i32>().value(row)),
            // Answers have no other types.
            _ => Self::Null,
        }
    }

    /// As text; nothing for NULL.
    fn text(self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Int(value) => value.to_string(),
            Self::Real(value) => real(value),
            Self::Text(text) => text.to_owned(),
            Self::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
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
