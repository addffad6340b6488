//! How large the expressions of a plan become when names of columns are replaced by what these are made of, as planners do when they bring a
//! condition nearer to its table: `x + x` of `x + x` doubles with each query around it.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::error::Error;

/// Columns that stand in an expression then.
const MAX_SIZE: usize = 1 << 14;

/// What a column is made of.
type Size = usize;

/// Whether the expressions of a plan stay small.
///
/// # Errors
///
/// If they do not.
pub(super) fn check(plan: &LogicalPlan) -> Result<(), Error> {
    sizes(plan).map(|_| ())
}

/// Of each column.
fn sizes(plan: &LogicalPlan) -> Result<Vec<Size>, Error> {
    // Those within expressions have conditions, too.
    let mut found = Ok(());
    plan.apply_subqueries(|inner| {
        found = sizes(inner).map(|_| ());
        Ok(if found.is_ok() { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Stop })
    })?;
    found?;
    let inputs = plan.inputs().into_iter().map(sizes).collect::<Result<Vec<_>, _>>()?;
    let count = plan.schema().fields().len();
    let mut columns = match plan {
        LogicalPlan::Projection(it) => made_of(&it.expr, it.input.schema(), inputs.first()),
        LogicalPlan::Aggregate(it) => made_of(&it.group_expr, it.input.schema(), inputs.first()),
        LogicalPlan::Union(_) => {
            let largest = |at: usize| inputs.iter().filter_map(|input| input.get(at)).max();
            (0..count).map(|at| largest(at).copied().unwrap_or(1)).collect()
        }
        // All others have the columns of their inputs, one behind the other, and then their own.
        _ => inputs.concat(),
    };
    columns.resize(count, 1);
    match columns.iter().any(|size| *size > MAX_SIZE) {
        true => Err(Error::plain(format!(
            "a column is made of more than {MAX_SIZE} others, through queries within each other"
        ))),
        false => Ok(columns),
    }
}

fn made_of(exprs: &[Expr], schema: &DFSchema, input: Option<&Vec<Size>>) -> Vec<Size> {
    exprs.iter().map(|expr| size(expr, schema, input)).collect()
}

fn size(expr: &Expr, schema: &DFSchema, input: Option<&Vec<Size>>) -> Size {
    let mut size = 0usize;
    let counted = expr.apply(|part| {
        let of = match part {
            Expr::Column(column) => {
                let at = schema.maybe_index_of_column(column);
                at.and_then(|at| input?.get(at)).copied().unwrap_or(1)
            }
            _ => 0,
        };
        size = size.saturating_add(of);
        Ok(TreeNodeRecursion::Continue)
    });
    // It always is.
    counted.map_or(size, |_| size).max(1)
}
