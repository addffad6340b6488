//! Many traces that are asked as one.
//!
//! | module | what it does |
//! |---|---|
//! | `session` | what statements do |
//! | `split` | a query in two: of each trace, and of all |
//! | `task` | the first half, asked of each trace |
//! | `ahead` | several traces at once, rows in the order of the traces |
//! | `types` | columns whose types differ from trace to trace |
//! | `pass` | one pass over all |
//! | `traces` | where traces are, what is known of them |

pub(crate) mod ahead;
pub(crate) mod pass;
pub(crate) mod session;
pub(crate) mod split;
pub(crate) mod task;
mod traces;
pub(crate) mod types;

use std::sync::Arc;
use std::time::Duration;

use ferretto_import::Options as ImportOptions;
use tokio::sync::Mutex;

use crate::Error;
pub use crate::fleet::pass::Watch;
use crate::fleet::session::FleetSession;
use crate::fleet::traces::Traces;
pub use crate::fleet::traces::{Files, Places, Read, Source, State};
use crate::limits::{Limits, Stop};
use crate::runtime::Threads;
use crate::trace::{Options, Rows};

/// Many traces, with what queries have defined.
///
/// What the outermost `SELECT` of a query reads is asked of each trace by itself; its groups, windows, order and limit are over all. A trace that
/// cannot be read costs no other: it is a row of `trace_errors`.
#[derive(Debug)]
pub struct Fleet {
    threads: Threads,
    traces: Arc<Traces>,
    session: Arc<Mutex<FleetSession>>,
    timeout: Duration,
}

impl Fleet {
    /// Of traces by their paths, which rows without an order follow. Each is read when a query asks it, on a thread, with
    /// [`Options::threads`] at once.
    ///
    /// # Errors
    ///
    /// If there are no threads to be had.
    pub fn new(
        paths: Vec<String>,
        places: Arc<dyn Places>,
        import: ImportOptions,
        options: &Options,
        watch: Arc<Watch>,
    ) -> Result<Self, Error> {
        let threads = Threads::new(options.threads)?;
        let import = ImportOptions { threads: if paths.len() >= options.threads { 1 } else { 2 }, ..import };
        let traces = Arc::new(Traces::new(paths, places, import, options.threads));
        let session = FleetSession::new(traces.clone(), options, watch)?;
        Ok(Self { threads, traces, session: Arc::new(Mutex::new(session)), timeout: options.timeout })
    }

    /// Runs statements, and gives the rows of the last one.
    ///
    /// # Errors
    ///
    /// If one of them is wrong, if no trace can be read, or if one that can be read has no answer.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        self.query_until(sql, &Stop::new())
    }

    /// The same, but that somebody else may end it.
    ///
    /// # Errors
    ///
    /// As [`Fleet::query`], and if it is ended.
    pub fn query_until(&self, sql: &str, stop: &Stop) -> Result<Rows, Error> {
        let (session, sql) = (self.session.clone(), sql.to_owned());
        // Each trace has its time.
        let count = u32::try_from(self.traces.paths().len()).unwrap_or(u32::MAX).max(1);
        let limits = Limits::new(stop.clone(), self.timeout.saturating_mul(count));
        let of_session = limits.clone();
        let work = async move { session.lock().await.run(&sql, of_session).await };
        let answer = self.threads.run_until(work, &limits)?;
        Ok(Rows::new(answer, limits, &self.threads))
    }

    /// The traces, and what is known of each by now.
    #[must_use]
    pub fn states(&self) -> Vec<(String, State)> {
        self.traces.paths().iter().cloned().zip(self.traces.states()).collect()
    }
}
