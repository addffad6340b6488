//! What a report is, wherever it is shown: sections of tables and pictures.

use crate::pictures::Picture;

/// A report.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// What is worth knowing first: a label, and what there is to say.
    pub glance: Vec<(&'static str, String)>,
    /// One behind the other.
    pub sections: Vec<Section>,
}

/// What is told of one matter.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its name for programs.
    pub key: &'static str,
    /// Its heading.
    pub title: String,
    /// Why there is nothing to tell, and what to record: then there is nothing else.
    pub absent: Option<String>,
    /// Lines below the heading.
    pub notes: Vec<String>,
    /// Pictures, which a terminal leaves out.
    pub(crate) pictures: Vec<Picture>,
    /// Figures.
    pub table: Option<Table>,
}

impl Section {
    /// One of which there is nothing to tell.
    pub(crate) fn absent(key: &'static str, title: &str, why: impl Into<String>) -> Self {
        Self { key, title: title.to_owned(), absent: Some(why.into()), ..Self::default() }
    }

    pub(crate) fn of(key: &'static str, title: &str, table: Table) -> Self {
        Self { key, title: title.to_owned(), table: Some(table), ..Self::default() }
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its columns: a name for programs, and a heading.
    pub columns: Vec<(&'static str, &'static str)>,
    /// Its rows, each of as many values as there are columns.
    pub rows: Vec<Vec<Value>>,
    /// Rows that did not find room.
    pub left_out: usize,
}

impl Table {
    /// The first rows of some.
    pub(crate) fn first<T>(
        columns: &[(&'static str, &'static str)],
        rows: &[T],
        shown: usize,
        row: impl Fn(&T) -> Vec<Value>,
    ) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: rows.iter().take(shown).map(row).collect(),
            left_out: rows.len().saturating_sub(shown),
        }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing is known.
    Nothing,
    /// A name, or words.
    Text(String),
    /// How many.
    Count(i64),
    /// Nanoseconds.
    Time(i64),
    /// Nanoseconds from the begin of the trace.
    When(i64),
    /// Bytes.
    Bytes(i64),
    /// A part of a whole, which is 1.
    Share(f64),
    /// A value of a counter, in whatever unit it is.
    Number(f64),
    /// Values over time, which stand in equal distances.
    Course(Vec<f64>),
    /// A value in two traces.
    Both(Unit, Option<f64>, Option<f64>),
    /// What became of it.
    Change(Unit, Option<f64>, Option<f64>),
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Things.
    Count,
    /// Whatever a counter counts.
    Number,
}

impl Value {
    /// Of a name.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Whether it is read from its last digit on.
    pub(crate) const fn is_number(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Text(_) | Self::Course(_))
    }
}
