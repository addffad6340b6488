//! `ferretto bridge`: lets the Perfetto UI in a browser talk to the tracing service, and to adb, through websockets on localhost.
//!
//! A page opens `/traced` or `/adb` ([`request`] judges whether it may), the bridge connects to the socket behind it, and from then
//! on bytes pass both ways untouched ([`passage`]). Every connection has a thread, of which there are at most [`MAX_THREADS`]:
//! what one page does cannot hold up another. Who has said nothing yet waits at the [`door`]; who has not said what he wants, or was
//! refused, has a place in [`Unjudged`] only, where the newest displaces the oldest of whoever has most. Of the [`places`] of pages no
//! [user](users) has all. Upstream: src/websocket_bridge.

mod door;
mod passage;
mod places;
mod request;
pub(crate) mod users;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use anyhow::{Context, Result};
use ferretto_http::Origins;
use ferretto_ipc::address::{Address, default_consumer, environment};
use ferretto_ipc::socket::Stream;

use self::door::Door;
use self::places::Places;
use self::request::{Judgement, Policy, Refusal};
use self::users::Users;
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

/// Those that have not said what they want, and those that were refused and have not hung up. A browser asks at once, so that it is no longer
/// among these before as many others have come.
const MAX_UNJUDGED: usize = 64;
/// Of all of them, and of those that were displaced and are about to end.
const MAX_THREADS: usize = places::MAX_CONNECTIONS + 2 * MAX_UNJUDGED;
/// How long nobody is accepted when there are so many.
const THREADS_PAUSE: Duration = Duration::from_millis(1);
/// How long nobody is accepted after the system refused a thread.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How long a service may be too busy to take the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets the Perfetto UI in a browser record this machine through its tracing service, as upstream's `websocket_bridge`.
#[derive(clap::Parser, Debug)]
#[command(name = "websocket_bridge", version = crate::BUILD, after_help = HELP)]
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
    if let Err(error) = &second
        && error.kind() == io::ErrorKind::AddrInUse
    {
        eprintln!(
            "warning: somebody else listens on [::1]:{port}: what a browser sends there is not for this bridge"
        );
    }
    Ok(std::iter::once(first).chain(second).collect())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // As many as the system lets wait: where the queue is full, who comes tries again after a second.
    rustix::net::listen(&listener, i32::MAX)?;
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
    users: Users,
    places: Places,
    threads: AtomicUsize,
    unjudged: Unjudged,
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
        let origins = own.into_iter().chain(args.http_additional_cors_origins.iter().cloned());
        let origins = Origins::new(origins);
        Ok(Self {
            policy: Policy { origins },
            traced: default_consumer()?,
            adb: adb_address(
                environment(ADB_SOCKET_ENV).map(|name| name.to_string_lossy().into_owned()).as_deref(),
            )?,
            signals,
            users: Users::new(),
            places: Places::default(),
            threads: AtomicUsize::new(0),
            unjudged: Unjudged::default(),
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
            let mut door = Door::new(listeners);
            while let Some(speaking) =
                door.next(self.signals.stop()).context("cannot wait for connections")?
            {
                speaking.into_iter().for_each(|stream| self.begin(scope, stream));
            }
            // The second Ctrl-C does not wait for pages to say goodbye.
            self.signals.make_deadly();
            Ok(())
        })
    }

    /// Listens to one who says something.
    fn begin<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, stream: TcpStream) {
        let begun = || {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let turn = self.unjudged.join(stream.try_clone()?, self.users.of(&stream));
            let thread = self.place_for_thread();
            let builder = std::thread::Builder::new().name("connection".to_owned());
            builder.spawn_scoped(scope, move || {
                self.serve_connection(stream, turn);
                drop(thread);
            })
        };
        if let Err(error) = begun() {
            tracing::warn!("cannot take a connection: {error}");
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }

    /// Those that were displaced end at once.
    fn place_for_thread(&self) -> ThreadPlace<'_> {
        loop {
            match ThreadPlace::take(&self.threads, MAX_THREADS) {
                Some(place) => return place,
                None => std::thread::sleep(THREADS_PAUSE),
            }
        }
    }

    fn serve_connection(&self, mut stream: TcpStream, turn: Turn<'_>) {
        let request = match request::read(&mut stream, self.signals.stop()) {
            Ok(request) => request,
            Err(refusal) => return request::refuse(&stream, &refusal),
        };
        match self.policy.judge(&request.head) {
            Judgement::Open { endpoint, accept_key, origin } => {
                let Some(_place) = self.places.enter(self.users.of(&stream)) else {
                    return request::refuse(&stream, &Refusal::TooMany);
                };
                drop(turn);
                let endpoint = match self.connect(endpoint) {
                    Ok(endpoint) => endpoint,
                    Err(refusal) => return request::refuse(&stream, &refusal),
                };
                if request::accept(&stream, &accept_key).is_ok() {
                    tracing::info!("{origin} opened {}", request.head.path());
                    let end = passage::run(stream, request.rest, endpoint, self.signals.stop());
                    tracing::info!("{origin} and {}: {end}", request.head.path());
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

/// One of a number of threads; given back when dropped.
struct ThreadPlace<'a> {
    taken: &'a AtomicUsize,
}

impl<'a> ThreadPlace<'a> {
    fn take(taken: &'a AtomicUsize, most: usize) -> Option<Self> {
        let more = |now: usize| (now < most).then_some(now + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { taken })
    }
}

impl Drop for ThreadPlace<'_> {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connections that were not let in, or not yet: of these there may be any number, of anybody.
#[derive(Default)]
struct Unjudged {
    /// Oldest first.
    waiting: Mutex<VecDeque<Waiting>>,
    last: AtomicU64,
}

struct Waiting {
    number: u64,
    user: Option<u32>,
    stream: TcpStream,
}

/// A connection's time among the unjudged.
struct Turn<'a> {
    unjudged: &'a Unjudged,
    number: u64,
}

impl Unjudged {
    /// The newest comes in, and if there is no room the oldest of the user with the most is hung up on.
    fn join(&self, stream: TcpStream, user: Option<u32>) -> Turn<'_> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let displaced = if waiting.len() < MAX_UNJUDGED { None } else { oldest_of_most(&waiting) };
        let displaced = displaced.and_then(|index| waiting.remove(index));
        waiting.push_back(Waiting { number, user, stream });
        drop(waiting);
        if let Some(displaced) = displaced {
            // An error says that it has ended already.
            let _ = displaced.stream.shutdown(Shutdown::Both);
        }
        Turn { unjudged: self, number }
    }
}

fn oldest_of_most(waiting: &VecDeque<Waiting>) -> Option<usize> {
    let mut users = BTreeMap::<_, usize>::new();
    waiting.iter().for_each(|one| *users.entry(one.user).or_default() += 1);
    let (most, _) = users.into_iter().max_by_key(|(_, count)| *count)?;
    waiting.iter().position(|one| one.user == most)
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiting = self.unjudged.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.number != self.number);
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
        let mut places: Vec<ThreadPlace<'_>> = std::iter::from_fn(|| ThreadPlace::take(&taken, 3)).collect();
        assert_eq!(places.len(), 3);
        places.truncate(2);
        assert!(ThreadPlace::take(&taken, 3).is_some());
    }

    #[test]
    fn of_those_who_do_not_say_what_they_want_the_newest_displaces_the_oldest() {
        use std::io::Read;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let unjudged = Unjudged::default();
        let (mut first, stream) = connect();
        let (_second, other) = connect();
        let (first_turn, second_turn) = (unjudged.join(stream, None), unjudged.join(other, None));
        let others: Vec<_> = (0..MAX_UNJUDGED - 2).map(|_| connect()).collect();
        let mut turns: Vec<Turn<'_>> =
            others.iter().map(|(_, stream)| unjudged.join(stream.try_clone().unwrap(), None)).collect();
        drop(second_turn);
        turns.push(unjudged.join(connect().1, None));
        first.set_nonblocking(true).unwrap();
        assert_eq!(first.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "there is room");
        turns.push(unjudged.join(connect().1, None));
        first.set_nonblocking(false).unwrap();
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        drop(first_turn);
        assert_eq!(unjudged.waiting.lock().unwrap().len(), MAX_UNJUDGED);
    }

    #[test]
    fn it_displaces_one_of_the_user_with_the_most() {
        use std::io::Read;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let unjudged = Unjudged::default();
        let mut turns = Vec::new();
        let mut join = |user| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.set_nonblocking(true).unwrap();
            turns.push(unjudged.join(listener.accept().unwrap().0, user));
            client
        };
        let mut honest = join(Some(1));
        let hostile: Vec<TcpStream> = (0..3 * MAX_UNJUDGED).map(|_| join(Some(2))).collect();
        assert_eq!(honest.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let left = hostile.iter().filter(|stream| (&mut &**stream).read(&mut [0]).is_err()).count();
        assert_eq!(left, MAX_UNJUDGED - 1);
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
