//! Texts beside numbers. SQLite compares them by rules of its own and never fails; DataFusion makes numbers of the texts, or fails.
//!
//! A literal becomes what the other side is, if it is the text of one. If not, they are not equal, and numbers are smaller than texts. Where
//! several values become one (`coalesce`, `CASE`), numbers among texts are texts.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarUDF, lit,
};

use crate::functions::text::is_text;

/// The plan with it.
pub(crate) fn coerce(plan: LogicalPlan, cast_text: &Arc<ScalarUDF>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        let inputs = plan.inputs();
        let schema = match inputs.is_empty() {
            true => plan.schema().as_ref().clone(),
            false => merge_schema(&inputs),
        };
        let names = NamePreserver::new(&plan);
        let mut is_changed = false;
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let fixed = expr.transform_up(|expr| fixed(expr, &schema, cast_text))?;
            is_changed |= fixed.transformed;
            Ok(fixed.update_data(|expr| name.restore(expr)))
        })?;
        // A type below may be another one now.
        let plan = plan.data.recompute_schema()?;
        Ok(if is_changed { Transformed::yes(plan) } else { Transformed::no(plan) })
    })
    .data()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Text,
    Number,
    Other,
}

fn sort(expr: &Expr, schema: &DFSchema) -> Sort {
    match expr.get_type(schema) {
        Ok(it) if is_text(&it) => Sort::Text,
        Ok(it) if it.is_numeric() => Sort::Number,
        _ => Sort::Other,
    }
}

fn fixed(expr: Expr, schema: &DFSchema, cast_text: &Arc<ScalarUDF>) -> Result<Transformed<Expr>> {
    let as_text = |expr: Expr| match sort(&expr, schema) {
        Sort::Number => Expr::ScalarFunction(ScalarFunction::new_udf(cast_text.clone(), vec![expr])),
        _ => expr,
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op)
                && (is_int(&left, schema) || is_int(&right, schema))
                && exact(&left, &right) =>
        {
            let whole = |expr: Box<Expr>| Box::new(whole_of(&expr).unwrap_or(*expr));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: whole(left), op, right: whole(right) }))
        }
        Expr::InList(InList { expr, list, negated })
            if is_int(&expr, schema) && list.iter().any(|it| whole_of(it).is_some()) =>
        {
            // No integer is another double, and with one of them in the list all would be compared as doubles.
            let list = list.into_iter().filter_map(|it| match (whole_of(&it), &it) {
                (Some(whole), _) => Some(whole),
                (None, Expr::Literal(ScalarValue::Float64(Some(_)), _)) => None,
                _ => Some(it),
            });
            let list = list.collect();
            Transformed::yes(fixed(Expr::InList(InList { expr, list, negated }), schema, cast_text)?.data)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            match (sort(&left, schema), sort(&right, schema)) {
                (Sort::Text, Sort::Number) | (Sort::Number, Sort::Text) => {
                    Transformed::yes(compared(*left, op, *right, schema))
                }
                _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::InList(InList { expr, list, negated }) => {
            let of = sort(&expr, schema);
            let is_mixed = list.iter().any(|it| {
                matches!((of, sort(it, schema)), (Sort::Text, Sort::Number) | (Sort::Number, Sort::Text))
            });
            if !is_mixed || of == Sort::Other {
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            }
            let list = list.into_iter().filter_map(|it| match (of, sort(&it, schema)) {
                (Sort::Number, Sort::Text) => number_of(&it),
                (Sort::Text, Sort::Number) => text_of(&it),
                _ => Some(it),
            });
            Transformed::yes(Expr::InList(InList { expr, list: list.collect(), negated }))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "coalesce" => {
            match is_mixed(args.iter(), schema) {
                true => Transformed::yes(Expr::ScalarFunction(ScalarFunction {
                    func,
                    args: args.into_iter().map(as_text).collect(),
                })),
                false => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let results = when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(else_expr.as_deref());
            if !is_mixed(results, schema) {
                return Ok(Transformed::no(Expr::Case(Case { expr, when_then_expr, else_expr })));
            }
            let whens = when_then_expr.into_iter().map(|(when, then)| (when, Box::new(as_text(*then))));
            let otherwise = else_expr.map(|it| Box::new(as_text(*it)));
            Transformed::yes(Expr::Case(Case { expr, when_then_expr: whens.collect(), else_expr: otherwise }))
        }
        other => Transformed::no(other),
    })
}

fn is_mixed<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let (mut has_text, mut has_number) = (false, false);
    for expr in exprs {
        match sort(expr, schema) {
            Sort::Text => has_text = true,
            Sort::Number => has_number = true,
            Sort::Other => {}
        }
    }
    has_text && has_number
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// A text and a number compared.
fn compared(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Expr {
    let compare =
        |left, right| Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) });
    let is_left_text = sort(&left, schema) == Sort::Text;
    let (text, number) = if is_left_text { (&left, &right) } else { (&right, &left) };
    let converted = match (text, number) {
        (Expr::Literal(..), _) => number_of(text).map(|it| (it, number.clone())),
        (_, Expr::Literal(..)) => text_of(number).map(|it| (text.clone(), it)),
        // Two columns: as before.
        _ => return compare(left, right),
    };
    match converted {
        Some((text, number)) if is_left_text => compare(text, number),
        Some((text, number)) => compare(number, text),
        // A text that is no number is greater than each; NULL stays what it is.
        None => {
            let is_true = match op {
                Operator::NotEq | Operator::IsDistinctFrom => true,
                Operator::Lt | Operator::LtEq => !is_left_text,
                Operator::Gt | Operator::GtEq => is_left_text,
                _ => false,
            };
            let other = if is_left_text { right } else { left };
            let null = Expr::Literal(ScalarValue::Boolean(None), None);
            match op {
                Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => lit(is_true),
                _ => Expr::Case(Case {
                    expr: None,
                    when_then_expr: vec![(Box::new(other.is_not_null()), Box::new(lit(is_true)))],
                    else_expr: Some(Box::new(null)),
                }),
            }
        }
    }
}

fn is_int(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|it| it.is_integer())
}

/// Whether one of them is a double that is a whole number.
fn exact(left: &Expr, right: &Expr) -> bool {
    whole_of(left).is_some() || whole_of(right).is_some()
}

/// The integer that a literal's double is. As doubles two integers may be equal that are not.
fn whole_of(expr: &Expr) -> Option<Expr> {
    /// The first double that is too large.
    const END: f64 = 9_223_372_036_854_775_808.0;
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _)
            if value.trunc() == *value && (-END..END).contains(value) =>
        {
            Some(lit(*value as i64))
        }
        _ => None,
    }
}

/// The number that a literal's text is the text of.
fn number_of(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = expr else { return Some(expr.clone()) };
    let text = value.try_as_str().flatten()?.trim();
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(value), _) => Some(lit(value)),
        (_, Ok(value)) if text.bytes().any(|byte| byte.is_ascii_digit()) => Some(lit(value)),
        _ => None,
    }
}

/// The text of a literal's number.
fn text_of(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = expr else { return Some(expr.clone()) };
    Some(match value {
        ScalarValue::Float64(Some(value)) => lit(crate::functions::text::real_text(*value)),
        value if value.is_null() => expr.clone(),
        value => match value.cast_to(&DataType::Utf8) {
            Ok(text) => Expr::Literal(text, None),
            Err(_) => return None,
        },
    })
}
