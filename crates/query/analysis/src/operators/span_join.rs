//! `SPAN_JOIN`, `SPAN_LEFT_JOIN` and `SPAN_OUTER_JOIN`: rows for where spans of two tables overlap.
//!
//! The tables are sorted by partition and time, and swept through once. A row has `ts`, `dur`, the partition if there is one, and all other
//! columns of both.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::{filter_record_batch, is_not_null, take, take_record_batch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::error::Error;
use crate::limits::Held;
use crate::operators::spans::{Overlap, Side, join};
use crate::operators::whole::{Operator, Whole, input, int_column, int_field};
use crate::table::sql_type;

/// What becomes of a span where the other side has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Inner,
    Left,
    Outer,
}

impl Kind {
    /// By the name of the module.
    pub(crate) fn named(module: &str) -> Option<Self> {
        match module {
            "span_join" => Some(Self::Inner),
            "span_left_join" => Some(Self::Left),
            "span_outer_join" => Some(Self::Outer),
            _ => None,
        }
    }
}

/// One of its tables.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) plan: LogicalPlan,
    pub(crate) partition: Option<String>,
}

/// The join.
#[derive(Debug)]
pub(crate) struct SpanJoin {
    kind: Kind,
    /// By which column each table is partitioned.
    partitions: Vec<Option<String>>,
    fields: Vec<Field>,
}

impl SpanJoin {
    /// The table that it makes of two.
    ///
    /// # Errors
    ///
    /// If they have not the columns that it goes by, or others of the same names.
    pub(crate) fn table(kind: Kind, inputs: [Input; 2]) -> std::result::Result<Whole, Error> {
        let [left, right] = &inputs;
        let partition = match (&left.partition, &right.partition) {
            (Some(one), Some(other)) if one != other => {
                let message = format!("{} is partitioned by {one}, and {} by {other}", left.name, right.name);
                return Err(Error::plain(message));
            }
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        let mut fields = vec![int_field("ts"), int_field("dur")];
        fields.extend(partition.as_ref().map(int_field));
        let mut has_dur = false;
        for input in &inputs {
            let own = input.plan.schema();
            let has = |name: &str| own.has_column_with_unqualified_name(name);
            has_dur |= has("dur");
            if let Some(missing) =
                std::iter::once("ts").chain(input.partition.as_deref()).find(|name| !has(name))
            {
                return Err(Error::plain(format!("{} has no column {missing}", input.name)));
            }
            for field in own.fields().iter().filter(|field| !is_key(field.name(), input.partition.as_deref()))
            {
                if fields.iter().any(|it| it.name() == field.name()) {
                    return Err(Error::plain(format!("both tables have a column {}", field.name())));
                }
                fields.push(Field::new(field.name(), sql_type(field.data_type()), true));
            }
        }
        if !has_dur {
            return Err(Error::plain(format!("neither {} nor {} has a column dur", left.name, right.name)));
        }
        let (partitions, plans): (Vec<_>, Vec<_>) =
            inputs.into_iter().map(|input| (input.partition, input.plan)).unzip();
        Ok(Whole::new(Arc::new(Self { kind, partitions, fields }), plans)?)
    }
}

fn is_key(name: &str, partition: Option<&str>) -> bool {
    name == "ts" || name == "dur" || Some(name) == partition
}

/// A table, sorted, and where each partition of it lies.
struct Sorted {
    batch: RecordBatch,
    side: Side,
    /// Numbers of partitions and their rows; without partitions one, of all rows.
    parts: Vec<(Option<i64>, Range<usize>)>,
}

impl Operator for SpanJoin {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(self.fields.clone())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let gaps = match self.kind {
            Kind::Inner => [false, false],
            Kind::Left => [false, true],
            Kind::Outer => [true, true],
        };
        let side = |at: usize| sorted(input(inputs, at)?, self.partition_of(at), gaps.get(at) == Some(&true));
        let (left, right) = (side(0)?, side(1)?);
        let overlaps = overlaps(&left, &right, self.kind, held)?;
        // Their columns: numbers, and places in those of the tables.
        held.try_grow(overlaps.ts.len() * size_of::<i64>() * self.fields.len())?;
        self.columns(&left, &right, overlaps)
    }
}

impl SpanJoin {
    fn partition_of(&self, at: usize) -> Option<&str> {
        self.partitions.get(at)?.as_deref()
    }

    fn columns(&self, left: &Sorted, right: &Sorted, overlaps: Overlaps) -> Result<Vec<ArrayRef>> {
        let Overlaps { parts, ts, dur, left: lefts, right: rights } = overlaps;
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(ts)), Arc::new(Int64Array::from(dur))];
        if self.partitions.iter().any(Option::is_some) {
            columns.push(Arc::new(Int64Array::from(parts)));
        }
        for ((side, rows), partition) in [(left, lefts), (right, rights)].into_iter().zip(&self.partitions) {
            let places = rows.into_array();
            let schema = side.batch.schema();
            for (field, array) in schema.fields().iter().zip(side.batch.columns()) {
                if !is_key(field.name(), partition.as_deref()) {
                    columns.push(take(array, &places, None)?);
                }
            }
        }
        Ok(columns)
    }
}

/// Where spans of both tables overlap, a column each of what is known of it.
#[derive(Default)]
struct Overlaps {
    /// Numbers of partitions; none without partitions.
    parts: Vec<i64>,
    ts: Vec<i64>,
    dur: Vec<i64>,
    left: Places,
    right: Places,
}

impl Overlaps {
    /// Bytes that one takes.
    const BYTES: usize = 5 * size_of::<i64>();

    fn push(&mut self, part: Option<i64>, overlap: Overlap) {
        self.parts.extend(part);
        self.ts.push(overlap.ts);
        self.dur.push(overlap.dur);
        self.left.push(overlap.left);
        self.right.push(overlap.right);
    }
}

/// Rows of a table; nothing for gaps.
#[derive(Default)]
struct Places {
    rows: Vec<u64>,
    has_gaps: bool,
}

impl Places {
    /// No table has so many rows.
    const GAP: u64 = u64::MAX;

    fn push(&mut self, row: Option<usize>) {
        let place = row.and_then(|row| u64::try_from(row).ok()).unwrap_or(Self::GAP);
        self.has_gaps |= place == Self::GAP;
        self.rows.push(place);
    }

    fn into_array(self) -> UInt64Array {
        match self.has_gaps {
            true => self.rows.into_iter().map(|row| (row != Self::GAP).then_some(row)).collect(),
            false => self.rows.into(),
        }
    }
}

fn sorted(batch: &RecordBatch, partition: Option<&str>, has_gaps: bool) -> Result<Sorted> {
    // Rows of no partition are left out.
    let batch = match partition.and_then(|name| batch.column_by_name(name)) {
        Some(array) => filter_record_batch(batch, &is_not_null(array)?)?,
        None => batch.clone(),
    };
    let ints = |batch: &RecordBatch, name: &str| -> Result<Vec<i64>> {
        Ok(int_column(batch, name)?.iter().map(Option::unwrap_or_default).collect())
    };
    let numbers = partition.map(|name| ints(&batch, name)).transpose()?;
    let ts = ints(&batch, "ts")?;
    let part_of = |row: usize| numbers.as_ref().and_then(|numbers| numbers.get(row).copied());
    let key = |row: usize| (part_of(row), ts.get(row).copied());
    let (batch, numbers, ts) = match (1..ts.len()).all(|row| key(row - 1) <= key(row)) {
        true => (batch, numbers, ts),
        false => {
            let mut order: Vec<usize> = (0..ts.len()).collect();
            // Stable: of spans that start together the earlier row stays the earlier.
            order.sort_by_key(|row| key(*row));
            let places = order.iter().map(|row| *row as u64).collect::<UInt64Array>();
            let of = |values: &[i64]| order.iter().filter_map(|row| values.get(*row).copied()).collect();
            let sorted = take_record_batch(&batch, &places)?;
            (sorted, numbers.as_deref().map(of), of(&ts))
        }
    };
    let dur = batch.column_by_name("dur").map(|_| ints(&batch, "dur")).transpose()?;
    let parts = match numbers {
        None => vec![(None, 0..ts.len())],
        Some(numbers) => {
            let mut from = 0;
            numbers
                .chunk_by(|one, other| one == other)
                .map(|part| {
                    let rows = from..from + part.len();
                    from = rows.end;
                    (part.first().copied(), rows)
                })
                .collect()
        }
    };
    Ok(Sorted { batch, side: Side { ts, dur, has_gaps }, parts })
}

/// All overlaps, by partition and time.
fn overlaps(left: &Sorted, right: &Sorted, kind: Kind, held: &Held) -> Result<Overlaps> {
    let mut out = Overlaps::default();
    let mut add = |part: Option<i64>, one: Range<usize>, other: Range<usize>| {
        let before = out.ts.len();
        join((&left.side, one), (&right.side, other), |overlap| out.push(part, overlap));
        // Twice, as what grows has both its old and its new room for a moment.
        held.try_grow((out.ts.len() - before) * 2 * Overlaps::BYTES)
    };
    let is_partitioned = |sorted: &Sorted| !matches!(sorted.parts.as_slice(), [(None, _)]);
    match (is_partitioned(left), is_partitioned(right)) {
        // Each partition with all of the other table.
        (false, _) => {
            let all = 0..left.side.ts.len();
            right.parts.iter().try_for_each(|(part, rows)| add(*part, all.clone(), rows.clone()))?;
        }
        (true, false) => {
            let all = 0..right.side.ts.len();
            left.parts.iter().try_for_each(|(part, rows)| add(*part, rows.clone(), all.clone()))?;
        }
        (true, true) => {
            let (mut lefts, mut rights) = (left.parts.iter().peekable(), right.parts.iter().peekable());
            loop {
                match (lefts.peek(), rights.peek()) {
                    (Some((one, rows)), Some((other, others))) if one == other => {
                        add(*one, rows.clone(), others.clone())?;
                        lefts.next();
                        rights.next();
                    }
                    (Some((one, rows)), other) if other.is_none_or(|(other, _)| one < other) => {
                        if kind != Kind::Inner {
                            add(*one, rows.clone(), 0..0)?;
                        }
                        lefts.next();
                    }
                    (_, Some((other, rows))) => {
                        if kind == Kind::Outer {
                            add(*other, 0..0, rows.clone())?;
                        }
                        rights.next();
                    }
                    _ => break,
                }
            }
        }
    }
    Ok(out)
}
