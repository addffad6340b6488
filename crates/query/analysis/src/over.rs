//! Nodes of a plan over one other node, whose rows they pass on in their own way, and rules that put them there.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures_util::stream::BoxStream;

/// What a node does with the rows of its input.
pub(crate) trait Passing: Clone + fmt::Debug + Send + Sync + 'static {
    /// What it is called where a plan is shown.
    const NAME: &'static str;

    /// What the rows that it gives are like: those that it is given, if it says nothing else.
    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        input.properties().clone()
    }

    /// The rows of a part.
    fn rows(
        &self,
        input: Arc<dyn ExecutionPlan>,
        part: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>>;
}

/// A node, changed or not.
pub(crate) type Changed = Transformed<Arc<dyn ExecutionPlan>>;

/// A rule that looks at each node by itself, those below it first.
#[derive(Debug)]
pub(crate) struct EachNode {
    pub(crate) name: &'static str,
    pub(crate) change: fn(Arc<dyn ExecutionPlan>) -> Result<Changed>,
}

impl PhysicalOptimizerRule for EachNode {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(self.change).data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
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
