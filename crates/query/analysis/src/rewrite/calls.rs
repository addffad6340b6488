//! Functions under the names, and with the arguments, that they have here.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    NullTreatment, ObjectName, UnaryOperator, Value, VisitorMut, helpers::attached_token::AttachedToken,
};

use crate::functions::joining::CONCATENATED;
use crate::rewrite::{args_of, args_of_mut, as_int, name_of, number, replace};
use crate::sql::dialect::call;

pub(crate) struct Calls;

impl VisitorMut for Calls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                if let Some(made) = made_of(function) {
                    *expr = made;
                }
            }
            Expr::Substring { .. } => replace(expr, substring),
            Expr::Trim { .. } => replace(expr, trim),
            Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => replace(expr, concatenated),
            Expr::BinaryOp { op: BinaryOperator::Regexp, .. } => replace(expr, |expr| match expr {
                Expr::BinaryOp { left, right, .. } => call("regexp", [*right, *left]),
                other => other,
            }),
            Expr::RLike { .. } => replace(expr, |expr| match expr {
                Expr::RLike { negated, expr, pattern, .. } => {
                    let found = call("regexp", [*pattern, *expr]);
                    match negated {
                        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                        false => found,
                    }
                }
                other => other,
            }),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `a || b || c` is one call.
fn concatenated(expr: Expr) -> Expr {
    let Expr::BinaryOp { left, right, .. } = expr else { return expr };
    match *left {
        Expr::Function(mut function) if name_of(&function) == Some(CONCATENATED) => {
            if let FunctionArguments::List(list) = &mut function.args {
                list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(*right)));
            }
            Expr::Function(function)
        }
        left => call(CONCATENATED, [left, *right]),
    }
}

fn made_of(function: &mut Function) -> Option<Expr> {
    let name = name_of(function)?.to_owned();
    let count = args_of(function).map(|args| args.len());
    match (name.as_str(), count) {
        ("iif" | "if", Some(2..)) => Some(iif(function)),
        ("ifnull", Some(2)) => Some(renamed(function, "coalesce")),
        ("min", Some(2..)) => Some(renamed(function, "scalar_min")),
        ("max", Some(2..)) => Some(renamed(function, "scalar_max")),
        ("count", Some(0)) => {
            if let FunctionArguments::List(list) = &mut function.args {
                list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
            }
            None
        }
        ("total", Some(1)) => {
            args_of_mut(function).for_each(|arg| replace(arg, |arg| call("cast_real", [arg])));
            let sum = renamed(function, "sum");
            Some(call("coalesce", [sum, number("0.0")]))
        }
        ("group_concat" | "string_agg", Some(1 | 2)) => Some(group_concat(function)),
        ("last_non_null", Some(1)) => {
            function.null_treatment = Some(NullTreatment::IgnoreNulls);
            Some(renamed(function, "last_value"))
        }
        ("ln" | "exp" | "sqrt" | "log" | "log10" | "log2" | "pow" | "power", Some(_)) => {
            args_of_mut(function)
                .filter(|arg| !is_real(arg))
                .for_each(|arg| replace(arg, |arg| call("number_real", [arg])));
            None
        }
        ("lead" | "lag", Some(3)) => lead(function),
        ("row_number" | "rank" | "dense_rank" | "ntile", _) if function.over.is_some() => {
            Some(as_int(Expr::Function(function.clone())))
        }
        ("substring", Some(2 | 3)) => Some(renamed(function, "substr")),
        ("format", _) => Some(renamed(function, "printf")),
        ("likelihood" | "likely" | "unlikely", Some(1..)) => {
            args_of(function)?.first().map(|&expr| expr.clone())
        }
        _ => None,
    }
}

/// `lead(a, n, b)`, whose `b` is of the row: what follows, or `b`.
fn lead(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(otherwise))) = list.args.get(2).cloned() else {
        return None;
    };
    if matches!(otherwise, Expr::Value(_)) {
        return None;
    }
    list.args.truncate(2);
    Some(call("coalesce", [Expr::Function(function.clone()), otherwise]))
}

/// Whether it was made so already.
fn is_real(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if name_of(function) == Some("number_real"))
}

fn renamed(function: &Function, name: &str) -> Expr {
    Expr::Function(Function { name: ObjectName::from(vec![Ident::new(name)]), ..function.clone() })
}

/// `iif(a, x, b, y, z)`: the value behind the first condition that holds, or the last one.
fn iif(function: &Function) -> Expr {
    let args = args_of(function).unwrap_or_default();
    let (pairs, rest) = args.as_chunks::<2>();
    let condition = |[condition, result]: &[&Expr; 2]| CaseWhen {
        condition: (*condition).clone(),
        result: (*result).clone(),
    };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: pairs.iter().map(condition).collect(),
        else_result: rest.first().map(|&other| Box::new(other.clone())),
    }
}

fn group_concat(function: &mut Function) -> Expr {
    args_of_mut(function).take(1).for_each(|arg| replace(arg, |arg| call("cast_text", [arg])));
    if let FunctionArguments::List(list) = &mut function.args
        && list.args.len() == 1
    {
        let comma = Expr::Value(Value::SingleQuotedString(",".to_owned()).into());
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(comma)));
    }
    call("cast_text", [renamed(function, "string_agg")])
}

/// `substr(…)`, which the parser knows by itself.
fn substring(expr: Expr) -> Expr {
    match expr {
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let args = [Some(expr), substring_from, substring_for];
            call("substr", args.into_iter().flatten().map(|arg| *arg))
        }
        other => other,
    }
}

/// `trim(…)`, too.
fn trim(expr: Expr) -> Expr {
    match expr {
        Expr::Trim { expr, trim_what: None, trim_characters, .. } => {
            let what = trim_characters.into_iter().flatten();
            call("btrim", std::iter::once(*expr).chain(what))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn functions_have_the_names_that_they_have_here() {
        for (sql, made) in [
            ("iif(a, 1, 2)", "CASE WHEN a THEN 1 ELSE 2 END"),
            ("ifnull(a, 0)", "coalesce(a, 0)"),
            ("min(a), max(a, b)", "min(a), scalar_max(a, b)"),
            ("total(a)", "coalesce(sum(cast_real(a)), 0.0)"),
            ("group_concat(distinct a)", "cast_text(string_agg(DISTINCT cast_text(a), ','))"),
            ("a || b || 1 || (c || d)", "concatenated(a, b, 1, (concatenated(c, d)))"),
            ("substr(a, 2), trim(a)", "substr(a, 2), btrim(a)"),
            ("row_number() over ()", "CAST(row_number() OVER () AS BIGINT)"),
        ] {
            assert_eq!(through(Calls, &format!("select {sql}")), format!("SELECT {made}"));
        }
    }
}
