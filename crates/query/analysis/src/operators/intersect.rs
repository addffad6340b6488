//! Where spans of several tables overlap: `_interval_intersect!`.
//!
//! Each table is sorted by partition and time and swept through once with what came out before. Spans of one table may overlap each other. A
//! span of no length is a point: in a span that it does not end, and in a point at the same time.

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{Result, exec_err};

use crate::limits::Held;
use crate::operators::keys::{Keys, boxed, fields, names, sorted};
use crate::operators::whole::{Operator, int_column, int_field};

/// Rows by which memory is asked for.
const STEP: usize = 1 << 16;

/// The operator, with the columns that tables are partitioned by. Inputs have `id`, `ts`, `dur` and these; rows have `ts`, `dur`, `id_0`,
/// `id_1`…, and these.
#[derive(Debug)]
pub(crate) struct Intersect {
    by: Vec<String>,
}

impl Intersect {
    pub(crate) fn by(list: &str) -> Self {
        Self { by: names(list) }
    }
}

impl Operator for Intersect {
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>> {
        let mut out = vec![int_field("ts"), int_field("dur")];
        out.extend((0..inputs.len()).map(|at| int_field(format!("id_{at}"))));
        out.extend(fields(&self.by, inputs)?);
        Ok(out)
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let schemas: Vec<SchemaRef> = inputs.iter().map(RecordBatch::schema).collect();
        let mut keys = Keys::by(fields(&self.by, &schemas)?)?;
        let tables = inputs.iter().map(|batch| Table::read(batch, &mut keys)).collect::<Result<Vec<_>>>()?;
        let mut out = Overlaps { ids: vec![Vec::new(); tables.len()], ..Overlaps::default() };
        let width = tables.len() * 8 + 24;
        for part in 0..keys.len() {
            let mut tables =
                tables.iter().map(|table| table.parts.get(part).map(Vec::as_slice).unwrap_or_default());
            let first = tables.next().unwrap_or_default();
            let first = first.iter().map(|span| Piece { ts: span.ts, end: span.end, ids: vec![span.id] });
            let found = tables.try_fold(first.collect::<Vec<_>>(), |found, next| {
                let mut both = Vec::new();
                sweep(&found, next, held, width, &mut both)?;
                Ok::<_, datafusion::error::DataFusionError>(both)
            })?;
            out.add(part, found);
        }
        let mut arrays = vec![boxed(Int64Array::from(out.ts)), boxed(Int64Array::from(out.dur))];
        arrays.extend(out.ids.into_iter().map(|ids| boxed(Int64Array::from(ids))));
        arrays.extend(keys.values(&out.parts)?);
        Ok(arrays)
    }
}

#[derive(Default)]
struct Overlaps {
    ts: Vec<i64>,
    dur: Vec<i64>,
    ids: Vec<Vec<Option<i64>>>,
    parts: Vec<usize>,
}

impl Overlaps {
    fn add(&mut self, part: usize, found: Vec<Piece>) {
        for piece in found {
            self.ts.push(piece.ts);
            self.dur.push(piece.end.saturating_sub(piece.ts));
            self.parts.push(part);
            self.ids.iter_mut().zip(piece.ids).for_each(|(ids, id)| ids.push(id));
        }
    }
}

/// A span of a table.
#[derive(Clone, Copy, Debug)]
struct Span {
    ts: i64,
    end: i64,
    id: Option<i64>,
}

/// A span in which all tables so far have one.
#[derive(Clone, Debug)]
struct Piece {
    ts: i64,
    end: i64,
    ids: Vec<Option<i64>>,
}

/// A table's spans by partition, sorted.
struct Table {
    parts: Vec<Vec<Span>>,
}

impl Table {
    fn read(batch: &RecordBatch, keys: &mut Keys) -> Result<Self> {
        let (id, ts, dur) = (int_column(batch, "id")?, int_column(batch, "ts")?, int_column(batch, "dur")?);
        Self::of(&id, &ts, &dur, &keys.of(batch)?)
    }

    fn of(id: &Int64Array, ts: &Int64Array, dur: &Int64Array, keys: &[Option<usize>]) -> Result<Self> {
        let mut parts = vec![Vec::new(); keys.iter().flatten().max().map_or(0, |part| part + 1)];
        for (part, row) in sorted(keys, |row| ts.value(row)) {
            // What has no time is nowhere.
            if ts.is_null(row) || dur.is_null(row) {
                continue;
            }
            if dur.value(row) < 0 {
                return exec_err!(
                    "spans that are intersected have no negative duration, and one has {}",
                    dur.value(row)
                );
            }
            let id = (!id.is_null(row)).then(|| id.value(row));
            let span = Span { ts: ts.value(row), end: ts.value(row).saturating_add(dur.value(row)), id };
            parts.iter_mut().skip(part).take(1).for_each(|it: &mut Vec<Span>| it.push(span));
        }
        Ok(Self { parts })
    }
}

/// All overlaps of two sorted lists, in the order in which they begin.
fn sweep(lefts: &[Piece], rights: &[Span], held: &Held, width: usize, out: &mut Vec<Piece>) -> Result<()> {
    let (mut left, mut right) = (lefts.iter().peekable(), rights.iter().peekable());
    let (mut open_left, mut open_right): (Vec<&Piece>, Vec<&Span>) = (Vec::new(), Vec::new());
    loop {
        let is_left = match (left.peek(), right.peek()) {
            (Some(one), Some(other)) => one.ts <= other.ts,
            (Some(_), None) => !open_right.is_empty(),
            (None, Some(_)) => false,
            (None, None) => return Ok(()),
        };
        let before = out.len();
        if is_left {
            let Some(one) = left.next() else { return Ok(()) };
            open_right.retain(|other| is_open(other.ts, other.end, one.ts));
            out.extend(open_right.iter().map(|other| both(one, other)));
            open_left.push(one);
        } else {
            let Some(other) = right.next() else { return Ok(()) };
            open_left.retain(|one| is_open(one.ts, one.end, other.ts));
            out.extend(open_left.iter().map(|one| both(one, other)));
            open_right.push(other);
        }
        if before / STEP != out.len() / STEP {
            held.try_grow((out.len() / STEP - before / STEP) * STEP * 2 * width)?;
        }
    }
}

/// Whether a span that began before a time, or at it, is not over then.
fn is_open(ts: i64, end: i64, now: i64) -> bool {
    end > now || ts == now
}

fn both(one: &Piece, other: &Span) -> Piece {
    let ids = one.ids.iter().copied().chain([other.id]).collect();
    Piece { ts: one.ts.max(other.ts), end: one.end.min(other.end), ids }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    /// Each with each, as slowly as it is plain.
    fn plain(a: &[[i64; 3]], b: &[[i64; 3]]) -> Vec<[i64; 4]> {
        let mut out = Vec::new();
        for [id, ts, dur] in a {
            for [other, from, len] in b {
                let (start, end) = (*ts.max(from), (ts + dur).min(from + len));
                let is_point_in = |at: &i64, from: &i64, len: &i64| at >= from && at < &(from + len.max(&1));
                let overlap = match (dur, len) {
                    (0, _) => is_point_in(ts, from, len),
                    (_, 0) => is_point_in(from, ts, dur),
                    _ => start < end,
                };
                out.extend(overlap.then_some([start, end - start, *id, *other]));
            }
        }
        out.sort();
        out
    }

    #[test]
    fn overlaps_are_those_of_each_with_each() {
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((random >> 33) % below) as i64
        };
        for _ in 0..200 {
            let mut list = || (0..next(7)).map(|id| [id, next(12), next(5)]).collect::<Vec<_>>();
            let (a, b) = (list(), list());
            let input = |list: &[[i64; 3]]| {
                table(&["id", "ts", "dur"], &list.iter().map(|row| row.as_slice()).collect::<Vec<_>>())
            };
            let found = rows(&Intersect::by("()"), &[input(&a), input(&b)]);
            let mut found: Vec<Vec<i64>> =
                found.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
            found.sort();
            assert_eq!(found, plain(&a, &b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn partitions_are_apart_and_three_tables_are_one_behind_the_other() {
        let names = &["id", "ts", "dur", "cpu"];
        let a = table(names, &[&[0, 0, 10, 1], &[1, 5, 10, 2]]);
        let b = table(names, &[&[7, 2, 10, 1], &[8, 2, 10, 3]]);
        let c = table(names, &[&[9, 0, 4, 1]]);
        let found = rows(&Intersect::by("(cpu)"), &[a, b, c]);
        assert_eq!(found, [[2, 2, 0, 7, 9, 1].map(Some)]);
    }
}
