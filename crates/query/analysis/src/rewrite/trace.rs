//! `_trace`: the path of the trace, wherever a column may stand. It is no column of a table, so that `*` is what it is in Trace Processor.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Select, SelectItem, VisitorMut};

use crate::functions::of_trace::TRACE;
use crate::rewrite::null;
use crate::sql::dialect::call;

pub(crate) struct Trace;

impl VisitorMut for Trace {
    type Break = ();

    /// It keeps its name.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_trace(expr)
            {
                let expr = std::mem::replace(expr, null());
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', TRACE) };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_trace(expr) {
            *expr = call(TRACE, []);
        }
        ControlFlow::Continue(())
    }
}

/// `_trace`, or `t._trace`: it is the same for all tables.
fn is_trace(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => name.value == TRACE,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| name.value == TRACE),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn it_stands_where_columns_do() {
        let made = through(Trace, "select _trace, a from t where t._trace = 'x' group by _trace, a");
        let expected = "SELECT _trace() AS \"_trace\", a FROM t WHERE _trace() = 'x' GROUP BY _trace(), a";
        assert_eq!(made, expected);
    }
}
