//! What can go wrong between a consumer and its service.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use ferretto_ipc::address::{Address, AddressError, CONSUMER_SOCKET_ENV};
use ferretto_ipc::client::InvokeError;
use ferretto_ipc::link::LinkError;
use ferretto_ipc::socket::group_name;

/// No connection to a tracing service.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address in the environment is wrong.
    #[error("{CONSUMER_SOCKET_ENV} does not name a socket: {0}")]
    Address(#[from] AddressError),
    /// Nobody listens, or this user may not connect.
    #[error("no tracing service can be reached at {address}: {source}; {}", advice(.address, .source))]
    NoService {
        /// What was tried.
        address: Address,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody listens who is no tracing service for consumers.
    #[error(
        "the process that listens there is no tracing service for consumers: it refused ConsumerPort (is this the producer socket?)"
    )]
    Refused,
    /// The connection ended at once.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Somebody listens and does not answer.
    #[error("the tracing service did not answer within {} ms; it may hang: restart it", .after.as_millis())]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}

fn advice(address: &Address, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => match group_of(address) {
            Some(group) => {
                format!("it is for members of the group {group}: `sudo usermod -aG {group} USER`, log in anew, or run as root")
            }
            None => {
                "the socket belongs to another user: run as root or have the service started with --set-socket-permissions".to_owned()
            }
        },
        io::ErrorKind::Unsupported => "use a Unix socket".to_owned(),
        _ => format!("start one with `ferretto traced`, or name its socket in {CONSUMER_SOCKET_ENV}"),
    }
}

/// The group whose members may connect to a socket that is not everybody's. Not root's: to be in that one is no advice.
fn group_of(address: &Address) -> Option<String> {
    const GROUP_WRITES: u32 = 0o020;
    let Address::Path(path) = address else { return None };
    let socket = path.metadata().ok().filter(|found| found.mode() & GROUP_WRITES != 0 && found.gid() != 0)?;
    group_name(socket.gid())
}

/// A call to the service failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The service has no such method.
    #[error("the tracing service does not know {method}: it is too old; update it")]
    Unsupported {
        /// The method.
        method: String,
    },
    /// The call could not be sent.
    #[error("{0}")]
    NotSent(InvokeError),
    /// The service refused, or could not do it.
    #[error("the tracing service refused {method}{}", refusal_hint(.method))]
    Rejected {
        /// The method.
        method: &'static str,
    },
    /// The service did not answer in time.
    #[error("the tracing service did not answer {method} within {after_ms} ms")]
    TimedOut {
        /// The method.
        method: &'static str,
        /// How long was waited.
        after_ms: u64,
    },
    /// The answer makes no sense.
    #[error("the tracing service gave an unusable answer to {method}: {what}")]
    BadReply {
        /// The method.
        method: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The connection ended.
    #[error("the tracing service went away during {method}: {reason}")]
    Disconnected {
        /// The method.
        method: &'static str,
        /// Why it ended.
        reason: String,
    },
}

fn refusal_hint(method: &str) -> &'static str {
    match method {
        "Flush" => ": a producer did not flush in time, or there is no tracing session",
        "Attach" => ": there is no detached session of this user with that key",
        "Detach" => ": there is no session, or its key is in use",
        _ => ": there may be no tracing session on this connection",
    }
}

impl From<InvokeError> for CallError {
    fn from(error: InvokeError) -> Self {
        match error {
            InvokeError::UnknownMethod { method } => Self::Unsupported { method },
            other => Self::NotSent(other),
        }
    }
}

/// Reading the buffers failed, at one end or the other.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// At the service's.
    #[error(transparent)]
    Call(#[from] CallError),
    /// At the end that takes the packets. What was not yet read is lost: reading is destructive.
    #[error("cannot store the trace: {0}")]
    Sink(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use ferretto_ipc::socket::group_id;

    use super::*;

    /// Root can give it to any group; others have one of their own.
    #[test]
    fn who_is_in_no_group_that_may_connect_is_told_which_one_may() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        fs::write(&path, "").unwrap();
        if let Ok(id) = group_id("daemon") {
            let _ = chown(&path, None, Some(id));
        }
        let Some(group) = group_name(fs::metadata(&path).unwrap().gid()).filter(|group| group != "root")
        else {
            return println!("skipped: this user's group has no name");
        };
        let said = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            advice(&Address::Path(path.clone()), &io::ErrorKind::PermissionDenied.into())
        };
        assert!(said(0o660).contains(&format!("usermod -aG {group} USER")), "{}", said(0o660));
        assert!(!said(0o640).contains("usermod"), "who may only look at it cannot connect");
    }
}
