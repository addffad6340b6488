//! Rows in the order in which SQLite has them, where SQL leaves it open.
//!
//! SQLite goes through the table that stands first, and looks up the others: rows come in the order of the first. DataFusion keeps the order
//! of that side of a join which it goes through, and that is the right one. So sides are changed; which table is held in memory is as the
//! query says then: the later one, most often the smaller (`slice join thread_track`). And parts of a `UNION ALL` come one behind the other,
//! not as they are ready.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, Partitioning, PlanProperties};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use crate::over::{Over, Passing};

/// Changes the sides of joins. It takes the place of [`REPLACED`].
#[derive(Debug)]
pub(crate) struct ProbeLeft;

/// The rule that would choose sides by the sizes of tables.
pub(crate) const REPLACED: &str = "join_selection";

impl PhysicalOptimizerRule for ProbeLeft {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let swapped = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
                match is_swapped(*join.join_type()) && !join.null_aware {
                    true => Some(join.swap_inputs(*join.partition_mode())?),
                    false => None,
                }
            } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
                // It goes through the side that it holds, for each batch of the other: of a join without rows that match nothing, that is right.
                match is_swapped(*join.join_type()) && *join.join_type() != JoinType::Inner {
                    true => Some(join.swap_inputs()?),
                    false => None,
                }
            } else {
                None
            };
            Ok(swapped.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "probe_left"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_swapped(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
    )
}

/// Puts parts one behind the other, and rows without a match where they were. The last of all rules: see [`InOrder::claims`].
#[derive(Debug)]
pub(crate) struct KeepOrder;

impl PhysicalOptimizerRule for KeepOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            if let Some(parts) = plan.downcast_ref::<CoalescePartitionsExec>() {
                if parts.fetch().is_none() {
                    return Ok(Transformed::yes(InOrder::over(parts.input().clone(), false)));
                }
            } else if let Some(join) = plan.downcast_ref::<HashJoinExec>()
                && *join.join_type() == JoinType::Right
                && join.right().output_ordering().is_none()
                && !join.right().schema().fields().is_empty()
            {
                let right = InOrder::over(join.right().clone(), true);
                let children = vec![join.left().clone(), right];
                return Ok(Transformed::yes(with_children(plan, children)?));
            }
            Ok(Transformed::no(plan))
        });
        let plan = plan.data()?;
        Ok(if plan.output_partitioning().partition_count() > 1 { InOrder::over(plan, false) } else { plan })
    }

    fn name(&self) -> &str {
        "keep_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_children(
    plan: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The parts of a plan one behind the other.
#[derive(Clone, Debug)]
struct InOrder {
    /// Whether it says to be sorted, by its first column. A join keeps the rows that it finds no match for at their places only if the side
    /// that it goes through says so; by what it does not look at. No rule that would leave out a sort for it comes any more.
    claims: bool,
}

impl InOrder {
    fn over(input: Arc<dyn ExecutionPlan>, claims: bool) -> Arc<dyn ExecutionPlan> {
        Over::plan(Self { claims }, input)
    }
}

impl Passing for InOrder {
    const NAME: &'static str = "InOrder";

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let schema = input.schema();
        let mut equivalences = EquivalenceProperties::new(schema.clone());
        if self.claims
            && let Some(first) = schema.fields().first()
        {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(first.name(), 0));
            equivalences.add_ordering([PhysicalSortExpr::new_default(column)]);
        }
        Arc::new(PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            input.boundedness(),
        ))
    }

    fn rows(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let parts = 0..input.output_partitioning().partition_count();
        let batches = stream::iter(parts).flat_map(move |part| match input.execute(part, context.clone()) {
            Ok(batches) => batches,
            Err(error) => {
                let schema = input.schema();
                Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Err(error)])))
                    as SendableRecordBatchStream
            }
        });
        Ok(batches.boxed())
    }
}
