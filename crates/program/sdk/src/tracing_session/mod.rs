//! Recording from code.
//!
//! ```
//! # #[cfg(feature = "in-process")] {
//! use ferretto::TracingSession;
//!
//! let session = TracingSession::in_process()?.categories(["net*"]).start()?;
//! // … what is to be recorded …
//! let trace = session.stop()?.into_vec()?;
//! # assert!(!trace.is_empty());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TracingSession`] says where to record and gives a [`SessionSetup`]; that says what to record, and starts it; stopping gives a
//! [`RecordedTrace`].
//!
//! | module | what it does |
//! |---|---|
//! | `place` | where the service is |
//! | `setup`, `config` | what is to be recorded |
//! | `session`, `copy`, `triggers` | the session while it records |
//! | `trace`, `file` | reading it and writing it down |
//! | `channel`, `driver`, `callbacks` | waiting: on the caller's thread, in futures, for callbacks |
//! | `own_producer` | the first event of this process |

mod callbacks;
mod channel;
mod config;
mod copy;
mod driver;
mod error;
mod file;
mod own_producer;
mod place;
mod session;
mod setup;
mod trace;
mod triggers;

pub use copy::{CloneOf, CloneOptions};
pub(crate) use driver::lock_for_fork;
pub use error::{ConfigError, SessionError};
pub use ferretto_consumer::{CallError, ConnectError, ReadSummary};
pub use ferretto_protos::observable_events::CloneTriggerHit;
pub use session::TracingSession;
pub use setup::SessionSetup;
pub use trace::{Packets, ReadTrace, RecordedTrace};
