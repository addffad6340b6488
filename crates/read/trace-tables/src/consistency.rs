//! Whether tables hang together: what tests and fuzzers ask of any trace, however broken.

use std::fmt;

use crate::column::Value;
use crate::tables::Tables;

/// What does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// The table and its column.
    pub column: String,
    /// The row, if it is about one.
    pub row: Option<usize>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "{} row {row}: {}", self.column, self.what),
            None => write!(f, "{}: {}", self.column, self.what),
        }
    }
}

impl std::error::Error for Inconsistency {}

/// Looks at every cell: columns are as long as their tables, numbers of rows are of rows that there are, texts are in the pool, and parents
/// come before their children.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn check(tables: &Tables) -> Result<(), Inconsistency> {
    for table in tables.all() {
        for column in table.columns() {
            let error = |row, what| {
                Err(Inconsistency { column: format!("{}.{}", table.name(), column.name), row, what })
            };
            if column.data.cells() != table.len() {
                return error(None, format!("{} cells of {} rows", column.data.cells(), table.len()));
            }
            let target = column.data.refers_to().and_then(|name| tables.find(name));
            for row in 0..table.len() {
                match (column.data.get(row), target) {
                    (Value::Int(to), Some(target)) => {
                        let is_there = usize::try_from(to).is_ok_and(|to| to < target.len());
                        if !is_there {
                            return error(Some(row), format!("{to} is no row of {}", target.name()));
                        }
                        if column.name == "parent_id" && usize::try_from(to).is_ok_and(|to| to >= row) {
                            return error(Some(row), format!("its parent {to} does not come before it"));
                        }
                    }
                    (Value::Str(text), _) if text.index() >= tables.strings.len() => {
                        return error(Some(row), "a text that is not in the pool".to_owned());
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SliceId, TrackId};
    use crate::tables::{SliceRow, TrackRow};

    #[test]
    fn what_points_nowhere_is_found() {
        let mut tables = Tables::default();
        tables.slice.push(SliceRow::default());
        assert_eq!(check(&tables).unwrap_err().what, "0 is no row of track");
        tables.track.push(TrackRow::default());
        check(&tables).unwrap();
        tables.slice.push(SliceRow {
            track_id: TrackId(0),
            parent_id: Some(SliceId(1)),
            ..SliceRow::default()
        });
        assert_eq!(
            check(&tables).unwrap_err().to_string(),
            "slice.parent_id row 1: its parent 1 does not come before it"
        );
    }
}
