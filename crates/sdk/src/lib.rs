//! Tracing SDK: makes a Rust program visible in Perfetto traces.
//!
//! ```
//! // Once, at the start. Works without a tracing service, too, and finds it when it appears.
//! ferretto::init("org.example.server")?;
//!
//! // Anywhere, on any thread.
//! fn serve(request: &str) {
//!     ferretto::slice!("net", "serve", request = request, bytes = request.len());
//!     ferretto::instant!("net", "parsed");
//!     ferretto::counter!("net", "open connections", 3);
//! }
//! # serve("/");
//! # Ok::<(), ferretto::InitError>(())
//! ```
//!
//! A session selects events by category, with the data source `track_event`. A trace point whose category nobody records costs one
//! relaxed load. One that is recorded takes no lock and makes no system call, except when it is new or its chunk of shared memory is full;
//! it never waits, unless the session's config asks for that.
//!
//! Events are in the trace once their chunk has been handed over: when it is full, at a flush, at the end of their thread. What a
//! thread holds at a flush, or when the process dies, the service copies from the shared memory.
#![forbid(unsafe_code)]

mod category;
mod clock;
mod event;
mod macros;
mod matching;
mod numbers;
mod point;
mod runtime;
mod sequence;
mod session;
mod track;
mod value;

use std::io;
use std::time::Duration;

use ferretto_producer::{ProducerError, ProducerOptions};

pub use category::Category;
pub use event::SliceGuard;
pub use ferretto_producer::Connector;
pub use point::{ArgumentName, TracePoint};
pub use track::{CounterTrack, Unit};
pub use value::{ToValue, Value};

/// Tracing could not be initialised. The program can go on: trace points do nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The connection's resources could not be made, or the environment names no usable socket.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// No thread could be started.
    #[error("cannot start the tracing thread: {0}")]
    Thread(#[source] io::Error),
}

/// Makes this process a producer of the system's tracing service, under this name.
///
/// Starts a thread called `ferretto`. A second call does nothing. Without a service this succeeds, too: the thread connects when one
/// appears.
///
/// # Errors
///
/// If the thread or its descriptors cannot be made, or `PERFETTO_PRODUCER_SOCK_NAME` names no address.
pub fn init(name: &str) -> Result<(), InitError> {
    builder(name).init()
}

/// As [`init`], with choices.
///
/// ```
/// ferretto::categories! {
///     static CATEGORIES = {
///         NET = "net", "Requests over the network";
///     }
/// }
/// ferretto::builder("org.example.server").categories(CATEGORIES).init()?;
/// # ferretto::instant!(NET, "here");
/// # Ok::<(), ferretto::InitError>(())
/// ```
pub fn builder(name: &str) -> Builder {
    Builder { options: ProducerOptions::new(name) }
}

/// Choices for [`init`](Builder::init).
#[derive(Debug)]
#[must_use = "nothing is initialised before `init`"]
pub struct Builder {
    options: ProducerOptions,
}

impl Builder {
    /// Makes categories known from the start, so that they are listed before their first trace point was reached.
    pub fn categories(self, categories: &[&'static Category]) -> Self {
        let mut registry = category::registry();
        for category in categories {
            registry.add(category);
        }
        self
    }

    /// Connects elsewhere than to the system's service.
    pub fn connector(mut self, connector: Connector) -> Self {
        self.options.connector = connector;
        self
    }

    /// The wish for the size of the memory shared with the service, in bytes (256 KiB without).
    pub fn shared_memory_size(mut self, bytes: u32) -> Self {
        self.options.shm_size_hint_bytes = bytes;
        self
    }

    /// The wish for the size of its pages, in bytes: 4096 (without), 8192, 16384 or 32768. A thread that traces holds a page for each
    /// session.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.options.page_size_hint_bytes = bytes;
        self
    }

    /// Lets finished memory wait for more, so that fewer messages go to the service.
    pub fn batch_commits_for(mut self, duration: Duration) -> Self {
        self.options.batch_commits_duration = duration;
        self
    }

    /// Initialises. See [`crate::init`].
    ///
    /// # Errors
    ///
    /// As [`crate::init`].
    pub fn init(self) -> Result<(), InitError> {
        runtime::start(self.options)
    }
}

/// Whether [`init`] has succeeded in this process.
pub fn is_initialized() -> bool {
    runtime::is_started()
}

/// Hands over what this thread has traced and waits, at most for `timeout`, until the service has that and everything that other
/// threads have handed over. `false` if there is no service, or it did not answer in time.
///
/// Worthwhile before the end of a process that must not lose its last events; without it they are in the trace as well if the service
/// copies what dead processes leave, which it does for those of this crate.
pub fn flush(timeout: Duration) -> bool {
    event::flush_thread();
    runtime::drain(timeout)
}

/// Tells sessions that wait for one of these triggers that it has happened. `false` before [`init`].
pub fn activate_triggers(names: &[&str]) -> bool {
    runtime::activate_triggers(names.iter().map(|name| (*name).to_owned()).collect())
}
