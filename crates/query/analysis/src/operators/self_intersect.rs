//! Spans of one table, cut wherever one of them begins or ends: `interval_self_intersect!`.

use std::collections::BTreeSet;

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, input, int_column, int_field};

/// Rows by which memory is asked for.
const STEP: usize = 1 << 16;

/// The operator: of `id`, `ts` and `dur`, a row for each span at each time at which one begins or ends, until the next one. Those times are
/// numbered from 1 by `group_id`. A span that ends there has a row, too, which says so.
#[derive(Debug)]
pub(crate) struct SelfIntersect;

impl Operator for SelfIntersect {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["ts", "dur", "group_id", "id", "interval_ends_at_ts"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        let (id, ts, dur) = (int_column(batch, "id")?, int_column(batch, "ts")?, int_column(batch, "dur")?);
        held.try_grow(batch.num_rows() * 4 * size_of::<(i64, bool, usize)>())?;
        // Times, whether a span begins there, and its row.
        let mut events = Vec::new();
        for row in (0..batch.num_rows()).filter(|row| !ts.is_null(*row) && !dur.is_null(*row)) {
            events.push((ts.value(row), true, row));
            events.push((ts.value(row).saturating_add(dur.value(row)), false, row));
        }
        events.sort_unstable();
        let groups: Vec<_> = events.chunk_by(|one, other| one.0 == other.0).collect();
        let mut open = BTreeSet::new();
        let mut out: Vec<[Option<i64>; 5]> = Vec::new();
        let mut counted = 0;
        for (at, group) in groups.iter().enumerate() {
            let now = group.first().map(|event| event.0).unwrap_or_default();
            let next = groups.get(at + 1).and_then(|group| group.first()).map_or(now, |event| event.0);
            let mut add = |row: usize, ends: bool| {
                let id = (!id.is_null(row)).then(|| id.value(row));
                let number = i64::try_from(at + 1).ok();
                out.push([Some(now), Some(next.saturating_sub(now)), number, id, Some(i64::from(ends))]);
            };
            for (_, begins, row) in group.iter() {
                if *begins {
                    open.insert(*row)
                } else {
                    open.remove(row)
                };
            }
            // A span of no length has begun and ended.
            let ended = group.iter().filter(|event| !event.1).map(|event| event.2);
            ended.for_each(|row| {
                open.remove(&row);
                add(row, true);
            });
            open.iter().for_each(|row| add(*row, false));
            while counted + STEP <= out.len() {
                counted += STEP;
                held.try_grow(STEP * 3 * size_of::<[Option<i64>; 5]>())?;
            }
        }
        let column =
            |at: usize| boxed(out.iter().map(|row| row.get(at).copied().flatten()).collect::<Int64Array>());
        Ok((0..5).map(column).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    #[test]
    fn spans_are_cut_at_the_ends_of_all() {
        let input = table(&["id", "ts", "dur"], &[&[0, 10, 20], &[1, 20, 25]]);
        let expected = [
            [10, 10, 1, 0, 0],
            [20, 10, 2, 0, 0],
            [20, 10, 2, 1, 0],
            [30, 15, 3, 0, 1],
            [30, 15, 3, 1, 0],
            [45, 0, 4, 1, 1],
        ];
        assert_eq!(rows(&SelfIntersect, &[input]), expected.map(|row| row.map(Some)));
    }
}
