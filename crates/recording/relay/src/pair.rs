//! One producer and its connection to the service: bytes go both ways, as they are.
//!
//! Each way has a queue with a bound. While it is full its source is not read, so a side that is slow slows the other down, and nothing
//! is lost. When one side hangs up, the other gets what is left before the pair ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf, BytesMut};
use ferretto_ipc::remote::{Connected, Connecting};
use ferretto_ipc::socket::Stream;
use ferretto_peers::{Elsewhere, MAX_WAITING, close_stream};

use crate::unfinished::Unfinished;

/// Bytes that wait in one direction: the largest frame, so that most receives are one (upstream's size).
pub(crate) const MAX_QUEUED: usize = 128 * 1024;

/// An emptied queue above this capacity is given back, so that idle producers cost little.
const KEPT_CAPACITY: usize = 4 * 1024;

/// Which of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Producer,
    Service,
}

/// What to wait for at an end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// A producer and its connection to the service.
#[derive(Debug)]
pub(crate) struct Pair {
    producer: End,
    service: End,
    /// What the producer has sent of a frame that is not whole.
    unfinished: Unfinished,
    /// The connection to the service is being made; `service` has no socket yet.
    connecting: Option<Connecting>,
    /// Whose program the producer is, and waits for what it passes to be closed.
    user: u32,
    elsewhere: Elsewhere,
}

#[derive(Debug, Default)]
struct End {
    stream: Option<Stream>,
    /// Bytes for this end.
    queue: BytesMut,
    /// It will send no more.
    is_at_end: bool,
    /// It takes no more.
    is_closed: bool,
}

impl Pair {
    /// `introduction` goes to the service before anything of the producer's, who is this `user`'s. What it passes is closed `elsewhere`.
    pub(crate) fn new(
        producer: Stream,
        connecting: Connecting,
        introduction: &[u8],
        user: u32,
        elsewhere: Elsewhere,
    ) -> Self {
        let service = End { queue: BytesMut::from(introduction), ..End::default() };
        let producer = End { stream: Some(producer), ..End::default() };
        let unfinished = Unfinished::default();
        Self { producer, service, unfinished, connecting: Some(connecting), user, elsewhere }
    }

    /// The descriptor of an end. The service's changes while it is being connected to.
    pub(crate) fn fd(&self, side: Side) -> Option<BorrowedFd<'_>> {
        match (&self.connecting, side) {
            (Some(connecting), Side::Service) => Some(connecting.as_fd()),
            _ => self.end(side).stream.as_ref().map(AsFd::as_fd),
        }
    }

    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting.is_some()
    }

    pub(crate) fn interest(&self, side: Side) -> Interest {
        if side == Side::Service && self.connecting.is_some() {
            return Interest { read: false, write: true };
        }
        let (end, other) = (self.end(side), self.end(side.other()));
        Interest {
            read: !end.is_at_end && !other.is_closed && other.queue.len() < MAX_QUEUED,
            write: !end.is_closed && !end.queue.is_empty(),
        }
    }

    /// One side has hung up, and the other has got all that was left for it.
    pub(crate) fn is_over(&self) -> bool {
        let over = |from: &End, to: &End| from.is_at_end && (to.queue.is_empty() || to.is_closed);
        let is_connected = self.connecting.is_none();
        (over(&self.producer, &self.service) && is_connected) || over(&self.service, &self.producer)
    }

    /// Bytes of the producer's of which the rest of the frame is still to come.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.unfinished.bytes()
    }

    /// Nothing more is taken from the producer.
    pub(crate) fn finish(&mut self) {
        self.producer.is_at_end = true;
    }

    /// An end is ready. `scratch` is for what is received. An error means that the service cannot be reached.
    pub(crate) fn handle_ready(&mut self, side: Side, scratch: &mut [u8]) -> io::Result<()> {
        if side == Side::Service
            && let Some(connecting) = self.connecting.take()
        {
            match connecting.finish()? {
                Connected::NotYet(connecting) => {
                    self.connecting = Some(connecting);
                    return Ok(());
                }
                Connected::Yes(stream) => self.service.stream = Some(stream),
            }
        }
        let wanted = self.interest(side);
        if wanted.write {
            self.end_mut(side).send();
        }
        if wanted.read {
            self.receive(side, scratch);
            // Mostly there is room, which saves a turn of the loop.
            let other = side.other();
            if self.connecting.is_none() || other == Side::Producer {
                self.end_mut(other).send();
            }
        }
        Ok(())
    }

    /// Ends it, without waiting for what the producer has passed. `scratch` is for what is dropped with it.
    pub(crate) fn close(self, scratch: &mut [u8]) {
        if let Some(stream) = self.producer.stream {
            close_stream(stream, self.user, &self.elsewhere, scratch);
        }
    }

    fn receive(&mut self, side: Side, scratch: &mut [u8]) {
        let (from, to) = match side {
            Side::Producer => (&mut self.producer, &mut self.service),
            Side::Service => (&mut self.service, &mut self.producer),
        };
        let room = MAX_QUEUED.saturating_sub(to.queue.len()).min(scratch.len());
        let (Some(stream), Some(scratch)) = (&from.stream, scratch.get_mut(..room)) else { return };
        let received = match stream.recv(scratch) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return from.is_at_end = true,
        };
        // A descriptor that comes along is closed, which may block: the service will be told that memory is not shared.
        let fds = received.fd.into_iter().chain(received.others);
        let waiting = self.elsewhere.close_passed(self.user, fds);
        let bytes = scratch.get(..received.len).unwrap_or_default();
        to.queue.extend_from_slice(bytes);
        if side == Side::Producer {
            self.unfinished.push(bytes);
        }
        from.is_at_end = received.len == 0 || received.is_truncated || waiting > MAX_WAITING;
    }

    fn end(&self, side: Side) -> &End {
        match side {
            Side::Producer => &self.producer,
            Side::Service => &self.service,
        }
    }

    fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Producer => &mut self.producer,
            Side::Service => &mut self.service,
        }
    }
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Producer => Self::Service,
            Self::Service => Self::Producer,
        }
    }
}

impl End {
    /// Sends what the socket takes.
    fn send(&mut self) {
        let Some(stream) = &self.stream else { return };
        while !self.queue.is_empty() && !self.is_closed {
            match stream.send(&self.queue, None) {
                Ok(len) => self.queue.advance(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.is_closed = true,
            }
        }
        if self.queue.capacity() > KEPT_CAPACITY {
            self.queue = BytesMut::new();
        }
    }
}
