//! Spans that overlap each other, counted and made one, by partition.

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::keys::{Keys, boxed, fields, sorted};
use crate::operators::whole::{Operator, input, int_column, int_field};

/// How many spans there are at a time, from each time at which the number changes: of `ts`, `dur` and columns to partition by, `ts`, `value`
/// and these. A span of the duration -1 does not end.
#[derive(Debug)]
pub(crate) struct Count;

/// Spans that overlap or touch each other made one: of `ts`, `dur` and columns to partition by, the same. Spans of a negative duration are
/// left out.
#[derive(Debug)]
pub(crate) struct Merge;

/// What is neither `ts` nor `dur`.
fn others(inputs: &[SchemaRef]) -> Result<Vec<Field>> {
    let schema = input(inputs, 0)?;
    let names = schema.fields().iter().map(|field| field.name().clone());
    let names: Vec<String> = names.filter(|name| name != "ts" && name != "dur").collect();
    fields(&names, inputs)
}

impl Operator for Count {
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok([int_field("ts"), int_field("value")].into_iter().chain(others(inputs)?).collect())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        let mut keys = Keys::by(others(&[batch.schema()])?)?;
        let parts = keys.of(batch)?;
        let places = keys.order();
        let (ts, dur) = (int_column(batch, "ts")?, int_column(batch, "dur")?);
        held.try_grow(batch.num_rows() * 2 * size_of::<(i64, usize, usize, i64)>())?;
        // Time, place of the partition among all, its number, and one more or one less.
        let mut changes = Vec::new();
        for (row, part) in parts.into_iter().enumerate() {
            let Some(part) = part.filter(|_| !ts.is_null(row)) else { continue };
            let place = places.get(part).copied().unwrap_or_default();
            changes.push((ts.value(row), place, part, 1));
            if !dur.is_null(row) && dur.value(row) != -1 {
                changes.push((ts.value(row).saturating_add(dur.value(row)), place, part, -1));
            }
        }
        changes.sort_unstable();
        let mut open = vec![0i64; keys.len()];
        let mut rows: (Vec<i64>, Vec<i64>, Vec<usize>) = Default::default();
        for at in changes.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let Some((time, _, part, _)) = at.first() else { continue };
            let Some(count) = open.get_mut(*part) else { continue };
            *count += at.iter().map(|change| change.3).sum::<i64>();
            rows.0.push(*time);
            rows.1.push(*count);
            rows.2.push(*part);
        }
        let mut arrays = vec![boxed(Int64Array::from(rows.0)), boxed(Int64Array::from(rows.1))];
        arrays.extend(keys.values(&rows.2)?);
        Ok(arrays)
    }
}

impl Operator for Merge {
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok([int_field("ts"), int_field("dur")].into_iter().chain(others(inputs)?).collect())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        let mut keys = Keys::by(others(&[batch.schema()])?)?;
        let (ts, dur) = (int_column(batch, "ts")?, int_column(batch, "dur")?);
        let mut parts = keys.of(batch)?;
        let places = keys.order();
        for (row, part) in parts.iter_mut().enumerate() {
            *part = part.filter(|_| !ts.is_null(row) && !dur.is_null(row) && dur.value(row) >= 0);
        }
        held.try_grow(batch.num_rows() * size_of::<(usize, i64, i64)>() * 2)?;
        let mut merged: Vec<(usize, i64, i64)> = Vec::new();
        for (part, row) in sorted(&parts, |row| ts.value(row)) {
            let (from, to) = (ts.value(row), ts.value(row).saturating_add(dur.value(row)));
            match merged.last_mut() {
                Some((last, _, end)) if *last == part && from <= *end => *end = to.max(*end),
                _ => merged.push((part, from, to)),
            }
        }
        merged.sort_by_key(|(part, from, _)| (places.get(*part).copied(), *from));
        let parts: Vec<usize> = merged.iter().map(|(part, ..)| *part).collect();
        let mut arrays = vec![
            boxed(merged.iter().map(|(_, from, _)| Some(*from)).collect::<Int64Array>()),
            boxed(merged.iter().map(|(_, from, to)| Some(to.saturating_sub(*from))).collect::<Int64Array>()),
        ];
        arrays.extend(keys.values(&parts)?);
        Ok(arrays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    #[test]
    fn spans_are_counted_from_each_change() {
        let input = table(&["ts", "dur"], &[&[10, 40], &[20, 10], &[50, -1]]);
        let expected = [[10, 1], [20, 2], [30, 1], [50, 1]].map(|row| row.map(Some));
        assert_eq!(rows(&Count, &[input]), expected);
    }

    #[test]
    fn spans_that_touch_become_one_within_a_partition() {
        let input =
            table(&["ts", "dur", "cpu"], &[&[5, 5, 2], &[0, 4, 1], &[10, 0, 2], &[3, 3, 1], &[7, -1, 1]]);
        assert_eq!(rows(&Merge, &[input]), [[0, 6, 1], [5, 5, 2]].map(|row| row.map(Some)));
    }
}
