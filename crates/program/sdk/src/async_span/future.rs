//! Futures with spans.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::AsyncSpan;
use crate::track_event::category::Category;
use crate::track_event::details::Details;
use crate::track_event::event::SliceGuard;
use crate::track_event::point::TracePoint;

/// Shows on which thread a task ran and when: a slice for each poll of a future that has a span. Some futures are polled very often, so this
/// is off unless a session asks for it.
static POLLS: Category = Category::new("ferretto.poll")
    .with_description("Each poll of a future with a span, on the thread that polls it")
    .with_tags(&["debug"]);

/// Gives futures spans.
pub trait Instrument: Future + Sized {
    /// The future, as this span: it begins at the first poll, and ends when the future is done or dropped.
    ///
    /// ```
    /// use ferretto::Instrument;
    ///
    /// let answer = async { 42 }.instrument(ferretto::span!("app", "think"));
    /// # drop(answer);
    /// ```
    fn instrument(self, span: AsyncSpan) -> Instrumented<Self> {
        Instrumented { future: Some(self), span }
    }
}

impl<F: Future> Instrument for F {}

pin_project! {
    /// A future with a span. Made by [`Instrument::instrument`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Instrumented<F> {
        // `None` only while this is dropped.
        #[pin]
        future: Option<F>,
        span: AsyncSpan,
    }

    impl<F> PinnedDrop for Instrumented<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Spans that the future holds end within this one. Not entered if it has not begun: there is nothing of it to show.
            let _entered = this.span.enter_again();
            this.future.set(None);
        }
    }
}

impl<F: Future> Future for Instrumented<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else {
            return Poll::Pending;
        };
        let poll = {
            let _entered = this.span.enter();
            let _slice = this.span.poll_slice();
            future.poll(context)
        };
        if poll.is_ready() {
            // The owner may keep a future that is done.
            *this.span = AsyncSpan::none();
        }
        poll
    }
}

impl AsyncSpan {
    /// A slice of this thread for a poll, if a session wants that.
    fn poll_slice(&self) -> Option<SliceGuard> {
        let span = self.span.as_ref()?;
        if !POLLS.is_enabled() {
            return None;
        }
        static POLL: TracePoint = TracePoint::begin(&POLLS, None, &[]);
        POLL.emit_with(&[], &Details::new().name(span.name()).flow(span.flow()));
        Some(SliceGuard::new(&POLLS))
    }
}
