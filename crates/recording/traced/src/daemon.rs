//! The service as a daemon: two sockets, signals, a word when it is ready.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ferretto_ipc::address::Address;
use ferretto_ipc::descriptors;
use ferretto_ipc::socket::{Listener, Permissions, group_id};
use ferretto_sys::Code;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::background::{self, Role};
use crate::connection::{Door, Side};
use crate::notify;
use crate::server::Server;

/// How to run the daemon.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// Where producers connect; at least one.
    pub producer_addresses: Vec<Address>,
    /// Where consumers connect.
    pub consumer_address: Address,
    /// Where relays of other machines may connect.
    pub relays: RelayEndpoints,
    /// Return once a copy of this process, started again in a session of its own, is ready to serve.
    pub background: bool,
    /// Groups and modes of the sockets' files.
    pub socket_permissions: Option<SocketPermissions>,
    /// Where [`run`]'s caller lets it make files, if not everywhere: for saying so.
    pub output_dirs: Option<Vec<PathBuf>>,
}

/// How far a daemon is that has begun. There are no threads yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The sockets are there. What user it serves as is not asked yet.
    Bound,
    /// Nothing is opened by name any more but files that configs name, and nothing removed but the sockets.
    Ready,
}

/// The producer sockets at which relays are served, too (`--enable-relay-endpoint`, `--enable-relay-endpoint-on`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RelayEndpoints {
    /// None of them.
    #[default]
    None,
    /// All of them.
    All,
    /// These, of [`DaemonOptions::producer_addresses`].
    On(Vec<Address>),
}

impl RelayEndpoints {
    fn may_use(&self, socket: &Address) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::On(sockets) => sockets.contains(socket),
        }
    }

    /// Each must be one of the sockets that there are: a mistake would leave relays out in silence.
    fn check(&self, sockets: &[Address]) -> Result<(), Error> {
        let Self::On(chosen) = self else { return Ok(()) };
        match chosen.iter().find(|socket| !sockets.contains(socket)) {
            None => Ok(()),
            Some(unknown) => Err(Error::UnknownRelayEndpoint {
                socket: unknown.to_string(),
                sockets: sockets.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            }),
        }
    }
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
        source: io::Error,
    },
    /// Relays were to be served at a socket that is none.
    #[error(
        "relays cannot be served on {socket}: it is none of the producer sockets ({sockets}); the option chooses from them and makes no new ones"
    )]
    UnknownRelayEndpoint {
        /// The address as it was given.
        socket: String,
        /// The producer sockets.
        sockets: String,
    },
    /// Anything else that the system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Serves until SIGTERM or SIGINT. Says that it is ready by a `1` on the descriptor named in `TRACED_NOTIFY_FD`.
///
/// With [`background`](DaemonOptions::background) it returns as soon as a copy of this process serves: the same program with the same
/// arguments, which must lead to this function again.
///
/// `at_stage` is the place to give up rights at.
///
/// # Errors
/// When it cannot be set up or `at_stage` fails; and when the system refuses what nobody can serve without.
pub fn run(options: DaemonOptions, mut at_stage: impl FnMut(Stage) -> io::Result<()>) -> Result<(), Error> {
    options.relays.check(&options.producer_addresses)?;
    if options.background
        && let Role::Done = background::start().map_err(system("start the service in the background"))?
    {
        return Ok(());
    }
    // Both before the sockets appear: whoever sees them may already send the signal.
    let (stop, on_signal) = UnixStream::pair().map_err(system("make a socket pair"))?;
    stop.set_nonblocking(true).map_err(system("set up the signal socket"))?;
    for signal in [SIGTERM, SIGINT] {
        let on_signal = on_signal.try_clone().map_err(system("set up the signal socket"))?;
        signal_hook::low_level::pipe::register(signal, on_signal).map_err(system("catch signals"))?;
    }
    descriptors::raise_limit();
    let listeners = bind_all(&options)?;
    at_stage(Stage::Bound).map_err(system("become another user"))?;
    let mut server = Server::new().map_err(system("set up the event loop"))?;
    server.note_output_dirs(options.output_dirs);
    for (door, listener) in listeners {
        server.listen(door, listener).map_err(system("watch the sockets"))?;
    }
    let stop_key = server.watch(&stop).map_err(system("watch for signals"))?;
    if options.background {
        background::detach().map_err(system("go to the background"))?;
    }
    notify::ready();
    // Found before rights are given up, forgotten after all that comes but once.
    let code = Code::mapped();
    at_stage(Stage::Ready).map_err(system("give up rights"))?;
    tracing::info!("{} is ready", crate::VERSION);
    code.forget();
    loop {
        let readable = server.turn().map_err(system("wait for events"))?;
        if readable.contains(&stop_key) {
            tracing::info!("stopping");
            server.stop();
            return Ok(());
        }
    }
}

fn bind_all(options: &DaemonOptions) -> Result<Vec<(Door, Listener)>, Error> {
    let permissions = options.socket_permissions.as_ref();
    let producers = permissions.map(|wanted| (wanted.producer_group.as_str(), wanted.producer_mode));
    let consumers = permissions.map(|wanted| (wanted.consumer_group.as_str(), wanted.consumer_mode));
    let mut bound = Vec::with_capacity(options.producer_addresses.len() + 1);
    for address in &options.producer_addresses {
        let door = Door { relays: options.relays.may_use(address), ..Door::PRODUCERS };
        bound.push((door, bind(door, address, producers)?));
    }
    bound.push((Door::CONSUMERS, bind(Door::CONSUMERS, &options.consumer_address, consumers)?));
    Ok(bound)
}

pub(crate) fn listen(server: &mut Server, door: Door, address: &Address) -> Result<Address, Error> {
    let listener = bind(door, address, None)?;
    let local = listener.local_address();
    server.listen(door, listener).map_err(system("watch the sockets"))?;
    Ok(local)
}

fn bind(door: Door, address: &Address, permissions: Option<(&str, u32)>) -> Result<Listener, Error> {
    let whom = match door.side {
        Side::Producer => "producers",
        Side::Consumer => "consumers",
    };
    let error = |source| Error::Listen { whom, address: address.to_string(), source };
    let permissions = match permissions {
        Some((group, mode)) => Some(Permissions { group: Some(group_id(group).map_err(error)?), mode }),
        None => None,
    };
    Listener::bind_with(address, permissions).map_err(error)
}

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what: what.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_ipc::address::parse_list;

    #[test]
    fn relays_are_served_where_they_were_asked_for_only() {
        let sockets = parse_list("/p,[::1]:1").unwrap();
        let tcp = RelayEndpoints::On(parse_list("[::1]:1").unwrap());
        let cases =
            [(RelayEndpoints::None, [false; 2]), (RelayEndpoints::All, [true; 2]), (tcp, [false, true])];
        for (relays, expected) in cases {
            assert!(relays.check(&sockets).is_ok());
            assert_eq!(expected, [relays.may_use(&sockets[0]), relays.may_use(&sockets[1])], "{relays:?}");
        }
        let wrong = RelayEndpoints::On(parse_list("/q").unwrap()).check(&sockets);
        assert_eq!(
            wrong.unwrap_err().to_string().split(';').next(),
            Some("relays cannot be served on /q: it is none of the producer sockets (/p,[::1]:1)")
        );
    }

    #[test]
    fn socket_permissions_are_groups_and_octal_modes() {
        let permissions: SocketPermissions = "perfetto:0660:0:777".parse().unwrap();
        assert_eq!((permissions.producer_group.as_str(), permissions.producer_mode), ("perfetto", 0o660));
        assert_eq!((permissions.consumer_group.as_str(), permissions.consumer_mode), ("0", 0o777));
        for wrong in ["", "a:1:b", "a:1:b:1:c", "a:8:b:1", "a:1:b:77777"] {
            assert!(wrong.parse::<SocketPermissions>().is_err(), "{wrong:?}");
        }
    }
}
