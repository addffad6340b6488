//! A table, or a view over one.
//!
//! A relation copies nothing but, where it leaves rows out, the numbers of those that it has: it says which rows of which columns it consists
//! of, and answers cell by cell.

use std::ops::Range;

use ferretto_trace_tables::column::ColumnData;
use ferretto_trace_tables::tables::ArgTable;
use ferretto_trace_tables::{Cell, Kind, Run, Str, Strings, Table, Value};

use crate::arg_sets::ArgSets;

/// The table of arguments, and how columns end that have numbers of their sets.
const ARGS: &str = "args";
const ARG_SET: &str = "arg_set_id";

/// Rows and columns under a name.
#[derive(Clone)]
pub struct Relation<'a> {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) rows: Rows,
    pub(crate) columns: Vec<Column<'a>>,
    pub(crate) strings: &'a Strings,
}

/// Which rows of the table below.
#[derive(Clone)]
pub(crate) enum Rows {
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
    /// Whether all of it can be had from the columns beside it: SQL has it, files do not.
    pub is_spare: bool,
    pub(crate) source: Source<'a>,
}

/// Where a column's cells come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The number of the row in the table below.
    RowNumber,
    /// The number of the row here.
    Position,
    Cells(&'a dyn ColumnData),
    /// Of the set of arguments that each row is of, or names, the number in files.
    SetOfRow(&'a [u32]),
    SetOf(&'a dyn ColumnData, &'a [u32]),
    /// The sum of two columns of numbers.
    Sum(&'a dyn ColumnData, &'a dyn ColumnData),
    /// A cell of another table, whose row the first column names.
    Through(&'a dyn ColumnData, &'a dyn ColumnData),
    /// A text among the arguments that the column names.
    Argument {
        set: &'a dyn ColumnData,
        /// Nothing if the trace does not have the key.
        key: Option<Str>,
        args: &'a ArgTable,
    },
}

impl<'a> Relation<'a> {
    /// A table with the number of its rows, `id`, as its first column.
    #[must_use]
    pub fn of_table(table: &'a dyn Table, strings: &'a Strings) -> Self {
        let mut columns = vec![Column {
            name: "id",
            doc: "The number of this row.",
            is_spare: false,
            source: Source::RowNumber,
        }];
        columns.extend(table.columns().into_iter().map(|column| Column {
            name: column.name,
            doc: column.doc,
            is_spare: false,
            source: Source::Cells(column.data),
        }));
        Self { name: table.name(), doc: table.doc(), rows: Rows::All(table.len()), columns, strings }
    }

    /// With the numbers that sets of arguments have in files.
    pub(crate) fn with_arg_sets(mut self, arg_sets: &'a ArgSets) -> Self {
        let numbers = arg_sets.numbers.as_slice();
        let is_args = self.name == ARGS;
        for column in &mut self.columns {
            match column.source {
                Source::RowNumber if is_args => column.source = Source::Position,
                Source::Cells(_) if is_args && column.name == ARG_SET => {
                    *column = Column {
                        doc: "The number of the set.",
                        source: Source::SetOfRow(numbers),
                        ..*column
                    };
                }
                Source::Cells(cells) if column.name.ends_with(ARG_SET) => {
                    column.source = Source::SetOf(cells, numbers);
                }
                _ => {}
            }
        }
        if is_args { self.with_rows(arg_sets.rows.clone()) } else { self }
    }

    /// The same columns of these rows of its table, in this order.
    #[must_use]
    pub fn with_rows(self, rows: Vec<u32>) -> Self {
        Self { rows: Rows::Picked(rows), ..self }
    }

    /// Only these of its columns, by their places, in this order. Places that it does not have are left out.
    #[must_use]
    pub fn with_columns(mut self, columns: &[usize]) -> Self {
        self.columns = columns.iter().filter_map(|at| self.columns.get(*at).copied()).collect();
        self
    }

    /// Without the columns that can be had from those beside them.
    #[must_use]
    pub fn without_spares(mut self) -> Self {
        self.columns.retain(|column| !column.is_spare);
        self
    }

    /// Its rows by the time in `ts`, if it has one. Most tables are so already.
    #[must_use]
    pub fn by_time(self) -> Self {
        let Some(ts) = self.columns.iter().find(|column| column.name == "ts").copied() else { return self };
        let time = |row| match self.cell(&ts, row) {
            Value::Int(ts) => Some(ts),
            _ => None,
        };
        let len = self.len();
        if (1..len).all(|row| time(row - 1) <= time(row)) {
            return self;
        }
        let mut order: Vec<usize> = (0..len).collect();
        // Stable: of rows of one time the earlier stays the earlier.
        order.sort_by_key(|row| time(*row));
        let rows = order.into_iter().filter_map(|row| u32::try_from(self.row_below(row)?).ok()).collect();
        self.with_rows(rows)
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
        match column.source {
            Source::Position => Value::Int(i64::try_from(row).unwrap_or(i64::MAX)),
            source => self.row_below(row).map_or(Value::Null, |row| source.get(row)),
        }
    }

    /// Adds the cells of a column of this relation in these rows, as far as there are such.
    pub(crate) fn read(&self, column: &Column<'_>, rows: Range<usize>, to: &mut Run) {
        match (column.source, &self.rows) {
            (Source::Cells(data), Rows::All(_)) => data.read(rows, to),
            _ => rows.for_each(|row| to.push(self.cell(column, row).bits())),
        }
    }

    /// A text of its cells.
    #[must_use]
    pub fn text(&self, text: Str) -> &'a str {
        self.strings.get(text)
    }

    /// The texts of its cells, and others.
    #[must_use]
    pub fn strings(&self) -> &'a Strings {
        self.strings
    }

    #[inline]
    fn row_below(&self, row: usize) -> Option<usize> {
        match &self.rows {
            Rows::All(_) => Some(row),
            Rows::Picked(rows) => rows.as_slice().get(row).map(|row| *row as usize),
        }
    }
}

impl Column<'_> {
    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.source {
            Source::RowNumber
            | Source::Position
            | Source::SetOfRow(_)
            | Source::SetOf(..)
            | Source::Sum(..) => Kind::Int,
            Source::Cells(data) | Source::Through(_, data) => data.kind(),
            Source::Argument { .. } => Kind::Text,
        }
    }

    /// Whether cells may be empty.
    #[must_use]
    pub fn may_be_null(&self) -> bool {
        match self.source {
            Source::RowNumber | Source::Position | Source::SetOfRow(_) => false,
            Source::Cells(data) | Source::SetOf(data, _) => data.may_be_null(),
            Source::Sum(..) | Source::Through(..) | Source::Argument { .. } => true,
        }
    }
}

impl Source<'_> {
    #[inline]
    fn get(self, row: usize) -> Value {
        match self {
            Self::RowNumber | Self::Position => Value::Int(i64::try_from(row).unwrap_or(i64::MAX)),
            Self::Cells(data) => data.get(row),
            Self::SetOfRow(numbers) => set(numbers, row),
            Self::SetOf(data, numbers) => number(data, row).map_or(Value::Null, |first| set(numbers, first)),
            Self::Sum(one, other) => match (one.get(row), other.get(row)) {
                (Value::Int(one), Value::Int(other)) => Value::Int(one.wrapping_add(other)),
                _ => Value::Null,
            },
            Self::Through(there, data) => number(there, row).map_or(Value::Null, |row| data.get(row)),
            Self::Argument { set, key, args } => {
                let (Some(first), Some(_)) = (number(set, row), key) else { return Value::Null };
                let is_of_set =
                    |row: &usize| args.arg_set_id.get(*row).is_some_and(|set| set.index() == first);
                // A set's number is that of its first row.
                (first..)
                    .take_while(is_of_set)
                    .find(|row| args.key.get(*row) == Some(key))
                    .map_or(Value::Null, |row| args.string_value.at(row).value())
            }
        }
    }
}

/// What a column has in a row, as the number of another row.
fn number(column: &dyn ColumnData, row: usize) -> Option<usize> {
    match column.get(row) {
        Value::Int(number) => usize::try_from(number).ok(),
        _ => None,
    }
}

/// The number in files of the set that a row of `args` is of.
#[inline]
fn set(numbers: &[u32], row: usize) -> Value {
    numbers.get(row).map_or(Value::Null, |number| Value::Int(i64::from(*number)))
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
