//! Functions that queries have defined, put where they are called: an expression, a query of one value, or a query in the place of a table.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, Value, Visit,
    VisitMut, Visitor, VisitorMut,
};

use crate::error::Error;
use crate::rewrite::{args_of, name_of};
use crate::sql::statement::Returns;

/// Calls that one statement may become: functions of functions grow with each level.
const MAX_CALLS: usize = 5_000;
/// Expressions that may be put in the place of arguments: so do those. A long text is as many as are as long.
const MAX_SIZE: usize = 1 << 18;
/// Bytes of an expression that is like others.
const EXPR_BYTES: usize = 64;
/// How deep expressions may lie in each other then: what plans them recurses.
const MAX_DEPTH: usize = 1500;

/// A function that a query has defined.
#[derive(Clone, Debug)]
pub(crate) struct UserFunction {
    pub(crate) args: Vec<String>,
    pub(crate) returns: Returns,
    pub(crate) body: Query,
}

/// Those, by name.
pub(crate) type UserFunctions = HashMap<String, UserFunction>;

/// Puts the bodies of functions where they are called.
pub(crate) fn inline(functions: &UserFunctions, query: &mut Query) -> Result<(), Error> {
    if functions.is_empty() {
        return Ok(());
    }
    let mut rule = Inline { functions, calls: 0, size: 0, depth: 0 };
    match VisitMut::visit(query, &mut rule) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether a function calls itself, or one that does.
pub(crate) fn calls_itself(functions: &UserFunctions, name: &str) -> bool {
    let mut seen = HashSet::new();
    let mut todo = calls(functions, name);
    while let Some(next) = todo.pop() {
        if next == name {
            return true;
        }
        if seen.insert(next.clone()) {
            todo.extend(calls(functions, &next));
        }
    }
    false
}

/// Functions that one calls, of those that queries have defined.
fn calls(functions: &UserFunctions, name: &str) -> Vec<String> {
    struct Find<'a>(&'a UserFunctions, Vec<String>);
    impl Visitor for Find<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr {
                self.1.extend(name_of(function).filter(|name| self.0.contains_key(*name)).map(str::to_owned));
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: Some(_), .. } = factor
                && let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
            {
                self.1.extend(Some(name.value.clone()).filter(|name| self.0.contains_key(name)));
            }
            ControlFlow::Continue(())
        }
    }
    let mut find = Find(functions, Vec::new());
    if let Some(function) = functions.get(name) {
        let _: ControlFlow<()> = Visit::visit(&function.body, &mut find);
    }
    find.1
}

struct Inline<'a> {
    functions: &'a UserFunctions,
    calls: usize,
    size: usize,
    depth: usize,
}

impl Inline<'_> {
    fn body(&mut self, name: &str, function: &UserFunction, args: &[Expr]) -> Result<Query, Box<Error>> {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            let message = format!(
                "{name} calls itself, or the statement becomes more than {MAX_CALLS} calls of functions"
            );
            return Err(Box::new(Error::plain(message)));
        }
        if args.len() != function.args.len() {
            let message = format!("{name} takes {} arguments, not {}", function.args.len(), args.len());
            return Err(Box::new(Error::plain(message)));
        }
        let mut body = function.body.clone();
        if args.iter().any(has_column) {
            let _: ControlFlow<()> = VisitMut::visit(&mut body, &mut Rename { number: self.calls });
        }
        self.size += size(&body);
        let sizes: Vec<usize> = args.iter().map(size).collect();
        let mut substitute =
            Substitute { names: &function.args, values: args, sizes: &sizes, size: self.size };
        let is_too_large = VisitMut::visit(&mut body, &mut substitute).is_break();
        self.size = substitute.size;
        match is_too_large {
            true => {
                let message = format!(
                    "calls of functions, {name} the last, make more than {MAX_SIZE} expressions of this statement"
                );
                Err(Box::new(Error::plain(message)))
            }
            false => Ok(body),
        }
    }

    /// One level deeper.
    fn enter(&mut self) -> ControlFlow<Box<Error>> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => {
                let message =
                    format!("calls of functions lie more than {MAX_DEPTH} expressions deep in each other");
                ControlFlow::Break(Box::new(Error::plain(message)))
            }
            false => ControlFlow::Continue(()),
        }
    }

    fn leave(&mut self) -> ControlFlow<Box<Error>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn call(&mut self, call: &Function) -> Result<Option<Expr>, Box<Error>> {
        let Some(name) = name_of(call) else { return Ok(None) };
        let Some(function) = self.functions.get(name) else { return Ok(None) };
        let Returns::Value(returns) = &function.returns else { return Ok(None) };
        let Some(args) = args_of(call) else { return Ok(None) };
        let args: Vec<Expr> = args.into_iter().cloned().collect();
        let body = self.body(name, function, &args)?;
        let value = value_of(&body).unwrap_or_else(|| Expr::Subquery(Box::new(body)));
        Ok(Some(match returns.as_str() {
            "bool" | "boolean" => value,
            _ => Expr::Nested(Box::new(value)),
        }))
    }

    fn table(&mut self, factor: &TableFactor) -> Result<Option<TableFactor>, Box<Error>> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return Ok(None) };
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Ok(None) };
        let Some(function) = self.functions.get(&name.value) else { return Ok(None) };
        if !matches!(function.returns, Returns::Table(_)) {
            return Ok(None);
        }
        let expr = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        };
        let args: Vec<Expr> = args.args.iter().filter_map(expr).collect();
        let lateral = args.iter().any(has_column);
        let body = self.body(&name.value, function, &args)?;
        let alias = alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name.value.clone()),
            columns: Vec::new(),
            at: None,
        });
        Ok(Some(TableFactor::Derived { lateral, subquery: Box::new(body), alias: Some(alias), sample: None }))
    }
}

impl VisitorMut for Inline<'_> {
    type Break = Box<Error>;

    /// A function of a row of the table beside it is joined on nothing else.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if matches!(join.relation, TableFactor::Derived { lateral: true, .. })
                && let JoinOperator::Left(on) | JoinOperator::LeftOuter(on) = &mut join.join_operator
                && *on == JoinConstraint::None
            {
                *on = JoinConstraint::On(Expr::Value(Value::Boolean(true).into()));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        // Before its arguments: those of the body are looked at then, too.
        while let Expr::Function(function) = expr {
            match self.call(function) {
                Ok(Some(made)) => *expr = made,
                Ok(None) => break,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        self.enter()
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<Box<Error>> {
        self.leave()
    }

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<Error>> {
        self.enter()
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<Error>> {
        self.leave()
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        match self.table(factor) {
            Ok(Some(made)) => *factor = made,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// The value of a query without rows to take it from.
fn value_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_plain = query.with.is_none()
        && query.limit_clause.is_none()
        && select.from.is_empty()
        && select.selection.is_none();
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if is_plain => {
            Some(expr.clone())
        }
        _ => None,
    }
}

/// Whether it is of a row of a table beside it.
fn has_column(expr: &Expr) -> bool {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(expr, &mut Find).is_break()
}

/// Gives tables in a body names that no other query has: what it is called with names tables, too.
struct Rename {
    number: usize,
}

impl Rename {
    fn renamed(&self, name: &str) -> Ident {
        Ident::with_quote('"', format!("{name}:{}", self.number))
    }
}

impl VisitorMut for Rename {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => {
                alias.name = self.renamed(&alias.name.value);
            }
            TableFactor::Table { name, alias: alias @ None, .. } => {
                if let [ObjectNamePart::Identifier(name)] = name.0.as_slice() {
                    let name = self.renamed(&name.value);
                    *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_mut_slice()
        {
            *table = self.renamed(&table.value);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let [ObjectNamePart::Identifier(table)] = name.0.as_mut_slice()
            {
                *table = self.renamed(&table.value);
            }
        }
        ControlFlow::Continue(())
    }
}

struct Substitute<'a> {
    names: &'a [String],
    values: &'a [Expr],
    /// How large each is.
    sizes: &'a [usize],
    /// All that were put somewhere.
    size: usize,
}

impl VisitorMut for Substitute<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(name) = &value.value
        {
            let name = name.trim_start_matches('$').to_lowercase();
            let place = self.names.iter().position(|it| *it == name);
            if let Some((value, size)) =
                place.and_then(|place| self.values.get(place).zip(self.sizes.get(place)))
            {
                self.size = self.size.saturating_add(*size);
                if self.size > MAX_SIZE {
                    return ControlFlow::Break(());
                }
                *expr = Expr::Nested(Box::new(value.clone()));
            }
        }
        ControlFlow::Continue(())
    }
}

/// How many expressions it is made of.
fn size(part: &impl Visit) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let text = match expr {
                Expr::Value(value) => match &value.value {
                    Value::SingleQuotedString(text) | Value::Number(text, _) => text.len(),
                    _ => 0,
                },
                Expr::Identifier(name) => name.value.len(),
                _ => 0,
            };
            self.0 += 1 + text / EXPR_BYTES;
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(0);
    let _: ControlFlow<()> = part.visit(&mut count);
    count.0
}
