//! The HTTP request with which a page asks for a websocket: reading it, judging it, answering it.
//!
//! A browser sends the origin of the page along and lets no page change it; that is what keeps other sites out.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use ferretto_http::{Head, Origins};
use ferretto_ipc::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec};
use tungstenite::handshake::derive_accept_key;

use super::Endpoint;

/// A browser sends its request at once; somebody who does not holds a thread.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client that was refused may go on sending before it has taken the answer.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);
/// Base64 of the 16 bytes that RFC 6455 asks for.
const KEY_LENGTH: usize = 24;

/// What a client sent first.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) head: Head,
    /// Bytes after the head.
    pub(super) rest: Vec<u8>,
}

/// Who may do what.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) origins: Origins,
}

/// What becomes of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Judgement {
    /// A page that may, asks for a websocket.
    Open {
        endpoint: Endpoint,
        accept_key: String,
        origin: String,
    },
    /// A browser asks whether it may ask; `None`: it may not.
    Preflight {
        origin: Option<String>,
    },
    Refuse(Refusal),
}

/// Why there is no websocket.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Head(#[from] ferretto_http::Error),
    #[error("the request did not come in time")]
    TooSlow,
    #[error("there are websockets at /traced and /adb, and nothing else")]
    NothingThere,
    #[error("pages of this origin may not connect")]
    Stranger { origin: Option<String> },
    #[error("only version 13 of the websocket protocol is spoken here")]
    WrongVersion,
    #[error("{address} does not answer: {error}")]
    Unavailable { address: String, error: String },
    #[error("cannot make a connection to {address}: {error}")]
    Internal { address: String, error: String },
    #[error("there are too many connections")]
    TooMany,
    #[error("the bridge stops")]
    Stopping,
}

impl Refusal {
    /// Nobody there, or one of our own troubles.
    pub(super) fn no_endpoint(address: &Address, error: &io::Error) -> Self {
        use io::ErrorKind::{
            ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, NotFound,
            PermissionDenied, TimedOut, WouldBlock,
        };
        let (address, text) = (address.to_string(), error.to_string());
        match error.kind() {
            ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable | NotFound
            | PermissionDenied | TimedOut | WouldBlock => Self::Unavailable { address, error: text },
            _ => Self::Internal { address, error: text },
        }
    }

    fn status(&self) -> &'static str {
        match self {
            Self::Head(ferretto_http::Error::Malformed) => "400 Bad Request",
            Self::Stranger { .. } => "403 Forbidden",
            Self::NothingThere => "404 Not Found",
            Self::TooSlow => "408 Request Timeout",
            Self::WrongVersion => "426 Upgrade Required\r\nSec-WebSocket-Version: 13",
            Self::Head(ferretto_http::Error::TooLong) => "431 Request Header Fields Too Large",
            Self::Internal { .. } => "500 Internal Server Error",
            Self::Unavailable { .. } | Self::TooMany | Self::Stopping => "503 Service Unavailable",
        }
    }
}

/// Reads the head of a request, and what comes with it.
pub(super) fn read(stream: &mut TcpStream, stop: BorrowedFd<'_>) -> Result<Request, Refusal> {
    let deadline = Instant::now() + READ_TIMEOUT;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Err(Refusal::Head(ferretto_http::Error::Malformed)),
            Ok(len) => {
                bytes.extend_from_slice(part.get(..len).unwrap_or_default());
                if let Some((len, head)) = Head::parse(&bytes)? {
                    return Ok(Request { head, rest: bytes.split_off(len) });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(stream, stop, deadline)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Refusal::Head(ferretto_http::Error::Malformed)),
        }
    }
}

fn wait(stream: &TcpStream, stop: BorrowedFd<'_>, deadline: Instant) -> Result<(), Refusal> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Refusal::TooSlow);
    }
    let timeout = Timespec::try_from(left).ok();
    let mut fds = [PollFd::new(stream, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
    // A failure shows when the stream is read next.
    let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    let [_, stop] = fds;
    if stop.revents().is_empty() { Ok(()) } else { Err(Refusal::Stopping) }
}

impl Policy {
    pub(super) fn judge(&self, head: &Head) -> Judgement {
        let origin = head.values("Origin").next();
        if head.method() == "OPTIONS" {
            let known = origin.filter(|origin| self.origins.knows(origin));
            return Judgement::Preflight { origin: known.map(str::to_owned) };
        }
        if origin.is_some() && !head.values("Origin").all(|origin| self.origins.knows(origin)) {
            return Judgement::Refuse(Refusal::Stranger { origin: origin.map(str::to_owned) });
        }
        let endpoint = match head.path() {
            "/traced" => Endpoint::Traced,
            "/adb" => Endpoint::Adb,
            _ => return Judgement::Refuse(Refusal::NothingThere),
        };
        if head.method() != "GET"
            || !head.has_token("Connection", "upgrade")
            || !head.has_token("Upgrade", "websocket")
        {
            return Judgement::Refuse(Refusal::NothingThere);
        }
        // Whatever is no browser can use the sockets themselves, under their permissions.
        let Some(origin) = origin else { return Judgement::Refuse(Refusal::Stranger { origin: None }) };
        open(head, endpoint, origin)
    }
}

fn open(head: &Head, endpoint: Endpoint, origin: &str) -> Judgement {
    if head.values("Sec-WebSocket-Version").next() != Some("13") {
        return Judgement::Refuse(Refusal::WrongVersion);
    }
    match head.values("Sec-WebSocket-Key").next() {
        Some(key) if key.len() == KEY_LENGTH => Judgement::Open {
            endpoint,
            accept_key: derive_accept_key(key.as_bytes()),
            origin: origin.to_owned(),
        },
        _ => Judgement::Refuse(Refusal::Head(ferretto_http::Error::Malformed)),
    }
}

/// Makes the connection a websocket.
pub(super) fn accept(stream: &TcpStream, accept_key: &str) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept_key}\r\n\r\n"
    );
    send(stream, &answer)
}

/// Answers a browser that asks whether a page of a public site may reach this machine.
pub(super) fn answer_preflight(stream: &TcpStream, origin: Option<&str>) {
    let origin = origin.map(|origin| format!("Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n"));
    let answer = format!(
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n{}Access-Control-Allow-Methods: GET, OPTIONS\r\n\
         Access-Control-Allow-Headers: *\r\nAccess-Control-Allow-Private-Network: true\r\n\r\n",
        origin.unwrap_or_default()
    );
    // Who does not wait for the answer does not need it.
    let _ = send(stream, &answer);
}

/// Says why not, and ends the connection.
pub(super) fn refuse(stream: &TcpStream, refusal: &Refusal) {
    let text = format!("{refusal}\n");
    let answer = format!(
        "HTTP/1.1 {}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{text}",
        refusal.status(),
        text.len()
    );
    // Who does not wait for the answer does not need it.
    let _ = send(stream, &answer);
    hang_up(stream);
}

/// Says that nothing follows, and reads until the client has hung up, for a while: closing a connection with bytes unread would throw
/// away what was said last.
pub(super) fn hang_up(mut stream: &TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let deadline = Instant::now() + REFUSED_TIMEOUT;
    while Instant::now() < deadline {
        match stream.read(&mut [0; 4096]) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
                let _ = rustix::event::poll(&mut [PollFd::new(stream, PollFlags::IN)], left.as_ref());
            }
            _ => return,
        }
    }
}

/// Nothing was sent before, so that the socket takes it all at once.
fn send(mut stream: &TcpStream, answer: &str) -> io::Result<()> {
    stream.write_all(answer.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "https://ui.perfetto.dev";
    const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
    /// The key and its answer are those of RFC 6455, section 1.3.
    const SOCKET: &str = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    fn judge(request: &str) -> Judgement {
        let policy =
            Policy { origins: Origins::new([ORIGIN.to_owned(), "http://localhost:10000".to_owned()]) };
        let (len, head) = Head::parse(request.as_bytes()).unwrap().unwrap();
        assert_eq!(len, request.len());
        policy.judge(&head)
    }

    fn opened(endpoint: Endpoint, origin: &str) -> Judgement {
        let accept_key = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned();
        Judgement::Open { endpoint, accept_key, origin: origin.to_owned() }
    }

    #[test]
    fn pages_that_may_get_what_they_ask_for() {
        let cases =
            [("/traced", ORIGIN, Endpoint::Traced), ("/adb", "HTTP://LocalHost:10000", Endpoint::Adb)];
        for (path, origin, endpoint) in cases {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: x\r\norigin: {origin}\r\n{UPGRADE}{SOCKET}\r\n");
            assert_eq!(judge(&request), opened(endpoint, origin));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let stranger = |origin: &str| Refusal::Stranger { origin: Some(origin.to_owned()) };
        let known = format!("Origin: {ORIGIN}\r\n");
        let evil = "Origin: https://evil.example\r\n";
        let cases = [
            (
                format!("GET /traced HTTP/1.1\r\n{evil}{UPGRADE}{SOCKET}\r\n"),
                stranger("https://evil.example"),
            ),
            (format!("GET /traced HTTP/1.1\r\n{known}{evil}{UPGRADE}{SOCKET}\r\n"), stranger(ORIGIN)),
            (format!("GET /traced HTTP/1.1\r\nOrigin: null\r\n{UPGRADE}{SOCKET}\r\n"), stranger("null")),
            (
                format!("GET /traced HTTP/1.1\r\nOrigin: {ORIGIN}.evil.example\r\n{UPGRADE}{SOCKET}\r\n"),
                stranger("https://ui.perfetto.dev.evil.example"),
            ),
            (format!("GET / HTTP/1.1\r\n{evil}\r\n"), stranger("https://evil.example")),
            (format!("GET /traced HTTP/1.1\r\n{UPGRADE}{SOCKET}\r\n"), Refusal::Stranger { origin: None }),
            (format!("GET / HTTP/1.1\r\n{known}{UPGRADE}{SOCKET}\r\n"), Refusal::NothingThere),
            (format!("GET /traced/ HTTP/1.1\r\n{known}{UPGRADE}{SOCKET}\r\n"), Refusal::NothingThere),
            (format!("GET /traced HTTP/1.1\r\n{known}{SOCKET}\r\n"), Refusal::NothingThere),
            (format!("POST /traced HTTP/1.1\r\n{known}{UPGRADE}{SOCKET}\r\n"), Refusal::NothingThere),
            (format!("GET /traced HTTP/1.1\r\n{known}{UPGRADE}\r\n"), Refusal::WrongVersion),
            (
                format!("GET /adb HTTP/1.1\r\n{known}{UPGRADE}Sec-WebSocket-Version: 13\r\n\r\n"),
                Refusal::Head(ferretto_http::Error::Malformed),
            ),
        ];
        for (request, refusal) in cases {
            assert_eq!(judge(&request), Judgement::Refuse(refusal), "{request}");
        }
    }

    #[test]
    fn a_browser_may_ask_before_it_asks() {
        for (origin, known) in [(ORIGIN, true), ("https://evil.example", false)] {
            let expected = Judgement::Preflight { origin: known.then(|| origin.to_owned()) };
            assert_eq!(judge(&format!("OPTIONS /traced HTTP/1.1\r\nOrigin: {origin}\r\n\r\n")), expected);
        }
    }
}
