//! Columns of one name told apart: SQLite lets a query have them, DataFusion does not. The second `a` is `a:1`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Select, SelectItem, VisitorMut};

use crate::rewrite::null;

pub(crate) struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let name = match item {
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => name.value.clone(),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    parts.last().map(|part| part.value.clone()).unwrap_or_default()
                }
                SelectItem::UnnamedExpr(expr) => expr.to_string(),
                SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
                _ => continue,
            };
            let count = seen.entry(name.clone()).or_default();
            // DataFusion calls all queries in the place of a value the same.
            let is_query = matches!(item, SelectItem::UnnamedExpr(_)) && name.contains("SELECT ");
            if *count > 0 || is_query {
                let name = if *count > 0 { format!("{name}:{count}") } else { name };
                let alias = Ident::with_quote('"', name);
                let expr = match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                        std::mem::replace(expr, null())
                    }
                    _ => continue,
                };
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            *count += 1;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn the_second_of_a_name_has_a_number() {
        let made = through(Names, "select a, t.a, 1, 1, b as a from t");
        assert_eq!(made, "SELECT a, t.a AS \"a:1\", 1, 1 AS \"1:1\", b AS \"a:2\" FROM t");
    }
}
