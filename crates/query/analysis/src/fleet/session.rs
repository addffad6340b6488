//! What statements do with many traces.
//!
//! There are two sessions. One is of a trace without a row: what statements define is defined there first, so that what is wrong with them is said
//! before a trace is read, and queries are planned there if that says what types their columns have. The other is of tables that were made over all
//! traces, and of nothing else. Definitions are kept as text, and each trace that is asked runs them anew.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use ferretto_trace_tables::Tables;
use futures_util::StreamExt as _;
use sqlparser::ast::{Query, Statement as Ast, TableObject};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::fleet::pass::{Pass, Watch};
use crate::fleet::split::Parts;
use crate::fleet::task::{self, Rows, Task};
use crate::fleet::traces::{State, Stop, Traces};
use crate::fleet::types::Seen;
use crate::functions::of_trace::Types;
use crate::limits::Limits;
use crate::session::plan::Names;
use crate::session::{Of, Session, legacy, name_of, send};
use crate::sql::headings::{Heading, headings};
use crate::sql::macros::expand;
use crate::sql::parse::{self, lower};
use crate::sql::statement::{Create, Statement, Words, is_macro, read};
use crate::sql::text::{Text, statements};
use crate::trace::{Answer, Options};

/// The table of traces that cannot be read.
const ERRORS: &str = "trace_errors";
/// Rows of all traces, in a plan.
const ROWS: &str = "__rows_of_all";
/// Bytes of rows that wait until the types of all are known, if these may differ.
const MAX_HELD_BYTES: usize = 64 << 20;
/// How often traces are asked the same: each time a type has become a wider one, of which a column has three at most. Most often all that are to
/// become so do after the first traces.
const MAX_PASSES: usize = 16;

/// Traces that are tried, one behind the other, for one of which a query can be planned.
const MAX_OUTLINES: usize = 100;

/// A session of queries on many traces.
pub(crate) struct FleetSession {
    traces: Arc<Traces>,
    options: Options,
    watch: Arc<Watch>,
    /// Of a trace without a row.
    each: Session,
    /// Of tables over all traces.
    all: Session,
    /// What each trace runs before it is asked.
    definitions: String,
    /// Of the query that is being run.
    limits: Limits,
}

impl std::fmt::Debug for FleetSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetSession").finish_non_exhaustive()
    }
}

/// Who is concerned by a statement.
enum Whose {
    /// Each trace that is asked from now on.
    Each,
    /// Each trace, and who reads tables over all: macros, functions.
    Both,
    /// Tables over all traces.
    All,
    /// A query of all traces.
    Query,
    /// A table over all traces, of this name, that a query makes.
    Table { name: String, is_replaced: bool },
}

impl FleetSession {
    pub(crate) fn new(traces: Arc<Traces>, options: &Options, watch: Arc<Watch>) -> Result<Self, Error> {
        let none = Arc::new(Tables::default());
        // Of what queries may have, a half is for what is over all traces, and a half for all that are asked at once.
        let all = Options { memory_bytes: options.memory_bytes / 2, ..options.clone() };
        let mut this = Self {
            traces,
            options: options.clone(),
            watch,
            each: Session::new(none.clone(), &all)?,
            all: Session::of(Of::Fleet, none, &all)?,
            definitions: String::new(),
            limits: Limits::new(crate::limits::Stop::new(), options.timeout),
        };
        this.list_errors()?;
        Ok(this)
    }

    /// Runs statements; the answer is the last one's.
    pub(crate) async fn run(&mut self, sql: &str, limits: Limits) -> Result<Answer, Error> {
        self.each.within(limits.clone())?;
        self.all.within(limits.clone())?;
        self.limits = limits;
        let text = Text::new(sql);
        let statements = statements(text.words()?);
        let last = statements.len().saturating_sub(1);
        let mut answer = Answer::none();
        for (at, words) in statements.into_iter().enumerate() {
            answer = self.statement(&text, words, at == last).await?;
        }
        Ok(answer)
    }

    async fn statement(&mut self, text: &Text<'_>, words: Words, is_last: bool) -> Result<Answer, Error> {
        let sql = match (words.first(), words.last()) {
            (Some(first), Some(last)) => text.between(first.span.start, last.span.end),
            _ => return Ok(Answer::none()),
        };
        let whose = self.whose(text, &words)?;
        match whose {
            Whose::Each => self.each.statement(text, words).await?,
            Whose::Both => {
                self.each.statement(text, words.clone()).await?;
                self.all.statement(text, words).await?
            }
            Whose::All => {
                self.know_errors(&words).await?;
                return self.all.statement(text, words).await;
            }
            // A query whose rows nobody sees is not asked; it may be wrong.
            Whose::Query if !is_last => {
                self.each.parts_of_words(text, words).await?;
                return Ok(Answer::none());
            }
            Whose::Query => {
                let headings = headings(text, &words);
                return self.ask(text, words, sql, &headings).await;
            }
            Whose::Table { name, is_replaced } => {
                self.all.must_be_new(&name, is_replaced)?;
                self.each.must_be_new(&name, false)?;
                let mut answer = self.ask(text, words, sql, &[]).await?;
                let mut batches = Vec::new();
                while let Some(batch) = answer.next().await {
                    batches.push(batch?);
                }
                self.all.keep_rows(name, answer.schema, batches)?;
                return Ok(Answer::none());
            }
        };
        self.definitions.push_str(sql);
        self.definitions.push_str(";\n");
        Ok(Answer::none())
    }

    fn whose(&self, text: &Text<'_>, words: &Words) -> Result<Whose, Error> {
        let words = lower(words.clone());
        if legacy::read(&words).is_some() || is_macro(&words) {
            return Ok(Whose::Both);
        }
        let words = expand(text, self.each.macros(), words)?;
        Ok(match read(text, words)? {
            Statement::Macro(_) | Statement::Function(_) | Statement::Include(_) => Whose::Both,
            Statement::Table(create) | Statement::View(create) => self.of_create(text, &create)?,
            Statement::Index { table } => self.of_names(&[table])?.unwrap_or(Whose::Each),
            Statement::Virtual { .. } => Whose::Each,
            Statement::Sql(words) => match parse::statement(text, &words)? {
                Ast::Query(query) => self.of_query(&query)?.unwrap_or(Whose::Query),
                Ast::CreateTable(table) => {
                    let (name, is_replaced) =
                        (name_of(&table.name)?, table.or_replace || table.if_not_exists);
                    match &table.query {
                        Some(query) => self.of_query(query)?.unwrap_or(Whose::Table { name, is_replaced }),
                        None => Whose::All,
                    }
                }
                Ast::CreateView(view) => self.of_query(&view.query)?.unwrap_or(Whose::Each),
                Ast::Insert(insert) => match &insert.table {
                    TableObject::TableName(name) => self.of_names(&[name_of(name)?])?.unwrap_or(Whose::Each),
                    _ => Whose::Each,
                },
                Ast::Drop { names, .. } => {
                    let names = names.iter().map(name_of).collect::<Result<Vec<_>, _>>()?;
                    self.of_names(&names)?.unwrap_or(Whose::Each)
                }
                // What is wrong with it is said there.
                _ => Whose::Each,
            },
        })
    }

    fn of_create(&self, text: &Text<'_>, create: &Create) -> Result<Whose, Error> {
        let whose = self.of_query(&*parse::query(text, &create.body)?)?;
        if whose.is_none() {
            self.all.must_be_new(&create.name, false)?;
        }
        Ok(whose.unwrap_or(Whose::Each))
    }

    fn of_query(&self, query: &Query) -> Result<Option<Whose>, Error> {
        self.of_names(&Names::of(query))
    }

    /// Whether names are of tables over all traces: all of them, or none.
    fn of_names(&self, names: &[String]) -> Result<Option<Whose>, Error> {
        let (all, each): (Vec<_>, Vec<_>) = names.iter().partition(|name| self.all.has_made(name));
        match (all.first(), each.first()) {
            (None, _) => Ok(None),
            (Some(_), None) => Ok(Some(Whose::All)),
            (Some(all), Some(each)) => Err(Error::plain(format!(
                "{all} is over all traces, and {each} is of each by itself: a statement reads such or such"
            ))),
        }
    }

    /// Asks all traces.
    async fn ask(
        &mut self,
        text: &Text<'_>,
        words: Words,
        sql: &str,
        headings: &[Heading],
    ) -> Result<Answer, Error> {
        let Outline { parts, may_differ, types: known } = self.outline(text, words, sql).await?;
        let fields = parts.below.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let mut types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let seen = Arc::new(Seen::new(names.len()));
        for _ in 0..MAX_PASSES {
            let rows = self.rows(sql, &parts, &known, task::schema(&names, &types))?;
            let plan = self.all.plan_over(&parts, rows)?;
            let mut begun = self.begin(plan, headings, &seen).await?;
            let first = begun.first(if may_differ { MAX_HELD_BYTES } else { 0 }).await;
            match first {
                Err(_) if seen.is_to_repeat() => types = seen.over(&types),
                Err(error) => return Err(error),
                Ok(first) => return Ok(begun.answer(first, self.limits.clone())),
            }
        }
        Err(Error::plain("types of columns differ from trace to trace: cast them"))
    }

    /// What each trace is asked, and what is done with the rows.
    async fn outline(&mut self, text: &Text<'_>, words: Words, sql: &str) -> Result<Outline, Error> {
        let planned = self.each.parts_of_words(text, words).await;
        if !self.each.is_asked_for_types() {
            return planned.map(|parts| Outline { parts, may_differ: false, types: Types::new() });
        }
        // The types are those of the first trace that can be read and asked: a sum is of numbers, and one that has none of them does not say so.
        let (stop, mut types, mut wrong) = (Stop::default(), Types::new(), None);
        for (at, path) in self.traces.paths().clone().iter().enumerate() {
            let Some(tables) = self.traces.tables(at, &stop).await? else { continue };
            let options = Options { path: Some(path.clone()), ..self.of_one() };
            let mut session = Session::new(tables.clone(), &options)?;
            session.know_types(&types);
            let planned = match session.run_to_end(&self.definitions).await {
                Ok(()) => session.parts(sql).await,
                Err(error) => Err(error),
            };
            types = session.types();
            match planned {
                Ok(parts) => {
                    self.traces.keep(at, tables);
                    return Ok(Outline { parts, may_differ: true, types });
                }
                Err(error) => _ = wrong.get_or_insert(error),
            }
            if at >= MAX_OUTLINES {
                break;
            }
        }
        Err(wrong.unwrap_or_else(|| self.none_is_read()))
    }

    /// What the query of one trace may have.
    fn of_one(&self) -> Options {
        let threads = self.options.threads.max(1);
        let memory_bytes = self.options.memory_bytes / 2 / threads as u64;
        Options { memory_bytes, threads, path: None, timeout: self.options.timeout }
    }

    /// Rows of all traces, as the part below calls their columns.
    fn rows(&self, sql: &str, parts: &Parts, types: &Types, schema: SchemaRef) -> Result<LogicalPlan, Error> {
        let task = Task {
            types: types.clone(),
            definitions: self.definitions.clone(),
            query: sql.to_owned(),
            paths: self.traces.paths().clone(),
            memory_bytes: self.of_one().memory_bytes,
            columns: (0..schema.fields().len()).collect(),
            schema: schema.clone(),
            limit: None,
        };
        let scan = LogicalPlanBuilder::scan(ROWS, provider_as_source(Arc::new(Rows(task))), None)?.build()?;
        let named = |((of, field), rows): ((_, &Arc<Field>), &Arc<Field>)| {
            let column = Expr::Column(Column::new(Some(ROWS), rows.name().clone()));
            let of: Option<&datafusion::common::TableReference> = of;
            column.alias_qualified(of.cloned(), field.name().clone())
        };
        let exprs = parts.below.schema().iter().zip(schema.fields()).map(named).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(scan))?))
    }

    /// Begins a pass over all traces.
    async fn begin(&self, plan: LogicalPlan, headings: &[Heading], seen: &Arc<Seen>) -> Result<Begun, Error> {
        let pass = Pass::new(self.traces.clone(), seen.clone(), self.options.threads, self.watch.clone());
        let mut state = self.all.context().state();
        state.config_mut().set_extension(Arc::new(pass));
        let (schema, rows) = self.all.start(plan, headings, 0, state).await?;
        Ok(Begun { traces: self.traces.clone(), schema, rows })
    }

    /// `trace_errors` has all errors once all traces were read.
    async fn know_errors(&mut self, words: &Words) -> Result<(), Error> {
        let is_named =
            words.iter().any(|word| word.token.to_string().trim_matches('"').eq_ignore_ascii_case(ERRORS));
        if !is_named {
            return Ok(());
        }
        if self.traces.states().contains(&State::Unread) {
            let sql = "select 1 where false";
            let text = Text::new(sql);
            // If none can be read, that is what the table says.
            if let Ok(mut answer) = self.ask(&text, text.words()?, sql, &[]).await {
                while answer.next().await.is_some() {}
            }
        }
        self.list_errors()
    }

    fn list_errors(&mut self) -> Result<(), Error> {
        let states = self.traces.states();
        let bad = states.iter().zip(self.traces.paths().iter()).filter_map(|(state, path)| match state {
            State::Bad(error) => Some((path.as_str(), error.as_str())),
            _ => None,
        });
        let (paths, errors): (Vec<_>, Vec<_>) = bad.unzip();
        let field = |name| Field::new(name, DataType::Utf8View, true);
        let schema = Arc::new(Schema::new(vec![field("path"), field("error")]));
        let arrays = [paths, errors].map(|texts| Arc::new(StringViewArray::from(texts)) as ArrayRef);
        let batch = RecordBatch::try_new(schema.clone(), arrays.into()).map_err(DataFusionError::from)?;
        self.all.keep_rows(ERRORS.to_owned(), schema, vec![batch])
    }

    fn none_is_read(&self) -> Error {
        none_is_read(&self.traces)
    }
}

/// Why there are no rows at all.
fn none_is_read(traces: &Traces) -> Error {
    let states = traces.states();
    let first = states.iter().zip(traces.paths().iter()).find_map(|(state, path)| match state {
        State::Bad(error) => Some(format!("; {path}: {error}")),
        _ => None,
    });
    let count = states.len();
    let of = if count == 1 {
        "the trace cannot be read".to_owned()
    } else {
        format!("none of {count} traces can be read")
    };
    Error::plain(of + &first.unwrap_or_default())
}

/// A query that was planned.
struct Outline {
    parts: Parts,
    /// Whether types of columns may be others in other traces.
    may_differ: bool,
    /// Types of arguments, as far as they are known.
    types: Types,
}

/// Rows that are being made of all traces.
struct Begun {
    traces: Arc<Traces>,
    schema: SchemaRef,
    rows: SendableRecordBatchStream,
}

impl Begun {
    /// The first rows, so many bytes of them.
    async fn first(&mut self, bytes: usize) -> Result<Vec<RecordBatch>, Error> {
        let (mut first, mut held) = (Vec::new(), 0);
        while let Some(batch) = self.rows.next().await {
            let batch = batch?;
            held += batch.get_array_memory_size();
            first.push(batch);
            if held > bytes {
                break;
            }
        }
        // There are rows of no trace, too: of a group over all.
        let is_bad = |state: &State| matches!(state, State::Bad(_));
        match self.traces.states().iter().all(is_bad) {
            true => Err(none_is_read(&self.traces)),
            false => Ok(first),
        }
    }

    /// All of them.
    fn answer(self, first: Vec<RecordBatch>, limits: Limits) -> Answer {
        let (to, batches) = mpsc::channel(2);
        let of = self.rows.schema();
        let rows = futures_util::stream::iter(first).map(Ok).chain(self.rows);
        let rows = Box::pin(RecordBatchStreamAdapter::new(of, rows));
        tokio::spawn(send(rows, self.schema.clone(), limits, to));
        Answer::of(self.schema, Vec::new(), batches)
    }
}
