//! Bytes between a page's websocket and the socket that it asked for, both ways and untouched.
//!
//! A message is a piece of a stream: its bounds mean nothing. Each way holds one piece at a time, and takes the next when that is
//! gone, so that who reads slowly slows down who writes.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use ferretto_ipc::socket::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use tungstenite::error::Error;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocket, WebSocketConfig};
use tungstenite::{Message, Utf8Bytes};

use super::request;

/// What is passed to the page at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// The UI sends a frame of the service's protocol (128 KiB at most) or a write of adb's at a time.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Received at a time. The library takes its own figure for each connection otherwise.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// A piece with its header, and the answers to pings that have not left yet.
const MAX_UNSENT_BYTES: usize = PIECE_BYTES + 4096;
/// Messages that are passed on together are no longer than this, all but the last.
const SMALL_BYTES: usize = 4096;
/// Messages that are read before the other way has its turn: a page of the UI sends one at a time, and some are small.
const MESSAGES_A_TURN: usize = 256;
/// Messages of nothing (pings, answers to none, empty ones) that a page may send without one that says something in between: those of an hour,
/// as browsers send them. More are sent to have them counted.
const MAX_EMPTY_IN_A_ROW: usize = 1024;
/// How long a page may take to say goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// How it ended.
#[derive(Debug)]
pub(super) enum End {
    /// The page closed, or its connection broke.
    Page,
    /// The socket behind the bridge did.
    Endpoint,
    /// The bridge stops.
    Stopped,
    /// The page broke the protocol.
    Violation(Error),
    /// It went on to say nothing.
    Empty,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page => f.write_str("closed by the page"),
            Self::Endpoint => f.write_str("closed by the other side"),
            Self::Stopped => f.write_str("closed, as the bridge stops"),
            Self::Violation(error) => write!(f, "closed: {error}"),
            Self::Empty => {
                write!(f, "closed: the page sent {MAX_EMPTY_IN_A_ROW} messages in a row that say nothing")
            }
        }
    }
}

/// Passes bytes until either side ends or `stop` becomes readable. `read` are bytes of the page that have been received already.
pub(super) fn run(page: TcpStream, read: Vec<u8>, endpoint: Stream, stop: BorrowedFd<'_>) -> End {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_UNSENT_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let mut passage = Passage {
        page: WebSocket::from_partially_read(page, read, Role::Server, Some(config)),
        endpoint,
        for_endpoint: Bytes::new(),
        has_unsent: false,
        ended: None,
        empty_in_a_row: 0,
        buffer: vec![0; PIECE_BYTES],
    };
    let end = passage.pass(stop);
    passage.say_goodbye(&end);
    end
}

struct Passage {
    page: WebSocket<TcpStream>,
    endpoint: Stream,
    /// Of a message of the page, what the endpoint has not taken yet.
    for_endpoint: Bytes,
    /// The page's connection did not take all of a piece.
    has_unsent: bool,
    /// The page has ended it, and what it said before is still to be passed on.
    ended: Option<End>,
    empty_in_a_row: usize,
    buffer: Vec<u8>,
}

/// Whether something moved, or it is over.
type Progress = Result<bool, End>;

impl Passage {
    fn pass(&mut self, stop: BorrowedFd<'_>) -> End {
        loop {
            let moved = self.forward_to_endpoint().and_then(|moved| Ok(self.forward_to_page()? || moved));
            let waited = moved.and_then(|moved| self.wait(stop, moved));
            if let Err(end) = waited {
                return end;
            }
        }
    }

    /// One piece of the way from the page to the endpoint.
    fn forward_to_endpoint(&mut self) -> Progress {
        if self.for_endpoint.is_empty() && !self.read_from_page()? {
            return Ok(false);
        }
        if self.for_endpoint.is_empty() {
            return Ok(true);
        }
        match self.endpoint.send(&self.for_endpoint, None) {
            Ok(len) => {
                self.for_endpoint.advance(len);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // It may have said something before it went: that comes before its end.
            Err(_) => {
                self.for_endpoint.clear();
                Ok(true)
            }
        }
    }

    /// Reads what the page has sent, small messages together: each by itself would cost the same calls as a large one.
    fn read_from_page(&mut self) -> Progress {
        if let Some(end) = self.ended.take() {
            return Err(end);
        }
        let mut small = Vec::new();
        for count in 0..MESSAGES_A_TURN {
            match self.next_message() {
                Ok(message) if small.is_empty() && message.len() > SMALL_BYTES => {
                    self.for_endpoint = message;
                    return Ok(true);
                }
                Ok(message) => small.extend_from_slice(&message),
                // What came before it is passed on first.
                Err(stop) => match would_block(stop) {
                    Ok(_) if count == 0 => return Ok(false),
                    Ok(_) => break,
                    Err(end) => {
                        self.ended = Some(end);
                        break;
                    }
                },
            }
            if small.len() > SMALL_BYTES || self.ended.is_some() {
                break;
            }
        }
        self.for_endpoint = small.into();
        match self.ended.take() {
            Some(end) if self.for_endpoint.is_empty() => Err(end),
            ended => {
                self.ended = ended;
                Ok(true)
            }
        }
    }

    /// What the next message says; nothing, if it is of the protocol's own.
    fn next_message(&mut self) -> Result<Bytes, Error> {
        let bytes = match self.page.read()? {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(_) => return Err(Error::ConnectionClosed),
            _ => {
                // The answer to a ping waits to be sent.
                self.has_unsent = true;
                Bytes::new()
            }
        };
        self.empty_in_a_row = if bytes.is_empty() { self.empty_in_a_row + 1 } else { 0 };
        if self.empty_in_a_row > MAX_EMPTY_IN_A_ROW {
            self.ended = Some(End::Empty);
        }
        Ok(bytes)
    }

    /// One piece of the way back.
    fn forward_to_page(&mut self) -> Progress {
        if !self.has_unsent {
            let received = match self.endpoint.recv(&mut self.buffer) {
                Ok(received) => received.len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => 0,
            };
            let Some(piece @ [_, ..]) = self.buffer.get(..received) else { return Err(End::Endpoint) };
            self.has_unsent = true;
            if let Err(error) = self.page.write(Message::Binary(Bytes::copy_from_slice(piece))) {
                // It is queued all the same.
                would_block(error)?;
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Progress {
        match self.page.flush() {
            Ok(()) => {
                self.has_unsent = false;
                Ok(true)
            }
            Err(error) => would_block(error),
        }
    }

    /// Waits until either way can go on; only looks for a stop if something has `moved` just now.
    fn wait(&self, stop: BorrowedFd<'_>, moved: bool) -> Result<(), End> {
        let page = interest(self.for_endpoint.is_empty(), self.has_unsent);
        let endpoint = interest(!self.has_unsent, !self.for_endpoint.is_empty());
        let mut fds = [
            PollFd::new(&stop, PollFlags::IN),
            PollFd::new(self.page.get_ref(), page),
            PollFd::new(&self.endpoint, endpoint),
        ];
        // An end that nobody asks for is reported again and again: while the page has to take what came before, the endpoint's is none
        // of our business.
        let watched = if endpoint.is_empty() { &mut fds[..2] } else { &mut fds[..] };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A failure shows when the sockets are used next.
        let _ = rustix::event::poll(watched, moved.then_some(&now));
        let [stop, page_now, _] = fds;
        if !stop.revents().is_empty() {
            return Err(End::Stopped);
        }
        let is_broken = page_now.revents().intersects(PollFlags::ERR | PollFlags::HUP);
        if is_broken && !page.contains(PollFlags::IN) { Err(End::Page) } else { Ok(()) }
    }

    /// Closes the websocket as the protocol wants it. What the page still sends is read, since the system would otherwise throw away
    /// what we have sent.
    fn say_goodbye(&mut self, end: &End) {
        self.endpoint.shutdown();
        let (code, reason) = match end {
            End::Page => (CloseCode::Normal, ""),
            End::Endpoint => (CloseCode::Normal, "the other side closed the connection"),
            End::Stopped => (CloseCode::Away, "the bridge stops"),
            End::Violation(Error::Capacity(_)) => (CloseCode::Size, "the message is too large"),
            End::Violation(_) => (CloseCode::Protocol, "the protocol was broken"),
            End::Empty => (CloseCode::Policy, "too many messages that say nothing"),
        };
        let deadline = Instant::now() + GOODBYE_TIMEOUT;
        // A page that closed first has its answer queued already; errors show below.
        let _ = self.page.close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }));
        if matches!(end, End::Empty) {
            let _ = self.page.flush();
            return request::hang_up(self.page.get_ref());
        }
        while Instant::now() < deadline {
            let flushed = self.page.flush();
            match self.page.read().map_err(would_block) {
                Ok(_) => continue,
                // What comes is no websocket any more.
                Err(Err(End::Violation(_))) => return request::hang_up(self.page.get_ref()),
                Err(Err(_)) => return,
                Err(Ok(_)) => {}
            }
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
            let flags = interest(true, flushed.is_err());
            let _ = rustix::event::poll(&mut [PollFd::new(self.page.get_ref(), flags)], left.as_ref());
        }
    }
}

fn interest(read: bool, write: bool) -> PollFlags {
    let read = if read { PollFlags::IN } else { PollFlags::empty() };
    let write = if write { PollFlags::OUT } else { PollFlags::empty() };
    read | write
}

/// Nothing moved, or the page is gone, or it broke the protocol.
fn would_block(error: Error) -> Progress {
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Error::Io(_) | Error::ConnectionClosed | Error::AlreadyClosed => Err(End::Page),
        Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => Err(End::Page),
        error => Err(End::Violation(error)),
    }
}
