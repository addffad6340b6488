//! What can go wrong with a session.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ferretto_consumer::{CallError, ConnectError};
use ferretto_ipc::address::AddressError;

/// A session could not be started, asked, or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No tracing service can be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address names no socket.
    #[error("{text:?} does not name a socket: {source}")]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        source: AddressError,
    },
    /// The service of this process could not be started.
    #[cfg(feature = "in-process")]
    #[error("cannot start the tracing service of this process: {0}")]
    InProcess(#[from] ferretto_traced::daemon::Error),
    /// The config cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The service does not start a session with this config.
    #[error("the tracing service refused the session: {0}")]
    Refused(String),
    /// The service ended the session because of this.
    #[error("the tracing session failed: {0}")]
    Failed(String),
    /// The service did not do what it was asked for.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The service ended or hung up; what was recorded and not read is lost.
    #[error("the tracing service went away: {0}")]
    Disconnected(String),
    /// Something took too long.
    #[error("{what} did not happen within {} ms; a longer time can be set with `timeout`", .after.as_millis())]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The session was dropped while something waited for it.
    #[error("the session was dropped")]
    Dropped,
    /// This is a child process of the one that records.
    #[error(
        "the session belongs to the process that this one was forked from; start one of this process's own"
    )]
    Forked,
    /// There is no session that could be copied.
    #[error("the session could not be copied: {0}")]
    Clone(String),
    /// The session writes a file by itself: there is nothing to read.
    #[error("the trace is not held in memory: the service writes it into {}", file_name(.path.as_ref()))]
    InFile {
        /// The file, unless only its descriptor is known.
        path: Option<PathBuf>,
    },
    /// A session that is left alone could not give its file the good name.
    #[error("the session cannot be left alone: nobody would give {} its name; pass an open file to `write_into`", .path.display())]
    DetachedFile {
        /// The file's name.
        path: PathBuf,
    },
    /// Triggers are activated by producers, and only the consumers' socket is known.
    #[error("only the consumers' socket of the service is known: triggers need the producers'")]
    NoProducerSocket,
    /// The connection as a producer failed.
    #[error(transparent)]
    Producer(#[from] ferretto_producer::ProducerError),
    /// A file could not be written or given its name.
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The caller's end of reading failed. What was not yet read is lost: reading is destructive.
    #[error("cannot store the trace: {0}")]
    Sink(#[source] io::Error),
    /// The system refused a descriptor or a thread.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A session cannot be configured so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The bytes are no `TraceConfig`.
    #[error("the config is no serialised TraceConfig: {0}")]
    Bytes(#[from] prost::DecodeError),
    /// The text has a mistake.
    #[cfg(feature = "config-text")]
    #[error("the config has a mistake at {0}")]
    Text(#[from] ferretto_protos::text::TextError),
    /// The parts of the simple form and a whole config do not go together.
    #[error("`{method}` cannot be added to a whole config: say it in the config")]
    Mixed {
        /// What was called beside `config`.
        method: &'static str,
    },
    /// The config wants the trace in a file, and nobody says which.
    #[error(
        "the config has write_into_file and no output_path: name the file with `write_into_file` or pass one to `write_into`"
    )]
    NoFile,
}

fn file_name(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "the descriptor it was given".to_owned(), |path| path.display().to_string())
}
