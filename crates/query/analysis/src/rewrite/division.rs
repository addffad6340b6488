//! What is divided by zero is NULL, not an error.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};

use crate::rewrite::{number, replace};
use crate::sql::dialect::call;

pub(crate) struct Division;

impl VisitorMut for Division {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: BinaryOperator::Divide | BinaryOperator::Modulo, right, .. } = expr
            && !is_not_zero(right)
        {
            replace(right, |right| call("nullif", [right, number("0")]));
        }
        ControlFlow::Continue(())
    }
}

fn is_not_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(expr) => is_not_zero(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<f64>().is_ok_and(|value| value != 0.0),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn what_may_be_zero_divides_nothing() {
        let made = through(Division, "select a / b, a / 2, a % (1e9), a / 0");
        assert_eq!(made, "SELECT a / nullif(b, 0), a / 2, a % (1e9), a / nullif(0, 0)");
    }
}
