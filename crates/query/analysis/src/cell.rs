//! The cells of answers.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

/// A cell of an answer, whose columns are of these types and no others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl<'a> Cell<'a> {
    /// The cell of a column of [`Rows`](crate::Rows). NULL, if the column is of another table.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[must_use]
    pub fn of(column: &'a ArrayRef, row: usize) -> Self {
        if column.is_null(row) {
            return Self::Null;
        }
        match column.data_type() {
            DataType::Int64 => Self::Int(column.as_primitive::<Int64Type>().value(row)),
            DataType::Float64 => Self::Real(column.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8View => Self::Text(column.as_string_view().value(row)),
            DataType::Binary => Self::Bytes(column.as_binary::<i32>().value(row)),
            _ => Self::Null,
        }
    }
}
