//! Values of counters as spans: `counter_leading_intervals!`.

use arrow::array::{Array as _, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::Result;

use crate::functions::text::reals;
use crate::limits::Held;
use crate::operators::keys::{boxed, sorted};
use crate::operators::whole::{Operator, column, input, int_column, int_field};

/// The operator: of `id`, `ts`, `track_id` and `value`, and of a second table with `ts`, the end of the trace, spans in which a value stays.
///
/// Of equal values behind each other there are no more than three spans: the first one's, one of all between, and the last one's, if another value
/// comes.
#[derive(Debug)]
pub(crate) struct Intervals;

impl Operator for Intervals {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        let ints = ["id", "ts", "dur", "track_id"].map(int_field);
        let reals =
            ["value", "next_value", "delta_value"].map(|name| Field::new(name, DataType::Float64, true));
        Ok(ints.into_iter().chain(reals).collect())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        let of = |name| int_column(batch, name);
        let (id, ts, track, value) = (of("id")?, of("ts")?, of("track_id")?, reals(column(batch, "value")?)?);
        let end = int_column(input(inputs, 1)?, "ts")?;
        let end = end.iter().next().flatten().unwrap_or_default();
        held.try_grow(batch.num_rows() * 2 * size_of::<Row>())?;
        // Tracks as they come first.
        let mut numbers = std::collections::HashMap::new();
        let mut of_track = |row: usize| {
            let next = numbers.len();
            (!track.is_null(row) && !ts.is_null(row))
                .then(|| *numbers.entry(track.value(row)).or_insert(next))
        };
        let parts: Vec<_> = (0..batch.num_rows()).map(&mut of_track).collect();
        let mut out: Vec<Row> = Vec::new();
        let places = sorted(&parts, |row| ts.value(row));
        for part in places.chunk_by(|one, other| one.0 == other.0) {
            let points = part.iter().map(|(_, row)| (*row, ts.value(*row), value.value(*row)));
            spans(&points.collect::<Vec<_>>(), end, &mut out);
        }
        let rows = |value: fn(&Row) -> Option<f64>| boxed(out.iter().map(value).collect::<Float64Array>());
        let ints = |from: &Int64Array| {
            boxed(
                out.iter()
                    .map(|it| (!from.is_null(it.row)).then(|| from.value(it.row)))
                    .collect::<Int64Array>(),
            )
        };
        Ok(vec![
            ints(&id),
            ints(&ts),
            boxed(out.iter().map(|it| Some(it.dur)).collect::<Int64Array>()),
            ints(&track),
            rows(|it| Some(it.value)),
            rows(|it| it.next),
            rows(|it| it.delta),
        ])
    }
}

struct Row {
    row: usize,
    dur: i64,
    value: f64,
    next: Option<f64>,
    delta: Option<f64>,
}

/// The spans of a track's values: rows, times, values.
fn spans(points: &[(usize, i64, f64)], end: i64, out: &mut Vec<Row>) {
    let mut last = None;
    let mut runs = points.chunk_by(|one, other| one.2 == other.2).peekable();
    while let Some(run) = runs.next() {
        let kept = match run {
            [first, second, .., last] if runs.peek().is_some() => vec![*first, *second, *last],
            run => run.iter().take(2).copied().collect(),
        };
        for (row, ts, value) in kept {
            let mut delta = None;
            // What comes before ends here.
            if let Some((before, from)) = last.replace((out.len(), ts))
                && let Some(before) = out.get_mut(before)
            {
                let before: &mut Row = before;
                (before.dur, before.next) = (ts.saturating_sub(from), Some(value));
                delta = Some(value - before.value);
            }
            out.push(Row { row, dur: end.saturating_sub(ts), value, next: None, delta });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_values_there_are_three_spans() {
        let mut out = Vec::new();
        let points = [5.0, 7.0, 7.0, 7.0, 7.0, 8.0, 9.0, 9.0, 9.0];
        let points: Vec<_> = points.iter().zip(0..).map(|(value, at)| (at, at as i64 * 10, *value)).collect();
        spans(&points, 100, &mut out);
        let found: Vec<_> = out.iter().map(|it| (it.row, it.dur, it.next, it.delta)).collect();
        assert_eq!(
            found,
            [
                (0, 10, Some(7.0), None),
                (1, 10, Some(7.0), Some(2.0)),
                (2, 20, Some(7.0), Some(0.0)),
                (4, 10, Some(8.0), Some(0.0)),
                (5, 10, Some(9.0), Some(1.0)),
                (6, 10, Some(9.0), Some(1.0)),
                (7, 30, None, Some(0.0)),
            ]
        );
    }
}
