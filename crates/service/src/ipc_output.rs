//! Read-back over a consumer's connection, as fast as it takes it.

use bytes::{Bytes, BytesMut};
use ferretto_protos::fields::read_buffers_response::{SLICES, slice};
use ferretto_protozero::varint;

use crate::ids::{ConsumerConn, Token};
use crate::limits;
use crate::now::Now;
use crate::output::Reply;
use crate::prefix::Prefix;
use crate::read_back::{PacketSink, Progress};
use crate::service::Service;

/// What framing adds to the bytes of a slice, at most.
const SLICE_OVERHEAD: usize = 16;

/// The largest slice of a packet: with its framing it fits into a reply that has nothing else.
const MAX_SLICE_BYTES: usize = limits::READ_REPLY_BYTES - SLICE_OVERHEAD;

/// The tags of the fields of which replies consist, each of one byte.
const SLICES_TAG: u8 = (SLICES << 3) as u8 | BYTES;
const DATA_TAG: u8 = (slice::DATA << 3) as u8 | BYTES;
const LAST_SLICE_TAG: u8 = (slice::LAST_SLICE_FOR_PACKET << 3) as u8 | VARINT;
const BYTES: u8 = 2;
const VARINT: u8 = 0;
const _: () = assert!(SLICES < 16 && slice::DATA < 16 && slice::LAST_SLICE_FOR_PACKET < 16);

/// Cuts packets into slices, and slices into replies that fit into a frame.
#[derive(Default)]
struct Replies {
    finished: Vec<Bytes>,
    current: BytesMut,
    total: usize,
}

impl Replies {
    /// Writes what stands before the bytes of a slice. Its length is known, so nothing is written twice.
    #[inline]
    fn begin_slice(&mut self, len: usize) {
        if self.current.len() + len + SLICE_OVERHEAD > limits::READ_REPLY_BYTES {
            self.finished.push(self.current.split().freeze());
        }
        if self.current.is_empty() {
            self.current.reserve(limits::READ_REPLY_BYTES + Prefix::MAX_BYTES);
        }
        let last_slice_field = 2;
        let message = 1 + varint::size(len as u64) + len + last_slice_field;
        let prefix = Prefix::default().byte(SLICES_TAG).varint(message).byte(DATA_TAG).varint(len);
        prefix.append_to(&mut self.current);
    }

    fn end_slice(&mut self, is_last: bool) {
        self.current.extend_from_slice(&[LAST_SLICE_TAG, is_last.into()]);
    }

    /// A packet that is larger than a reply.
    fn large_packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        let mut packet = Vec::with_capacity(len);
        slices.for_each(|slice| packet.extend_from_slice(slice));
        let mut parts = packet.chunks(MAX_SLICE_BYTES).peekable();
        while let Some(part) = parts.next() {
            self.begin_slice(part.len());
            self.current.extend_from_slice(part);
            self.end_slice(parts.peek().is_none());
        }
    }
}

impl PacketSink for Replies {
    #[inline]
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        self.total += len;
        if len > MAX_SLICE_BYTES {
            return self.large_packet(slices, len);
        }
        self.begin_slice(len);
        slices.for_each(|slice| self.current.extend_from_slice(slice));
        self.end_slice(true);
    }

    fn len(&self) -> usize {
        self.total
    }

    fn make_room(&mut self, _len: usize) -> bool {
        true
    }
}

impl Service {
    pub(crate) fn start_reading(&mut self, from: ConsumerConn, token: Token) {
        self.end_reading(from);
        let session = self.session_of(from).and_then(|id| self.sessions.get(&id));
        // What goes into a file is not read here as well (upstream: an empty answer).
        if session.is_none_or(|session| session.file.is_some() || session.wrote_into_file) {
            return self.answer_consumer(from, token, &ferretto_protos::ReadBuffersResponse::default());
        }
        if let Some(consumer) = self.consumers.get_mut(&from) {
            consumer.reading = Some(token);
        }
    }

    /// Ends a read that is under way: its consumer asked for another one, or its session is gone.
    pub(crate) fn end_reading(&mut self, consumer: ConsumerConn) {
        let token = self.consumers.get_mut(&consumer).and_then(|consumer| consumer.reading.take());
        if let Some(token) = token {
            self.answer_consumer(consumer, token, &ferretto_protos::ReadBuffersResponse::default());
        }
    }

    /// The next part of what a consumer reads; nothing if it does not. Some parts come as several replies.
    pub fn poll_read(&mut self, consumer: ConsumerConn, now: &Now) -> Vec<Reply> {
        let Some(found) = self.consumers.get(&consumer) else { return Vec::new() };
        let (Some(token), Some(session)) = (found.reading, found.session) else { return Vec::new() };
        let mut sink = Replies { current: std::mem::take(&mut self.reply), ..Replies::default() };
        let progress = self.read_batch(session, &mut sink, limits::READ_REPLY_BYTES, now);
        let is_done = progress != Progress::More;
        let mut bodies = sink.finished;
        bodies.push(sink.current.split().freeze());
        let last = bodies.len() - 1;
        if !is_done {
            self.reply = sink.current;
        }
        if is_done {
            self.compact_buffers(session);
            if let Some(consumer) = self.consumers.get_mut(&consumer) {
                consumer.reading = None;
            }
        }
        let reply = |(index, body): (usize, Bytes)| Reply {
            token,
            body: Some(body),
            has_more: !(is_done && index == last),
            memory: None,
        };
        bodies.into_iter().enumerate().map(reply).collect()
    }

    /// Whether a consumer waits for [`poll_read`](Self::poll_read).
    pub fn is_reading(&self, consumer: ConsumerConn) -> bool {
        self.consumers.get(&consumer).is_some_and(|consumer| consumer.reading.is_some())
    }
}
