//! The producer's loop: connects, sets data sources up and down, keeps their ticks, leaves tracefs as it was found.

use std::os::fd::OwnedFd;

use ferretto_producer::Connector;

/// How to run the probes.
#[derive(Debug, Default)]
pub struct ProbesOptions {
    /// Where the tracing service is.
    pub connector: Connector,
    /// Becomes readable (an eventfd, or the other end of a pipe or socket that is closed) when the loop shall end.
    pub stop: Option<OwnedFd>,
    /// Ends the loop on SIGTERM and SIGINT too. A daemon wants this; a host in the same process has its own handlers.
    pub stop_on_signals: bool,
    /// Gets the byte `1` and is closed once all data sources are registered (upstream: TRACED_PROBES_NOTIFY_FD).
    pub notify: Option<OwnedFd>,
    /// Brings ftrace into its default state first, whoever used it.
    pub reset_ftrace: bool,
}

/// Why the probes could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be prepared. A service that is not there is no error: it is waited for.
    #[error("could not prepare the connection to the tracing service: {0}")]
    Producer(String),
    /// A signal handler, an eventfd or poll().
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Runs the probes on this thread until told to stop. tracefs is restored before it returns, and whenever the service goes away.
pub fn run(options: ProbesOptions) -> Result<(), Error> {
    let _ = options;
    todo!()
}
