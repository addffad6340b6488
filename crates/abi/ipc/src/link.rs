//! A client connection and its socket, for any poll loop.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::client::ClientConnection;
use crate::frame::{FrameError, MAX_FRAME_SIZE};
use crate::socket::Stream;

/// Bytes of one receive. Small enough for idle clients, large enough that a read-back is not all system calls.
const RECEIVE_SIZE: usize = 64 * 1024;
const _: () = assert!(RECEIVE_SIZE <= MAX_FRAME_SIZE);

const TOO_MANY_FDS: &str = "the service sent more descriptors than this process can have";

/// Why a connection ended.
#[derive(Debug)]
pub enum LinkError {
    /// The service closed its end, or died.
    Closed,
    /// The socket failed.
    Io(io::Error),
    /// The service broke the protocol.
    Protocol(FrameError),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the service closed the connection"),
            Self::Io(error) => write!(f, "the connection to the service failed: {error}"),
            Self::Protocol(error) => write!(f, "the service broke the protocol: {error}"),
        }
    }
}

impl Error for LinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Protocol(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FrameError> for LinkError {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error)
    }
}

/// A client connection over a socket. Poll [`fd`](Self::fd) for reading, and for writing while [`wants_write`](Self::wants_write).
#[derive(Debug)]
pub struct ClientLink {
    connection: ClientConnection,
    stream: Stream,
    buffer: Vec<u8>,
}

impl ClientLink {
    /// Binds `service` over a connected stream. What is queued now goes out at the first [`flush`](Self::flush).
    pub fn new(stream: Stream, service: &str) -> Self {
        Self { connection: ClientConnection::new(service), stream, buffer: Vec::new() }
    }

    /// The state machine: for calls and events.
    pub fn connection(&mut self) -> &mut ClientConnection {
        &mut self.connection
    }

    /// The state machine, to look at.
    pub fn connection_ref(&self) -> &ClientConnection {
        &self.connection
    }

    /// The socket.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether bytes wait that the socket did not take.
    pub fn wants_write(&self) -> bool {
        self.connection.queued_bytes() > 0
    }

    /// Sends until nothing is left or the socket takes no more.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        while let Some(transmit) = self.connection.poll_transmit() {
            match self.stream.send(transmit.bytes, transmit.fd) {
                Ok(sent) => self.connection.transmitted(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives once, into the state machine; `false` if there was nothing to receive. Poll all events before the next receive, so
    /// that a descriptor meets its reply.
    pub fn receive(&mut self) -> Result<bool, LinkError> {
        self.buffer.resize(RECEIVE_SIZE, 0);
        let received = match self.stream.recv(&mut self.buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(LinkError::Closed),
            Err(error) => return Err(error.into()),
        };
        if received.is_truncated {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_MANY_FDS).into());
        }
        if let Some(fd) = received.fd {
            self.connection.handle_fd(fd);
        }
        if received.len == 0 {
            return Err(LinkError::Closed);
        }
        let bytes = self.buffer.get(..received.len).unwrap_or_default();
        self.connection.handle_bytes(bytes)?;
        Ok(true)
    }
}
