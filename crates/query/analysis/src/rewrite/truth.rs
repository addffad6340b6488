//! Numbers where a condition is wanted, and conditions where a number is.
//!
//! SQLite has no type for what is true: it is 1, and 0 is what is not. DataFusion has one. So no query gives a Boolean to the one around it:
//! a condition that is wanted as a value becomes an integer, and a value that is wanted as a condition goes through `truth(…)`, of which
//! nothing is left when it is one already.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, UnaryOperator,
    Value, VisitorMut,
};

use crate::rewrite::{args_of_mut, as_int, name_of, number, replace};
use crate::sql::dialect::call;

pub(crate) struct Truth;

/// Functions that give a condition.
const CONDITIONS: [&str; 3] = ["glob", "regexp", "truth"];

impl VisitorMut for Truth {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or => {
                    [left, right].into_iter().for_each(|it| condition(it))
                }
                _ => [left, right].into_iter().for_each(|it| value(it)),
            },
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => condition(expr),
            Expr::UnaryOp { expr, .. } => value(expr),
            Expr::Case { operand, conditions, else_result, .. } => {
                for when in conditions {
                    match operand {
                        None => condition(&mut when.condition),
                        Some(_) => value(&mut when.condition),
                    }
                    value(&mut when.result);
                }
                operand.iter_mut().chain(else_result).for_each(|it| value(it));
            }
            Expr::Function(function) => {
                let is_truth = name_of(function) == Some("truth");
                if !is_truth {
                    args_of_mut(function).for_each(value);
                }
                function.filter.iter_mut().for_each(|filter| condition(filter));
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                [left, right].into_iter().for_each(|it| value(it));
            }
            Expr::InList { expr, list, .. } => {
                value(expr);
                list.iter_mut().for_each(value);
            }
            Expr::Between { expr, low, high, .. } => [expr, low, high].into_iter().for_each(|it| value(it)),
            Expr::InSubquery { expr, .. } => value(expr),
            Expr::IsTrue(expr) | Expr::IsFalse(expr) | Expr::IsNotTrue(expr) | Expr::IsNotFalse(expr) => {
                condition(expr);
            }
            Expr::Tuple(list) => list.iter_mut().for_each(value),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                value(expr);
            }
        }
        select.selection.iter_mut().chain(&mut select.having).for_each(condition);
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let Some(JoinConstraint::On(expr)) = constraint(&mut join.join_operator) {
                condition(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(value);
        }
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(it)
        | JoinOperator::Inner(it)
        | JoinOperator::Left(it)
        | JoinOperator::LeftOuter(it)
        | JoinOperator::Right(it)
        | JoinOperator::RightOuter(it)
        | JoinOperator::FullOuter(it)
        | JoinOperator::CrossJoin(it) => Some(it),
        _ => None,
    }
}

/// Whether it is true or not, or unknown.
fn is_condition(expr: &Expr) -> bool {
    use BinaryOperator as Op;
    match expr {
        Expr::Nested(expr) => is_condition(expr),
        Expr::BinaryOp { op, .. } => {
            matches!(op, Op::And | Op::Or | Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => true,
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsNotTrue(_) => true,
        Expr::IsFalse(_) | Expr::IsNotFalse(_) | Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => true,
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => true,
        Expr::Like { .. } | Expr::ILike { .. } | Expr::InList { .. } | Expr::InSubquery { .. } => true,
        Expr::Between { .. } | Expr::Exists { .. } => true,
        Expr::Value(value) => matches!(value.value, Value::Boolean(_)),
        Expr::Function(function) => name_of(function).is_some_and(|name| CONDITIONS.contains(&name)),
        _ => false,
    }
}

fn condition(expr: &mut Expr) {
    if !is_condition(expr) {
        replace(expr, |expr| call("truth", [expr]));
    }
}

fn value(expr: &mut Expr) {
    match expr {
        Expr::Value(literal) => {
            if let Value::Boolean(is_true) = literal.value {
                *expr = number(if is_true { "1" } else { "0" });
            }
        }
        _ if is_condition(expr) => replace(expr, as_int),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn conditions_are_numbers_and_numbers_conditions() {
        for (sql, made) in [
            ("select a = b", "SELECT CAST(a = b AS BIGINT)"),
            ("select true, sum(a > 1)", "SELECT 1, sum(CAST(a > 1 AS BIGINT))"),
            ("select 1 from t where a", "SELECT 1 FROM t WHERE truth(a)"),
            ("select 1 from t where not a and b > 2", "SELECT 1 FROM t WHERE NOT truth(a) AND b > 2"),
            ("select (a > 1) + (b is null)", "SELECT CAST((a > 1) AS BIGINT) + CAST((b IS NULL) AS BIGINT)"),
            ("select case when a then b = 1 end", "SELECT CASE WHEN truth(a) THEN CAST(b = 1 AS BIGINT) END"),
            ("select 1 from t join u on t.a", "SELECT 1 FROM t JOIN u ON truth(t.a)"),
        ] {
            assert_eq!(through(Truth, sql), made);
        }
    }
}
