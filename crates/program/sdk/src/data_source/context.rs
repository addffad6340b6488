//! What the code that writes packets gets.

use std::ops::{Deref, DerefMut};

use ferretto_producer::{ChunkSink, Packet, TraceWriter};
use ferretto_protozero::Message;

use super::DataSource;
use super::instance::InstanceGuard;
use super::thread::Sequence;
use crate::clock::Clock;
use crate::runtime;

/// One session, on the thread that traces: given to the closure of [`DataSourceHandle::trace`](super::DataSourceHandle::trace).
pub struct TraceContext<'a, T: DataSource> {
    pub(super) sequence: &'a mut Sequence<T>,
    pub(super) scratch: &'a mut Vec<u8>,
    pub(super) clock: &'a mut Clock,
    pub(super) instance_index: usize,
}

/// A packet that ends when it is dropped: a [`Message`] of type `TracePacket`, written straight into the memory that is shared with the
/// service, by [field numbers](ferretto_protos::fields).
#[derive(Debug)]
pub struct TracePacket<'a> {
    packet: Packet<'a>,
    scratch: &'a mut Vec<u8>,
}

/// A [`TraceContext`] in pieces, for code that uses them together.
pub struct Parts<'a, T: DataSource> {
    /// Begins packets.
    pub packets: Packets<'a>,
    /// See [`TraceContext::incremental_state`].
    pub incremental_state: &'a mut T::IncrementalState,
    /// See [`TraceContext::thread_state`].
    pub thread_state: &'a mut T::ThreadState,
}

/// Begins packets of one sequence.
#[derive(Debug)]
pub struct Packets<'a> {
    writer: &'a mut TraceWriter,
    scratch: &'a mut Vec<u8>,
}

impl<T: DataSource> TraceContext<'_, T> {
    /// Begins a packet.
    #[inline]
    pub fn new_packet(&mut self) -> TracePacket<'_> {
        TracePacket { packet: self.sequence.writer.new_packet(), scratch: self.scratch }
    }

    /// Now, in nanoseconds of the trace's clock, which is the clock of packets that name no other ([`crate::DEFAULT_CLOCK`]). Never less
    /// than before, on this thread.
    #[inline]
    pub fn now(&mut self) -> u64 {
        self.clock.now()
    }

    /// What the reader of this sequence knows. It is new ([`Default`]) for the first packet, when the session wanted it cleared, and
    /// after a loss.
    ///
    /// A packet that relies on what was said before is to say so (`sequence_flags`: 2), and the first one after a clear that it begins
    /// anew (1).
    pub fn incremental_state(&mut self) -> &mut T::IncrementalState {
        self.sequence.incremental_state()
    }

    /// What this thread keeps for this session.
    pub fn thread_state(&mut self) -> &mut T::ThreadState {
        &mut self.sequence.thread_state
    }

    /// Packets and states at once.
    ///
    /// ```
    /// # use ferretto::{DataSource, DataSourceHandle};
    /// # struct Names;
    /// # impl DataSource for Names { type IncrementalState = Vec<String>; type ThreadState = (); }
    /// # static NAMES: DataSourceHandle<Names> = DataSourceHandle::new();
    /// NAMES.trace(|ctx| {
    ///     let mut parts = ctx.parts();
    ///     let mut packet = parts.packets.new_packet();
    ///     for name in parts.incremental_state.iter() {
    ///         packet.string(900, name);
    ///     }
    /// });
    /// ```
    pub fn parts(&mut self) -> Parts<'_, T> {
        self.sequence.incremental_state();
        let Sequence { writer, incremental, thread_state, .. } = &mut *self.sequence;
        Parts {
            packets: Packets { writer, scratch: self.scratch },
            incremental_state: incremental.get_or_insert_default(),
            thread_state,
        }
    }

    /// The object of this session. Waits for callbacks that run; `None` in a callback of this very object, and while this thread has it
    /// already.
    pub fn instance(&self) -> Option<InstanceGuard<'_, T>> {
        self.sequence.instance.lock()
    }

    /// The instance's number, 0 to 30.
    pub fn instance_index(&self) -> usize {
        self.instance_index
    }

    /// Hands over what this thread has written for this session, and calls back when the service has it (`true`), or there is no service
    /// to take it any more. The callback comes on the thread `ferretto`.
    pub fn flush(&mut self, done: impl FnOnce(bool) + Send + 'static) {
        self.sequence.writer.flush();
        if let Some(done) = runtime::drain_then(Box::new(done)) {
            done(false);
        }
    }

    /// How often packets of this sequence began to be dropped, as the shared memory was full.
    pub fn drop_count(&self) -> u64 {
        self.sequence.writer.drop_count()
    }

    /// Bytes of packets of this sequence so far, dropped ones included.
    pub fn written_bytes(&self) -> u64 {
        self.sequence.writer.written_bytes()
    }
}

impl Packets<'_> {
    /// Begins a packet.
    #[inline]
    pub fn new_packet(&mut self) -> TracePacket<'_> {
        TracePacket { packet: self.writer.new_packet(), scratch: self.scratch }
    }
}

impl TracePacket<'_> {
    /// Adds all fields of a message: of a [`TracePacket`](ferretto_protos::TracePacket), or of a type of one's own with fields of that.
    ///
    /// ```
    /// # use ferretto::{DataSource, DataSourceHandle};
    /// # struct Source;
    /// # impl DataSource for Source { type IncrementalState = (); type ThreadState = (); }
    /// # static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();
    /// use ferretto::protos::{TestEvent, TracePacket, trace_packet::Data};
    ///
    /// SOURCE.trace(|ctx| {
    ///     let event = TestEvent { str: Some("hello".into()), ..Default::default() };
    ///     let data = Some(Data::ForTesting(event));
    ///     ctx.new_packet().prost(&TracePacket { timestamp: Some(ferretto::now()), data, ..Default::default() });
    /// });
    /// ```
    pub fn prost(&mut self, message: &impl prost::Message) {
        self.encode(message);
        self.packet.raw(self.scratch);
    }

    /// Adds a message as this field: an extension.
    pub fn prost_field(&mut self, field: u32, message: &impl prost::Message) {
        self.encode(message);
        self.packet.bytes(field, self.scratch);
    }

    fn encode(&mut self, message: &impl prost::Message) {
        self.scratch.clear();
        // A vector has room for everything.
        let _ = message.encode(self.scratch);
    }
}

impl<'a> Deref for TracePacket<'a> {
    type Target = Message<'a, ChunkSink>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.packet
    }
}

impl DerefMut for TracePacket<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.packet
    }
}

impl<T: DataSource> std::fmt::Debug for TraceContext<'_, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TraceContext")
            .field("instance_index", &self.instance_index)
            .field("writer", &self.sequence.writer)
            .finish_non_exhaustive()
    }
}

impl<T: DataSource> std::fmt::Debug for Parts<'_, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Parts").field("packets", &self.packets).finish_non_exhaustive()
    }
}
