//! Columns beside aggregates that no group is made by: of the first row, or of that with the `min` or `max`, as in SQLite.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr, Value, VisitorMut,
};

use crate::rewrite::{args_of, args_of_mut, name_of, replace};
use crate::sql::dialect::call;

pub(crate) struct Group;

/// Functions of many rows.
const AGGREGATES: [&str; 11] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "total",
    "string_agg",
    "group_concat",
    "first_value",
    "last_value",
    "array_agg",
];

impl VisitorMut for Group {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // The order of a query may have aggregates, too.
        let order_by = match &mut query.order_by {
            Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) => exprs.as_mut_slice(),
            _ => &mut [],
        };
        if let SetExpr::Select(select) = query.body.as_mut() {
            group(select, order_by);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Of a union's part; what was done already is left as it is.
        group(select, &mut []);
        ControlFlow::Continue(())
    }
}

fn group(select: &mut Select, order_by: &mut [OrderByExpr]) {
    let keys = keys(select);
    let GroupByExpr::Expressions(by, _) = &select.group_by else { return };
    let exprs = || select.projection.iter().filter_map(expr_of).chain(&select.having);
    let mut found = Vec::new();
    exprs().for_each(|expr| aggregates(expr, &mut found));
    if by.is_empty() && found.is_empty() {
        return;
    }
    let extreme = extreme(&found);
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    });
    let aliases: Vec<_> = aliases.collect();
    let bare = |aliases| Bare { keys: &keys, extreme: extreme.as_ref(), aliases };
    for item in &mut select.projection {
        match item {
            SelectItem::ExprWithAlias { expr, alias } if !is_key_by_alias(&keys, alias) => {
                bare(&[]).wrap(expr)
            }
            SelectItem::UnnamedExpr(expr) => {
                // It keeps its name.
                let name = match &*expr {
                    Expr::Identifier(name) => Some(name.clone()),
                    Expr::CompoundIdentifier(parts) => parts.last().cloned(),
                    _ => None,
                };
                let before = expr.clone();
                bare(&[]).wrap(expr);
                if let Some(alias) = name.filter(|_| before != *expr) {
                    let alias = Ident::with_quote('"', alias.value);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            _ => {}
        }
    }
    select.having.iter_mut().for_each(|expr| bare(&aliases).wrap(expr));
    order_by.iter_mut().for_each(|by| bare(&aliases).wrap(&mut by.expr));
}

/// Whether its rows are of several rows each.
pub(crate) fn is_grouped(select: &Select) -> bool {
    let is_by = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let mut found = Vec::new();
    select.projection.iter().filter_map(expr_of).for_each(|expr| aggregates(expr, &mut found));
    is_by || select.having.is_some() || select.distinct.is_some() || !found.is_empty()
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// What groups are made by; places are what stands there.
fn keys(select: &Select) -> Vec<Expr> {
    let GroupByExpr::Expressions(by, _) = &select.group_by else { return Vec::new() };
    let key = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => {
                let place = text.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                place.and_then(|place| expr_of(select.projection.get(place)?)).unwrap_or(expr).clone()
            }
            _ => expr.clone(),
        },
        other => other.clone(),
    };
    by.iter().map(key).collect()
}

fn is_key_by_alias(keys: &[Expr], alias: &Ident) -> bool {
    keys.iter().any(|key| matches!(key, Expr::Identifier(name) if name.value == alias.value))
}

fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && name_of(function).is_some_and(|name| AGGREGATES.contains(&name))
}

/// The aggregates in an expression, not those of queries in it.
fn aggregates<'e>(expr: &'e Expr, found: &mut Vec<&'e Function>) {
    match expr {
        Expr::Function(function) if is_aggregate(function) => found.push(function),
        other => children(other).into_iter().for_each(|child| aggregates(child, found)),
    }
}

/// If there is one aggregate that is a `min` or a `max`: of what, and whether it is the largest.
fn extreme(found: &[&Function]) -> Option<(Expr, bool)> {
    let extremes = found.iter().filter(|it| matches!(name_of(it), Some("min" | "max")));
    let mut extremes =
        extremes.map(|it| (args_of(it).and_then(|args| args.first().map(|&arg| arg.clone())), name_of(it)));
    match (extremes.next(), extremes.next()) {
        (Some((Some(of), name)), None) => Some((of, name == Some("max"))),
        _ => None,
    }
}

struct Bare<'a> {
    keys: &'a [Expr],
    extreme: Option<&'a (Expr, bool)>,
    /// Names of other expressions.
    aliases: &'a [String],
}

impl Bare<'_> {
    fn wrap(&self, expr: &mut Expr) {
        if self.keys.iter().any(|key| is_same(key, expr)) {
            return;
        }
        match expr {
            Expr::Function(function) if is_aggregate(function) => {}
            Expr::Identifier(name) if self.aliases.contains(&name.value) => {}
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => replace(expr, |expr| self.first(expr)),
            other => children_mut(other).into_iter().for_each(|child| self.wrap(child)),
        }
    }

    fn first(&self, expr: Expr) -> Expr {
        let mut first = call("first_value", [expr]);
        if let (Some((of, is_largest)), Expr::Function(function)) = (self.extreme, &mut first)
            && let FunctionArguments::List(list) = &mut function.args
        {
            // NULL is no extreme.
            let options = OrderByOptions { asc: Some(!is_largest), nulls_first: Some(false) };
            let by = OrderByExpr { expr: of.clone(), options, with_fill: None };
            list.clauses.push(FunctionArgumentClause::OrderBy(vec![by]));
        }
        first
    }
}

/// Whether both are the same column or expression; `t.a` is the same as `a`.
fn is_same(key: &Expr, expr: &Expr) -> bool {
    match (key, expr) {
        (Expr::Nested(key), _) => is_same(key, expr),
        (Expr::Identifier(a), Expr::Identifier(b)) => a.value == b.value,
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts))
        | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => {
            parts.last().is_some_and(|last| last.value == name.value)
        }
        _ => key == expr,
    }
}

/// What is directly in an expression, to be seen or (`mut`) to be changed.
macro_rules! children {
    ($expr:ident, $iter:ident, $as_ref:ident, $args:path $(, $mut:tt)?) => {
        match $expr {
            Expr::BinaryOp { left, right, .. } => vec![left, right],
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
            Expr::UnaryOp { expr, .. }
            | Expr::Nested(expr)
            | Expr::Cast { expr, .. }
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr)
            | Expr::Ceil { expr, .. }
            | Expr::Floor { expr, .. }
            | Expr::InSubquery { expr, .. } => vec![expr],
            Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => vec![expr, pattern],
            Expr::InList { expr, list, .. } => std::iter::once(expr.$as_ref()).chain(list).collect(),
            Expr::Between { expr, low, high, .. } => vec![expr, low, high],
            Expr::Case { operand, conditions, else_result, .. } => {
                let whens = conditions.$iter();
                let whens = whens.flat_map(|when| [&$($mut)? when.condition, &$($mut)? when.result]);
                let others = operand.$iter().chain(else_result).map(|expr| expr.$as_ref());
                whens.chain(others).collect()
            }
            Expr::Function(function) => $args(function).into_iter().flatten().collect(),
            _ => Vec::new(),
        }
    };
}

/// Expressions directly in an expression; none of queries, which have their own groups.
fn children(expr: &Expr) -> Vec<&Expr> {
    children!(expr, iter, as_ref, args_of)
}

fn children_mut(expr: &mut Expr) -> Vec<&mut Expr> {
    fn args(function: &mut Function) -> Option<impl Iterator<Item = &mut Expr>> {
        Some(args_of_mut(function))
    }
    children!(expr, iter_mut, as_mut, args, mut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn columns_beside_aggregates_are_of_one_row() {
        for (sql, made) in [
            (
                "select a, b, count(*) from t group by a",
                "SELECT a, first_value(b) AS \"b\", count(*) FROM t GROUP BY a",
            ),
            (
                "select ts, max(dur) from t",
                "SELECT first_value(ts ORDER BY dur DESC NULLS LAST) AS \"ts\", max(dur) FROM t",
            ),
            (
                "select t.a + 1, sum(b) over () from t group by a",
                "SELECT t.a + 1, sum(first_value(b)) OVER () FROM t GROUP BY a",
            ),
            (
                "select substr(a, 1) x, count(*) from t group by x",
                "SELECT substr(a, 1) AS x, count(*) FROM t GROUP BY x",
            ),
            ("select a + 1, count(*) from t group by 1", "SELECT a + 1, count(*) FROM t GROUP BY 1"),
            ("select a from t", "SELECT a FROM t"),
        ] {
            let made = made.replace("substr(a, 1)", "SUBSTR(a, 1)");
            assert_eq!(through(Group, sql).replace("SUBSTRING(a, 1)", "SUBSTR(a, 1)"), made);
        }
    }
}
