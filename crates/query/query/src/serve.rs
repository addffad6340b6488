//! `ferretto serve`: queries on a trace over HTTP.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use ferretto_analysis::Options;
use ferretto_serve::{Engine, Server};

use crate::failure::Failure;
use crate::input::{self, Reading, time};

/// Answers queries on a trace over HTTP, as Trace Processor's server does.
///
/// The Python package `perfetto` asks it: TraceProcessor(addr='127.0.0.1:9001').query('select …').as_pandas_dataframe(). Without a trace it takes
/// the one that a client sends.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The trace, of any format that `ferretto convert` reads.
    #[arg(value_name = "TRACE")]
    input: Option<PathBuf>,
    /// Where it listens. Whoever reaches the address may ask: there is no password.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9001")]
    listen: String,
    /// A web origin whose pages may ask besides those of the Perfetto UI, written as browsers send it; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// How long a query may work, such as 30s, 10m or 2h.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    timeout: Duration,
    /// Shows nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto serve trace.pftrace
  ferretto serve trace.pftrace --listen 127.0.0.1:0
  python3 -c \"from perfetto.trace_processor import TraceProcessor
print(TraceProcessor(addr='127.0.0.1:9001').query('select name, dur from slice').as_pandas_dataframe())\"";

/// Runs the command.
pub(crate) fn main(args: &ServeArgs) -> Result<(), Failure> {
    let addresses = addresses(&args.listen)?;
    let mut options = Options { timeout: args.timeout, ..Options::default() };
    options.memory_bytes = args.reading.memory.unwrap_or(options.memory_bytes);
    let engine = match &args.input {
        Some(path) => Engine::of(input::load(path, &args.reading, args.quiet)?, &path.display().to_string()),
        None => Engine::empty(input::options(args.reading.memory), options),
    };
    let listen = |error| Failure::new(format!("cannot listen on {}: {error}", args.listen));
    let server = Server::bind(addresses.as_slice(), engine, args.allow_origin.iter().cloned());
    let server = server.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => listen(error).help("--listen 127.0.0.1:0 takes a port that is free"),
        _ => listen(error),
    })?;
    let address = server.address().map_err(listen)?;
    if !args.quiet {
        let what = args
            .input
            .as_ref()
            .map_or("whatever trace is sent".to_owned(), |path| path.display().to_string());
        eprintln!("Serving {what} at http://{address} (Ctrl-C ends it).");
        eprintln!("From Python: TraceProcessor(addr='{address}').query('select ...')");
    }
    if !address.ip().is_loopback() {
        eprintln!("note: whoever reaches {address} may ask, and there is no password");
    }
    server.run();
    Ok(())
}

fn addresses(listen: &str) -> Result<Vec<SocketAddr>, Failure> {
    let found: Vec<SocketAddr> = listen.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    if found.is_empty() {
        return Err(Failure::new(format!("{listen} is no address to listen on"))
            .help("it is a host and a port, as in 127.0.0.1:9001"));
    }
    Ok(found)
}
