//! A query in two: what is asked of each trace by itself, and what is done with the rows of all.
//!
//! What the outermost `SELECT` reads (its `FROM` and `WHERE`) is of each trace. The syntax tree is marked there, by a condition that always
//! holds, and the mark is found again in the plan: that of a filter, below which nothing is touched. Above it the plan is a chain, and is cut
//! below the deepest node that makes something of several rows: a group, a window, an order, a limit. What the nodes above ask of the trace
//! nevertheless (`sum(extract_arg(…))`) becomes a column of the part below.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use sqlparser::ast::{
    BinaryOperator, Expr as AstExpr, Ident, Query, SelectItem, SetExpr, SetQuantifier, TableFactor,
};

use crate::error::Error;
use crate::functions::of_trace::{EACH, TRACE};
use crate::rewrite::group::is_grouped;
use crate::sql::dialect::call;
use crate::sql::parse;
use crate::sql::text::Text;

/// What becomes of a union, or of another query that is no `SELECT`, which stands in the place of the inner one.
const OVER_ROWS: &str = "SELECT * FROM (SELECT 1) AS __rows";
const OVER_DISTINCT_ROWS: &str = "SELECT DISTINCT * FROM (SELECT 1) AS __rows";
/// Columns that are made below for what stands above.
const TAKEN_DOWN: &str = "__of_trace_";

/// Marks what is asked of each trace by itself. Where `with_trace`, rows that are of one trace have a column `_trace`.
pub(crate) fn mark(query: &mut Query, with_trace: bool) -> Result<(), Error> {
    if !matches!(query.body.as_ref(), SetExpr::Select(_)) {
        as_select(query)?;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if with_trace && !is_grouped(select) && !select.projection.iter().any(is_called_trace) {
        let alias = Ident::with_quote('"', TRACE);
        select.projection.push(SelectItem::ExprWithAlias { expr: call(TRACE, []), alias });
    }
    let mark = call(EACH, []);
    select.selection = Some(match select.selection.take() {
        None => mark,
        Some(condition) => AstExpr::BinaryOp {
            left: Box::new(mark),
            op: BinaryOperator::And,
            right: Box::new(AstExpr::Nested(Box::new(condition))),
        },
    });
    Ok(())
}

fn is_called_trace(item: &SelectItem) -> bool {
    matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == TRACE)
}

/// A query of rows that one `SELECT` does not give becomes one of a `SELECT` over them: each trace has its own `UNION`, and what that does not
/// have twice all do not.
fn as_select(query: &mut Query) -> Result<(), Error> {
    let is_distinct = matches!(
        query.body.as_ref(),
        SetExpr::SetOperation { set_quantifier, .. }
            if !matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName)
    );
    let shell = Text::new(if is_distinct { OVER_DISTINCT_ROWS } else { OVER_ROWS });
    let shell = parse::query(&shell, &shell.words()?)?;
    let body = std::mem::replace(&mut query.body, shell.body);
    if let SetExpr::Select(select) = query.body.as_mut() {
        for table in &mut select.from {
            if let TableFactor::Derived { subquery, .. } = &mut table.relation {
                subquery.body = body.clone();
            }
        }
    }
    Ok(())
}

/// A query in two parts.
#[derive(Debug)]
pub(crate) struct Parts {
    /// What each trace is asked.
    pub(crate) below: LogicalPlan,
    /// What is done with the rows, the lowest node first, each with its expressions.
    above: Vec<(LogicalPlan, Vec<Expr>)>,
    /// What columns are called in the end, if there are more than these.
    shown: Option<Vec<Expr>>,
}

/// Cuts the plan of a query that was marked. `of_trace` are the functions that nothing but a trace can answer.
pub(crate) fn split(plan: LogicalPlan, of_trace: &HashSet<String>) -> Result<Parts> {
    let mut chain = Vec::new();
    let mut node = &plan;
    while !is_mark(node) {
        let inputs = node.inputs();
        let [input] = inputs.as_slice() else {
            return plan_err!("the statement cannot be asked of several traces");
        };
        chain.push(node);
        node = input;
    }
    let Some(cut) = chain.iter().rposition(|node| makes_of_several(node)) else {
        return Ok(Parts { below: plan, above: Vec::new(), shown: None });
    };
    let above: Vec<LogicalPlan> = chain.into_iter().take(cut + 1).rev().cloned().collect();
    let below = match above.first().map(LogicalPlan::inputs).as_deref() {
        Some([input]) => (*input).clone(),
        _ => return plan_err!("the statement cannot be asked of several traces"),
    };
    take_down(above, below, of_trace)
}

fn is_mark(node: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = node else { return false };
    let is_it = |expr: &Expr| Ok(matches!(expr, Expr::ScalarFunction(it) if it.name() == EACH));
    filter.predicate.exists(is_it).unwrap_or(false)
}

fn makes_of_several(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
    )
}

/// Makes columns of the part below of what the nodes above ask of a trace.
fn take_down(above: Vec<LogicalPlan>, below: LogicalPlan, of_trace: &HashSet<String>) -> Result<Parts> {
    let shown: Vec<Expr> = above.last().map_or_else(Vec::new, |top| columns(top.schema()));
    let mut taken: Vec<Expr> = Vec::new();
    let mut nodes = Vec::with_capacity(above.len());
    // Whether the columns of the part below, and no others of their names, are still there.
    let mut is_reached = true;
    for node in above {
        let names = NamePreserver::new(&node);
        let mut exprs = node.expressions();
        if is_reached {
            for expr in &mut exprs {
                let name = names.save(expr);
                let made = std::mem::take(expr)
                    .transform_down(|expr| taken_down(expr, &below, of_trace, &mut taken));
                *expr = name.restore(made.data()?);
            }
        }
        if let Some(asked) = exprs.iter().find_map(|expr| asked_of_trace(expr, of_trace)) {
            return plan_err!(
                "{asked} is asked of one trace, and here the rows are of several: group by it, put it into max() or min(), or ask it in FROM or WHERE"
            );
        }
        is_reached &= matches!(
            node,
            LogicalPlan::Window(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Filter(_)
        );
        nodes.push((node, exprs));
    }
    if taken.is_empty() {
        return Ok(Parts { below, above: nodes, shown: None });
    }
    let taken = taken.into_iter().enumerate().map(|(at, expr)| expr.alias(name_of(at)));
    let all = columns(below.schema()).into_iter().chain(taken).collect();
    let below = LogicalPlan::Projection(Projection::try_new(all, Arc::new(below))?);
    Ok(Parts { below, above: nodes, shown: Some(shown) })
}

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.iter().map(|field| Expr::Column(Column::from(field))).collect()
}

fn name_of(at: usize) -> String {
    format!("{TAKEN_DOWN}{at}")
}

/// The largest expressions that are of a trace, and of columns of the part below.
fn taken_down(
    expr: Expr,
    below: &LogicalPlan,
    of_trace: &HashSet<String>,
    taken: &mut Vec<Expr>,
) -> Result<Transformed<Expr>> {
    // What an alias is of is looked at.
    let is_whole = !matches!(expr, Expr::Alias(_)) && !makes_one_of_several(&expr);
    let is_below = || expr.column_refs().iter().all(|column| below.schema().has_column(column));
    if asked_of_trace(&expr, of_trace).is_none() || !is_whole || !is_below() {
        return Ok(Transformed::no(expr));
    }
    let at = taken.iter().position(|it| *it == expr).unwrap_or(taken.len());
    if at == taken.len() {
        taken.push(expr);
    }
    let column = Expr::Column(Column::from_name(name_of(at)));
    Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
}

fn makes_one_of_several(expr: &Expr) -> bool {
    let is_it = |expr: &Expr| Ok(matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_)));
    expr.exists(is_it).unwrap_or(true)
}

/// What in an expression only a trace can answer, if there is something: how it begins.
fn asked_of_trace(expr: &Expr, of_trace: &HashSet<String>) -> Option<String> {
    let mut found = None;
    let _ = expr.apply(|expr| {
        found = match expr {
            Expr::ScalarFunction(it) if of_trace.contains(it.name()) => Some(format!("{}()", it.name())),
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
                Some("a query within an expression".to_owned())
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    });
    found
}

/// A function in an expression that only a trace can answer.
pub(crate) fn function_of_trace(expr: &Expr, of_trace: &HashSet<String>) -> Option<String> {
    let mut found = None;
    let _ = expr.apply(|expr| {
        if let Expr::ScalarFunction(it) = expr
            && of_trace.contains(it.name())
        {
            found = Some(it.name().to_owned());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

impl Parts {
    /// What is done with rows that are called as those of the part below are.
    pub(crate) fn over(&self, rows: LogicalPlan) -> Result<LogicalPlan> {
        let mut plan = rows;
        for (node, exprs) in &self.above {
            plan = node.with_new_exprs(exprs.clone(), vec![plan])?;
        }
        Ok(match &self.shown {
            Some(shown) => LogicalPlan::Projection(Projection::try_new(shown.clone(), Arc::new(plan))?),
            None => plan,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Threads;
    use crate::session::Session;
    use crate::trace::Options;

    /// What stands on top of the part below, and the nodes above it, the lowest first.
    fn cut(sql: &'static str) -> Result<(String, String), Error> {
        let plan = Threads::new(1)?.run(async move {
            let mut session = Session::new(Arc::default(), &Options { threads: 1, ..Options::default() })?;
            session.parts(sql).await
        });
        let Parts { below, above, .. } = plan?;
        let name =
            |node: &LogicalPlan| node.display().to_string().split([':', ' ']).next().map(str::to_owned);
        let above: Vec<String> = above.iter().filter_map(|(node, _)| name(node)).collect();
        Ok((name(&below).unwrap_or_default(), above.join(" ")))
    }

    #[test]
    fn a_query_is_cut_below_what_makes_something_of_several_rows() {
        for (sql, below, above) in [
            ("select name, dur * 2 from slice where dur > 1", "Projection", ""),
            ("select name, count(*) from slice group by name", "Filter", "Aggregate Projection Sort"),
            (
                "select count(*) from slice where dur > 1 having count(*) > 1",
                "Filter",
                "Aggregate Filter Projection",
            ),
            ("select distinct name from slice", "Projection", "Distinct"),
            ("select ts from slice order by ts limit 1", "Projection", "Sort Limit"),
            ("select sum(dur) over () from slice", "Filter", "WindowAggr Projection"),
            // The groups of a query that is read are of each trace.
            (
                "select avg(n) from (select count(*) n from slice group by name)",
                "Filter",
                "Aggregate Projection",
            ),
            ("select * from (select ts from slice order by ts limit 1)", "Projection", ""),
            ("select ts from slice union all select 1", "Projection", ""),
            ("select ts from slice union select 1", "Projection", "Distinct Sort"),
            // What only a trace can answer is a column below.
            ("select sum(ts - trace_start()) from slice", "Projection", "Aggregate Projection"),
            (
                "select max(ts) from slice group by _trace",
                "Projection",
                "Aggregate Projection Sort Projection",
            ),
        ] {
            assert_eq!(cut(sql).unwrap(), (below.to_owned(), above.to_owned()), "{sql}");
        }
    }

    #[test]
    fn what_only_a_trace_can_answer_is_not_asked_of_all() {
        for sql in [
            "select sum(dur) / trace_dur() from slice",
            "select count(*) from slice having count(*) > (select max(id) from slice)",
        ] {
            let said = cut(sql).unwrap_err().to_string();
            assert!(said.contains("is asked of one trace"), "{said}");
        }
    }
}
