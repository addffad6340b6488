//! Operators on whole tables: what runs them, and what they have in common.
//!
//! An operator says what columns it makes of the columns of its inputs, and makes them of all rows of these. The inputs' rows are held in
//! memory while it does, and so are its own.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
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

use crate::functions::text::ints;
use crate::interrupt::interruptible;
use crate::limits::{Held, Limits};
use crate::memory::Buffers;
use crate::table::{BATCH_ROWS, sql_array, sql_type};

/// An operator.
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// Its columns.
    ///
    /// # Errors
    ///
    /// If an input lacks one, or has another type than it should have.
    fn fields(&self, inputs: &[SchemaRef]) -> Result<Vec<Field>>;

    /// Its rows, a column each of [`Operator::fields`]. What grows beyond the inputs is to be taken from the memory first.
    ///
    /// # Errors
    ///
    /// If the rows are not what it works on, or there is too little memory.
    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>>;
}

/// A column of integers.
pub(crate) fn int_field(name: impl Into<String>) -> Field {
    Field::new(name, DataType::Int64, true)
}

/// A column by its name.
pub(crate) fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef> {
    match batch.column_by_name(name) {
        Some(array) => Ok(array),
        None => plan_err!("there is no column {name} in what an operator is called with"),
    }
}

/// A column of integers by its name.
pub(crate) fn int_column(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    match column(batch, name)? {
        array if array.data_type().is_integer() || array.data_type().is_null() => ints(array),
        array => plan_err!("the column {name} has values of the type {}, not integers", array.data_type()),
    }
}

/// The input of this number.
pub(crate) fn input<T>(inputs: &[T], at: usize) -> Result<&T> {
    match inputs.get(at) {
        Some(input) => Ok(input),
        None => plan_err!("an operator is called with {} tables, and wants more", inputs.len()),
    }
}

/// The table that an operator makes of queries.
#[derive(Debug)]
pub(crate) struct Whole {
    operator: Arc<dyn Operator>,
    inputs: Vec<LogicalPlan>,
    schema: SchemaRef,
}

impl Whole {
    /// # Errors
    ///
    /// If the inputs have not the columns that the operator works on.
    pub(crate) fn new(operator: Arc<dyn Operator>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let schemas: Vec<SchemaRef> =
            inputs.iter().map(|plan| as_sql_schema(plan.schema().as_arrow())).collect();
        let schema = Arc::new(Schema::new(operator.fields(&schemas)?));
        Ok(Self { operator, inputs, schema })
    }
}

fn as_sql_schema(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| Field::new(field.name(), sql_type(field.data_type()), true);
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

#[async_trait]
impl TableProvider for Whole {
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
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            inputs.push(state.create_physical_plan(input).await?);
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(self.schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let plan: Arc<dyn ExecutionPlan> = Arc::new(WholeExec {
            operator: self.operator.clone(),
            inputs,
            schema: self.schema.clone(),
            properties: Arc::new(properties),
        });
        let Some(columns) = projection else { return Ok(plan) };
        let column = |at: &usize| {
            let name = self.schema.field(*at).name().clone();
            (Arc::new(Column::new(&name, *at)) as Arc<dyn PhysicalExpr>, name)
        };
        let exprs: Vec<_> = columns.iter().map(column).collect();
        Ok(Arc::new(ProjectionExec::try_new(exprs, plan)?))
    }
}

#[derive(Clone, Debug)]
struct WholeExec {
    operator: Arc<dyn Operator>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for WholeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WholeExec: {:?}", self.operator)
    }
}

impl ExecutionPlan for WholeExec {
    fn name(&self) -> &str {
        "WholeExec"
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
        let batches = stream::once(async move { this.run(context).await })
            .map_ok(|batch| stream::iter(slices(&batch).into_iter().map(Ok)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }
}

impl WholeExec {
    async fn run(self, context: Arc<TaskContext>) -> Result<RecordBatch> {
        let limits = context.session_config().get_extension::<Limits>();
        let held = Held::new("an operator on whole tables", context.memory_pool(), limits.clone());
        let mut buffers = Buffers::default();
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let plan = match &limits {
                Some(limits) => interruptible(input.clone(), limits)?,
                None => input.clone(),
            };
            let mut stream = execute_stream(plan, context.clone())?;
            let mut batches = Vec::new();
            while let Some(batch) = stream.try_next().await? {
                // The rows, and the same once more in one piece.
                held.try_grow(2 * buffers.add(&batch))?;
                batches.push(batch);
            }
            let batch = concat_batches(&input.schema(), &batches)?;
            let schema = as_sql_schema(batch.schema_ref());
            let arrays = batch.columns().iter().map(sql_array).collect::<Result<Vec<_>>>()?;
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            inputs.push(RecordBatch::try_new_with_options(schema, arrays, &options)?);
        }
        // It has its thread to itself for as long as it takes.
        let arrays = tokio::task::block_in_place(|| self.operator.run(&inputs, &held))?;
        Ok(RecordBatch::try_new(self.schema, arrays)?)
    }
}

fn slices(batch: &RecordBatch) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(BATCH_ROWS);
    starts.map(|from| batch.slice(from, BATCH_ROWS.min(batch.num_rows() - from))).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use arrow::array::AsArray as _;
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    /// A table of integers.
    pub(crate) fn table(names: &[&str], rows: &[&[i64]]) -> RecordBatch {
        let fields: Vec<Field> = names.iter().map(|name| int_field(*name)).collect();
        let column = |at: usize| Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row[at])));
        let arrays = (0..names.len()).map(|at| column(at) as ArrayRef).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    /// Rows of integers that an operator makes.
    pub(crate) fn rows(operator: &dyn Operator, inputs: &[RecordBatch]) -> Vec<Vec<Option<i64>>> {
        let schemas: Vec<SchemaRef> = inputs.iter().map(RecordBatch::schema).collect();
        let fields = operator.fields(&schemas).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let held = Held::new("a test", &pool, None);
        let arrays = operator.run(inputs, &held).unwrap();
        assert_eq!(fields.len(), arrays.len());
        let columns: Vec<_> = arrays.iter().map(|array| array.as_primitive::<Int64Type>()).collect();
        let rows = columns.first().map_or(0, |column| column.len());
        (0..rows).map(|row| columns.iter().map(|it| it.iter().nth(row).unwrap()).collect()).collect()
    }
}
