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
//! Other layers, with filters of their own, can stand beside it. What a session does not record costs what a callsite costs that nobody
//! wants: one load.
//!
//! # What is seen
//!
//! | `tracing` | in the trace |
//! |---|---|
//! | target | category. Sessions select them while the program runs: `enabled_categories: "shop::cart*"` |
//! | level | tag of the category, `error` to `trace`, and argument `level`. `DEBUG` and `TRACE` are off unless a session asks for the tag or the category, as all that is tagged `debug` or `slow` is |
//! | span | from enter to exit a slice of the thread that entered it |
//! | span that is entered again, as those of futures are | its parts stay slices of their threads, and it has one slice from its first enter to its close among the process's `tasks`. It overlaps others as it likes; arrows lead to its parts |
//! | event | an instant, with its message as its name |
//! | fields | arguments; those recorded after the first enter are at the end of the slice |
//! | `follows_from` | an arrow |
//! | file and line | source location |
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
    Spans::new().with_filter(Categories::new())
}

/// The programs in the guide to tracing a program are compiled: here, as they use this crate, too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tracing-a-program.md")]
struct Guide;
