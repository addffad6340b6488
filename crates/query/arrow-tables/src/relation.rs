//! A table, or a view over one.
//!
//! A relation copies nothing: it says which rows of which columns it consists of, and answers cell by cell.

use ferretto_trace_tables::column::ColumnData;
use ferretto_trace_tables::{Kind, Str, Strings, Table, Value};

/// Rows and columns under a name.
#[derive(Clone)]
pub struct Relation<'a> {
    name: &'static str,
    doc: &'static str,
    rows: Rows,
    columns: Vec<Column<'a>>,
    strings: &'a Strings,
}

/// Which rows of the table below.
#[derive(Clone)]
enum Rows {
    All(usize),
    /// These, in this order.
    Picked(Vec<u32>),
}

/// A column of a relation.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    /// Its name in SQL.
    pub name: &'static str,
    /// What stands in it.
    pub doc: &'static str,
    source: Source<'a>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    /// The number of the row in the table below.
    RowNumber,
    Cells(&'a dyn ColumnData),
}

impl<'a> Relation<'a> {
    /// A table with the number of its rows, `id`, as its first column.
    #[must_use]
    pub fn of_table(table: &'a dyn Table, strings: &'a Strings) -> Self {
        let mut columns = vec![Column::row_number("id", "The number of this row.")];
        columns.extend(table.columns().into_iter().map(|column| Column {
            name: column.name,
            doc: column.doc,
            source: Source::Cells(column.data),
        }));
        Self { name: table.name(), doc: table.doc(), rows: Rows::All(table.len()), columns, strings }
    }

    /// The same columns of these rows of its table, in this order.
    #[must_use]
    pub fn with_rows(self, rows: Vec<u32>) -> Self {
        Self { rows: Rows::Picked(rows), ..self }
    }

    /// Its name in SQL.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What its rows are.
    #[must_use]
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    /// How many rows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::All(len) => *len,
            Rows::Picked(rows) => rows.len(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its columns, in their order.
    #[must_use]
    pub fn columns(&self) -> &[Column<'a>] {
        &self.columns
    }

    /// The cell of a column of this relation.
    #[inline]
    #[must_use]
    pub fn cell(&self, column: &Column<'_>, row: usize) -> Value {
        let row = match &self.rows {
            Rows::All(_) => row,
            Rows::Picked(rows) => match rows.as_slice().get(row) {
                Some(row) => *row as usize,
                None => return Value::Null,
            },
        };
        column.source.get(row)
    }

    /// A text of its cells.
    #[must_use]
    pub fn text(&self, text: Str) -> &'a str {
        self.strings.get(text)
    }
}

impl Column<'_> {
    pub(crate) const fn row_number(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, source: Source::RowNumber }
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.source {
            Source::RowNumber => Kind::Int,
            Source::Cells(data) => data.kind(),
        }
    }

    /// Whether cells may be empty.
    #[must_use]
    pub fn may_be_null(&self) -> bool {
        match self.source {
            Source::RowNumber => false,
            Source::Cells(data) => data.may_be_null(),
        }
    }
}

impl Source<'_> {
    #[inline]
    fn get(self, row: usize) -> Value {
        match self {
            Self::RowNumber => Value::Int(i64::try_from(row).unwrap_or(i64::MAX)),
            Self::Cells(data) => data.get(row),
        }
    }
}

impl std::fmt::Debug for Relation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relation").field("name", &self.name).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column").field("name", &self.name).field("kind", &self.kind()).finish_non_exhaustive()
    }
}
