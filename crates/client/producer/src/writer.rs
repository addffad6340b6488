//! Writes packets of one sequence.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ferretto_protos::fields::trace_packet;
use ferretto_protozero::Message;

use crate::arbiter::{Arbiter, NewWriter, WriterIdentity};
use crate::policy::{ExhaustedPolicy, Waits};
use crate::sink::{ChunkSink, SmallPacket};
use crate::startup::Target;

/// What the first packet after a loss says: a loss is known, and its cause is the shared memory (upstream:
/// `TracePacket.previous_packet_dropped`, PRESENT | SMB_FULL).
const LOST_TO_FULL_SHARED_MEMORY: u64 = 257;

/// Writes the packets of one sequence straight into shared memory.
///
/// To be used by one thread at a time. Dropping it hands over what was written.
///
/// ```
/// # use ferretto_producer::TraceWriter;
/// use ferretto_protos::fields::trace_packet;
///
/// # let mut writer = TraceWriter::null();
/// let mut packet = writer.new_packet();
/// packet.varint(trace_packet::TIMESTAMP, 1_000);
/// packet.nested(trace_packet::FOR_TESTING).string(1, "hello");
/// drop(packet); // The packet ends here.
/// writer.flush();
/// ```
#[derive(Debug)]
pub struct TraceWriter {
    sink: ChunkSink,
    id: u16,
}

impl TraceWriter {
    pub(crate) fn new(
        arbiter: Arc<Arbiter>,
        new: NewWriter,
        target: Target,
        policy: ExhaustedPolicy,
        waits: Waits,
    ) -> Self {
        let NewWriter { writer_id, first_chunk_id } = new;
        let identity = WriterIdentity { writer_id, target };
        Self { sink: ChunkSink::new(arbiter, identity, first_chunk_id, policy, waits), id: writer_id }
    }

    /// A writer into the void, for those who have nowhere to write.
    pub fn null() -> Self {
        Self { sink: ChunkSink::null(), id: 0 }
    }

    /// Starts a packet. It ends when it is dropped.
    #[inline]
    pub fn new_packet(&mut self) -> Packet<'_> {
        self.sink.begin_packet();
        let is_written = self.sink.has_chunk();
        let is_first = is_written && std::mem::take(&mut self.sink.is_first_packet);
        let has_lost = is_written && std::mem::take(&mut self.sink.has_lost_packets);
        let mut message = Message::new(&mut self.sink);
        if is_first {
            message.bool(trace_packet::FIRST_PACKET_ON_SEQUENCE, true);
        }
        if has_lost {
            message.varint(trace_packet::PREVIOUS_PACKET_DROPPED, LOST_TO_FULL_SHARED_MEMORY);
        }
        Packet { message }
    }

    /// Starts a packet of at most `max_len` bytes, 127 at most, which is written in one go: what trace points use. `None` if the current
    /// chunk has no room for it, or none is there, or the sequence has something to say first: then use
    /// [`new_packet`](Self::new_packet).
    ///
    /// ```
    /// # use ferretto_producer::TraceWriter;
    /// # let mut writer = TraceWriter::null();
    /// let is_written = writer.small_packet(2).is_some_and(|mut packet| {
    ///     packet.put_bytes(&[0x40, 7]);
    ///     packet.finish()
    /// });
    /// if !is_written {
    ///     writer.new_packet().raw(&[0x40, 7]);
    /// }
    /// ```
    #[inline(always)]
    pub fn small_packet(&mut self, max_len: usize) -> Option<SmallPacket<'_>> {
        self.sink.small_packet(max_len)
    }

    /// Writes a packet of up to 15 bytes, the lowest of `bytes`, at once. `false`, and nothing written, where
    /// [`small_packet`](Self::small_packet) gives `None`, or if it is longer or empty.
    ///
    /// ```
    /// # use ferretto_producer::TraceWriter;
    /// # let mut writer = TraceWriter::null();
    /// if !writer.tiny_packet(0x07_40, 2) {
    ///     writer.new_packet().raw(&[0x40, 7]);
    /// }
    /// ```
    #[inline(always)]
    pub fn tiny_packet(&mut self, bytes: u128, len: usize) -> bool {
        self.sink.tiny_packet(bytes, len)
    }

    /// Hands over what was written, so that the service can read it, and has it committed soon.
    pub fn flush(&mut self) {
        self.sink.flush();
    }

    /// Whether it holds memory with packets in it that [`flush`](Self::flush) would hand over.
    pub fn holds_packets(&self) -> bool {
        self.sink.holds_packets()
    }

    /// Whether what is written now is lost: the shared memory is full, or there is no connection.
    pub fn is_dropping(&self) -> bool {
        self.sink.is_null() || self.sink.is_dropping()
    }

    /// Whether the connection that this writer belongs to is gone for good.
    pub fn is_null(&self) -> bool {
        self.sink.is_null()
    }

    /// How often it began to drop packets.
    pub fn drop_count(&self) -> u64 {
        self.sink.drop_count
    }

    /// Bytes of packets so far, dropped ones included.
    pub fn written_bytes(&self) -> u64 {
        self.sink.written()
    }

    /// The id of the sequence in this process; 0 for a writer into the void.
    pub fn id(&self) -> u16 {
        self.id
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.sink.close_writer();
    }
}

/// A packet being written: a [`Message`] of type `TracePacket` that ends when it is dropped.
#[derive(Debug)]
pub struct Packet<'w> {
    message: Message<'w, ChunkSink>,
}

impl<'w> Deref for Packet<'w> {
    type Target = Message<'w, ChunkSink>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.message
    }
}

impl DerefMut for Packet<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.message
    }
}

impl Drop for Packet<'_> {
    #[inline]
    fn drop(&mut self) {
        self.message.sink().finish_packet();
    }
}
