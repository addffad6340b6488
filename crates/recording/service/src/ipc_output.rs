//! Read-back over a consumer's connection, as fast as it takes it.

use bytes::{Bytes, BytesMut};
use ferretto_protos::fields::read_buffers_response::{SLICES, slice};
use ferretto_protozero::varint;

use crate::ids::{ConsumerConn, Token};
use crate::limits;
use crate::now::Now;
use crate::observe::Observing;
use crate::output::Reply;
use crate::prefix::Prefix;
use crate::read_back::{PacketSink, Progress, ReadPlace};
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
    /// A packet that is larger than a reply. It ends a batch.
    large: Option<Bytes>,
}

/// A `ReadBuffers` call under way.
#[derive(Debug)]
pub(crate) struct Reading {
    token: Token,
    /// What its consumer has not taken yet of a packet that is larger than a reply.
    large: Option<Bytes>,
    /// There is nothing after that.
    is_drained: bool,
}

impl Reading {
    /// What its consumer has not taken yet.
    pub(crate) fn held_bytes(&self) -> usize {
        self.large.as_ref().map_or(0, Bytes::len)
    }
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

    /// A packet that is larger than a reply; another one before it makes replies at once, which does not happen where batches end at their
    /// limit.
    fn large_packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        while self.large.is_some() {
            self.part_of_large();
        }
        let mut packet = Vec::with_capacity(len);
        slices.for_each(|slice| packet.extend_from_slice(slice));
        self.large = Some(packet.into());
    }

    /// The next slice of a large packet.
    fn part_of_large(&mut self) {
        let Some(mut rest) = self.large.take() else { return };
        let part = rest.split_to(rest.len().min(MAX_SLICE_BYTES));
        self.begin_slice(part.len());
        self.current.extend_from_slice(&part);
        self.end_slice(rest.is_empty());
        self.large = (!rest.is_empty()).then_some(rest);
    }
}

impl PacketSink for Replies {
    #[inline]
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        self.total += len;
        if len > MAX_SLICE_BYTES {
            return self.large_packet(slices, len);
        }
        while self.large.is_some() {
            self.part_of_large();
        }
        self.begin_slice(len);
        slices.for_each(|slice| self.current.extend_from_slice(slice));
        self.end_slice(true);
    }

    /// What is large is not copied once more.
    fn owned_packet(&mut self, packet: &mut Vec<u8>) {
        if packet.len() <= MAX_SLICE_BYTES || self.large.is_some() {
            return self.packet(std::iter::once(packet.as_slice()), packet.len());
        }
        self.total += packet.len();
        self.large = Some(std::mem::take(packet).into());
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
        let mut session = self.session_of(from).and_then(|id| self.sessions.get_mut(&id));
        if let Some(session) = &mut session {
            session.read_place = ReadPlace::default();
        }
        // What goes into a file is not read here as well (upstream: an empty answer).
        if session.is_none_or(|session| session.file.is_some() || session.wrote_into_file) {
            return self.answer_consumer(from, token, &ferretto_protos::ReadBuffersResponse::default());
        }
        if let Some(consumer) = self.consumers.get_mut(&from) {
            consumer.reading = Some(Reading { token, large: None, is_drained: false });
        }
    }

    /// Ends a read that is under way: its consumer asked for another one, or its session is gone.
    pub(crate) fn end_reading(&mut self, consumer: ConsumerConn) {
        let reading = self.consumers.get_mut(&consumer).and_then(|consumer| consumer.reading.take());
        if let Some(Reading { token, .. }) = reading {
            self.answer_consumer(consumer, token, &ferretto_protos::ReadBuffersResponse::default());
        }
    }

    /// The next part of what a consumer reads, a trace, the answer to a query or events; nothing if it does not. Some parts come as several replies.
    pub fn poll_read(&mut self, consumer: ConsumerConn, now: &Now) -> Vec<Reply> {
        if let Some(part) = self.continue_query(consumer).or_else(|| self.continue_observed(consumer)) {
            return vec![part];
        }
        let Some(found) = self.consumers.get_mut(&consumer) else { return Vec::new() };
        let (Some(session), Some(reading)) = (found.session, &mut found.reading) else { return Vec::new() };
        let token = reading.token;
        let mut sink = Replies {
            current: std::mem::take(&mut self.reply),
            large: reading.large.take(),
            ..Replies::default()
        };
        let mut is_drained = reading.is_drained;
        match sink.large {
            Some(_) => sink.part_of_large(),
            None => {
                let progress = self.read_batch(session, &mut sink, limits::READ_REPLY_BYTES, now);
                is_drained = progress != Progress::More;
            }
        }
        let is_done = is_drained && sink.large.is_none();
        let mut bodies = sink.finished;
        bodies.push(sink.current.split().freeze());
        let last = bodies.len() - 1;
        if !is_done {
            self.reply = sink.current;
        }
        if is_done {
            self.compact_buffers(session);
        }
        if let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.reading = (!is_done).then_some(Reading { token, large: sink.large, is_drained });
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
        let consumer = self.consumers.get(&consumer);
        consumer.is_some_and(|consumer| {
            let is_behind = consumer.observing.as_ref().is_some_and(Observing::is_behind);
            consumer.reading.is_some() || consumer.query.is_some() || is_behind
        })
    }
}
