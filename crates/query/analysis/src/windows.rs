//! Memory of windows: DataFusion's operator for them holds all rows of its input, and counts none. So what it reads is counted here, until it
//! is done.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::windows::WindowAggExec;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::limits::{Held, Limits};
use crate::memory::Buffers;
use crate::over::{EachNode, Over, Passing};

/// Puts [`Counted`] below windows.
pub(crate) const COUNT_WINDOWS: EachNode = EachNode {
    name: "count_windows",
    change: |plan| {
        let Some(window) = plan.downcast_ref::<WindowAggExec>() else { return Ok(Transformed::no(plan)) };
        let children = vec![Over::plan(Counted, window.input().clone())];
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(plan.replace_children(children, options)?))
    },
};

/// Gives on what it reads, and counts it as memory until it is gone itself.
#[derive(Clone, Debug)]
struct Counted;

impl Passing for Counted {
    const NAME: &'static str = "Counted";

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
