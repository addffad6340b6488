//! One pass over all traces: what the nodes of its plan find where they run, and do not carry with them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::TaskContext;

use crate::fleet::traces::Traces;
use crate::fleet::types::Seen;

/// Hears of how many traces were asked, and of how many there are.
pub type Watch = dyn Fn(usize, usize) + Send + Sync;

/// A pass. It is an extension of the configuration of the sessions that it runs in.
pub(crate) struct Pass {
    pub(crate) traces: Arc<Traces>,
    pub(crate) seen: Arc<Seen>,
    threads: usize,
    done: AtomicUsize,
    watch: Arc<Watch>,
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").finish_non_exhaustive()
    }
}

impl Pass {
    pub(crate) fn new(traces: Arc<Traces>, seen: Arc<Seen>, threads: usize, watch: Arc<Watch>) -> Self {
        Self { traces, seen, threads, done: AtomicUsize::new(0), watch }
    }

    /// That which a plan runs in.
    pub(crate) fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension::<Self>()
    }

    /// How many traces are asked at once.
    pub(crate) fn threads(&self) -> usize {
        self.threads.max(1)
    }

    /// One more was asked.
    pub(crate) fn done(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.watch)(done, self.traces.paths().len());
    }
}
