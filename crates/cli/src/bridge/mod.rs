//! `ferretto bridge`: lets the Perfetto UI in a browser talk to the tracing service, and to adb, through websockets on localhost.
//!
//! A page opens `/traced` or `/adb` ([`request`] judges whether it may), the bridge connects to the socket behind it, and from then
//! on bytes pass both ways untouched ([`passage`]). Every connection has a thread, of which there are at most [`MAX_CONNECTIONS`]:
//! what one page does cannot hold up another. Upstream: src/websocket_bridge.

mod passage;
mod request;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

use anyhow::{Context, Result};
use ferretto_ipc::address::{Address, default_consumer};
use ferretto_ipc::socket::Stream;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use self::request::{Judgement, Policy, Refusal};
use crate::report::UserError;
use crate::shut_in::{self, ShutInArgs};
use crate::wake::Signals;

/// Where the UI looks (upstream: websocket_bridge.cc).
const DEFAULT_PORT: u16 = 8037;
/// Pages that may connect: a UI served for its development, and the public one (upstream: websocket_bridge.cc).
const DEFAULT_ORIGINS: [&str; 3] =
    ["http://localhost:10000", "http://127.0.0.1:10000", "https://ui.perfetto.dev"];

/// Names adb's server, as `tcp:HOST:PORT`.
const ADB_SOCKET_ENV: &str = "ADB_SERVER_SOCKET";
const DEFAULT_ADB_SOCKET: &str = "tcp:127.0.0.1:5037";

/// Connections at a time, each with a thread. A page holds two for each recording, and some for a moment with adb.
const MAX_CONNECTIONS: usize = 64;
/// Further ones that are told so at a time; beyond, nobody is told anything.
const MAX_REFUSED: usize = 16;
/// How long nobody is accepted after the system refused a descriptor or a thread.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How long a service may be too busy to take the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets the Perfetto UI in a browser record this machine through its tracing service, as upstream's `websocket_bridge`.
#[derive(clap::Parser, Debug)]
#[command(name = "websocket_bridge", version, after_help = HELP)]
pub(crate) struct BridgeArgs {
    /// The TCP port on localhost; 0 takes a free one.
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,

    /// Web origins that may connect besides the UI's own, separated by commas, such as https://ui.example.org.
    #[arg(long, value_name = "ORIGIN,…", value_delimiter = ',', value_parser = parse_origin)]
    http_additional_cors_origins: Vec<String>,

    #[command(flatten)]
    shut_in: ShutInArgs,
}

const HELP: &str = "\
/traced leads to the service's consumer socket (PERFETTO_CONSUMER_SOCK_NAME or the default one),
/adb to adb's server (ADB_SERVER_SOCKET or tcp:127.0.0.1:5037).
While it runs, every user of this machine can record through it.";

/// As a browser sends it: scheme, host and port, without a path.
fn parse_origin(text: &str) -> Result<String, String> {
    let host = text.split_once("://").map(|(_, host)| host);
    match host {
        Some(host) if !host.is_empty() && !host.contains('/') => Ok(text.to_owned()),
        _ => Err("expected SCHEME://HOST or SCHEME://HOST:PORT, as the browser names the page".to_owned()),
    }
}

/// Serves until SIGINT or SIGTERM.
pub(crate) fn main(args: &BridgeArgs) -> Result<ExitCode> {
    crate::log::to_stderr("info");
    let signals = Signals::install()?;
    let bridge = Bridge::new(args, &signals)?;
    let listeners = listen(args.port)?;
    bridge.greet(port_of(&listeners)?);
    let rights = shut_in::bridge(&bridge.traced, &bridge.adb);
    args.shut_in.become_user(&rights)?;
    args.shut_in.shut_in(&rights);
    bridge.serve(&listeners)?;
    Ok(ExitCode::SUCCESS)
}

/// On both loopback addresses, or on that of IPv4 where there is no IPv6.
fn listen(port: u16) -> Result<Vec<TcpListener>> {
    let first =
        bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|error| cannot_listen(port, &error))?;
    let port = first.local_addr().context("the socket has no address")?.port();
    let second = bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
    Ok(std::iter::once(first).chain(second).collect())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn cannot_listen(port: u16, error: &io::Error) -> UserError {
    let told = UserError::new(format!("cannot listen on port {port} of localhost: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => told.help("another bridge may be running; the UI would use that one"),
        _ => told.help("choose another port with --port"),
    }
}

fn port_of(listeners: &[TcpListener]) -> Result<u16> {
    let listener = listeners.first().context("there is no listening socket")?;
    Ok(listener.local_addr().context("the socket has no address")?.port())
}

/// What the threads share.
struct Bridge<'a> {
    policy: Policy,
    traced: Address,
    adb: Address,
    signals: &'a Signals,
    connections: AtomicUsize,
    /// A page that tries again and again is named once.
    has_named_stranger: AtomicBool,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Traced,
    Adb,
}

impl<'a> Bridge<'a> {
    fn new(args: &BridgeArgs, signals: &'a Signals) -> Result<Self> {
        let own = DEFAULT_ORIGINS.map(str::to_owned);
        let origins = own.into_iter().chain(args.http_additional_cors_origins.iter().cloned()).collect();
        Ok(Self {
            policy: Policy { origins },
            traced: default_consumer()?,
            adb: adb_address(std::env::var(ADB_SOCKET_ENV).ok().as_deref())?,
            signals,
            connections: AtomicUsize::new(0),
            has_named_stranger: AtomicBool::new(false),
        })
    }

    /// Says what to do in the browser.
    fn greet(&self, port: u16) {
        eprintln!("{}", greeting(port, &self.traced));
        match Stream::connect(&self.traced) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!(
                    "note: this user may not use {}: run the bridge as one who may, such as root",
                    self.traced
                );
            }
            Err(_) => {
                eprintln!("note: no service answers there yet: start `ferretto traced` and `ferretto probes`")
            }
        }
    }

    /// Accepts until it is to stop, and returns when the last connection has ended.
    fn serve(&self, listeners: &[TcpListener]) -> Result<()> {
        std::thread::scope(|scope| {
            while self.wait_for_connection(listeners)? {
                for listener in listeners {
                    self.accept(scope, listener);
                }
            }
            // The second Ctrl-C does not wait for pages to say goodbye.
            self.signals.make_deadly();
            Ok(())
        })
    }

    /// False: it is time to stop.
    fn wait_for_connection(&self, listeners: &[TcpListener]) -> Result<bool> {
        let stop = self.signals.stop();
        let mut fds = vec![PollFd::new(&stop, PollFlags::IN)];
        fds.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => Ok(fds.first().is_some_and(|stop| stop.revents().is_empty())),
            Err(error) => Err(io::Error::from(error)).context("cannot wait for connections"),
        }
    }

    fn accept<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, listener: &TcpListener) {
        let opened = listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let Some(place) = Place::take(&self.connections) else { return Ok(()) };
            let builder = std::thread::Builder::new().name("connection".to_owned());
            builder.spawn_scoped(scope, move || {
                self.serve_connection(stream, &place);
                drop(place);
            })?;
            Ok(())
        });
        match opened {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }

    fn serve_connection(&self, mut stream: TcpStream, place: &Place<'_>) {
        let request = match request::read(&mut stream, self.signals.stop()) {
            Ok(_) if place.is_for_refusal => return request::refuse(&stream, &Refusal::TooMany),
            Ok(request) => request,
            Err(refusal) => return request::refuse(&stream, &refusal),
        };
        match self.policy.judge(&request.head) {
            Judgement::Open { endpoint, accept_key, origin } => {
                let endpoint = match self.connect(endpoint) {
                    Ok(endpoint) => endpoint,
                    Err(refusal) => return request::refuse(&stream, &refusal),
                };
                if request::accept(&stream, &accept_key).is_ok() {
                    tracing::info!("{origin} opened {}", request.head.path);
                    let end = passage::run(stream, request.rest, endpoint, self.signals.stop());
                    tracing::info!("{origin} and {}: {end}", request.head.path);
                }
            }
            Judgement::Preflight { origin } => request::answer_preflight(&stream, origin.as_deref()),
            Judgement::Refuse(refusal) => {
                self.name_stranger(&refusal);
                request::refuse(&stream, &refusal);
            }
        }
    }

    fn connect(&self, endpoint: Endpoint) -> Result<Stream, Refusal> {
        let address = match endpoint {
            Endpoint::Traced => &self.traced,
            Endpoint::Adb => &self.adb,
        };
        Stream::connect_within(address, PATIENCE).map_err(|error| {
            tracing::warn!("cannot connect to {address}: {error}");
            Refusal::no_endpoint(address, &error)
        })
    }

    fn name_stranger(&self, refusal: &Refusal) {
        let Refusal::Stranger { origin: Some(origin) } = refusal else { return };
        if !self.has_named_stranger.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a page of {origin:?} tried to connect and was refused, as others will be: \
                 if it should, name it in --http-additional-cors-origins"
            );
        }
    }
}

/// One of the connections that are served, or told that there are too many; given back when dropped.
struct Place<'a> {
    taken: &'a AtomicUsize,
    is_for_refusal: bool,
}

impl<'a> Place<'a> {
    /// Only the accepting thread takes places.
    fn take(taken: &'a AtomicUsize) -> Option<Self> {
        let before = taken.load(Ordering::Relaxed);
        if before >= MAX_CONNECTIONS + MAX_REFUSED {
            return None;
        }
        taken.fetch_add(1, Ordering::Relaxed);
        Some(Self { taken, is_for_refusal: before >= MAX_CONNECTIONS })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// adb itself takes `tcp:PORT` and `tcp:HOST:PORT`.
fn adb_address(env: Option<&str>) -> Result<Address, UserError> {
    let text = env.unwrap_or(DEFAULT_ADB_SOCKET);
    let parsed = text.strip_prefix("tcp:").and_then(|rest| match rest.parse::<u16>() {
        Ok(port) => Some(Address::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port }),
        Err(_) => rest.parse().ok().filter(|address| matches!(address, Address::Tcp { .. })),
    });
    parsed.ok_or_else(|| {
        UserError::new(format!("{ADB_SOCKET_ENV}={text} is no TCP address"))
            .help("expected tcp:HOST:PORT, such as tcp:localhost:5037; or leave it unset")
    })
}

fn greeting(port: u16, traced: &Address) -> String {
    let device = format!("ws://127.0.0.1:{port}/traced");
    let elsewhere = if port == DEFAULT_PORT {
        String::new()
    } else {
        format!(
            "\nThe UI may connect to port {DEFAULT_PORT} only: where the browser runs, \
             `ssh -L {DEFAULT_PORT}:localhost:{port} HOST` leads from there to here.\n"
        )
    };
    format!(
        "\
Listening on {device}, for the tracing service at {traced}.

  1. Open https://ui.perfetto.dev/#!/record in a browser on this machine.
  2. Target platform: Linux. Transport: WebSocket.
  3. Choose what to record, and press Start tracing.
{elsewhere}
While this runs, every user of this machine can record through it. Ctrl-C stops it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adb_is_where_its_variable_says() {
        let tcp = |host: &str, port| Some(Address::Tcp { host: host.to_owned(), port });
        let cases = [
            (None, tcp("127.0.0.1", 5037)),
            (Some("tcp:localhost:5038"), tcp("localhost", 5038)),
            (Some("tcp:5039"), tcp("127.0.0.1", 5039)),
            (Some("tcp:[::1]:5040"), tcp("::1", 5040)),
            (Some("localhost:5037"), None),
            (Some("tcp:/a/path"), None),
            (Some("tcp:"), None),
        ];
        for (env, expected) in cases {
            assert_eq!(adb_address(env).ok(), expected, "{env:?}");
        }
    }

    #[test]
    fn origins_are_written_as_browsers_send_them() {
        for good in ["https://ui.example.org", "http://localhost:9000", "chrome-extension://abc"] {
            assert_eq!(parse_origin(good).as_deref(), Ok(good));
        }
        for bad in ["", "ui.example.org", "https://", "https://ui.example.org/", "*"] {
            assert!(parse_origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn another_port_comes_with_the_way_to_it() {
        let traced = Address::Path("/run/perfetto/traced-consumer.sock".into());
        let usual = greeting(DEFAULT_PORT, &traced);
        assert!(usual.contains("ws://127.0.0.1:8037/traced") && !usual.contains("ssh"), "{usual}");
        assert!(greeting(9000, &traced).contains("ssh -L 8037:localhost:9000 HOST"));
    }

    #[test]
    fn places_are_given_back() {
        let taken = AtomicUsize::new(0);
        let mut places: Vec<Place<'_>> = std::iter::from_fn(|| Place::take(&taken)).collect();
        let served = places.iter().filter(|place| !place.is_for_refusal).count();
        assert_eq!((served, places.len()), (MAX_CONNECTIONS, MAX_CONNECTIONS + MAX_REFUSED));
        places.truncate(MAX_CONNECTIONS - 1);
        assert!(Place::take(&taken).is_some_and(|place| !place.is_for_refusal));
    }

    #[test]
    fn what_listens_listens_on_loopback_only() {
        let listeners = listen(0).unwrap();
        let port = port_of(&listeners).unwrap();
        for listener in &listeners {
            let address = listener.local_addr().unwrap();
            assert!(address.ip().is_loopback() && address.port() == port, "{address}");
        }
        assert!(listen(port).unwrap_err().to_string().contains(&port.to_string()));
    }
}
