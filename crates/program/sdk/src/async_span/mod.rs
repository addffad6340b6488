//! Spans of asynchronous tasks: slices that belong to no thread.
//!
//! A span has one owner, and ends when that is dropped: with its future, wherever that ran last. Between its first poll and its end it has
//! one slice, on a track that it shares with what nests in it ([`lanes`]). While it is polled, its thread knows it as the current one, the
//! parent of spans that begin then.

mod future;
mod lanes;
mod owned;
mod span;

use std::cell::Cell;
use std::sync::Arc;

pub use future::{Instrument, Instrumented};
pub use lanes::SpanId;
pub use owned::SpanDetails;
pub use span::Moment;
pub(crate) use span::lock_for_fork;

use crate::track_event::flow::Flow;
use crate::track_event::point::TracePoint;
use crate::track_event::value::Value;
use span::Span;

thread_local! {
    /// The span that is polled now. Nothing to drop: usable to the very end of a thread.
    static CURRENT: Cell<Option<SpanId>> = const { Cell::new(None) };
}

/// Something that takes time in a program that does other things meanwhile: a request, a job. Made by [`span!`](crate::span!).
///
/// It begins when the future that it is given to by [`instrument`](Instrument::instrument) is polled first, or at the first
/// [`in_scope`](Self::in_scope), and ends when it is dropped. Spans overlap as they like: each has a slice with its own beginning and end.
///
/// A span that begins within another's poll or scope is drawn below it. Of several at once, as `join!` makes them, one is; the others get
/// a line of their own, and an arrow from their parent that leads from one to the next. So does a span that is created within another and
/// polled elsewhere, as by `spawn`. A span that outlives its parent goes on after it.
///
/// ```
/// use ferretto::Instrument;
///
/// async fn serve(id: u64) {
///     let query = async { /* … */ };
///     query.instrument(ferretto::span!("db", "query")).await;
/// }
///
/// let request = serve(7).instrument(ferretto::span!("net", "request", id = 7));
/// // … and now `spawn(request)` or `request.await`, with any executor.
/// # drop(request);
/// ```
///
/// A span that is created while nobody records its category costs one relaxed load, and stays without a slice. On which threads spans were
/// polled is seen by recording the category `ferretto.poll`.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped: give it to `instrument` or `in_scope`"]
pub struct AsyncSpan {
    /// `None`: nobody recorded its category when it was created.
    span: Option<Arc<Span>>,
}

/// While it lives, its span is the current one of this thread.
#[derive(Debug)]
struct Entered {
    outer: Option<SpanId>,
}

impl AsyncSpan {
    /// A span without a slice.
    pub const fn none() -> Self {
        Self { span: None }
    }

    /// A span that begins later as this trace point says.
    #[doc(hidden)]
    pub fn new(point: &'static TracePoint, values: &[Value<'_>], details: SpanDetails<'_>) -> Self {
        Self { span: Some(Arc::new(Span::new(point, values, details, CURRENT.get()))) }
    }

    /// A span that began in the past, within this parent. `None` if no session recorded it then.
    #[doc(hidden)]
    pub fn since(
        point: &'static TracePoint,
        values: &[Value<'_>],
        details: SpanDetails<'_>,
        parent: Option<SpanId>,
        moment: Moment,
    ) -> Option<Self> {
        let span = Arc::new(Span::new(point, values, details, parent));
        let has_begun = span.begin_at(parent, moment);
        has_begun.then_some(Self { span: Some(span) })
    }

    /// Whether it is recorded.
    pub fn is_enabled(&self) -> bool {
        self.span.is_some()
    }

    /// Its number, while it has a slice.
    #[doc(hidden)]
    pub fn id(&self) -> Option<SpanId> {
        self.span.as_ref()?.id()
    }

    /// A flow that begins at its slice, for events that are to be joined with it by arrows.
    pub fn flow(&self) -> Option<Flow> {
        self.span.as_ref().map(|span| span.flow())
    }

    /// Does something as a part of this span. Spans that begin in it are its children.
    ///
    /// ```
    /// let job = ferretto::span!("app", "job");
    /// let sum = job.in_scope(|| 1 + 1);
    /// // … the job goes on, on whichever thread, until `job` is dropped.
    /// # assert_eq!(sum, 2);
    /// ```
    pub fn in_scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        work()
    }

    /// Ends it now.
    pub fn end(self) {}

    /// Ends it now and adds arguments to it: what came out of the work.
    ///
    /// ```
    /// use ferretto::ToValue;
    /// let query = ferretto::span!("db", "query");
    /// query.in_scope(|| ());
    /// query.end_with(&[("rows", 3.to_value())]);
    /// ```
    pub fn end_with(mut self, arguments: &[(&str, Value<'_>)]) {
        if let Some(span) = self.span.take() {
            span.end(arguments);
        }
    }

    /// Begins it, if this is the first time.
    fn enter(&self) -> Option<Entered> {
        let span = self.span.as_ref()?;
        let outer = CURRENT.get();
        // A span without a slice leaves its children to its parent.
        CURRENT.set(span.begin(outer).or(outer));
        Some(Entered { outer })
    }

    /// As [`enter`](Self::enter), unless it has not begun.
    fn enter_again(&self) -> Option<Entered> {
        if self.id().is_some() { self.enter() } else { None }
    }
}

impl Drop for AsyncSpan {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            span.end(&[]);
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}
