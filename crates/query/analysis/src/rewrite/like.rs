//! `LIKE` does not tell ASCII's capitals from its small letters, and takes numbers as their text.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Value, VisitorMut};

use crate::functions::strings::{MAX_PATTERN_BYTES, PATTERN};
use crate::rewrite::replace;
use crate::sql::dialect::call;

pub(crate) struct Like;

impl VisitorMut for Like {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Like { .. }) {
            replace(expr, |expr| match expr {
                Expr::Like { negated, any, expr, pattern, escape_char } => Expr::ILike {
                    negated,
                    any,
                    expr: text(expr),
                    pattern: bounded(text(pattern)),
                    escape_char,
                },
                other => other,
            });
        }
        ControlFlow::Continue(())
    }
}

/// A pattern that is none at a glance goes through what looks how long it is.
fn bounded(pattern: Box<Expr>) -> Box<Expr> {
    match pattern.as_ref() {
        Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if text.len() <= MAX_PATTERN_BYTES) => {
            pattern
        }
        _ => Box::new(call(PATTERN, [*pattern])),
    }
}

fn text(expr: Box<Expr>) -> Box<Expr> {
    match expr.as_ref() {
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => expr,
        _ => Box::new(call("cast_text", [*expr])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn like_takes_letters_of_any_size() {
        assert_eq!(through(Like, "select a not like 'x%'"), "SELECT cast_text(a) NOT ILIKE 'x%'");
    }
}
