//! Spans made whole from the beginning of the trace to its end: `_intervals_fill_gaps!`.

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::keys::{Keys, boxed, names, sorted};
use crate::operators::whole::{Operator, input, int_column, int_field};

/// The operator. Its first table has `ts`, `dur`, the columns of groups, and others; the second `ts` and `dur` of the trace. Rows have the same
/// columns; where a group has no span there is one whose other columns are NULL. A row without a time says that its group is there.
#[derive(Debug)]
pub(crate) struct FillGaps {
    /// Columns of groups.
    groups: usize,
}

/// A span: of the row, or of nothing in a group that has this one.
struct Filled {
    ts: i64,
    dur: i64,
    group: Option<usize>,
    row: Option<usize>,
}

impl FillGaps {
    pub(crate) fn by(list: &str) -> Self {
        Self { groups: names(list).len() }
    }
}

impl Operator for FillGaps {
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>> {
        let others = input(inputs, 0)?.fields().iter().skip(2).map(|field| field.as_ref().clone());
        Ok([int_field("ts"), int_field("dur")].into_iter().chain(others).collect())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let (batch, trace) = (input(inputs, 0)?, input(inputs, 1)?);
        let first = |name| {
            Ok::<_, datafusion::error::DataFusionError>(int_column(trace, name)?.iter().next().flatten())
        };
        let (start, dur) = (first("ts")?.unwrap_or_default(), first("dur")?.unwrap_or_default());
        let groups: Vec<Field> =
            self.fields(&[batch.schema()])?.into_iter().skip(2).take(self.groups).collect();
        held.try_grow(batch.num_rows() * 4 * size_of::<Filled>())?;
        let parts = Keys::by(groups)?.of(batch)?;
        let mut out = filled(batch, &parts, start, start.saturating_add(dur))?;
        if out.is_empty() && batch.num_rows() == 0 && dur > 0 {
            out.push(Filled { ts: start, dur, group: None, row: None });
        }
        out.sort_by_key(|it| it.ts);
        let place = |row: Option<usize>| row.and_then(|row| u64::try_from(row).ok());
        let groups: UInt64Array = out.iter().map(|it| place(it.group)).collect();
        let rows: UInt64Array = out.iter().map(|it| place(it.row)).collect();
        let mut arrays = vec![
            boxed(out.iter().map(|it| Some(it.ts)).collect::<Int64Array>()),
            boxed(out.iter().map(|it| Some(it.dur)).collect::<Int64Array>()),
        ];
        for (at, array) in batch.columns().iter().enumerate().skip(2) {
            arrays.push(take(array, if at < 2 + self.groups { &groups } else { &rows }, None)?);
        }
        Ok(arrays)
    }
}

/// The spans of each group, and of the gaps before, between and behind them.
fn filled(batch: &RecordBatch, parts: &[Option<usize>], start: i64, end: i64) -> Result<Vec<Filled>> {
    let (ts, dur) = (int_column(batch, "ts")?, int_column(batch, "dur")?);
    let time = |row: usize| (!ts.is_null(row) && !dur.is_null(row)).then(|| (ts.value(row), dur.value(row)));
    let mut out = Vec::new();
    for part in sorted(parts, time).chunk_by(|one, other| one.0 == other.0) {
        let group = part.first().map(|(_, row)| *row);
        let mut now = start;
        for (ts, dur, row) in part.iter().filter_map(|(_, row)| time(*row).map(|(ts, dur)| (ts, dur, *row))) {
            if ts > now {
                out.push(Filled { ts: now, dur: ts - now, group, row: None });
            }
            if dur > 0 {
                out.push(Filled { ts, dur, group, row: Some(row) });
            }
            now = now.max(ts.saturating_add(dur));
        }
        if end > now {
            out.push(Filled { ts: now, dur: end - now, group, row: None });
        }
    }
    Ok(out)
}
