//! Bytes waiting to be sent, and the descriptors that go with the first byte of their frame.

use std::error::Error;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::frame::FrameError;
use crate::wire::EncodedFrame;

/// The bytes that a connection holds for a peer that does not read. More are refused: such a peer is broken or hostile, since a
/// driver streams large answers (read-back) only while [`queued_bytes`](crate::host::HostConnection::queued_bytes) is low.
pub const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// An emptied buffer above this capacity is given back, so that idle connections stay small.
const KEPT_CAPACITY: usize = 4 * 1024;

/// A buffer that has become this much larger than what waits in it is made anew, so that whoever leaves a little unread holds a little:
/// by so many times, and if it is larger than so many bytes.
const SLACK_FACTOR: usize = 4;
const SLACK_BYTES: usize = 64 * 1024;

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
    buffer: Vec<u8>,
    /// Where in it what waits begins; before it lies what was sent.
    start: usize,
    /// The last frame is part of a long answer that goes on.
    streams: bool,
    /// Long frames say that more will follow without being part of one answer: commands to a producer.
    pub(crate) never_streams: bool,
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
        if self.len().saturating_add(size) > MAX_QUEUED_BYTES {
            return Err(QueueError::Full { queued: self.len() });
        }
        if let Some(fd) = fd {
            self.fds.push((self.sent.saturating_add(self.len() as u64), fd));
        }
        self.streams = size >= STREAMED_BYTES && has_more && !self.never_streams;
        self.make_room(size);
        frame.parts().into_iter().for_each(|part| self.buffer.extend_from_slice(part));
        Ok(())
    }

    /// Each byte is moved a few times at the most, however many are waiting.
    fn make_room(&mut self, size: usize) {
        if self.buffer.capacity() - self.buffer.len() >= size {
            return;
        }
        let waiting = self.len();
        if self.start >= waiting && self.buffer.capacity() - waiting >= size {
            self.buffer.drain(..self.start);
            self.start = 0;
        } else {
            self.move_into(waiting.saturating_add(size.max(waiting)));
        }
    }

    /// Puts what waits into a buffer of this capacity.
    fn move_into(&mut self, capacity: usize) {
        let mut buffer = Vec::with_capacity(capacity);
        buffer.extend_from_slice(self.waiting());
        (self.buffer, self.start) = (buffer, 0);
    }

    fn waiting(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Bytes of memory for them. What a connection keeps in any case is not counted.
    pub(crate) fn held_bytes(&self) -> usize {
        let capacity = self.buffer.capacity();
        if capacity > KEPT_CAPACITY { capacity } else { self.len() }
    }

    /// Up to the next descriptor that belongs to later bytes: one `sendmsg` carries one descriptor.
    pub(crate) fn poll_transmit(&self) -> Option<Transmit<'_>> {
        if self.len() == 0 {
            return None;
        }
        let mut fds = self.fds.iter().peekable();
        let fd = fds.next_if(|(position, _)| *position == self.sent).map(|(_, fd)| fd.as_fd());
        let end = match fds.next() {
            Some((position, _)) => usize::try_from(position.saturating_sub(self.sent)).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let bytes = self.waiting();
        let bytes = bytes.get(..end).unwrap_or(bytes);
        Some(Transmit { bytes, fd })
    }

    pub(crate) fn transmitted(&mut self, len: usize) {
        let len = len.min(self.len());
        if len == 0 {
            return;
        }
        self.start += len;
        if self.len() == 0 {
            self.buffer.clear();
            self.start = 0;
        }
        self.sent = self.sent.saturating_add(len as u64);
        while self.fds.first().is_some_and(|(position, _)| *position < self.sent) {
            self.fds.remove(0);
        }
        if !self.streams {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        let (waiting, capacity) = (self.len(), self.buffer.capacity());
        if waiting == 0 && capacity > KEPT_CAPACITY {
            self.buffer = Vec::new();
        } else if capacity > SLACK_BYTES && capacity / SLACK_FACTOR > waiting {
            self.move_into(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::IpcFrame;

    use super::*;

    #[test]
    fn room_is_kept_within_a_long_answer_and_not_between_commands() {
        let frame = IpcFrame { data_for_testing: vec![vec![7; 100_000].into()], ..Default::default() };
        for never_streams in [false, true] {
            let mut outgoing = Outgoing { never_streams, ..Outgoing::default() };
            outgoing.push(&EncodedFrame::new(&frame).unwrap(), true, None).unwrap();
            outgoing.transmitted(outgoing.len());
            assert_eq!(outgoing.held_bytes() > 100_000, !never_streams, "{}", outgoing.held_bytes());
        }
    }

    /// What a peer leaves unread is what it holds, whatever it has read before.
    #[test]
    fn who_reads_most_of_much_holds_little() {
        let mut outgoing = Outgoing::default();
        let mut queued = Vec::new();
        while queued.len() < 1 << 20 {
            let data_for_testing = vec![vec![(queued.len() >> 10) as u8; 1000].into()];
            let frame = IpcFrame { data_for_testing, ..Default::default() };
            let encoded = EncodedFrame::new(&frame).unwrap();
            queued.extend(encoded.parts().concat());
            outgoing.push(&encoded, false, None).unwrap();
        }
        assert!(outgoing.held_bytes() >= 1 << 20);
        let mut sent = Vec::new();
        while outgoing.len() > 1500 {
            let len = outgoing.poll_transmit().unwrap().bytes.len().min(7000).min(outgoing.len() - 1500);
            sent.extend_from_slice(&outgoing.poll_transmit().unwrap().bytes[..len]);
            outgoing.transmitted(len);
            assert!(outgoing.held_bytes() <= SLACK_FACTOR * outgoing.len() + SLACK_BYTES);
        }
        assert!(outgoing.held_bytes() <= SLACK_BYTES, "{}", outgoing.held_bytes());
        sent.extend_from_slice(outgoing.poll_transmit().unwrap().bytes);
        assert!(sent == queued);
    }
}
