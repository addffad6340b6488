//! Trees: `tree_structural_partition_by_group!`, and the tables of `std.trees`.

use std::collections::HashMap;

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{Result, exec_err};

use crate::limits::Held;
use crate::operators::keys::{boxed, names};
use crate::operators::whole::{Operator, column, input, int_column, int_field};

/// What a row takes of memory here, about.
const ROW_BYTES: usize = 96;

/// The operator: of `id`, `parent_id` and `group_key` the same, the parent of each being the nearest above it that is of its group.
#[derive(Debug)]
pub(crate) struct Partition;

impl Operator for Partition {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["id", "parent_id", "group_key"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        held.try_grow(batch.num_rows() * ROW_BYTES)?;
        let of = |name| int_column(batch, name);
        let (id, parent, group) = (of("id")?, of("parent_id")?, of("group_key")?);
        let tree = Tree::read(&id, &parent)?;
        // Of each group the ones that are open, the innermost last.
        let mut open: HashMap<Option<i64>, Vec<usize>> = HashMap::new();
        let mut parents = vec![None; batch.num_rows()];
        let key = |row: usize| (!group.is_null(row)).then(|| group.value(row));
        tree.walk(|row, is_begin| {
            let open = open.entry(key(row)).or_default();
            if !is_begin {
                open.pop();
                return;
            }
            parents.iter_mut().skip(row).take(1).for_each(|it| *it = open.last().map(|row| id.value(*row)));
            open.push(row);
        });
        Ok(vec![boxed(id.clone()), boxed(Int64Array::from(parents)), boxed(group.clone())])
    }
}

/// The operator: of `id`, `parent_id` and the columns that it is called with, the same with numbers of rows before them: `_tree_id`,
/// `_tree_parent_id`.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<String>,
}

impl Table {
    pub(crate) fn with(list: &str) -> Self {
        Self { columns: names(list) }
    }
}

impl Operator for Table {
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>> {
        let mut out: Vec<Field> = ["_tree_id", "_tree_parent_id", "id", "parent_id"].map(int_field).into();
        for name in &self.columns {
            out.push(input(inputs, 0)?.field_with_name(name)?.clone());
        }
        Ok(out)
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        held.try_grow(batch.num_rows() * ROW_BYTES)?;
        let (id, parent) = (int_column(batch, "id")?, int_column(batch, "parent_id")?);
        let tree = Tree::read(&id, &parent)?;
        let number = |row: usize| i64::try_from(row).ok();
        let mut arrays = vec![
            boxed((0..batch.num_rows()).map(number).collect::<Int64Array>()),
            boxed(tree.parents.iter().map(|parent| parent.and_then(number)).collect::<Int64Array>()),
            boxed(id),
            boxed(parent),
        ];
        for name in &self.columns {
            arrays.push(column(batch, name)?.clone());
        }
        Ok(arrays)
    }
}

/// Rows and their parents' rows.
struct Tree {
    parents: Vec<Option<usize>>,
}

impl Tree {
    fn read(id: &Int64Array, parent: &Int64Array) -> Result<Self> {
        let mut rows = HashMap::with_capacity(id.len());
        for (row, id) in id.iter().enumerate() {
            let Some(id) = id else { return exec_err!("tree: a row has no id") };
            if rows.insert(id, row).is_some() {
                return exec_err!("tree: duplicate id {id}");
            }
        }
        let mut parents = Vec::with_capacity(id.len());
        for parent in parent {
            match parent.map(|parent| (parent, rows.get(&parent))) {
                Some((parent, None)) => return exec_err!("tree: there is no parent {parent}"),
                Some((_, Some(row))) => parents.push(Some(*row)),
                None => parents.push(None),
            }
        }
        Ok(Self { parents })
    }

    /// Goes through the rows, each before and behind all below it.
    fn walk(&self, mut visit: impl FnMut(usize, bool)) {
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.parents.len()];
        for (row, parent) in self.parents.iter().enumerate() {
            let parent = parent.and_then(|parent| below.get_mut(parent));
            parent.into_iter().for_each(|rows| rows.push(row));
        }
        let roots = self.parents.iter().enumerate().filter(|(_, parent)| parent.is_none());
        let mut todo: Vec<(usize, bool)> = roots.map(|(row, _)| (row, true)).collect();
        todo.reverse();
        while let Some((row, is_begin)) = todo.pop() {
            visit(row, is_begin);
            if is_begin {
                todo.push((row, false));
                let below = below.get(row).map(Vec::as_slice).unwrap_or_default();
                todo.extend(below.iter().rev().map(|row| (*row, true)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    #[test]
    fn the_parent_is_the_nearest_of_the_group() {
        let names = &["id", "parent_id", "group_key"];
        // A root is its own parent's row in no table of integers alone: this tree hangs on one of another group.
        let mut input = table(names, &[&[1, 0, 1], &[2, 1, 2], &[3, 2, 1], &[4, 3, 2]]);
        let parents = Int64Array::from(vec![None, Some(1), Some(2), Some(3)]);
        let mut columns = input.columns().to_vec();
        columns[1] = boxed(parents);
        input = RecordBatch::try_new(input.schema(), columns).unwrap();
        let found: Vec<_> = rows(&Partition, &[input]).into_iter().map(|row| row[1]).collect();
        assert_eq!(found, [None, None, Some(1), Some(2)]);
    }
}
