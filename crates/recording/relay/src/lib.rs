//! Carries producers of this machine to the tracing service of another.
//!
//! A relay takes the service's place at this machine's producer socket. For each producer that connects it opens a connection to the
//! service by TCP or vsock, says there which process it is, and passes bytes both ways. Of these it looks at where frames end and which services
//! they ask for, which is the producers' only. On one more connection it says what this machine is and, every half minute, what its clocks
//! show, so that a trace has one time line.
//!
//! | module | what it does |
//! |---|---|
//! | `relay` | the loop: accepts producers, waits, stops |
//! | `lookup` | where the service is, looked up on a thread |
//! | `pair` | one producer and its connection to the service |
//! | `pace` | how often producers are connected |
//! | `asked` | which services a producer asks for |
//! | `unfinished` | how much of a producer's frame has come |
//! | `sync` | the relay's own connection: clocks and facts |
//!
//! Upstream: src/traced_relay.
#![forbid(unsafe_code)]

mod asked;
mod lookup;
mod pace;
mod pair;
mod relay;
mod sync;
mod unfinished;

use std::io;

use ferretto_ipc::address::{Address, AddressError, environment};
use ferretto_protos::SystemInfo;

pub use relay::Relay;

/// Names the service's socket.
pub const RELAY_SOCKET_ENV: &str = "PERFETTO_RELAY_SOCK_NAME";

/// How to relay.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Where producers of this machine connect: Unix sockets.
    pub producer_addresses: Vec<Address>,
    /// Where the service is: TCP or vsock.
    pub service_address: Address,
    /// Group (name or number) and mode of the files of the producer sockets.
    pub socket_permissions: Option<(String, u32)>,
    /// What this machine is.
    pub system_info: SystemInfo,
}

/// Why a relay could not be started or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service's socket is not named.
    #[error(
        "{RELAY_SOCKET_ENV} is not set; name the service's socket there, such as 192.168.0.1:20001 or vsock://2:20001"
    )]
    NoService,
    /// It is named wrongly.
    #[error("{RELAY_SOCKET_ENV}: {0}")]
    Address(#[from] AddressError),
    /// A Unix socket leads to no other machine, and the service would take the relay for its producers.
    #[error(
        "{RELAY_SOCKET_ENV}={0} is a Unix socket; a relay reaches another machine by host:port or vsock://CID:PORT"
    )]
    ServiceIsLocal(Address),
    /// Only the kernel's word on who is at a socket is worth being passed on.
    #[error(
        "a relay cannot listen on {0}: it tells the service who its producers are, and knows that of Unix sockets only"
    )]
    ProducersAreRemote(Address),
    /// A socket could not be listened on.
    #[error("cannot listen for producers on {address}: {source}")]
    Listen {
        /// The address as it was given.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else that the system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Where the service is, as the environment says.
pub fn service_address() -> Result<Address, Error> {
    let name = environment(RELAY_SOCKET_ENV)
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .ok_or(Error::NoService)?;
    Ok(name.parse()?)
}

/// Relays until SIGTERM or SIGINT. `ready` is called once producers can connect; its error ends the relay.
pub fn run(options: RelayOptions, ready: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
    let (stop, on_signal) = std::os::unix::net::UnixStream::pair().map_err(system("make a socket pair"))?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let on_signal = on_signal.try_clone().map_err(system("set up the signal socket"))?;
        signal_hook::low_level::pipe::register(signal, on_signal).map_err(system("catch signals"))?;
    }
    let relay = Relay::new(options)?;
    ready().map_err(system("say that the relay is ready"))?;
    relay.run(&stop)
}

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}
