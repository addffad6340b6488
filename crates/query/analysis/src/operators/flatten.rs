//! Spans in spans made flat: at each time the innermost one, `_intervals_flatten!`.

use std::collections::BTreeMap;

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, input, int_column, int_field};

/// The operator: of `root_id`, `root_ts`, `root_dur`, and `id`, `parent_id`, `ts`, `dur` of what lies in that root (NULL if nothing does),
/// spans of `root_id`, `id`, `ts` and `dur` that do not overlap within a root. Where nothing lies in a root it is the root itself.
#[derive(Debug)]
pub(crate) struct Flatten;

/// A root, and what begins and ends in it: at a time, if it begins the earliest of those that end last come first, and what is on from then.
#[derive(Default)]
struct Root {
    ts: i64,
    end: i64,
    /// Time, whether something begins then, the end turned round so that the inner ones come last, and the one that is on from then.
    events: Vec<(i64, bool, i64, i64)>,
}

impl Operator for Flatten {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["root_id", "id", "ts", "dur"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        held.try_grow(batch.num_rows() * 4 * size_of::<(i64, bool, i64, i64)>())?;
        let roots = roots(batch)?;
        let mut out: Vec<[i64; 4]> = Vec::new();
        for (root_id, mut root) in roots {
            root.events.sort_unstable();
            let (mut now, mut on) = (root.ts, root_id);
            let ends = [(root.end, false, 0, root_id)];
            for (time, _, _, next) in root.events.into_iter().chain(ends) {
                if time > now {
                    out.push([root_id, on, now, time - now]);
                }
                (now, on) = (now.max(time), next);
            }
        }
        let column = |at: usize| boxed(out.iter().map(|row| row.get(at).copied()).collect::<Int64Array>());
        Ok((0..4).map(column).collect())
    }
}

fn roots(batch: &RecordBatch) -> Result<BTreeMap<i64, Root>> {
    let of = |name| int_column(batch, name);
    let (root_id, root_ts, root_dur) = (of("root_id")?, of("root_ts")?, of("root_dur")?);
    let (id, parent_id, ts, dur) = (of("id")?, of("parent_id")?, of("ts")?, of("dur")?);
    let mut roots: BTreeMap<i64, Root> = BTreeMap::new();
    for row in (0..batch.num_rows()).filter(|row| root_dur.value(*row) > 0 && !root_id.is_null(*row)) {
        let number = root_id.value(row);
        let root = roots.entry(number).or_default();
        root.ts = root_ts.value(row);
        root.end = root.ts.saturating_add(root_dur.value(row));
        if id.is_null(row) || ts.is_null(row) || dur.value(row) <= 0 {
            continue;
        }
        let end = ts.value(row).saturating_add(dur.value(row));
        let outer = if parent_id.is_null(row) { number } else { parent_id.value(row) };
        root.events.push((ts.value(row), true, end.saturating_neg(), id.value(row)));
        root.events.push((end, false, end.saturating_sub(ts.value(row)), outer));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    #[test]
    fn the_innermost_span_is_on() {
        let names = &["root_id", "root_ts", "root_dur", "id", "parent_id", "ts", "dur"];
        let input = table(names, &[&[0, 0, 9, 2, 0, 1, 3], &[0, 0, 9, 7, 2, 1, 1], &[0, 0, 9, 3, 0, 4, 1]]);
        let expected = [[0, 0, 0, 1], [0, 7, 1, 1], [0, 2, 2, 2], [0, 3, 4, 1], [0, 0, 5, 4]];
        assert_eq!(rows(&Flatten, &[input]), expected.map(|row| row.map(Some)));
    }
}
