//! Nodes of a plan over one other node, whose rows they pass on in their own way.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures_util::stream::BoxStream;

/// What a node does with the rows of its input.
pub(crate) trait Passing: Clone + fmt::Debug + Send + Sync + 'static {
    /// What it is called where a plan is shown.
    const NAME: &'static str;

    /// What the rows that it gives are like.
    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties>;

    /// The rows of a part.
    fn rows(
        &self,
        input: Arc<dyn ExecutionPlan>,
        part: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>>;
}

/// A node.
#[derive(Debug)]
pub(crate) struct Over<P> {
    passing: P,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl<P: Passing> Over<P> {
    /// A plan with this node over it.
    pub(crate) fn plan(passing: P, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = passing.properties(&input);
        Arc::new(Self { passing, input, properties })
    }
}

impl<P: Passing> DisplayAs for Over<P> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(P::NAME)
    }
}

impl<P: Passing> ExecutionPlan for Over<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.into_iter().next() {
            Some(input) => Ok(Self::plan(self.passing.clone(), input)),
            None => plan_err!("it wants an input"),
        }
    }

    fn execute(&self, part: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.passing.rows(self.input.clone(), part, context)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }
}
