//! A trace that is asked, and its answers.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use ferretto_import::Options as ImportOptions;
use ferretto_trace_tables::Tables;
use tokio::sync::{Mutex, mpsc};

use crate::error::Error;
use crate::own_types::{Own, Shown, visible};
use crate::runtime::Threads;
use crate::session::Session;

/// How queries are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of memory that queries may use beside the trace's own tables. What needs more, and can, goes into temporary files.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Where the trace is, if it is to be said: what `_trace` is.
    pub path: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let ImportOptions { memory_bytes, threads, .. } = ImportOptions::default();
        Self { memory_bytes, threads, path: None }
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

    /// Runs statements, and gives the rows of the last one.
    ///
    /// # Errors
    ///
    /// If one of them is wrong, or cannot be run to its end; while rows come, that is in them.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        let (session, sql) = (self.session.clone(), sql.to_owned());
        let answer = self.threads.run(async move { session.lock().await.run(&sql).await })?;
        Ok(Rows { answer, threads: self.threads.clone() })
    }
}

/// The rows of an answer.
#[derive(Debug)]
pub struct Rows {
    pub(crate) answer: Answer,
    /// They make them.
    #[allow(dead_code)]
    pub(crate) threads: Threads,
}

/// Rows that are being made.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) schema: SchemaRef,
    /// What the columns behind those of the schema say of these.
    pub(crate) own: Vec<Own>,
    /// Whether the statement has an answer at all.
    pub(crate) is_query: bool,
    pub(crate) batches: mpsc::Receiver<Result<RecordBatch, Error>>,
}

impl Answer {
    /// Of a statement that has none.
    pub(crate) fn none() -> Self {
        let (_, batches) = mpsc::channel(1);
        Self {
            schema: Arc::new(arrow::datatypes::Schema::empty()),
            own: Vec::new(),
            is_query: false,
            batches,
        }
    }
}

impl Rows {
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
            let batch = self.answer.batches.blocking_recv()?;
            let Answer { schema, own, .. } = &self.answer;
            Some(batch.and_then(|batch| Ok(Shown::of(schema, own, &batch)?)))
        })
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.answer.batches.blocking_recv()?;
        Some(batch.and_then(|batch| Ok(visible(&self.answer.schema, &batch)?)))
    }
}
