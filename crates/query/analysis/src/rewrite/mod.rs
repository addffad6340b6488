//! What means something else in SQLite than in DataFusion, made the same: one rule a file, on syntax trees.
//!
//! | rule | what it makes |
//! |---|---|
//! | [`using`] | a column that several `USING` name |
//! | [`calls`] | functions under the names, and with the arguments, that they have here |
//! | [`casts`] | `CAST` that never fails |
//! | [`division`] | a division by zero is NULL |
//! | [`like`] | `LIKE` that does not tell capitals from small letters |
//! | [`group`] | columns beside aggregates, of the first row or that of `min` and `max` |
//! | [`truth`] | numbers where a condition is wanted, and conditions where a number is |
//! | [`names`] | columns of one name told apart |
//! | [`trace`] | `_trace`, the path of the trace (if it is one that is asked, not a table over several) |
//! | [`order`] | rows of groups and unions in the order of their keys, as SQLite has them |

pub(crate) mod calls;
pub(crate) mod casts;
pub(crate) mod division;
pub(crate) mod group;
pub(crate) mod like;
pub(crate) mod names;
pub(crate) mod order;
pub(crate) mod trace;
pub(crate) mod truth;
pub(crate) mod using;

use std::ops::ControlFlow;

use sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Query, Value,
    VisitMut, VisitorMut,
};

/// All rules, in the order in which they may follow each other.
pub(crate) fn rewrite(query: &mut Query) {
    each(query, using::Using);
    each(query, calls::Calls);
    each(query, casts::Casts);
    each(query, division::Division);
    each(query, like::Like);
    each(query, group::Group);
    each(query, truth::Truth);
    each(query, names::Names);
    order::apply(query);
}

/// The rule for what is asked of one trace, after all others.
pub(crate) fn of_one_trace(query: &mut Query) {
    each(query, trace::Trace);
}

fn each(query: &mut Query, mut rule: impl VisitorMut<Break = ()>) {
    let _: ControlFlow<()> = query.visit(&mut rule);
}

/// The name of a function, in small letters, if it is one word.
pub(crate) fn name_of(function: &Function) -> Option<&str> {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(&name.value),
        _ => None,
    }
}

/// The arguments of a function, if they are expressions.
pub(crate) fn args_of(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let expr = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(expr).collect()
}

/// The arguments of a function, to change them.
pub(crate) fn args_of_mut(function: &mut Function) -> impl Iterator<Item = &mut Expr> {
    let list = match &mut function.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    };
    list.into_iter().flat_map(|list| &mut list.args).filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// Puts something in the place of an expression that it is made of.
pub(crate) fn replace(expr: &mut Expr, with: impl FnOnce(Expr) -> Expr) {
    let old = std::mem::replace(expr, null());
    *expr = with(old);
}

pub(crate) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

pub(crate) fn number(text: impl Into<String>) -> Expr {
    Expr::Value(Value::Number(text.into(), false).into())
}

pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: sqlparser::ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

/// As an integer; also what a query has as a condition.
pub(crate) fn as_int(expr: Expr) -> Expr {
    cast(expr, DataType::BigInt(None))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::sql::parse::{lower, query};
    use crate::sql::text::Text;

    /// A query through one rule, as text.
    pub(crate) fn through(rule: impl VisitorMut<Break = ()>, sql: &str) -> String {
        let text = Text::new(sql);
        let mut query = query(&text, &lower(text.words().unwrap())).unwrap();
        each(&mut query, rule);
        query.to_string()
    }
}
