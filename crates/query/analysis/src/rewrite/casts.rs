//! `CAST` as SQLite does it: never an error, by the kind of type that the type's name tells of (its "affinity").

use std::ops::ControlFlow;

use sqlparser::ast::{CastKind, Expr, VisitorMut};

use crate::rewrite::replace;
use crate::sql::dialect::call;

pub(crate) struct Casts;

impl VisitorMut for Casts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Rules before this one have made their own of a type that stays.
        if let Expr::Cast { kind: CastKind::Cast, data_type, .. } = &*expr
            && !is_ours(expr)
            && let Some(function) = function_of(&data_type.to_string().to_lowercase())
        {
            replace(expr, |expr| match expr {
                Expr::Cast { expr, .. } => call(function, [*expr]),
                other => other,
            });
        }
        ControlFlow::Continue(())
    }
}

/// Numbers of rows, which are no other.
fn is_ours(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { expr, .. } if matches!(expr.as_ref(), Expr::Function(function) if function.over.is_some()))
}

fn function_of(name: &str) -> Option<&'static str> {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match () {
        () if has(&["int", "long", "bool", "timestamp", "duration"]) => Some("cast_int"),
        () if has(&["char", "clob", "text", "string"]) => Some("cast_text"),
        () if has(&["real", "floa", "doub"]) => Some("cast_real"),
        () if has(&["blob", "bytes"]) => Some("cast_blob"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn types_are_what_their_names_tell_of() {
        let sql = "select cast(a as int), cast(a as varchar(3)), cast(a as double), cast(a as long)";
        assert_eq!(through(Casts, sql), "SELECT cast_int(a), cast_text(a), cast_real(a), cast_int(a)");
    }
}
