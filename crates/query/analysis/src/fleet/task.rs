//! The leaf of a plan over many traces: rows of the part of a query that each trace is asked.
//!
//! A task is nothing but texts and numbers: statements, paths, types. Who runs it reads the trace, makes of the statements what they define,
//! plans the query anew and cuts it where all cut it. So it can be given to another process as it is.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session as Planner, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result, exec_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use ferretto_trace_tables::Tables;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Error;
use crate::fleet::pass::Pass;
use crate::fleet::traces::Stop;
use crate::functions::of_trace::Types;
use crate::session::Session;
use crate::trace::Options;

/// What traces are asked.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Statements that define what the query names.
    pub(crate) definitions: String,
    /// The query, or a statement that makes a table of one.
    pub(crate) query: String,
    /// Types of arguments, for traces that do not have them.
    pub(crate) types: Types,
    /// The traces.
    pub(crate) paths: Arc<[String]>,
    /// Bytes of memory that the query of one trace may have beside the trace's tables.
    pub(crate) memory_bytes: u64,
    /// Names and types of the columns of the part that each trace is asked.
    pub(crate) schema: SchemaRef,
    /// Those of them that are wanted.
    pub(crate) columns: Vec<usize>,
    /// Rows of each trace that are wanted, if not all are.
    pub(crate) limit: Option<usize>,
}

impl Task {
    /// The rows of one trace; none if it cannot be read.
    async fn rows(self, at: usize, pass: Arc<Pass>) -> Result<SendableRecordBatchStream> {
        let schema = Arc::new(self.schema.project(&self.columns)?);
        let Some(path) = self.paths.get(at).cloned() else { return exec_err!("there is no such trace") };
        let (stop, done) = (Stop::default(), Done(pass.clone()));
        let stop_on_drop = stop.on_drop();
        let tables = pass.traces.tables(at, &stop).await.map_err(|error| in_trace(&path, &error))?;
        let Some(tables) = tables else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty())));
        };
        let (session, batches) = self.begin(&path, tables).await.map_err(|error| in_trace(&path, &error))?;
        let (columns, of) = (self.columns, schema.clone());
        let batches = batches.map(move |batch| {
            let _held = (&session, &stop_on_drop, &done);
            let batch = batch.map_err(|error| in_trace(&path, &error.into()))?;
            pass.seen.fit(&path, &columns, &of, &batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    /// Asks a trace that was read.
    async fn begin(
        &self,
        path: &str,
        tables: Arc<Tables>,
    ) -> Result<(Session, SendableRecordBatchStream), Error> {
        let options = Options {
            memory_bytes: self.memory_bytes,
            threads: 1,
            path: Some(path.to_owned()),
            ..Options::default()
        };
        let mut session = Session::new(tables, &options)?;
        session.know_types(&self.types);
        session.run_to_end(&self.definitions).await?;
        let below = session.parts(&self.query).await?.below;
        let (has, wants) = (below.schema().fields().len(), self.schema.fields().len());
        if has != wants {
            return Err(Error::plain(format!("there are {has} columns, not {wants}")));
        }
        let state = session.context().state();
        let plan = state.create_physical_plan(&self.wanted(below)?).await?;
        let batches = execute_stream(plan, session.context().task_ctx())?;
        Ok((session, batches))
    }

    /// The plan with the wanted columns and rows only.
    fn wanted(&self, below: LogicalPlan) -> Result<LogicalPlan> {
        let columns: Vec<Expr> =
            below.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
        let wanted = self.columns.iter().filter_map(|at| columns.get(*at).cloned()).collect();
        let plan = match self.columns.len() == columns.len() {
            true => below,
            false => LogicalPlan::Projection(Projection::try_new(wanted, Arc::new(below))?),
        };
        match self.limit {
            Some(limit) => LogicalPlanBuilder::from(plan).limit(0, Some(limit))?.build(),
            None => Ok(plan),
        }
    }
}

/// Counts a trace when nobody asks it any more.
struct Done(Arc<Pass>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.done();
    }
}

fn in_trace(path: &str, error: &Error) -> DataFusionError {
    DataFusionError::Execution(format!("in {path}: {error}"))
}

/// The table of rows of all traces.
#[derive(Debug)]
pub(crate) struct Rows(pub(crate) Task);

#[async_trait]
impl TableProvider for Rows {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Planner,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut task = self.0.clone();
        task.columns = projection.cloned().unwrap_or_else(|| (0..task.schema.fields().len()).collect());
        task.limit = limit;
        let schema = Arc::new(task.schema.project(&task.columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(task.paths.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(RowsExec { task, properties: Arc::new(properties) }))
    }
}

/// A part of it for each trace.
#[derive(Debug)]
struct RowsExec {
    task: Task,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowsExec: {} traces", self.task.paths.len())
    }
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &str {
        "RowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

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

    fn execute(&self, at: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(pass) = Pass::of(&context) else { return exec_err!("there are no traces to be asked") };
        let task = self.task.clone();
        // Planning a query of a trace recurses into what runs this.
        let rows: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(task.rows(at, pass));
        let batches = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// A schema of columns that are called and typed so.
pub(crate) fn schema(names: &[String], types: &[DataType]) -> SchemaRef {
    let fields = names.iter().zip(types).enumerate();
    let fields = fields.map(|(at, (name, data_type))| crate::fleet::types::field(at, name, data_type));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
