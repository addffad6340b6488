//! The service as a daemon: two sockets, signals, a word when it is ready.

use ferretto_ipc::address::Address;

/// How to run the daemon.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// Where producers connect; at least one.
    pub producer_addresses: Vec<Address>,
    /// Where consumers connect.
    pub consumer_address: Address,
    /// Return once a copy of this process, started again in a session of its own, is ready to serve.
    pub background: bool,
    /// Groups and modes of the sockets' files.
    pub socket_permissions: Option<SocketPermissions>,
}

/// Group and mode of the files of the two sockets: the argument of `--set-socket-permissions`,
/// `PRODUCER_GROUP:PRODUCER_MODE:CONSUMER_GROUP:CONSUMER_MODE` with octal modes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPermissions {
    /// Name or number of the group of the producer sockets.
    pub producer_group: String,
    /// Mode bits of the producer sockets.
    pub producer_mode: u32,
    /// Name or number of the group of the consumer socket.
    pub consumer_group: String,
    /// Mode bits of the consumer socket.
    pub consumer_mode: u32,
}

impl std::str::FromStr for SocketPermissions {
    type Err = PermissionsError;

    fn from_str(text: &str) -> Result<Self, PermissionsError> {
        let error = || PermissionsError { text: text.to_owned() };
        let parts: Vec<&str> = text.split(':').collect();
        let [producer_group, producer_mode, consumer_group, consumer_mode] = parts.as_slice() else {
            return Err(error());
        };
        let mode = |text: &str| u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
        Ok(Self {
            producer_group: (*producer_group).to_owned(),
            producer_mode: mode(producer_mode).ok_or_else(error)?,
            consumer_group: (*consumer_group).to_owned(),
            consumer_mode: mode(consumer_mode).ok_or_else(error)?,
        })
    }
}

/// The text is no `GROUP:MODE:GROUP:MODE`.
#[derive(Debug, thiserror::Error)]
#[error(
    "socket permissions {text:?}: expected PRODUCER_GROUP:PRODUCER_MODE:CONSUMER_GROUP:CONSUMER_MODE with octal modes, such as perfetto:0660:perfetto:0660"
)]
pub struct PermissionsError {
    text: String,
}

/// Why the service could not be started or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket could not be listened on.
    #[error("cannot listen for {whom} on {address}: {source}")]
    Listen {
        /// Producers or consumers.
        whom: &'static str,
        /// The address as it was given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Anything else that the system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Serves until SIGTERM or SIGINT. Says that it is ready by a `1` on the descriptor named in `TRACED_NOTIFY_FD`.
pub fn run(options: DaemonOptions) -> Result<(), Error> {
    let _ = options;
    todo!()
}
