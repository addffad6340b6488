//! One producer and its connection to the service: bytes go both ways, as they are.
//!
//! The connection is made when the producer has said something: one that says nothing costs the service nothing, nor a port.
//! Each way has a queue with a bound. While it is full its source is not read, so a side that is slow slows the other down, and nothing
//! is lost. When one side hangs up, the other gets what is left before the pair ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf, BytesMut};
use ferretto_ipc::remote::{Connected, Connecting};
use ferretto_ipc::socket::Stream;
use ferretto_peers::{Elsewhere, MAX_WAITING, close_stream};

use crate::asked::Refused;
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
    way: Way,
    /// Whose program the producer is, and waits for what it passes to be closed.
    user: u32,
    elsewhere: Elsewhere,
}

/// How far the connection to the service is.
#[derive(Debug)]
enum Way {
    /// The producer has said nothing yet.
    Silent,
    /// It has, and the connection is to be made.
    Wanted,
    /// It is being made; `service` has no socket yet.
    Connecting(Connecting),
    Made,
}

/// Why a pair has to end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PairError {
    /// The service cannot be reached.
    #[error("the service cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
    /// What the producer sends is not to go on.
    #[error(transparent)]
    Refused(#[from] Refused),
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
    pub(crate) fn new(producer: Stream, introduction: &[u8], user: u32, elsewhere: Elsewhere) -> Self {
        let service = End { queue: BytesMut::from(introduction), ..End::default() };
        let producer = End { stream: Some(producer), ..End::default() };
        let unfinished = Unfinished::default();
        Self { producer, service, unfinished, way: Way::Silent, user, elsewhere }
    }

    /// The producer has said something, and the connection to the service is not begun.
    pub(crate) fn wants_connection(&self) -> bool {
        matches!(self.way, Way::Wanted)
    }

    /// The connection to the service is begun.
    pub(crate) fn connect(&mut self, connecting: Connecting) {
        self.way = Way::Connecting(connecting);
    }

    /// The descriptor of an end. The service's changes while it is being connected to.
    pub(crate) fn fd(&self, side: Side) -> Option<BorrowedFd<'_>> {
        match (&self.way, side) {
            (Way::Connecting(connecting), Side::Service) => Some(connecting.as_fd()),
            _ => self.end(side).stream.as_ref().map(AsFd::as_fd),
        }
    }

    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.way, Way::Connecting(_))
    }

    pub(crate) fn interest(&self, side: Side) -> Interest {
        if side == Side::Service && !matches!(self.way, Way::Made) {
            return Interest { read: false, write: self.is_connecting() };
        }
        let (end, other) = (self.end(side), self.end(side.other()));
        Interest {
            read: !end.is_at_end && !other.is_closed && other.queue.len() < MAX_QUEUED,
            write: !end.is_closed && !end.queue.is_empty(),
        }
    }

    /// One side has hung up, and the other has got all that was left for it. A producer that goes before it could have an answer has said
    /// nothing of use.
    pub(crate) fn is_over(&self) -> bool {
        let over = |from: &End, to: &End| from.is_at_end && (to.queue.is_empty() || to.is_closed);
        match self.way {
            Way::Silent | Way::Wanted | Way::Connecting(_) => self.producer.is_at_end,
            Way::Made => over(&self.producer, &self.service) || over(&self.service, &self.producer),
        }
    }

    /// Bytes of the producer's of which the rest of the frame is still to come.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.unfinished.bytes()
    }

    /// Nothing more is taken from the producer.
    pub(crate) fn finish(&mut self) {
        self.producer.is_at_end = true;
    }

    /// An end is ready. `scratch` is for what is received.
    pub(crate) fn handle_ready(&mut self, side: Side, scratch: &mut [u8]) -> Result<(), PairError> {
        if side == Side::Service && self.is_connecting() {
            self.finish_connecting()?;
        }
        let wanted = self.interest(side);
        if wanted.write {
            self.end_mut(side).send();
        }
        if wanted.read {
            self.receive(side, scratch)?;
            // Mostly there is room, which saves a turn of the loop.
            self.end_mut(side.other()).send();
        }
        Ok(())
    }

    fn finish_connecting(&mut self) -> io::Result<()> {
        let Way::Connecting(connecting) = std::mem::replace(&mut self.way, Way::Made) else { return Ok(()) };
        match connecting.finish()? {
            Connected::NotYet(connecting) => self.way = Way::Connecting(connecting),
            Connected::Yes(stream) => self.service.stream = Some(stream),
        }
        Ok(())
    }

    /// Ends it, without waiting for what the producer has passed. `scratch` is for what is dropped with it.
    pub(crate) fn close(self, scratch: &mut [u8]) {
        if let Some(stream) = self.producer.stream {
            close_stream(stream, self.user, &self.elsewhere, scratch);
        }
    }

    fn receive(&mut self, side: Side, scratch: &mut [u8]) -> Result<(), Refused> {
        let (from, to) = match side {
            Side::Producer => (&mut self.producer, &mut self.service),
            Side::Service => (&mut self.service, &mut self.producer),
        };
        let room = MAX_QUEUED.saturating_sub(to.queue.len()).min(scratch.len());
        let (Some(stream), Some(scratch)) = (&from.stream, scratch.get_mut(..room)) else { return Ok(()) };
        let received = match stream.recv(scratch) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => {
                from.is_at_end = true;
                return Ok(());
            }
        };
        // A descriptor that comes along is closed, which may block: the service will be told that memory is not shared.
        let fds = received.fd.into_iter().chain(received.others);
        let waiting = self.elsewhere.close_passed(self.user, fds);
        let bytes = scratch.get(..received.len).unwrap_or_default();
        from.is_at_end = received.len == 0 || received.is_truncated || waiting > MAX_WAITING;
        if side == Side::Producer {
            self.unfinished.push(bytes)?;
            if matches!(self.way, Way::Silent) && !bytes.is_empty() {
                self.way = Way::Wanted;
            }
        }
        to.queue.extend_from_slice(bytes);
        Ok(())
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
