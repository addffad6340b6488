//! Plans of queries: the names in them, and what is wrong with them.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::TableProvider as _;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::ViewTable;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use ferretto_arrow_tables::Catalog;
use sqlparser::ast::{
    CreateTable, Expr, Ident, Query, Statement as Ast, TableFactor, Value, Visit, VisitMut, Visitor,
    VisitorMut,
};
use sqlparser::tokenizer::{Location, Token};

use super::size::size_of;
use super::{Of, Session, Size, made_of, name_of};
use crate::coerce::coerce;
use crate::error::{Error, missing_column, nearest};
use crate::fleet::split::{self, Parts};
use crate::inline::inline;
use crate::own_types::{Own, with_own_types};
use crate::sql::macros::expand;
use crate::sql::parse::{self, lower};
use crate::sql::statement::Words;
use crate::sql::text::Text;
use crate::table::TraceTable;
use crate::{prelude, rewrite};

/// Different texts in double quotes: for each the query is planned anew.
const MAX_TEXTS: usize = 64;
/// Views in views: what makes them is no query of anybody's, and ends long before.
const MAX_VIEWS: usize = 64;

impl Session {
    /// A plan of a query.
    pub(super) async fn plan(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        query: Query,
    ) -> Result<LogicalPlan, Error> {
        let plan = self.plan_marked(text, words, query, |_| Ok(())).await?;
        Ok(coerce(plan, &self.cast_text)?)
    }

    /// A plan of a query whose rows are shown, and what its last columns say of others.
    pub(super) async fn plan_shown(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        query: Query,
    ) -> Result<(LogicalPlan, Vec<Own>), Error> {
        let plan = self.plan_marked(text, words, query, |_| Ok(())).await?;
        let (plan, own) = with_own_types(plan)?;
        Ok((coerce(plan, &self.cast_text)?, own))
    }

    /// What a query is of a trace, and what of many. `with_trace` as in [`split::mark`].
    async fn parts_of(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        query: Query,
        with_trace: bool,
    ) -> Result<Parts, Error> {
        let plan = self.plan_marked(text, words, query, |query| split::mark(query, with_trace)).await?;
        let mut parts = split::split(plan, &self.of_trace)?;
        parts.below = self.analyzed(coerce(parts.below, &self.cast_text)?)?;
        Ok(parts)
    }

    /// The parts of a query, or of a statement that makes a table of one.
    pub(crate) async fn parts(&mut self, sql: &str) -> Result<Parts, Error> {
        let text = Text::new(sql);
        self.parts_of_words(&text, text.words()?).await
    }

    /// The same, in a text of more statements.
    pub(crate) async fn parts_of_words(&mut self, text: &Text<'_>, words: Words) -> Result<Parts, Error> {
        let words = expand(text, &self.macros, lower(words))?;
        match parse::statement(text, &words)? {
            Ast::Query(query) => self.parts_of(text, &words, *query, false).await,
            Ast::CreateTable(CreateTable { query: Some(query), .. }) => {
                self.parts_of(text, &words, *query, true).await
            }
            _ => Err(Error::plain("the statement cannot be asked of several traces")),
        }
    }

    /// What is done with rows of all traces: the plan of a part above.
    pub(crate) fn plan_over(&self, parts: &Parts, rows: LogicalPlan) -> Result<LogicalPlan, Error> {
        Ok(coerce(parts.over(rows)?, &self.cast_text)?)
    }

    /// A plan as DataFusion makes it of the syntax, which `mark` may change last.
    async fn plan_marked(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        mut query: Query,
        mark: impl FnOnce(&mut Query) -> Result<(), Error>,
    ) -> Result<LogicalPlan, Error> {
        inline(&self.functions, &mut query)?;
        let before = self.operators_there.len();
        self.operators(text, words, &mut query).await?;
        rewrite::rewrite(&mut query);
        if self.of == Of::Trace {
            rewrite::of_one_trace(&mut query);
        }
        mark(&mut query)?;
        self.provide(text, words, &query).await?;
        let placed = |error: Error| match words.first() {
            Some(word) => error.with_place(text, word.span.start),
            None => error,
        };
        let size = size_of(&query, &self.sizes).map_err(placed)?;
        let mut texts_made = 0;
        let plan = loop {
            let statement = DfStatement::Statement(Box::new(Ast::Query(Box::new(query.clone()))));
            let error = match self.context.state().statement_to_plan(statement).await {
                Ok(plan) => break Ok(plan),
                Err(error) => error,
            };
            match missing_column(&error) {
                Some((name, _)) if texts_made < MAX_TEXTS && make_text(text, &mut query, &name) => {
                    texts_made += 1;
                }
                missing => break Err(self.explain(text, words, &error, missing)),
            }
        };
        self.forget(before)?;
        let plan = plan?;
        made_of::check(&plan).map_err(placed)?;
        self.must_be_answered(&plan)?;
        self.planned = size;
        Ok(plan)
    }

    /// What only a trace can answer is not asked of all at once.
    fn must_be_answered(&self, plan: &LogicalPlan) -> Result<(), Error> {
        let mut found = None;
        if self.of == Of::Fleet {
            plan.apply_with_subqueries(|node| {
                node.apply_expressions(|expr| {
                    found = found.take().or_else(|| split::function_of_trace(expr, &self.of_trace));
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
        }
        found.map_or(Ok(()), |name| Err(of_each(&format!("{name}()"))))
    }

    /// What is wrong, where, and what was meant.
    fn explain(
        &self,
        text: &Text<'_>,
        words: &Words,
        error: &DataFusionError,
        missing: Option<(String, Vec<String>)>,
    ) -> Error {
        let said = Error::from(DataFusionError::Plan(Error::from_ref(error)));
        let Some((name, names)) = missing else {
            let place = words.first().map(|word| word.span.start);
            let function = unknown_function(error);
            let place = function.as_deref().and_then(|name| place_of(words, name)).or(place);
            return place.into_iter().fold(said, |error, place| error.with_place(text, place));
        };
        let error =
            place_of(words, &name).into_iter().fold(said, |error, place| error.with_place(text, place));
        match nearest(&name, names.iter().map(String::as_str)) {
            Some(near) => error.with_help(format!("did you mean {near}?")),
            None if names.is_empty() => error,
            None => {
                let mut names = names;
                names.dedup();
                error.with_help(format!("there are {}", names.join(", ")))
            }
        }
    }

    /// Makes tables known that a query names.
    async fn provide(&mut self, text: &Text<'_>, words: &Words, query: &Query) -> Result<(), Error> {
        let mut find = Names::default();
        let _: ControlFlow<()> = Visit::visit(query, &mut find);
        let Names { tables, queries } = find;
        for name in tables {
            let is_there = self.context.table_exist(name.as_str())?;
            if is_there || queries.contains(&name) && self.of == Of::Fleet {
                continue;
            }
            if self.of == Of::Fleet && self.names().contains(&name) {
                return Err(of_each(&name));
            }
            if self.provide_one(&name).await? || queries.contains(&name) {
                continue;
            }
            let error = Error::plain(format!("there is no table or view {name}"));
            let error =
                place_of(words, &name).into_iter().fold(error, |error, place| error.with_place(text, place));
            let names = self.names();
            return Err(match nearest(&name, names.iter().map(String::as_str)) {
                Some(near) => error.with_help(format!("did you mean {near}?")),
                None => error,
            });
        }
        Ok(())
    }

    async fn provide_one(&mut self, name: &str) -> Result<bool, Error> {
        if self.providing >= MAX_VIEWS {
            return Err(Error::plain(format!(
                "views lie more than {MAX_VIEWS} deep in each other, at {name}"
            )));
        }
        if let Some(defined) = self.defined.remove(name).map(Arc::new) {
            self.in_hand.push((name.to_owned(), defined.clone()));
            self.providing += 1;
            let module = defined.module;
            let done = Box::pin(self.define(name, &defined)).await;
            self.providing -= 1;
            self.in_hand.pop();
            if let (Err(_), Some(defined)) = (&done, Arc::into_inner(defined)) {
                self.defined.insert(name.to_owned(), defined);
            }
            let in_module = |error| Error::plain(format!("{name} of {module} cannot be made: {error}"));
            return done.map(|()| true).map_err(in_module);
        }
        if let Some(sql) = prelude::view(name) {
            let text = Text::new(sql);
            let words = lower(text.words()?);
            let query = *parse::query(&text, &words)?;
            self.providing += 1;
            let plan = Box::pin(self.plan(&text, &words, query)).await;
            self.providing -= 1;
            self.register(name, Arc::new(ViewTable::new(plan?, None)), self.planned)?;
            return Ok(true);
        }
        match prelude::tables_of(name).find_map(|name| TraceTable::find(&self.tables, name)) {
            Some(table) => {
                let size = Size::of_table(table.schema().fields().len());
                self.register(name, Arc::new(table), size)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Columns of a table or a view, as far as they are known without making anything.
    pub(super) async fn known_columns(&self, name: &str) -> Vec<String> {
        let schema = match self.context.table_provider(name).await {
            Ok(table) => Some(table.schema()),
            Err(_) => prelude::tables_of(name)
                .find_map(|name| TraceTable::find(&self.tables, name))
                .map(|table| table.schema()),
        };
        let names = |schema: arrow::datatypes::SchemaRef| {
            schema.fields().iter().map(|field| field.name().clone()).collect()
        };
        schema.map(names).unwrap_or_default()
    }

    /// All names of tables and views.
    pub(super) fn names(&self) -> Vec<String> {
        let of_trace = Catalog::new(&self.tables).names().into_iter().chain(prelude::names());
        self.made.keys().chain(self.defined.keys()).cloned().chain(of_trace.map(str::to_owned)).collect()
    }
}

fn of_each(name: &str) -> Error {
    let error = Error::plain(format!(
        "{name} is of each trace by itself, and the statement reads a table that was made over all"
    ));
    error.with_help("make another such table of it first: CREATE TABLE … AS SELECT …")
}

fn place_of(words: &Words, name: &str) -> Option<Location> {
    let is_it = |token: &Token| matches!(token, Token::Word(word) if word.value == name);
    words.iter().find(|word| is_it(&word.token)).map(|word| word.span.start)
}

/// The function that there is not.
fn unknown_function(error: &DataFusionError) -> Option<String> {
    let text = error.to_string();
    let (_, rest) = text.split_once("Invalid function '")?;
    rest.split('\'').next().map(str::to_owned)
}

/// Names in double quotes become texts, with the letters that they have there.
fn make_text(text: &Text<'_>, query: &mut Query, name: &str) -> bool {
    struct Make<'a> {
        text: &'a Text<'a>,
        name: &'a str,
        is_made: bool,
    }
    impl VisitorMut for Make<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(Ident { value, quote_style: Some('"'), span }) = expr
                && value == self.name
            {
                let there = self.text.between(span.start, span.end);
                let there = there.strip_prefix('"').and_then(|there| there.strip_suffix('"'));
                let there = there
                    .map(|there| there.replace("\"\"", "\""))
                    .filter(|there| there.to_lowercase() == *value);
                let text = there.unwrap_or_else(|| std::mem::take(value));
                *expr = Expr::Value(Value::SingleQuotedString(text).into());
                self.is_made = true;
            }
            ControlFlow::Continue(())
        }
    }
    let mut make = Make { text, name, is_made: false };
    let _: ControlFlow<()> = VisitMut::visit(query, &mut make);
    make.is_made
}

/// Names of tables in a query, and of the queries that it names itself.
#[derive(Default)]
pub(crate) struct Names {
    tables: HashSet<String>,
    queries: HashSet<String>,
}

impl Names {
    /// Tables and views that a query names.
    pub(crate) fn of(query: &Query) -> Vec<String> {
        let mut find = Self::default();
        let _: ControlFlow<()> = Visit::visit(query, &mut find);
        let Self { tables, queries } = find;
        tables.into_iter().filter(|name| !queries.contains(name)).collect()
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(named.map(|named| named.alias.name.value.clone()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor {
            self.tables.extend(name_of(name));
        }
        ControlFlow::Continue(())
    }
}
