//! Read-back over a consumer's connection, as fast as it takes it.

use bytes::Bytes;
use ferretto_protos::fields::read_buffers_response::{SLICES, slice};
use ferretto_protozero::Message as Writer;

use crate::ids::{ConsumerConn, Token};
use crate::limits;
use crate::now::Now;
use crate::output::Reply;
use crate::read_back::{PacketSink, Progress};
use crate::service::Service;

/// What framing adds to the bytes of a slice, at most.
const SLICE_OVERHEAD: usize = 16;

/// The largest slice of a packet: with its framing it fits into a reply that has nothing else.
const MAX_SLICE_BYTES: usize = limits::READ_REPLY_BYTES - SLICE_OVERHEAD;

/// Cuts packets into slices, and slices into replies that fit into a frame.
#[derive(Default)]
struct Replies {
    finished: Vec<Vec<u8>>,
    current: Vec<u8>,
    total: usize,
    scratch: Vec<u8>,
}

impl Replies {
    fn slice(&mut self, bytes: &[u8], is_last: bool) {
        if self.current.len() + bytes.len() + SLICE_OVERHEAD > limits::READ_REPLY_BYTES {
            self.finished.push(std::mem::take(&mut self.current));
        }
        let mut response = Writer::new(&mut self.current);
        let mut writer = response.nested(SLICES);
        writer.bytes(slice::DATA, bytes);
        writer.bool(slice::LAST_SLICE_FOR_PACKET, is_last);
    }
}

impl PacketSink for Replies {
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        let mut packet = std::mem::take(&mut self.scratch);
        packet.clear();
        slices.for_each(|slice| packet.extend_from_slice(slice));
        let mut rest = packet.as_slice();
        while let Some((head, tail)) =
            rest.split_at_checked(MAX_SLICE_BYTES).filter(|(_, tail)| !tail.is_empty())
        {
            self.slice(head, false);
            rest = tail;
        }
        self.slice(rest, true);
        self.scratch = packet;
        self.total += len;
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
        let mut sink = Replies::default();
        let progress = self.read_batch(session, &mut sink, limits::READ_REPLY_BYTES, now);
        let is_done = progress != Progress::More;
        let mut bodies = sink.finished;
        bodies.push(sink.current);
        let last = bodies.len() - 1;
        if is_done && let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.reading = None;
        }
        let reply = |(index, body): (usize, Vec<u8>)| Reply {
            token,
            body: Some(Bytes::from(body)),
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
