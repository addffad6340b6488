//! Our service in a program of this crate, for tests that cannot rely on a `ferretto` having been built.

use std::process::Command;

use ferretto_ipc::address::{CONSUMER_SOCKET_ENV, PRODUCER_SOCKET_ENV, parse_list};
use ferretto_traced::daemon::{DaemonOptions, RelayEndpoints, run};

/// The argument by which the program `hostile` becomes a service.
pub const SERVE: &str = "serve";

/// Serves at the addresses in the environment until it is killed.
pub fn serve() -> Result<(), String> {
    let addresses = |name: &str| {
        let text = std::env::var(name).map_err(|error| format!("{name}: {error}"))?;
        parse_list(&text).map_err(|error| error.to_string())
    };
    let options = DaemonOptions {
        producer_addresses: addresses(PRODUCER_SOCKET_ENV)?,
        consumer_address: addresses(CONSUMER_SOCKET_ENV)?.remove(0),
        relays: RelayEndpoints::None,
        background: false,
        socket_permissions: None,
        output_dirs: None,
    };
    run(options, |_| Ok(())).map_err(|error| error.to_string())
}

/// A command that runs that service.
pub fn command(hostile: &str) -> Command {
    let mut command = Command::new(hostile);
    command.arg(SERVE);
    command
}
