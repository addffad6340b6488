//! Shows the spans and events of the [`tracing`](https://docs.rs/tracing) crate in Perfetto traces.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! ferretto::init("org.example.server")?;
//! tracing_subscriber::registry().with(ferretto_tracing::layer()).init();
//! # Ok::<(), ferretto::InitError>(())
//! ```
//!
//! Other layers, with filters of their own, can stand beside it. What no session records costs what a callsite costs that nobody
//! wants, one load; but spans of `INFO` and above are known to the registry, as a session may begin while they are open, unless
//! [that is not wanted](Builder::with_open_spans).
//!
//! # What is seen
//!
//! | `tracing` | in the trace |
//! |---|---|
//! | target | category. Sessions select them while the program runs: `enabled_categories: "shop::cart*"` |
//! | level | tag of the category, `error` to `trace`, and argument `level`. `DEBUG` and `TRACE` are off unless a session asks for the tag or the category, as all that is tagged `debug` or `slow` is |
//! | span | from enter to exit a slice of the thread that entered it |
//! | span of `INFO` and above that was open when the session began | from the session's start on, as soon as anything happens in it: an event, another span, its exit, its close |
//! | span that is entered again, as those of futures are | one slice from its first enter to its close among the process's `tasks`. It overlaps others as it likes. Its first part stays a slice of its thread; its further ones are slices of their threads, to which arrows lead, only [if that is wanted](Builder::with_polls). Without that, arrows lead to what happens in them |
//! | parent that is open in another thread | an arrow |
//! | event | an instant, with its message as its name |
//! | fields | arguments; those recorded after the first enter are at the end of the slice |
//! | `follows_from` | an arrow |
//! | file, line and module | source location of each slice and each event |
//!
//! Events of `ferretto`'s own packages are left out, as they would be about themselves.
#![forbid(unsafe_code)]

mod callsite;
mod fields;
mod filter;
mod layer;
mod slices;
mod table;
mod thread;

pub use filter::Categories;
pub use layer::Spans;

use tracing_core::Subscriber;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::Layer as _;
use tracing_subscriber::registry::LookupSpan;

/// The layer for a [`Registry`](tracing_subscriber::Registry).
///
/// It is given its own filter, [`Categories`]: other layers see what they want, whatever is recorded.
pub fn layer<S>() -> Filtered<Spans, Categories, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    builder().layer()
}

/// The layer, with choices.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let layer = ferretto_tracing::builder().with_polls(true).layer();
/// tracing_subscriber::registry().with(layer).init();
/// ```
pub fn builder() -> Builder {
    Builder { has_polls: false, keeps_open: true }
}

/// Choices for a layer. Made by [`builder`].
#[derive(Debug, Clone, Copy)]
#[must_use = "it is for `layer`"]
pub struct Builder {
    has_polls: bool,
    keeps_open: bool,
}

impl Builder {
    /// Whether a span that is entered again, as that of a future is with each poll, has slices on the threads that enter it as well, with
    /// arrows that lead to them: where and when it ran. Not so without this, as they would be seen twice.
    pub fn with_polls(mut self, has_polls: bool) -> Self {
        self.has_polls = has_polls;
        self
    }

    /// Whether spans are known while no session records them, so that one that begins later has those that are open: with this, which is
    /// so by default, a span of `INFO` and above costs about twice what it does in a registry without layers, and without it one load.
    pub fn with_open_spans(mut self, keeps_open: bool) -> Self {
        self.keeps_open = keeps_open;
        self
    }

    /// The layer, with its filter.
    pub fn layer<S>(self) -> Filtered<Spans, Categories, S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Spans::new(self.has_polls).with_filter(Categories::new(self.keeps_open))
    }
}

/// The programs in the guide to tracing a program are compiled: here, as they use this crate, too.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/tracing-a-program.md")]
struct Guide;
