//! A trace that is asked, and its answers.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use ferretto_import::Options as ImportOptions;
use ferretto_trace_tables::Tables;
use tokio::sync::{Mutex, mpsc};

use crate::error::Error;
use crate::limits::{Limits, Stop};
use crate::own_types::{Own, Shown, visible};
use crate::runtime::Threads;
use crate::session::Session;

/// How long a query may work, unless somebody says otherwise: a question that people wait for is answered long before, and one that joins
/// everything with everything never.
const TIMEOUT: Duration = Duration::from_secs(600);

/// How queries are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of memory that queries may use beside the trace's own tables. What needs more, and can, goes into temporary files.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Where the trace is, if it is to be said: what `_trace` is.
    pub path: Option<String>,
    /// How long a query may work; that nobody takes its rows is not counted.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let ImportOptions { memory_bytes, threads, .. } = ImportOptions::default();
        Self { memory_bytes, threads, path: None, timeout: TIMEOUT }
    }
}

/// A trace, with the tables, views and functions that queries have made.
///
/// Queries of one trace run one behind the other.
#[derive(Debug)]
pub struct Trace {
    threads: Threads,
    tables: Arc<Tables>,
    options: Options,
    session: Arc<Mutex<Session>>,
}

impl Trace {
    /// Reads a trace of any format that is known.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let of_file =
            |error: &dyn std::fmt::Display| Error::plain(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(|error| of_file(&error))?;
        let mut options = ImportOptions::default();
        if file.metadata().is_ok_and(|meta| meta.is_file()) {
            options.file = file.try_clone().ok().map(Arc::new);
        }
        let imported = ferretto_import::import(file, &options, &mut |_| true);
        let (tables, _) = imported.map_err(|error| of_file(&error))?;
        Self::of(tables, &Options { path: Some(path.display().to_string()), ..Options::default() })
    }

    /// One that was read.
    ///
    /// # Errors
    ///
    /// If there are no threads to be had.
    pub fn of(tables: Tables, options: &Options) -> Result<Self, Error> {
        let threads = Threads::new(options.threads)?;
        let tables = Arc::new(tables);
        let session = Session::new(tables.clone(), options)?;
        Ok(Self { threads, tables, options: options.clone(), session: Arc::new(Mutex::new(session)) })
    }

    /// The tables that it was made of.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Forgets the tables, views, functions and macros that queries have made.
    ///
    /// # Errors
    ///
    /// If there is no memory for a session.
    pub fn restore(&self) -> Result<(), Error> {
        let anew = Session::new(self.tables.clone(), &self.options)?;
        let session = self.session.clone();
        self.threads.run(async move {
            *session.lock().await = anew;
            Ok(())
        })
    }

    /// What can be named in a query, whether or not anybody has named it yet.
    ///
    /// # Errors
    ///
    /// If there are no threads any more.
    pub fn names(&self) -> Result<Names, Error> {
        let session = self.session.clone();
        self.threads.run(async move { Ok(session.lock().await.known()) })
    }

    /// The columns of a table or a view that has been named before, or that the trace has. Of others, which would have to be made first,
    /// nothing is known.
    ///
    /// # Errors
    ///
    /// If there are no threads any more.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, Error> {
        let (session, table) = (self.session.clone(), table.to_owned());
        self.threads.run(async move { Ok(session.lock().await.columns(&table).await) })
    }

    /// Runs statements, and gives the rows of the last one.
    ///
    /// # Errors
    ///
    /// If one of them is wrong, or cannot be run to its end; while rows come, that is in them.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        self.query_until(sql, &Stop::new())
    }

    /// The same, but that somebody else may end it.
    ///
    /// # Errors
    ///
    /// As [`Trace::query`], and if it is ended.
    pub fn query_until(&self, sql: &str, stop: &Stop) -> Result<Rows, Error> {
        let (session, sql) = (self.session.clone(), sql.to_owned());
        let (stop, timeout) = (stop.clone(), self.options.timeout);
        let waiting = Limits::new(stop.clone(), timeout);
        let work = async move {
            let mut session = session.lock().await;
            session.run(&sql, Limits::new(stop, timeout)).await
        };
        let answer = self.threads.run_until(work, &waiting)?;
        Ok(Rows::new(answer, waiting, &self.threads))
    }
}

/// What can be named, each list in the order of letters.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Tables and views: of the trace, of included modules, of queries.
    pub tables: Vec<String>,
    /// Functions.
    pub functions: Vec<String>,
    /// Macros, without their `!`.
    pub macros: Vec<String>,
    /// Modules.
    pub modules: Vec<String>,
}

/// The statements of a text that end with semicolons, and what stands behind the last one: one that is not whole yet, or nothing.
#[must_use]
pub fn split(sql: &str) -> (Vec<&str>, &str) {
    crate::sql::text::split(sql)
}

/// The rows of an answer.
#[derive(Debug)]
pub struct Rows {
    answer: Answer,
    limits: Limits,
    /// Since when nobody has asked for more of them.
    taken_at: Option<Instant>,
    /// They make them.
    threads: Threads,
}

/// Rows that are being made.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) schema: SchemaRef,
    /// What the columns behind those of the schema say of these.
    pub(crate) own: Vec<Own>,
    /// Whether the statement has an answer at all.
    pub(crate) is_query: bool,
    batches: Option<Receiver>,
}

/// What comes through a channel: rows, or that there are no more. A channel that ends without this has lost some.
type Next = Result<Option<RecordBatch>, Error>;
pub(crate) type Sender = mpsc::Sender<Next>;
pub(crate) type Receiver = mpsc::Receiver<Next>;

impl Answer {
    pub(crate) fn of(schema: SchemaRef, own: Vec<Own>, batches: Receiver) -> Self {
        Self { schema, own, is_query: true, batches: Some(batches) }
    }

    /// Of a statement that has none.
    pub(crate) fn none() -> Self {
        Self {
            schema: Arc::new(arrow::datatypes::Schema::empty()),
            own: Vec::new(),
            is_query: false,
            batches: None,
        }
    }

    /// The next rows.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, Error>> {
        let next = self.batches.as_mut()?.recv().await;
        self.taken(next)
    }

    /// No more of them, and why.
    pub(crate) fn end(&mut self, why: Error) -> Option<Result<RecordBatch, Error>> {
        self.batches.take().map(|_| Err(why))
    }

    fn taken(&mut self, next: Option<Next>) -> Option<Result<RecordBatch, Error>> {
        let next = next.unwrap_or_else(|| Err(Error::plain("the query broke off"))).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.batches = None;
        }
        next
    }
}

impl Rows {
    /// Those of an answer, within limits.
    pub(crate) fn new(answer: Answer, limits: Limits, threads: &Threads) -> Self {
        Self { answer, limits, taken_at: Some(Instant::now()), threads: threads.clone() }
    }

    /// Names and types of columns. Two may have the same name.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.answer.schema.clone()
    }

    /// Whether the last statement was one that has rows, even if it has none now.
    #[must_use]
    pub fn is_query(&self) -> bool {
        self.answer.is_query
    }

    /// The rows as SQLite shows them, one value after the other, each of the type that it has there.
    pub fn shown(mut self) -> impl Iterator<Item = Result<Shown, Error>> {
        std::iter::from_fn(move || {
            let batch = self.taken()?;
            let Answer { schema, own, .. } = &self.answer;
            Some(batch.and_then(|batch| Ok(Shown::of(schema, own, &batch)?)))
        })
    }

    /// The next rows, with the columns behind those of the answer. The time in which nobody wants any is not the query's.
    fn taken(&mut self) -> Option<Result<RecordBatch, Error>> {
        let since = self.taken_at.take();
        self.limits.waited(since.map_or(Duration::ZERO, |since| since.elapsed()));
        let next = self.threads.next(&mut self.answer, &self.limits);
        self.taken_at = Some(Instant::now());
        next
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.taken()?;
        Some(batch.and_then(|batch| Ok(visible(&self.answer.schema, &batch)?)))
    }
}
