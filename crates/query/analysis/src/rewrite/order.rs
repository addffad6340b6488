//! Rows of groups, and of unions without doubles, in the order of their keys.
//!
//! SQLite finds both by sorting, so that people have come to rely on it. Only the outermost query has an order that anybody sees.

use sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    SetQuantifier, Value,
};

use crate::rewrite::number;

/// Orders the rows of a query that does not say how.
pub(crate) fn apply(query: &mut Query) {
    if let Some(order_by) = &mut query.order_by {
        return order_union(order_by, &query.body);
    }
    let keys = match query.body.as_ref() {
        SetExpr::Select(select) => match &select.group_by {
            GroupByExpr::Expressions(exprs, _) if !exprs.is_empty() && select.distinct.is_none() => {
                exprs.iter().map(|expr| key(select, expr)).collect()
            }
            _ => return,
        },
        SetExpr::SetOperation { set_quantifier, left, .. } => {
            let is_all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
            match columns(left) {
                Some(count) if !is_all => (1..=count).map(|at| number(at.to_string())).collect::<Vec<_>>(),
                _ => return,
            }
        }
        _ => return,
    };
    let options = OrderByOptions { asc: None, nulls_first: None };
    let by = |expr| OrderByExpr { expr, options, with_fill: None };
    let kind = OrderByKind::Expressions(keys.into_iter().map(by).collect());
    query.order_by = Some(OrderBy { kind, interpolate: None });
}

/// A union may be ordered by a column as its first query calls it: `s.name`.
fn order_union(order_by: &mut OrderBy, body: &SetExpr) {
    let SetExpr::SetOperation { .. } = body else { return };
    let mut first = body;
    while let SetExpr::SetOperation { left, .. } = first {
        first = left;
    }
    let (SetExpr::Select(select), OrderByKind::Expressions(exprs)) = (first, &mut order_by.kind) else {
        return;
    };
    for by in exprs.iter_mut().filter(|by| matches!(by.expr, Expr::CompoundIdentifier(_))) {
        let is_it = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => *expr == by.expr,
            _ => false,
        };
        if let Some(place) = select.projection.iter().position(is_it) {
            by.expr = number((place + 1).to_string());
        }
    }
}

/// What the key of a group is called in an `ORDER BY`.
fn key(select: &Select, expr: &Expr) -> Expr {
    match expr {
        // A number is a place in both.
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => expr.clone(),
        // A column that is shown is ordered by what is shown.
        other => {
            let place = select.projection.iter().position(|item| match item {
                SelectItem::UnnamedExpr(expr) => expr == other,
                SelectItem::ExprWithAlias { alias, expr } => {
                    expr == other || matches!(other, Expr::Identifier(name) if name.value == alias.value)
                }
                _ => false,
            });
            let has_star = select
                .projection
                .iter()
                .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
            match place {
                Some(place) if !has_star => number((place + 1).to_string()),
                _ => other.clone(),
            }
        }
    }
}

/// How many columns a query has, if it says so.
fn columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::{lower, query};
    use crate::sql::text::Text;

    #[test]
    fn groups_come_by_their_keys() {
        for (sql, made) in [
            ("select a, b, count(*) from t group by b, c", "ORDER BY 2, c"),
            ("select a x from t group by x", "ORDER BY 1"),
            ("select a, b from t union select 1, 2", "ORDER BY 1, 2"),
            ("select t.a, t.b from t union select 1, 2 order by t.b", "ORDER BY 2"),
        ] {
            let text = Text::new(sql);
            let mut query = query(&text, &lower(text.words().unwrap())).unwrap();
            apply(&mut query);
            assert!(query.to_string().ends_with(made), "{query}");
        }
    }
}
