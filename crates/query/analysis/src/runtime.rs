//! The threads that queries are planned and run on.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

use arrow::array::RecordBatch;

use crate::Error;
use crate::limits::Limits;
use crate::trace::Answer;

/// Bytes of a thread's stack. Planners recurse as deep as a query is, some kilobytes a level ([`crate::sql::text`] bounds the levels); what
/// nothing touches costs nothing.
const STACK_BYTES: usize = 512 << 20;

/// Threads, until nobody has them any more.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<Inner>);

#[derive(Debug)]
struct Inner(Option<Runtime>);

impl Threads {
    /// So many.
    pub(crate) fn new(count: usize) -> Result<Self, Error> {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(count.max(1))
            .thread_stack_size(STACK_BYTES)
            .thread_name("query")
            .enable_time();
        let runtime =
            builder.build().map_err(|error| Error::plain(format!("no threads to be had: {error}")))?;
        Ok(Self(Arc::new(Inner(Some(runtime)))))
    }

    /// Does something on them, and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        what: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.0.0 else { return Err(Error::plain("there are no threads")) };
        let task = runtime.spawn(what);
        runtime.block_on(task).unwrap_or_else(|error| Err(broken_off(&error)))
    }

    /// Does something on them, and waits for it, but no longer than these limits allow.
    pub(crate) fn run_until<T: Send + 'static>(
        &self,
        what: impl Future<Output = Result<T, Error>> + Send + 'static,
        limits: &Limits,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.0.0 else { return Err(Error::plain("there are no threads")) };
        let mut task = runtime.spawn(what);
        runtime.block_on(async {
            tokio::select! {
                biased;
                done = &mut task => done.unwrap_or_else(|error| Err(broken_off(&error))),
                error = limits.over() => {
                    // It ends where it waits for something next.
                    task.abort();
                    Err(error)
                }
            }
        })
    }
}

impl Threads {
    /// Waits for the next rows of an answer, but no longer than these limits allow: what makes them may be in the midst of something.
    pub(crate) fn next(&self, answer: &mut Answer, limits: &Limits) -> Option<Result<RecordBatch, Error>> {
        let runtime = self.0.0.as_ref()?;
        let over = runtime.block_on(async {
            tokio::select! {
                biased;
                next = answer.next() => Ok(next),
                error = limits.over() => Err(error),
            }
        });
        over.unwrap_or_else(|error| answer.end(error))
    }
}

/// A panic is a mistake of ours.
fn broken_off(error: &JoinError) -> Error {
    Error::plain(format!("the query broke off: {error}"))
}

impl Drop for Inner {
    /// What is still being done is of no use to anybody.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
