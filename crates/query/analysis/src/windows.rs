//! Memory of windows: DataFusion's operator for them holds all rows of its input, and counts none. So what it reads is counted here, until it
//! is done.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures_util::StreamExt as _;

use crate::limits::{Held, Limits};
use crate::memory::Buffers;

/// Puts [`Counted`] below windows.
#[derive(Debug)]
pub(crate) struct CountWindows;

impl PhysicalOptimizerRule for CountWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(window) = plan.downcast_ref::<WindowAggExec>() else { return Ok(Transformed::no(plan)) };
            let children = vec![Arc::new(Counted(window.input().clone())) as Arc<dyn ExecutionPlan>];
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(plan.replace_children(children, options)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "count_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Gives on what it reads, and counts it as memory until it is gone itself.
#[derive(Debug)]
struct Counted(Arc<dyn ExecutionPlan>);

impl DisplayAs for Counted {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}

impl ExecutionPlan for Counted {
    fn name(&self) -> &str {
        "Counted"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
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
            Some(input) => Ok(Arc::new(Self(input))),
            None => plan_err!("it wants an input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let limits = context.session_config().get_extension::<Limits>();
        let held = Held::new("windows", context.memory_pool(), limits);
        let mut buffers = Buffers::default();
        let counted = self.0.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            // The rows, and all of them once more in one piece.
            held.try_grow(2 * buffers.add(&batch))?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.0.schema(), counted)))
    }
}
