//! Plans that can be ended: DataFusion's joins go on for as long as they find nothing, or have rows at hand, and look at nothing else meanwhile.
//! So they let others run between batches, and their conditions ask whether the query goes on.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;

use crate::limits::Limits;

/// The same plan, ended when these limits are reached.
pub(crate) fn interruptible(
    plan: Arc<dyn ExecutionPlan>,
    limits: &Arc<Limits>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let checked = |filter: &JoinFilter| {
            let inner = filter.expression().clone();
            let expr = Arc::new(Checked { inner, limits: limits.clone() });
            JoinFilter::new(expr, filter.column_indices().to_vec(), filter.schema().clone())
        };
        let plan: Arc<dyn ExecutionPlan> = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            match join.filter() {
                Some(filter) => join.builder().with_filter(Some(checked(filter))).build_exec()?,
                None => plan,
            }
        } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let builder = NestedLoopJoinExecBuilder::from(join);
            Arc::new(builder.with_filter(join.filter().map(checked)).build()?)
        } else if plan.downcast_ref::<CrossJoinExec>().is_some()
            || plan.downcast_ref::<RecursiveQueryExec>().is_some()
        {
            plan
        } else {
            return Ok(Transformed::no(plan));
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan)) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

/// A condition that asks whether the query goes on.
#[derive(Debug)]
struct Checked {
    inner: Arc<dyn PhysicalExpr>,
    limits: Arc<Limits>,
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Checked {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.limits.check() {
            Ok(()) => self.inner.evaluate(batch),
            Err(why) => exec_err!("{why}"),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.into_iter().next() {
            Some(inner) => Ok(Arc::new(Self { inner, limits: self.limits.clone() })),
            None => plan_err!("it wants a condition"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
