//! The service as a daemon, with nothing around it: sockets from the environment, log by `RUST_LOG`.

use ferretto_ipc::address;
use ferretto_traced::daemon::{DaemonOptions, RelayEndpoints, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = tracing_subscriber::filter::LevelFilter::INFO;
    tracing_subscriber::fmt().with_max_level(filter).with_writer(std::io::stderr).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let permissions = args.iter().find_map(|arg| arg.strip_prefix("--set-socket-permissions="));
    let options = DaemonOptions {
        producer_addresses: address::default_producer()?,
        consumer_address: address::default_consumer()?,
        relays: RelayEndpoints::None,
        background: args.iter().any(|arg| arg == "--background"),
        socket_permissions: permissions.map(str::parse).transpose()?,
        output_dirs: None,
    };
    Ok(run(options, |_| Ok(()))?)
}
