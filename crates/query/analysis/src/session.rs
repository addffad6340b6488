//! What statements do, one behind the other.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::{MemTable, ViewTable};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as DfStatement;
use ferretto_arrow_tables::Catalog;
use ferretto_trace_tables::Tables;
use futures_util::StreamExt as _;
use sqlparser::ast::{
    ColumnDef, ColumnOptionDef, Expr, Ident, Insert, ObjectName, ObjectNamePart, ObjectType, Query,
    Statement as Ast, TableFactor, TableObject, Value, Visit, VisitMut, Visitor, VisitorMut,
};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use tokio::sync::mpsc;

use crate::coerce::coerce;
use crate::error::{Error, missing_column, nearest};
use crate::in_order::{KeepOrder, ProbeLeft, REPLACED};
use crate::inline::{UserFunction, UserFunctions, calls_itself, inline};
use crate::operators::span_join::{Input, Kind, SpanJoin};
use crate::sql::headings::{Heading, apply, headings};
use crate::sql::macros::{Macros, expand};
use crate::sql::parse::{self, lower};
use crate::sql::statement::{Create, CreateFunction, Statement, Words, is_macro, read};
use crate::sql::text::{Text, statements};
use crate::table::{BATCH_ROWS, TraceTable, sql_array, sql_type};
use crate::trace::{Answer, Options};
use crate::{functions, prelude, rewrite};

/// Views in views: what makes them is no query of anybody's, and ends long before.
const MAX_VIEWS: usize = 64;

/// A session of queries on one trace.
pub(crate) struct Session {
    context: SessionContext,
    tables: Arc<Tables>,
    cast_text: Arc<ScalarUDF>,
    macros: Macros,
    functions: UserFunctions,
    /// Tables and views that queries have made.
    made: HashMap<String, Made>,
}

/// What a query has made.
enum Made {
    View,
    Table {
        batches: Vec<RecordBatch>,
        schema: SchemaRef,
        /// A column that has the number of the row if nobody says another.
        key: Option<String>,
        /// What it has of memory, until it is gone.
        _held: MemoryReservation,
    },
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(tables: Arc<Tables>, options: &Options) -> Result<Self, Error> {
        let mut config = SessionConfig::new().with_batch_size(BATCH_ROWS).with_target_partitions(1);
        let sql = &mut config.options_mut().sql_parser;
        // NULL is smaller than everything.
        sql.default_null_ordering = "nulls_min".to_owned();
        // Rows of a view stay in its order.
        sql.enable_subquery_sort_elimination = false;
        let bytes = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
        let runtime =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(bytes))).build_arc()?;
        let mut rules = PhysicalOptimizer::new().rules;
        for rule in rules.iter_mut().filter(|rule| rule.name() == REPLACED) {
            *rule = Arc::new(ProbeLeft);
        }
        rules.push(Arc::new(KeepOrder));
        let state =
            SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
        let state = state.with_physical_optimizer_rules(rules);
        let context = SessionContext::new_with_state(state.build());
        functions::register(&context, &tables);
        let cast_text = context.state().scalar_functions().get("cast_text").cloned();
        let cast_text = cast_text.ok_or_else(|| Error::plain("there are no functions"))?;
        let mut session = Self {
            context,
            cast_text,
            tables,
            macros: Macros::new(),
            functions: UserFunctions::new(),
            made: HashMap::new(),
        };
        session.add_functions()?;
        Ok(session)
    }

    /// Functions that every session has.
    fn add_functions(&mut self) -> Result<(), Error> {
        let text = Text::new(prelude::FUNCTIONS);
        for words in statements(text.words()?) {
            if let Statement::Function(create) = read(&text, lower(words))? {
                self.create_function(&text, create)?;
            }
        }
        Ok(())
    }

    /// Runs statements; the answer is the last one's.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<Answer, Error> {
        let text = Text::new(sql);
        let mut answer = Answer::none();
        for words in statements(text.words()?) {
            // Those before the last one are run, too: they may be wrong.
            while let Some(batch) = answer.batches.recv().await {
                batch?;
            }
            answer = self.statement(&text, words).await?;
        }
        Ok(answer)
    }

    async fn statement(&mut self, text: &Text<'_>, words: Words) -> Result<Answer, Error> {
        let headings = headings(text, &words);
        let words = lower(words);
        let words = if is_macro(&words) { words } else { expand(text, &self.macros, words)? };
        let place = words.first().map(|word| word.span.start);
        let done = match read(text, words)? {
            Statement::Sql(words) => return self.sql(text, &words, &headings).await,
            Statement::Table(create) => self.create_table(text, create).await,
            Statement::View(create) => self.create_view(text, create).await,
            Statement::Function(create) => self.create_function(text, create),
            Statement::Macro(create) => match self.macros.contains_key(&create.name) && !create.or_replace {
                true => Err(Error::plain(format!("there is a macro {}! already", create.name))),
                false => {
                    self.macros.insert(create.name.clone(), create);
                    Ok(())
                }
            },
            Statement::Index { table } => self.must_be(&table),
            Statement::Include(module) => self.include(&module),
            Statement::Virtual { name, module, args } => {
                self.create_virtual(text, name, &module, &args).await
            }
        };
        match (done, place) {
            (Ok(()), _) => Ok(Answer::none()),
            (Err(error), Some(place)) => Err(error.with_place(text, place)),
            (Err(error), None) => Err(error),
        }
    }

    async fn sql(&mut self, text: &Text<'_>, words: &Words, headings: &[Heading]) -> Result<Answer, Error> {
        match parse::statement(text, words)? {
            Ast::Query(query) => {
                let plan = self.plan(text, words, *query).await?;
                self.execute(plan, headings).await
            }
            Ast::CreateTable(table) => {
                let name = name_of(&table.name)?;
                self.must_be_new(&name, table.or_replace || table.if_not_exists)?;
                let key = table.columns.iter().find(|column| is_row_number(column));
                let key = key.map(|column| column.name.value.clone());
                let (schema, batches) = match table.query {
                    Some(query) => {
                        let plan = self.plan(text, words, *query).await?;
                        self.collect(plan).await?
                    }
                    None => {
                        let field = |column: &ColumnDef| {
                            let data_type = column_type(&column.data_type.to_string());
                            Field::new(&column.name.value, data_type, true)
                        };
                        (
                            Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>())),
                            Vec::new(),
                        )
                    }
                };
                self.keep(name, schema, batches, key)?;
                Ok(Answer::none())
            }
            Ast::CreateView(view) => {
                let name = name_of(&view.name)?;
                self.must_be_new(&name, view.or_replace || view.if_not_exists)?;
                let plan = self.plan(text, words, *view.query).await?;
                self.keep_view(name, plan)?;
                Ok(Answer::none())
            }
            Ast::Insert(insert) => {
                self.insert(text, words, insert).await?;
                Ok(Answer::none())
            }
            Ast::Drop { object_type: ObjectType::Table | ObjectType::View, if_exists, names, .. } => {
                for name in names {
                    let name = name_of(&name)?;
                    if self.made.remove(&name).is_none() && !if_exists {
                        return Err(Error::plain(format!("there is no {name} that a query has made")));
                    }
                    self.context.deregister_table(name.as_str())?;
                }
                Ok(Answer::none())
            }
            other => {
                let first = other.to_string();
                let first = first.split_whitespace().next().unwrap_or_default().to_owned();
                let error = Error::plain(format!("{first} is no statement that is known here"));
                Err(words
                    .first()
                    .map(|word| word.span.start)
                    .into_iter()
                    .fold(error, |error, place| error.with_place(text, place)))
            }
        }
    }

    /// A plan of a query. A name in double quotes that is no column is a text, as in SQLite.
    async fn plan(&mut self, text: &Text<'_>, words: &Words, mut query: Query) -> Result<LogicalPlan, Error> {
        inline(&self.functions, &mut query)?;
        rewrite::rewrite(&mut query);
        self.provide(text, words, &query, 0).await?;
        loop {
            let statement = DfStatement::Statement(Box::new(Ast::Query(Box::new(query.clone()))));
            let error = match self.context.state().statement_to_plan(statement).await {
                Ok(plan) => return Ok(coerce(plan, &self.cast_text)?),
                Err(error) => error,
            };
            match missing_column(&error) {
                Some((name, _)) if make_text(text, &mut query, &name) => {}
                missing => return Err(self.explain(text, words, &error, missing)),
            }
        }
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
    async fn provide(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        query: &Query,
        depth: usize,
    ) -> Result<(), Error> {
        let mut find = Names::default();
        let _: ControlFlow<()> = Visit::visit(query, &mut find);
        let Names { tables, queries } = find;
        for name in tables {
            let is_there = self.context.table_exist(name.as_str())?;
            if is_there || self.provide_one(&name, depth).await? || queries.contains(&name) {
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

    async fn provide_one(&mut self, name: &str, depth: usize) -> Result<bool, Error> {
        if let Some(sql) = prelude::view(name).filter(|_| depth < MAX_VIEWS) {
            let text = Text::new(sql);
            let words = lower(text.words()?);
            let mut query = *parse::query(&text, &words)?;
            rewrite::rewrite(&mut query);
            Box::pin(self.provide(&text, &words, &query, depth + 1)).await?;
            let statement = DfStatement::Statement(Box::new(Ast::Query(Box::new(query))));
            let plan = coerce(self.context.state().statement_to_plan(statement).await?, &self.cast_text)?;
            self.context.register_table(name, Arc::new(ViewTable::new(plan, None)))?;
            return Ok(true);
        }
        match prelude::tables_of(name).find_map(|name| TraceTable::find(&self.tables, name)) {
            Some(table) => {
                self.context.register_table(name, Arc::new(table))?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// All names of tables and views.
    fn names(&self) -> Vec<String> {
        let of_trace = Catalog::new(&self.tables).names().into_iter().chain(prelude::names());
        self.made.keys().cloned().chain(of_trace.map(str::to_owned)).collect()
    }

    async fn execute(&self, plan: LogicalPlan, headings: &[Heading]) -> Result<Answer, Error> {
        let plan = self.context.state().create_physical_plan(&plan).await?;
        let fields = plan.schema();
        let names = fields.fields().iter().map(|field| field.name().clone()).collect();
        let names = apply(headings, names);
        let field =
            |(field, name): (&Arc<Field>, String)| Field::new(name, sql_type(field.data_type()), true);
        let schema = Arc::new(Schema::new(fields.fields().iter().zip(names).map(field).collect::<Vec<_>>()));
        let mut stream = execute_stream(plan, self.context.task_ctx())?;
        let (to, batches) = mpsc::channel(2);
        let of = schema.clone();
        tokio::spawn(async move {
            while let Some(batch) = stream.next().await {
                let batch = batch.and_then(|batch| as_sql(&of, &batch)).map_err(Error::from);
                let is_wrong = batch.is_err();
                // Who does not take it wants no more.
                if to.send(batch).await.is_err() || is_wrong {
                    return;
                }
            }
        });
        Ok(Answer { schema, is_query: true, batches })
    }

    /// The rows of a plan, and what they are called.
    async fn collect(&self, plan: LogicalPlan) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
        let mut answer = self.execute(plan, &[]).await?;
        let mut batches = Vec::new();
        while let Some(batch) = answer.batches.recv().await {
            batches.push(batch?);
        }
        Ok((answer.schema, batches))
    }

    fn keep(
        &mut self,
        name: String,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        key: Option<String>,
    ) -> Result<(), Error> {
        let held = MemoryConsumer::new(format!("the table {name}"))
            .register(&self.context.runtime_env().memory_pool);
        held.try_grow(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
        let table = MemTable::try_new(schema.clone(), vec![batches.clone()])?;
        self.register(&name, Arc::new(table))?;
        self.made.insert(name, Made::Table { batches, schema, key, _held: held });
        Ok(())
    }

    fn keep_view(&mut self, name: String, plan: LogicalPlan) -> Result<(), Error> {
        self.register(&name, Arc::new(ViewTable::new(plan, None)))?;
        self.made.insert(name, Made::View);
        Ok(())
    }

    fn register(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<(), Error> {
        self.context.deregister_table(name)?;
        self.context.register_table(name, table)?;
        Ok(())
    }

    async fn create_table(&mut self, text: &Text<'_>, create: Create) -> Result<(), Error> {
        self.must_be_new(&create.name, create.or_replace)?;
        let query = parse::query(text, &create.body)?;
        let plan = self.plan(text, &create.body, *query).await?;
        let (schema, batches) = self.collect(plan).await?;
        has_columns(&create, &schema)?;
        self.keep(create.name, schema, batches, None)
    }

    async fn create_view(&mut self, text: &Text<'_>, create: Create) -> Result<(), Error> {
        self.must_be_new(&create.name, create.or_replace)?;
        let query = parse::query(text, &create.body)?;
        let plan = self.plan(text, &create.body, *query).await?;
        has_columns(&create, plan.schema().inner())?;
        self.keep_view(create.name, plan)
    }

    fn create_function(&mut self, text: &Text<'_>, create: CreateFunction) -> Result<(), Error> {
        if self.functions.contains_key(&create.name) && !create.or_replace {
            return Err(Error::plain(format!("there is a function {} already", create.name)));
        }
        let body = *parse::query(text, &create.body)?;
        let args = create.args.into_iter().map(|(name, _)| name).collect();
        let name = create.name;
        let function = UserFunction { args, returns: create.returns, body };
        let before = self.functions.insert(name.clone(), function);
        if calls_itself(&self.functions, &name) {
            match before {
                Some(before) => self.functions.insert(name.clone(), before),
                None => self.functions.remove(&name),
            };
            return Err(Error::plain(format!("{name} calls itself")));
        }
        Ok(())
    }

    /// A table that an operator makes.
    async fn create_virtual(
        &mut self,
        text: &Text<'_>,
        name: String,
        module: &str,
        args: &[Words],
    ) -> Result<(), Error> {
        let Some(kind) = Kind::named(module) else {
            return Err(Error::plain(format!("there is no module {module} for virtual tables")));
        };
        let [left, right] = args else {
            return Err(Error::plain(format!("{module} wants two tables, and has {}", args.len())));
        };
        self.must_be_new(&name, false)?;
        let inputs = [self.span_input(text, left).await?, self.span_input(text, right).await?];
        self.register(&name, Arc::new(SpanJoin::new(kind, inputs)?))?;
        self.made.insert(name, Made::View);
        Ok(())
    }

    /// `table`, or `table PARTITIONED column`.
    async fn span_input(&mut self, text: &Text<'_>, words: &Words) -> Result<Input, Error> {
        let named = |word: &TokenWithSpan| match &word.token {
            Token::Word(word) => Some(word.value.clone()),
            _ => None,
        };
        let names: Option<Vec<String>> = words.iter().map(named).collect();
        let (name, partition) = match names.unwrap_or_default().as_slice() {
            [name] => (name.clone(), None),
            [name, word, column] if word == "partitioned" => (name.clone(), Some(column.clone())),
            _ => return Err(Error::plain("expected TABLE or TABLE PARTITIONED COLUMN")),
        };
        let sql = format!("select * from \"{name}\"");
        let of = Text::new(&sql);
        let query = parse::query(&of, &of.words()?)?;
        let plan = self.plan(text, words, *query).await?;
        Ok(Input { name, plan, partition })
    }

    fn include(&self, module: &str) -> Result<(), Error> {
        match module.split('.').next() {
            // It is always there.
            Some("prelude") => Ok(()),
            _ => Err(Error::plain(format!("there is no module {module} here"))),
        }
    }

    async fn insert(&mut self, text: &Text<'_>, words: &Words, insert: Insert) -> Result<(), Error> {
        let (TableObject::TableName(name), Some(query)) = (&insert.table, insert.source) else {
            return Err(Error::plain("rows can be inserted into tables that a query has made"));
        };
        let name = name_of(name)?;
        let plan = self.plan(text, words, *query).await?;
        let (_, rows) = self.collect(plan).await?;
        let Some(Made::Table { batches, schema, key, .. }) = self.made.remove(&name) else {
            return Err(Error::plain(format!("there is no table {name} that a query has made")));
        };
        let mut batches = batches;
        let mut count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let columns = insert.columns.iter().map(name_of).collect::<Result<Vec<_>, _>>()?;
        for batch in rows {
            let column = |(at, field): (usize, &Arc<Field>)| {
                let at = match columns.is_empty() {
                    true => Some(at),
                    false => columns.iter().position(|name| name == field.name()),
                };
                match at.and_then(|at| batch.columns().get(at)) {
                    None if key.as_ref() == Some(field.name()) => {
                        let numbers = (count..count + batch.num_rows())
                            .map(|row| i64::try_from(row + 1).unwrap_or(i64::MAX));
                        Ok(Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef)
                    }
                    Some(array) => functions::text::to_type(array, field.data_type()),
                    None => Ok(arrow::array::new_null_array(field.data_type(), batch.num_rows())),
                }
            };
            let arrays = schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
            count += batch.num_rows();
            batches.push(RecordBatch::try_new(schema.clone(), arrays).map_err(DataFusionError::from)?);
        }
        self.keep(name, schema, batches, key)
    }

    fn must_be(&self, name: &str) -> Result<(), Error> {
        match self.names().iter().any(|it| it == name) {
            true => Ok(()),
            false => Err(Error::plain(format!("there is no table {name}"))),
        }
    }

    fn must_be_new(&self, name: &str, is_replaced: bool) -> Result<(), Error> {
        match self.made.contains_key(name) && !is_replaced {
            true => Err(Error::plain(format!("there is a table or view {name} already"))),
            false => Ok(()),
        }
    }
}

/// The rows with columns of these names and types.
fn as_sql(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, DataFusionError> {
    let arrays = batch.columns().iter().map(sql_array).collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}

/// The columns that were declared are there, and no others.
fn has_columns(create: &Create, schema: &Schema) -> Result<(), Error> {
    if create.columns.is_empty() {
        return Ok(());
    }
    let has: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let says: HashSet<&str> = create.columns.iter().map(|(name, _)| name.as_str()).collect();
    let name = &create.name;
    if let Some(missing) = says.difference(&has).next() {
        return Err(Error::plain(format!(
            "{name} declares the column {missing}, which its query does not have"
        )));
    }
    if let Some(more) = has.difference(&says).next() {
        return Err(Error::plain(format!(
            "the query of {name} has the column {more}, which is not declared"
        )));
    }
    Ok(())
}

/// `INTEGER PRIMARY KEY` is SQLite's number of a row.
fn is_row_number(column: &ColumnDef) -> bool {
    let is_key =
        |option: &ColumnOptionDef| option.option.to_string().to_lowercase().starts_with("primary key");
    column.data_type.to_string().eq_ignore_ascii_case("integer") && column.options.iter().any(is_key)
}

fn column_type(name: &str) -> DataType {
    let name = name.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match () {
        () if has(&["char", "clob", "text", "string"]) => DataType::Utf8View,
        () if has(&["real", "floa", "doub"]) => DataType::Float64,
        () if has(&["blob", "bytes"]) => DataType::Binary,
        () => DataType::Int64,
    }
}

fn name_of(name: &ObjectName) -> Result<String, Error> {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(name)) => Ok(name.value.clone()),
        _ => Err(Error::plain(format!("{name} is no name"))),
    }
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
struct Names {
    tables: HashSet<String>,
    queries: HashSet<String>,
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
