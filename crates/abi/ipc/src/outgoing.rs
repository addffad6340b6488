//! Bytes waiting to be sent, and the descriptors that go with the first byte of their frame.

use std::error::Error;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::{Buf, BytesMut};

use crate::frame::FrameError;
use crate::wire::EncodedFrame;

/// The bytes that a connection holds for a peer that does not read. More are refused: such a peer is broken or hostile, since a
/// driver streams large answers (read-back) only while [`queued_bytes`](crate::host::HostConnection::queued_bytes) is low.
pub const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// An emptied buffer above this capacity is given back, so that idle connections stay small.
const KEPT_CAPACITY: usize = 4 * 1024;

/// Frames from this size on that say that more will follow are a read-back: its buffer is kept until its last frame.
const STREAMED_BYTES: usize = 64 * 1024;

/// A frame could not be queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueError {
    /// The peer does not read. The connection is to be dropped.
    Full {
        /// Bytes waiting.
        queued: usize,
    },
    /// The frame is above the protocol's limit. Nothing was queued; the connection is as it was.
    Frame(FrameError),
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { queued } => write!(
                f,
                "the peer has not read {queued} bytes: no more are kept for it (limit {MAX_QUEUED_BYTES}); drop the connection"
            ),
            Self::Frame(error) => error.fmt(f),
        }
    }
}

impl Error for QueueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Frame(error) => error.source(),
            _ => None,
        }
    }
}

impl From<FrameError> for QueueError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// What to send next: all of `bytes` at once if the socket takes them, and `fd`, if there is one, with their first byte.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// Never empty.
    pub bytes: &'a [u8],
    /// Goes into the same `sendmsg`.
    pub fd: Option<BorrowedFd<'a>>,
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    buffer: BytesMut,
    /// The last frame is part of a long answer that goes on.
    streams: bool,
    /// Bytes sent since the start of the connection; positions of descriptors count on.
    sent: u64,
    /// Descriptors and the positions of the bytes they go with, in order.
    fds: Vec<(u64, Arc<OwnedFd>)>,
}

impl Outgoing {
    /// Adds a frame. `has_more` says that it is part of an answer that goes on.
    #[inline(never)]
    pub(crate) fn push(
        &mut self,
        frame: &EncodedFrame<'_>,
        has_more: bool,
        fd: Option<Arc<OwnedFd>>,
    ) -> Result<(), QueueError> {
        let size = frame.size();
        if self.buffer.len().saturating_add(size) > MAX_QUEUED_BYTES {
            return Err(QueueError::Full { queued: self.buffer.len() });
        }
        if let Some(fd) = fd {
            self.fds.push((self.sent.saturating_add(self.buffer.len() as u64), fd));
        }
        self.streams = size >= STREAMED_BYTES && has_more;
        self.buffer.reserve(size);
        frame.parts().into_iter().for_each(|part| self.buffer.extend_from_slice(part));
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Up to the next descriptor that belongs to later bytes: one `sendmsg` carries one descriptor.
    pub(crate) fn poll_transmit(&self) -> Option<Transmit<'_>> {
        if self.buffer.is_empty() {
            return None;
        }
        let mut fds = self.fds.iter().peekable();
        let fd = fds.next_if(|(position, _)| *position == self.sent).map(|(_, fd)| fd.as_fd());
        let end = match fds.next() {
            Some((position, _)) => usize::try_from(position.saturating_sub(self.sent)).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let bytes = self.buffer.get(..end).unwrap_or(&self.buffer);
        Some(Transmit { bytes, fd })
    }

    pub(crate) fn transmitted(&mut self, len: usize) {
        let len = len.min(self.buffer.len());
        if len == 0 {
            return;
        }
        if len == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.advance(len);
        }
        self.sent = self.sent.saturating_add(len as u64);
        while self.fds.first().is_some_and(|(position, _)| *position < self.sent) {
            self.fds.remove(0);
        }
        if self.buffer.is_empty() && !self.streams && self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = BytesMut::new();
        }
    }
}
