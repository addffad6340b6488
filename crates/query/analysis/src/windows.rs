//! Memory of windows: DataFusion's operator for them holds all rows of its input, and counts none. So what it reads is counted here, until it
//! is done.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::limits::{Held, Limits};
use crate::memory::Buffers;
use crate::over::{Over, Passing};

/// Puts [`Counted`] below windows.
#[derive(Debug)]
pub(crate) struct CountWindows;

impl PhysicalOptimizerRule for CountWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(window) = plan.downcast_ref::<WindowAggExec>() else { return Ok(Transformed::no(plan)) };
            let children = vec![Over::plan(Counted, window.input().clone())];
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
#[derive(Clone, Debug)]
struct Counted;

impl Passing for Counted {
    const NAME: &'static str = "Counted";

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        input.properties().clone()
    }

    fn rows(
        &self,
        input: Arc<dyn ExecutionPlan>,
        part: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let limits = context.session_config().get_extension::<Limits>();
        let held = Held::new("windows", context.memory_pool(), limits);
        let mut buffers = Buffers::default();
        let counted = input.execute(part, context)?.map(move |batch| {
            let batch = batch?;
            // The rows, and all of them once more in one piece.
            held.try_grow(2 * buffers.add(&batch))?;
            Ok(batch)
        });
        Ok(counted.boxed())
    }
}
