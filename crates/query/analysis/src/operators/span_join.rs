//! `SPAN_JOIN`, `SPAN_LEFT_JOIN` and `SPAN_OUTER_JOIN`: rows for where spans of two tables overlap.
//!
//! The tables are sorted by partition and time, and swept through once. A row has `ts`, `dur`, the partition if there is one, and all other
//! columns of both.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::{
    SortColumn, concat_batches, filter_record_batch, is_not_null, lexsort_to_indices, take, take_record_batch,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Error;
use crate::operators::spans::{Overlap, Side, join};
use crate::table::{BATCH_ROWS, sql_type};

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

/// The table that it makes.
#[derive(Debug)]
pub(crate) struct SpanJoin {
    kind: Kind,
    inputs: [Input; 2],
    partition: Option<String>,
    schema: SchemaRef,
}

impl SpanJoin {
    pub(crate) fn new(kind: Kind, inputs: [Input; 2]) -> std::result::Result<Self, Error> {
        let [left, right] = &inputs;
        let partition = match (&left.partition, &right.partition) {
            (Some(one), Some(other)) if one != other => {
                let message = format!("{} is partitioned by {one}, and {} by {other}", left.name, right.name);
                return Err(Error::plain(message));
            }
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        let mut fields =
            vec![Field::new("ts", DataType::Int64, true), Field::new("dur", DataType::Int64, true)];
        fields.extend(partition.as_ref().map(|name| Field::new(name, DataType::Int64, true)));
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
        Ok(Self { kind, partition, schema: Arc::new(Schema::new(fields)), inputs })
    }
}

fn is_key(name: &str, partition: Option<&str>) -> bool {
    name == "ts" || name == "dur" || Some(name) == partition
}

#[async_trait]
impl TableProvider for SpanJoin {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = &self.inputs;
        let children =
            [state.create_physical_plan(&left.plan).await?, state.create_physical_plan(&right.plan).await?];
        let partitions = [left.partition.clone(), right.partition.clone()];
        let exec =
            SpanJoinExec::new(self.kind, children, partitions, self.partition.clone(), self.schema.clone());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(exec);
        let Some(columns) = projection else { return Ok(plan) };
        let column = |at: &usize| {
            let name = self.schema.field(*at).name().clone();
            (Arc::new(Column::new(&name, *at)) as Arc<dyn PhysicalExpr>, name)
        };
        let exprs: Vec<_> = columns.iter().map(column).collect();
        Ok(Arc::new(ProjectionExec::try_new(exprs, plan)?))
    }
}

/// The operator.
#[derive(Clone, Debug)]
struct SpanJoinExec {
    kind: Kind,
    inputs: [Arc<dyn ExecutionPlan>; 2],
    /// By which column each table is partitioned.
    partitions: [Option<String>; 2],
    partition: Option<String>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl SpanJoinExec {
    fn new(
        kind: Kind,
        children: [Arc<dyn ExecutionPlan>; 2],
        partitions: [Option<String>; 2],
        partition: Option<String>,
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { kind, inputs: children, partitions, partition, schema, properties: Arc::new(properties) }
    }
}

impl DisplayAs for SpanJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanJoinExec: kind={:?}, partition={:?}", self.kind, self.partition)
    }
}

impl ExecutionPlan for SpanJoinExec {
    fn name(&self) -> &str {
        "SpanJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// None that rules look at: its inputs are plans that were made ready to run.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let this = self.clone();
        let schema = self.schema.clone();
        let batches = stream::once(async move { this.join(context).await })
            .map_ok(|batches| stream::iter(batches.into_iter().map(Ok)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
    }
}

/// A table, sorted, and where each partition of it lies.
struct Sorted {
    batch: RecordBatch,
    side: Side,
    /// Numbers of partitions and their rows; without partitions one, of all rows.
    parts: Vec<(Option<i64>, Range<usize>)>,
}

impl SpanJoinExec {
    async fn join(self, context: Arc<TaskContext>) -> Result<Vec<RecordBatch>> {
        let held = MemoryConsumer::new("a span join").register(context.memory_pool());
        let gaps = match self.kind {
            Kind::Inner => [false, false],
            Kind::Left => [false, true],
            Kind::Outer => [true, true],
        };
        let mut sides = Vec::new();
        for ((child, partition), has_gaps) in self.inputs.iter().zip(&self.partitions).zip(gaps) {
            let batches: Vec<RecordBatch> =
                execute_stream(child.clone(), context.clone())?.try_collect().await?;
            // The rows, and the same once more in order.
            held.try_grow(batches.iter().map(|batch| 2 * batch.get_array_memory_size()).sum())?;
            let batch = concat_batches(&child.schema(), &batches)?;
            sides.push(sorted(batch, partition.as_deref(), has_gaps)?);
        }
        let Ok([left, right]) = <[Sorted; 2]>::try_from(sides) else {
            return plan_err!("a span join has two inputs");
        };
        let overlaps = overlaps(&left, &right, self.kind);
        held.try_grow(overlaps.len() * size_of::<(Option<i64>, Overlap)>())?;
        overlaps.chunks(BATCH_ROWS).map(|rows| self.batch(&left, &right, rows)).collect()
    }

    /// Some of the rows.
    fn batch(&self, left: &Sorted, right: &Sorted, rows: &[(Option<i64>, Overlap)]) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|(_, it)| it.ts).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|(_, it)| it.dur).collect::<Int64Array>()),
        ];
        if self.partition.is_some() {
            columns.push(Arc::new(rows.iter().map(|(part, _)| *part).collect::<Int64Array>()));
        }
        let row_of: [fn(&Overlap) -> Option<usize>; 2] = [|it| it.left, |it| it.right];
        for ((side, row), partition) in [left, right].into_iter().zip(row_of).zip(&self.partitions) {
            let number = |row: usize| u64::try_from(row).unwrap_or(u64::MAX);
            let places: UInt64Array = rows.iter().map(|(_, it)| row(it).map(number)).collect();
            let schema = side.batch.schema();
            for (field, array) in schema.fields().iter().zip(side.batch.columns()) {
                if !is_key(field.name(), partition.as_deref()) {
                    columns.push(crate::table::sql_array(&take(array, &places, None)?)?);
                }
            }
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

fn sorted(batch: RecordBatch, partition: Option<&str>, has_gaps: bool) -> Result<Sorted> {
    let ints = |batch: &RecordBatch, name: &str| -> Result<Option<Int64Array>> {
        match batch.column_by_name(name) {
            None => Ok(None),
            Some(array) if matches!(array.data_type(), DataType::Int64) => {
                Ok(Some(array.as_primitive::<Int64Type>().clone()))
            }
            Some(array) if array.data_type().is_integer() || *array.data_type() == DataType::Null => {
                let cast = arrow::compute::cast(array, &DataType::Int64)?;
                Ok(Some(cast.as_primitive::<Int64Type>().clone()))
            }
            Some(_) => plan_err!("the column {name} of a span join has other values than integers"),
        }
    };
    // Rows of no partition are left out.
    let batch = match partition.and_then(|name| batch.column_by_name(name)) {
        Some(array) => filter_record_batch(&batch, &is_not_null(array)?)?,
        None => batch,
    };
    let keys = [partition, Some("ts")].into_iter().flatten().filter_map(|name| batch.column_by_name(name));
    let keys: Vec<_> = keys.map(|values| SortColumn { values: values.clone(), options: None }).collect();
    let batch = match batch.num_rows() {
        0 => batch,
        _ => take_record_batch(&batch, &lexsort_to_indices(&keys, None)?)?,
    };
    let values = |array: Int64Array| array.iter().map(Option::unwrap_or_default).collect::<Vec<i64>>();
    let ts = ints(&batch, "ts")?.map(values).unwrap_or_default();
    let dur = ints(&batch, "dur")?.map(values);
    let parts = match partition {
        None => vec![(None, 0..ts.len())],
        Some(name) => {
            let numbers = ints(&batch, name)?.map(values).unwrap_or_default();
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
fn overlaps(left: &Sorted, right: &Sorted, kind: Kind) -> Vec<(Option<i64>, Overlap)> {
    let mut out = Vec::new();
    let mut add = |part: Option<i64>, one: Range<usize>, other: Range<usize>| {
        let mut found = Vec::new();
        join((&left.side, one), (&right.side, other), &mut found);
        out.extend(found.into_iter().map(|overlap| (part, overlap)));
    };
    let is_partitioned = |sorted: &Sorted| !matches!(sorted.parts.as_slice(), [(None, _)]);
    match (is_partitioned(left), is_partitioned(right)) {
        // Each partition with all of the other table.
        (false, _) => {
            let all = 0..left.side.ts.len();
            right.parts.iter().for_each(|(part, rows)| add(*part, all.clone(), rows.clone()));
        }
        (true, false) => {
            let all = 0..right.side.ts.len();
            left.parts.iter().for_each(|(part, rows)| add(*part, rows.clone(), all.clone()));
        }
        (true, true) => {
            let (mut lefts, mut rights) = (left.parts.iter().peekable(), right.parts.iter().peekable());
            loop {
                match (lefts.peek(), rights.peek()) {
                    (Some((one, rows)), Some((other, others))) if one == other => {
                        add(*one, rows.clone(), others.clone());
                        lefts.next();
                        rights.next();
                    }
                    (Some((one, rows)), other) if other.is_none_or(|(other, _)| one < other) => {
                        if kind != Kind::Inner {
                            add(*one, rows.clone(), 0..0);
                        }
                        lefts.next();
                    }
                    (_, Some((other, rows))) => {
                        if kind == Kind::Outer {
                            add(*other, 0..0, rows.clone());
                        }
                        rights.next();
                    }
                    _ => break,
                }
            }
        }
    }
    out
}
