//! Calls of operators in a query: a table takes the place of each.
//!
//! An operator is called like a table function, and its arguments are queries, or texts: `__operator_interval_create((select …), (select …))`.
//! They may name what stands in a `WITH` around the call.

use std::collections::HashSet;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::TableProvider as _;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::{
    Cte, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, Select, TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut, With,
    helpers::attached_token::AttachedToken,
};

use super::{Session, Size, name_of};
use crate::error::Error;
use crate::operators;
use crate::operators::whole::Whole;
use crate::rewrite::name_of as function_name;
use crate::sql::statement::Words;
use crate::sql::text::Text;

/// Operators of a statement, those in their arguments included: macros of macros grow with each level.
const MAX_OPERATORS: usize = 1 << 12;

impl Session {
    /// Makes tables of the operators that a query calls, to be forgotten when the query is planned.
    pub(super) async fn operators(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        query: &mut Query,
    ) -> Result<(), Error> {
        let graphs = self.flamegraphs.keys().cloned().collect();
        let mut find = Find {
            next: self.operators_made,
            calls: Vec::new(),
            frames: Vec::new(),
            graphs,
            is_super_root: false,
        };
        let _: ControlFlow<()> = VisitMut::visit(query, &mut find);
        let Find { next, calls, .. } = find;
        self.operators_made = next;
        for call in calls {
            self.operators_there.push(call.name.clone());
            if self.operators_there.len() > MAX_OPERATORS {
                return Err(Error::plain(format!("the statement calls more than {MAX_OPERATORS} operators")));
            }
            self.operator(text, words, call).await?;
        }
        Ok(())
    }

    /// Those but the first ones are no tables of anybody's any more.
    pub(super) fn forget(&mut self, count: usize) -> Result<(), Error> {
        for name in self.operators_there.drain(count..) {
            self.context.deregister_table(name.as_str())?;
            self.sizes.remove(&name);
        }
        Ok(())
    }

    /// The plan with the types that its columns have in the end: those of a union are not the first query's.
    pub(super) fn analyzed(&self, plan: LogicalPlan) -> Result<LogicalPlan, Error> {
        let state = self.context.state();
        Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
    }

    async fn operator(&mut self, text: &Text<'_>, words: &Words, call: Call) -> Result<(), Error> {
        let mut texts = Vec::new();
        let mut inputs: Vec<LogicalPlan> = Vec::new();
        let mut size = Size::default();
        if let Some(graph) = call.graph.as_ref().and_then(|name| self.flamegraphs.get(name)) {
            inputs.push(graph.clone());
            texts.extend(call.is_super_root.then(|| "SUPER_ROOT".to_owned()));
        }
        for arg in call.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match value.value {
                    Value::SingleQuotedString(text) => texts.push(text),
                    other => texts.push(other.to_string()),
                },
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    let query = within(query_of(expr)?, &call.queries, call.is_recursive);
                    let plan = Box::pin(self.plan(text, words, query)).await?;
                    size = self.planned.with(size);
                    inputs.push(self.analyzed(plan)?);
                }
                other => {
                    return Err(Error::plain(format!("{other} is nothing that an operator is called with")));
                }
            }
        }
        match operators::find(&call.operator, &texts)? {
            Some(operator) => {
                let table = Whole::new(operator, inputs)?;
                let size = Size { columns: table.schema().fields().len(), ..size };
                self.register(&call.name, Arc::new(table), size)
            }
            None if call.operator == super::scan::NAME => {
                let table = self.graph_scan(&texts, inputs).await?;
                let size = Size::of_table(table.schema().fields().len());
                self.register(&call.name, table, size)
            }
            None => Err(Error::plain(format!("there is no operator {}", call.operator))),
        }
    }
}

/// A call of an operator.
struct Call {
    /// What the table is called that it becomes.
    name: String,
    operator: String,
    args: Vec<FunctionArg>,
    /// What it may name of the `WITH`s around it, the innermost last.
    queries: Vec<Cte>,
    is_recursive: bool,
    /// The flame graph that it is of.
    graph: Option<String>,
    /// Whether only its sum is asked for.
    is_super_root: bool,
}

struct Find {
    next: usize,
    calls: Vec<Call>,
    frames: Vec<Frame>,
    /// Names of flame graphs.
    graphs: HashSet<String>,
    /// Whether the query that is looked at asks for the sum of one.
    is_super_root: bool,
}

/// What a query names, and how much of this was gone through.
struct Frame {
    queries: Vec<Cte>,
    visible: usize,
    is_recursive: bool,
}

impl VisitorMut for Find {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let queries = query.with.as_ref().map(|with| with.cte_tables.clone()).unwrap_or_default();
        let is_recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.frames.push(Frame { queries, visible: 0, is_recursive });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.frames.pop();
        // Named queries come before the body: this was one, if there are more.
        if let Some(frame) = self.frames.last_mut()
            && let Some(named) = frame.queries.get_mut(frame.visible)
        {
            *named.query = query.clone();
            frame.visible += 1;
        }
        ControlFlow::Continue(())
    }

    /// `where __intrinsic_flamegraph_find(_tree_id, 'SUPER_ROOT')` asks for another row.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_find = |expr: &Expr| matches!(expr, Expr::Function(it) if function_name(it) == Some("__intrinsic_flamegraph_find"));
        if select.selection.as_ref().is_some_and(is_find) {
            select.selection = None;
            self.is_super_root = true;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.is_super_root = false;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args, .. } = factor else { return ControlFlow::Continue(()) };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let graph = Some(ident.value.clone()).filter(|name| self.graphs.contains(name));
        if args.is_none() || !(graph.is_some() || ident.value.starts_with(operators::PREFIX)) {
            return ControlFlow::Continue(());
        }
        let operator = if graph.is_some() { operators::FLAMEGRAPH.to_owned() } else { ident.value.clone() };
        let made = format!("__result_{}", self.next);
        self.next += 1;
        *name = ObjectName::from(vec![Ident::with_quote('"', made.clone())]);
        let mut args = mem::take(args).map(|args| args.args).unwrap_or_default();
        if graph.is_some() {
            args = args.into_iter().flat_map(config_of).collect();
        }
        let visible = self.frames.iter().flat_map(|frame| frame.queries.iter().take(frame.visible));
        let queries = visible.cloned().collect();
        let is_recursive = self.frames.iter().any(|frame| frame.is_recursive);
        let is_super_root = self.is_super_root;
        self.calls.push(Call { name: made, operator, args, queries, is_recursive, graph, is_super_root });
        ControlFlow::Continue(())
    }
}

/// What `__intrinsic_flamegraph_config(…)` is called with.
fn config_of(arg: FunctionArg) -> Vec<FunctionArg> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(Function {
            args: FunctionArguments::List(list),
            ..
        }))) => list.args,
        other => vec![other],
    }
}

fn query_of(expr: Expr) -> Result<Query, Error> {
    match expr {
        Expr::Subquery(query) => Ok(*query),
        Expr::Nested(expr) => query_of(*expr),
        other => Err(Error::plain(format!("an operator is called with queries, not with {other}"))),
    }
}

/// The query with those of the named ones that it, or one of these, names.
fn within(mut query: Query, queries: &[Cte], is_recursive: bool) -> Query {
    let mut wanted = names(&query);
    let mut found = Vec::new();
    for named in queries.iter().rev() {
        if wanted.remove(&named.alias.name.value) {
            wanted.extend(names(&named.query));
            found.push(named.clone());
        }
    }
    if found.is_empty() {
        return query;
    }
    found.reverse();
    let with = query.with.take();
    let (own, own_is_recursive) = with.map(|with| (with.cte_tables, with.recursive)).unwrap_or_default();
    let names: HashSet<&String> = own.iter().map(|named| &named.alias.name.value).collect();
    found.retain(|named| !names.contains(&named.alias.name.value));
    let cte_tables = found.into_iter().chain(own.iter().cloned()).collect();
    let recursive = is_recursive || own_is_recursive;
    query.with = Some(With { with_token: AttachedToken::empty(), recursive, cte_tables });
    query
}

/// What a query names of tables.
fn names(query: &Query) -> HashSet<String> {
    struct Names(HashSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, .. } = factor {
                self.0.extend(name_of(name));
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    let _: ControlFlow<()> = Visit::visit(query, &mut names);
    names.0
}
