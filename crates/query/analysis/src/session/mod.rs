//! What statements do, one behind the other.

mod create;
mod include;
pub(crate) mod legacy;
mod made_of;
mod operators;
pub(crate) mod plan;
mod scan;
mod size;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::{MemTable, ViewTable};
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use ferretto_trace_tables::Tables;
use futures_util::StreamExt as _;
use sqlparser::ast::{ColumnDef, ColumnOptionDef, ObjectName, ObjectNamePart, ObjectType, Statement as Ast};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::fleet::ahead::RunAhead;
use crate::functions::of_trace::{Asked, Types};
use crate::gather::{GATHER_RECURSIVE, Gather};
use crate::in_order::{KeepOrder, ProbeLeft, REPLACED};
use crate::inline::UserFunctions;
use crate::interrupt::interruptible;
use crate::limits::{Held, Limits, Stop};
use crate::memory::Buffers;
use crate::own_types::Own;
use crate::session::include::Defined;
use crate::session::size::{Size, Sizes};
use crate::sql::headings::{Heading, apply, headings};
use crate::sql::macros::{Macros, expand};
use crate::sql::parse::{self, lower};
use crate::sql::statement::{Statement, Words, is_macro, read};
use crate::sql::text::{Text, statements};
use crate::table::{BATCH_ROWS, sql_array, sql_type};
use crate::trace::{Answer, Names, Options, Sender};
use crate::windows::COUNT_WINDOWS;
use crate::{functions, modules};

/// Bytes of temporary files that sorts and groups may write: a query that wants more has joined everything with everything.
const MAX_TEMPORARY_BYTES: u64 = 8 << 30;
/// Batches of an answer that wait to be taken.
const WAITING: usize = 2;

/// A session of queries on one trace.
pub(crate) struct Session {
    context: SessionContext,
    tables: Arc<Tables>,
    cast_text: Arc<ScalarUDF>,
    macros: Macros,
    functions: UserFunctions,
    /// Tables and views that queries have made.
    made: HashMap<String, Made>,
    /// Those of modules, until somebody names them.
    defined: HashMap<String, Defined>,
    /// Those of them that are being made, the innermost last. A query may be over before they are.
    in_hand: Vec<(String, Arc<Defined>)>,
    included: HashSet<&'static str>,
    /// Trees of frames that flame graphs are made of.
    flamegraphs: HashMap<String, LogicalPlan>,
    /// How many tables that operators make there were, for names.
    operators_made: usize,
    /// Those that are there now.
    operators_there: Vec<String>,
    /// How deep views lie in each other that are being made.
    providing: usize,
    of: Of,
    /// Functions that nothing but a trace can answer.
    of_trace: HashSet<String>,
    /// Whether types of columns were asked of the trace.
    asked: Asked,
    /// Of each table and view that is known.
    sizes: Sizes,
    /// Of the query that was planned last.
    planned: Size,
    /// Of the query that is being run.
    limits: Arc<Limits>,
}

/// What statements are asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A trace.
    Trace,
    /// Tables that were made over many traces, and nothing else.
    Fleet,
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
        held: Held,
    },
}

/// All rows of a plan.
struct Collected {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// What they have of memory.
    held: Held,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Of a trace.
    pub(crate) fn new(tables: Arc<Tables>, options: &Options) -> Result<Self, Error> {
        Self::of(Of::Trace, tables, options)
    }

    pub(crate) fn of(of: Of, tables: Arc<Tables>, options: &Options) -> Result<Self, Error> {
        let mut config = SessionConfig::new().with_batch_size(BATCH_ROWS).with_target_partitions(1);
        let sql = &mut config.options_mut().sql_parser;
        // NULL is smaller than everything.
        sql.default_null_ordering = "nulls_min".to_owned();
        // Rows of a view stay in its order.
        sql.enable_subquery_sort_elimination = false;
        // A sort of each part would begin all of them at once.
        config.options_mut().optimizer.repartition_sorts &= of == Of::Trace;
        let bytes = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
        let files = DiskManagerBuilder::default().with_max_temp_directory_size(MAX_TEMPORARY_BYTES);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(bytes)))
            .with_disk_manager_builder(files);
        let runtime = runtime.build_arc()?;
        let mut rules = PhysicalOptimizer::new().rules;
        for rule in rules.iter_mut().filter(|rule| rule.name() == REPLACED) {
            *rule = Arc::new(ProbeLeft);
        }
        if of == Of::Fleet {
            rules.push(Arc::new(RunAhead));
        }
        rules.push(Arc::new(KeepOrder));
        rules.push(Arc::new(COUNT_WINDOWS));
        rules.push(Arc::new(GATHER_RECURSIVE));
        let state =
            SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
        let state = state.with_physical_optimizer_rules(rules);
        let context = SessionContext::new_with_state(state.build());
        let asked = Asked::default();
        let of_trace = functions::register(&context, &tables, options.path.as_deref(), &asked);
        let cast_text = context.state().scalar_functions().get("cast_text").cloned();
        let cast_text = cast_text.ok_or_else(|| Error::plain("there are no functions"))?;
        let mut session = Self {
            context,
            cast_text,
            tables,
            macros: Macros::new(),
            functions: UserFunctions::new(),
            made: HashMap::new(),
            defined: HashMap::new(),
            in_hand: Vec::new(),
            included: HashSet::new(),
            flamegraphs: HashMap::new(),
            operators_made: 0,
            operators_there: Vec::new(),
            providing: 0,
            of,
            of_trace,
            asked,
            sizes: Sizes::new(),
            planned: Size::default(),
            limits: Arc::new(Limits::new(Stop::new(), options.timeout)),
        };
        session.include("prelude")?;
        Ok(session)
    }

    /// Runs statements; the answer is the last one's.
    pub(crate) async fn run(&mut self, sql: &str, limits: Limits) -> Result<Answer, Error> {
        self.within(limits)?;
        let text = Text::new(sql);
        let mut answer = Answer::none();
        for words in statements(text.words()?) {
            // Those before the last one are run, too: they may be wrong.
            while let Some(batch) = answer.next().await {
                batch?;
            }
            self.limits.check().map_err(Error::plain)?;
            answer = self.statement(&text, words).await?;
        }
        Ok(answer)
    }

    /// Runs statements for what they define.
    pub(crate) async fn run_to_end(&mut self, sql: &str) -> Result<(), Error> {
        let mut answer = self.run(sql, Limits::clone(&self.limits)).await?;
        while let Some(batch) = answer.next().await {
            batch?;
        }
        Ok(())
    }

    /// What is run from now on is one query's, within these limits.
    pub(crate) fn within(&mut self, limits: Limits) -> Result<(), Error> {
        self.tidy()?;
        self.limits = Arc::new(limits);
        Ok(())
    }

    /// A query that was ended in the midst leaves behind what it would have put away.
    fn tidy(&mut self) -> Result<(), Error> {
        self.providing = 0;
        for (name, defined) in std::mem::take(&mut self.in_hand) {
            if let Some(defined) = Arc::into_inner(defined).filter(|_| !self.made.contains_key(&name)) {
                self.defined.insert(name, defined);
            }
        }
        self.forget(0)
    }

    /// All that can be named.
    pub(crate) fn known(&self) -> Names {
        let state = self.context.state();
        let functions = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        let functions = functions.chain(state.window_functions().keys()).chain(self.functions.keys());
        let is_own = |name: &&String| !name.starts_with("__");
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        Names {
            tables: sorted(self.names()),
            functions: sorted(functions.filter(is_own).cloned().collect()),
            macros: sorted(self.macros.keys().filter(is_own).cloned().collect()),
            modules: sorted(modules::names().map(str::to_owned).collect()),
        }
    }

    /// Columns of a table or a view, as far as they are known without making anything.
    pub(crate) async fn columns(&self, table: &str) -> Vec<String> {
        self.known_columns(table).await
    }

    pub(crate) async fn statement(&mut self, text: &Text<'_>, words: Words) -> Result<Answer, Error> {
        let headings = headings(text, &words);
        let words = lower(words);
        if let Some(legacy) = legacy::read(&words) {
            self.legacy(legacy)?;
            return Ok(Answer::none());
        }
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
                let (plan, own) = self.plan_shown(text, words, *query).await?;
                self.execute(plan, own, headings).await
            }
            Ast::CreateTable(table) => {
                let name = name_of(&table.name)?;
                self.must_be_new(&name, table.or_replace || table.if_not_exists)?;
                let key = table.columns.iter().find(|column| is_row_number(column));
                let key = key.map(|column| column.name.value.clone());
                let rows = match table.query {
                    Some(query) => {
                        let plan = self.plan(text, words, *query).await?;
                        self.collect(plan, &name).await?
                    }
                    None => {
                        let field = |column: &ColumnDef| {
                            let data_type = column_type(&column.data_type.to_string());
                            Field::new(&column.name.value, data_type, true)
                        };
                        let schema =
                            Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()));
                        Collected { schema, batches: Vec::new(), held: self.held(&name) }
                    }
                };
                self.keep(name, rows, key)?;
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
                    self.flamegraphs.remove(&name);
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

    async fn execute(&self, plan: LogicalPlan, own: Vec<Own>, headings: &[Heading]) -> Result<Answer, Error> {
        let behind = own.iter().map(Own::columns).sum();
        let (all, stream) = self.start(plan, headings, behind, self.context.state()).await?;
        let columns = all.fields().len().saturating_sub(behind);
        let schema = Arc::new(Schema::new(all.fields().iter().take(columns).cloned().collect::<Vec<_>>()));
        let (to, batches) = mpsc::channel(WAITING);
        tokio::spawn(send(stream, all, Limits::clone(&self.limits), to));
        Ok(Answer::of(schema, own, batches))
    }

    /// Begins to make the rows of a plan, whose last columns may be no columns of the answer. Gives the names and types that they are shown
    /// with, too ([`as_sql`]).
    pub(crate) async fn start(
        &self,
        plan: LogicalPlan,
        headings: &[Heading],
        behind: usize,
        state: SessionState,
    ) -> Result<(SchemaRef, SendableRecordBatchStream), Error> {
        // Optimizing may change what a column is called that nobody named.
        let mut names: Vec<String> =
            plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let behind = names.split_off(names.len().saturating_sub(behind));
        let plan = state.create_physical_plan(&plan).await?;
        let fields = plan.schema();
        let names = apply(headings, names);
        let field =
            |(field, name): (&Arc<Field>, String)| Field::new(name, sql_type(field.data_type()), true);
        let names = names.into_iter().chain(behind);
        let schema = Arc::new(Schema::new(fields.fields().iter().zip(names).map(field).collect::<Vec<_>>()));
        let plan = interruptible(plan, &self.limits)?;
        Ok((schema, execute_stream(plan, self.task_context(&state))?))
    }

    /// What operators are run in: they know what the query is limited by.
    fn task_context(&self, state: &SessionState) -> Arc<TaskContext> {
        let context = TaskContext::from(state);
        let config = context.session_config().clone().with_extension(self.limits.clone());
        Arc::new(context.with_session_config(config))
    }

    /// Memory for something of this name.
    fn held(&self, name: &str) -> Held {
        Held::new(name, &self.context.runtime_env().memory_pool, Some(self.limits.clone()))
    }

    /// The rows of a plan, for something of this name.
    async fn collect(&self, plan: LogicalPlan, name: &str) -> Result<Collected, Error> {
        let held = self.held(name);
        let mut buffers = Buffers::default();
        let mut answer = self.execute(plan, Vec::new(), &[]).await?;
        let mut batches = Vec::new();
        let mut gather = Gather::new(answer.schema.clone(), self.held(name));
        let mut keep = |batch: RecordBatch| {
            held.try_grow(buffers.add(&batch))?;
            batches.push(batch);
            Ok::<_, DataFusionError>(())
        };
        while let Some(batch) = answer.next().await {
            gather.push(batch?)?.try_for_each(&mut keep)?;
        }
        gather.finish()?.map_or(Ok(()), keep)?;
        Ok(Collected { schema: answer.schema, batches, held })
    }

    /// Keeps rows that were made elsewhere.
    pub(crate) fn keep_rows(
        &mut self,
        name: String,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<(), Error> {
        let held = self.held(&name);
        let mut buffers = Buffers::default();
        batches.iter().try_for_each(|batch| held.try_grow(buffers.add(batch)))?;
        self.keep(name, Collected { schema, batches, held }, None)
    }

    fn keep(&mut self, name: String, rows: Collected, key: Option<String>) -> Result<(), Error> {
        let Collected { schema, batches, held } = rows;
        let table = MemTable::try_new(schema.clone(), vec![batches.clone()])?;
        self.defined.remove(&name);
        let size = Size::of_table(schema.fields().len());
        self.register(&name, Arc::new(table), size)?;
        self.made.insert(name, Made::Table { batches, schema, key, held });
        Ok(())
    }

    fn keep_view(&mut self, name: String, plan: LogicalPlan) -> Result<(), Error> {
        self.defined.remove(&name);
        self.register(&name, Arc::new(ViewTable::new(plan, None)), self.planned)?;
        self.made.insert(name, Made::View);
        Ok(())
    }

    fn register(&mut self, name: &str, table: Arc<dyn TableProvider>, size: Size) -> Result<(), Error> {
        self.context.deregister_table(name)?;
        self.context.register_table(name, table)?;
        self.sizes.insert(name.to_owned(), size);
        Ok(())
    }

    fn must_be(&self, name: &str) -> Result<(), Error> {
        match self.names().iter().any(|it| it == name) {
            true => Ok(()),
            false => Err(Error::plain(format!("there is no table {name}"))),
        }
    }

    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Whether types of columns were asked of the trace: in another one they may be others.
    pub(crate) fn is_asked_for_types(&self) -> bool {
        self.asked.is_set()
    }

    /// Types of arguments that are known.
    pub(crate) fn types(&self) -> Types {
        self.asked.types()
    }

    /// What types arguments have in other traces, if this one does not have them.
    pub(crate) fn know_types(&self, types: &Types) {
        self.asked.know(types);
    }

    pub(crate) fn macros(&self) -> &Macros {
        &self.macros
    }

    /// Whether a query has made it.
    pub(crate) fn has_made(&self, name: &str) -> bool {
        self.made.contains_key(name)
    }

    pub(crate) fn must_be_new(&self, name: &str, is_replaced: bool) -> Result<(), Error> {
        match (self.made.contains_key(name) || self.defined.contains_key(name)) && !is_replaced {
            true => Err(Error::plain(format!("there is a table or view {name} already"))),
            false => Ok(()),
        }
    }
}

/// Sends the rows of an answer, until it is whole, or over.
pub(crate) async fn send(
    mut stream: SendableRecordBatchStream,
    schema: SchemaRef,
    mut limits: Limits,
    to: Sender,
) {
    loop {
        let next = tokio::select! {
            biased;
            // Who does not take it wants no more.
            () = to.closed() => return,
            error = limits.over() => Err(error),
            next = stream.next() => next.transpose().map_err(|error| limits.or_over(error)),
        };
        let next = next.and_then(|batch| Ok(batch.map(|batch| as_sql(&schema, &batch)).transpose()?));
        let is_last = !matches!(next, Ok(Some(_)));
        let since = Instant::now();
        if to.send(next).await.is_err() || is_last {
            return;
        }
        limits.waited(since.elapsed());
    }
}

/// The rows with columns of these names and types.
pub(crate) fn as_sql(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, DataFusionError> {
    let arrays = batch.columns().iter().map(sql_array).collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
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

pub(crate) fn name_of(name: &ObjectName) -> Result<String, Error> {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(name)) => Ok(name.value.clone()),
        _ => Err(Error::plain(format!("{name} is no name"))),
    }
}
