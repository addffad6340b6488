//! Cuts packets into fragments and fragments into chunks: where a packet's bytes go while it is being written.
//!
//! A chunk's payload is a row of fragments, each with its size before it. The size is reserved as four bytes and filled in when the
//! fragment ends. A packet that outgrows its chunk goes on in the next one; sizes of nested messages that were left behind become
//! patches. Upstream: `trace_writer_impl.cc`, `shared_memory_abi.h`.

use std::sync::Arc;

use ferretto_protozero::{LenSlot, MAX_LEN, SMALL_LEN, Sink, varint};
use ferretto_shm::{ChunkFlags, ChunkWriter, NewChunk, WRITER_MAX_PACKETS_PER_CHUNK};

use crate::arbiter::{Arbiter, WriterIdentity};
use crate::patch_list::{PatchIndex, PatchList};
use crate::policy::{ExhaustedPolicy, Waits};

/// The reserved size of a fragment.
const HEADER_SIZE: usize = 4;
/// A packet only begins where its header and a few bytes fit, so that no fragment is empty (upstream's value).
const MIN_ROOM: usize = HEADER_SIZE + 8;
/// Sizes below this fit into one byte.
const ONE_BYTE_LIMIT: usize = 0x80;
/// A fragment of this size says that its writer gave up (upstream: `kPacketSizeDropPacket`).
const DROP_MARKER: [u8; 4] = [0xff, 0xff, 0xff, 0x7f];
/// A writer without a chunk looks for one after so many bytes (upstream: the size of its garbage chunk).
const BYTES_BETWEEN_ATTEMPTS: usize = 1024;

/// Takes the bytes of packets on behalf of a [`TraceWriter`](crate::TraceWriter).
#[derive(Debug)]
pub struct ChunkSink {
    target: Option<Target>,
    /// `None` before the first packet and while packets are dropped.
    chunk: Option<Chunk>,
    next_chunk_id: u32,
    is_in_packet: bool,
    /// Message bytes since the start; never counts fragment sizes.
    written: u64,
    packet_start: u64,
    /// Nested messages that have not ended, outermost first.
    open: Vec<OpenLen>,
    patches: PatchList,
    dropping: Option<Dropping>,
    pub(crate) is_first_packet: bool,
    /// Packets were dropped before the current one.
    pub(crate) has_lost_packets: bool,
    pub(crate) drop_count: u64,
}

/// Where chunks come from and go to.
#[derive(Debug)]
struct Target {
    arbiter: Arc<Arbiter>,
    identity: WriterIdentity,
    policy: ExhaustedPolicy,
    waits: Waits,
}

#[derive(Debug)]
struct Chunk {
    writer: ChunkWriter,
    id: u32,
    capacity: usize,
    position: usize,
    /// Where the current fragment's size is.
    header: usize,
    packets: u16,
    /// The count in the chunk's header is one more than `packets`: the last one is finished, and a scraper that leaves out the last
    /// packet it finds is to see it.
    is_inflated: bool,
}

/// A nested message's size.
#[derive(Debug, Clone, Copy)]
struct OpenLen {
    start: u64,
    place: LenPlace,
}

#[derive(Debug, Clone, Copy)]
enum LenPlace {
    /// At this offset of the current chunk.
    Here(usize),
    /// In a chunk that was left.
    Patch(PatchIndex),
    /// In a packet that was given up.
    Nowhere,
}

/// There is no chunk to write to.
#[derive(Debug, Default)]
struct Dropping {
    /// Bytes dropped since the last attempt to get a chunk.
    bytes: usize,
    /// Packets dropped since then.
    packets: u64,
}

impl ChunkSink {
    pub(crate) fn new(
        arbiter: Arc<Arbiter>,
        identity: WriterIdentity,
        next_chunk_id: u32,
        policy: ExhaustedPolicy,
        waits: Waits,
    ) -> Self {
        Self { target: Some(Target { arbiter, identity, policy, waits }), next_chunk_id, ..Self::null() }
    }

    /// Drops everything, for good.
    pub(crate) fn null() -> Self {
        Self {
            target: None,
            chunk: None,
            next_chunk_id: 0,
            is_in_packet: false,
            written: 0,
            packet_start: 0,
            open: Vec::new(),
            patches: PatchList::default(),
            dropping: None,
            is_first_packet: true,
            has_lost_packets: false,
            drop_count: 0,
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether the current packet is written anywhere.
    pub(crate) fn has_chunk(&self) -> bool {
        self.chunk.is_some()
    }

    pub(crate) fn holds_packets(&self) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| chunk.packets > 0)
    }

    pub(crate) fn is_dropping(&self) -> bool {
        self.dropping.is_some()
    }

    pub(crate) fn is_null(&self) -> bool {
        self.target.as_ref().is_none_or(|target| target.arbiter.is_over(target.identity.target))
    }

    /// Makes room and starts a fragment.
    pub(crate) fn begin_packet(&mut self) {
        if self.is_in_packet {
            // Its handle was leaked.
            self.finish_packet();
        }
        self.is_in_packet = true;
        self.packet_start = self.written;
        self.send_patches();
        if !self.chunk.as_ref().is_some_and(Chunk::can_begin_packet) {
            self.return_chunk();
            self.acquire_for_packet();
        }
        if let Some(chunk) = &mut self.chunk {
            chunk.begin_packet();
        } else if let Some(dropping) = &mut self.dropping {
            dropping.packets += 1;
        }
    }

    /// Starts a packet of at most `max_len` bytes that will lie in the current chunk; `None` if it may not fit there, or if there is
    /// something to be said or done first.
    #[inline(always)]
    pub(crate) fn small_packet(&mut self, max_len: usize) -> Option<SmallPacket<'_>> {
        if self.is_in_packet || !self.patches.is_empty() {
            return None;
        }
        let chunk = self.chunk.as_mut().filter(|chunk| chunk.can_take_small_packet(max_len))?;
        let start = chunk.position + 1;
        let end = start + max_len.min(SmallPacket::MAX_LEN);
        Some(SmallPacket { chunk, written: &mut self.written, start, position: start, end })
    }

    /// Writes a packet of up to 15 bytes, the lowest of `bytes`, with one store; `false` if that must go another way.
    #[inline(always)]
    pub(crate) fn tiny_packet(&mut self, bytes: u128, len: usize) -> bool {
        if self.is_in_packet || !self.patches.is_empty() || len == 0 || len >= SMALL_LEN {
            return false;
        }
        let Some(chunk) = self.chunk.as_mut().filter(|chunk| chunk.can_take_small_packet(SMALL_LEN)) else {
            return false;
        };
        let with_size = bytes << 8 | len as u128;
        chunk.writer.write_small_at(chunk.position, with_size.to_le_bytes(), 1 + len);
        chunk.position += 1 + len;
        self.written = self.written.wrapping_add(len as u64);
        chunk.count_small_packet();
        true
    }

    /// Fills the fragment's size in.
    pub(crate) fn finish_packet(&mut self) {
        while let Some(open) = self.open.pop() {
            // Its handle was leaked; the packet must be readable all the same.
            self.close(open);
        }
        self.is_in_packet = false;
        let is_full = self.chunk.as_mut().is_some_and(|chunk| !chunk.finish_packet());
        if is_full {
            self.return_chunk();
        }
        // Also for a packet that was given up: its earlier chunks wait for them.
        self.send_patches();
    }

    /// Hands over what was written.
    pub(crate) fn flush(&mut self) {
        if self.is_in_packet {
            self.finish_packet();
        }
        if self.holds_packets() {
            self.return_chunk();
        }
        if let Some(target) = &self.target {
            target.arbiter.make_urgent();
        }
    }

    /// Hands everything over and gives the id back.
    pub(crate) fn close_writer(&mut self) {
        if self.is_in_packet {
            self.finish_packet();
        }
        self.return_chunk();
        self.report_dropped();
        if let Some(target) = self.target.take() {
            target.arbiter.release_writer(target.identity, self.next_chunk_id);
        }
    }

    /// A chunk for a new packet, or none: then the packet is dropped.
    fn acquire_for_packet(&mut self) {
        if let Some(dropping) = &mut self.dropping {
            if dropping.bytes.saturating_add(MIN_ROOM) < BYTES_BETWEEN_ATTEMPTS {
                return;
            }
            dropping.bytes = 0;
            self.report_dropped();
        }
        // Whoever has given up waiting once does not wait again before the service has caught up.
        let policy = self.target.as_ref().map_or(ExhaustedPolicy::Drop, |target| target.policy);
        let policy = if self.dropping.is_some() { ExhaustedPolicy::Drop } else { policy };
        match self.acquire(policy) {
            Some(chunk) => {
                self.chunk = Some(chunk);
                self.has_lost_packets |= self.dropping.take().is_some();
            }
            None if self.dropping.is_none() => self.start_dropping(),
            None => {}
        }
    }

    fn acquire(&mut self, policy: ExhaustedPolicy) -> Option<Chunk> {
        let target = self.target.as_ref()?;
        let id = self.next_chunk_id;
        let new = NewChunk { chunk_id: id, writer_id: target.identity.writer_id };
        let writer = target.arbiter.acquire_chunk(new, target.identity.target, policy, &target.waits)?;
        self.next_chunk_id = id.wrapping_add(1);
        let capacity = writer.capacity();
        Some(Chunk { writer, id, capacity, position: 0, header: 0, packets: 0, is_inflated: false })
    }

    /// Has the packets counted that were dropped since the last time.
    fn report_dropped(&mut self) {
        if let (Some(target), Some(dropping)) = (&self.target, &mut self.dropping) {
            let packets = std::mem::take(&mut dropping.packets);
            target.arbiter.count_dropped(target.identity.target, packets);
        }
    }

    fn start_dropping(&mut self) {
        self.dropping = Some(Dropping::default());
        self.drop_count = self.drop_count.saturating_add(1);
    }

    /// The packet goes on in a new chunk, or is given up.
    #[cold]
    #[inline(never)]
    fn next_chunk(&mut self) {
        let is_too_long = self.written.saturating_sub(self.packet_start) > u64::from(MAX_LEN);
        let policy = self.target.as_ref().map_or(ExhaustedPolicy::Drop, |target| target.policy);
        let next = if is_too_long { None } else { self.acquire(policy) };
        let Some(mut next) = next else {
            self.give_packet_up();
            return;
        };
        if let Some(chunk) = &mut self.chunk {
            chunk.finish_fragment();
            chunk.writer.set_flags(ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
            for open in &mut self.open {
                if let LenPlace::Here(offset) = open.place {
                    // Chunks are smaller than 64 KiB.
                    open.place = LenPlace::Patch(self.patches.push(chunk.id, offset as u32));
                }
            }
        }
        self.return_chunk();
        next.writer.set_flags(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
        next.begin_packet();
        self.chunk = Some(next);
    }

    /// The reader finds the marker and knows that the packet will not come.
    fn give_packet_up(&mut self) {
        if let Some(chunk) = &mut self.chunk {
            chunk.writer.write_at(chunk.header, &DROP_MARKER);
        }
        for open in &mut self.open {
            if let LenPlace::Here(_) = open.place {
                open.place = LenPlace::Nowhere;
            }
        }
        self.return_chunk();
        self.start_dropping();
        if let Some(dropping) = &mut self.dropping {
            // This one.
            dropping.packets += 1;
        }
    }

    fn return_chunk(&mut self) {
        let Some(mut chunk) = self.chunk.take() else {
            return;
        };
        chunk.settle();
        if let Some(target) = &self.target {
            let Chunk { writer, id, position, .. } = chunk;
            target.arbiter.return_chunk(writer, target.identity, id, position, &mut self.patches);
        }
    }

    /// The service keeps the sequence unreadable until it has the patches.
    fn send_patches(&mut self) {
        if self.patches.is_head_patched()
            && let Some(target) = &self.target
        {
            target.arbiter.send_patches(target.identity, &mut self.patches);
        }
    }

    fn close(&mut self, open: OpenLen) {
        let len = self.written.saturating_sub(open.start);
        // Longer packets are given up when they need their next chunk.
        let len_u32 = u32::try_from(len).unwrap_or(MAX_LEN).min(MAX_LEN);
        match (open.place, &mut self.chunk) {
            (LenPlace::Here(offset), Some(chunk)) => {
                // The message may have moved down by what its size did not need.
                let saved = if chunk.fill_len(offset, len_u32) { HEADER_SIZE - 1 } else { 0 };
                self.written = self.written.saturating_sub(saved as u64);
            }
            (LenPlace::Patch(index), _) => self.patches.resolve(index, varint::redundant4(len_u32)),
            _ => {}
        }
    }

    fn drop_bytes(&mut self, len: usize) {
        self.written = self.written.wrapping_add(len as u64);
        if let Some(dropping) = &mut self.dropping {
            dropping.bytes = dropping.bytes.saturating_add(len);
        }
    }
}

impl Sink for ChunkSink {
    #[inline]
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(chunk) = &mut self.chunk else {
                self.drop_bytes(bytes.len());
                return;
            };
            let (now, later) = bytes.split_at(bytes.len().min(chunk.room()));
            chunk.writer.write_at(chunk.position, now);
            chunk.position += now.len();
            self.written = self.written.wrapping_add(now.len() as u64);
            bytes = later;
            if !bytes.is_empty() {
                self.next_chunk();
            }
        }
    }

    #[inline]
    fn write_small(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        match &mut self.chunk {
            Some(chunk) if chunk.room() >= SMALL_LEN => {
                chunk.writer.write_small_at(chunk.position, bytes, len);
                chunk.position += len;
                self.written = self.written.wrapping_add(len as u64);
            }
            _ => self.write(bytes.get(..len).unwrap_or(&bytes)),
        }
    }

    fn reserve_len(&mut self) -> LenSlot {
        if self.chunk.as_ref().is_some_and(|chunk| chunk.room() < HEADER_SIZE) {
            self.next_chunk();
        }
        let place = match &mut self.chunk {
            Some(chunk) => LenPlace::Here(chunk.position),
            None => LenPlace::Nowhere,
        };
        // Until it is closed a reader of half a chunk sees an empty message.
        self.write(&[0; HEADER_SIZE]);
        let start = self.written;
        self.open.push(OpenLen { start, place });
        LenSlot { range: self.open.len() as u32, offset: 0, start }
    }

    fn close_len(&mut self, slot: LenSlot) {
        // Slots are numbered by their depth, from 1. Deeper ones that were not closed were leaked.
        while self.open.len() >= slot.range as usize
            && let Some(open) = self.open.pop()
        {
            self.close(open);
        }
    }
}

/// A packet of up to 127 bytes that is written in one go: the cheapest kind. See
/// [`TraceWriter::small_packet`](crate::TraceWriter::small_packet).
///
/// Nobody sees it before [`finish`](Self::finish): dropped without that, it was never written.
#[derive(Debug)]
#[must_use = "nothing is written before `finish`"]
pub struct SmallPacket<'w> {
    chunk: &'w mut Chunk,
    written: &'w mut u64,
    /// Behind the fragment's size, which takes one byte.
    start: usize,
    position: usize,
    /// Where the last byte may end.
    end: usize,
}

impl SmallPacket<'_> {
    /// The most bytes that it can have.
    pub const MAX_LEN: usize = ONE_BYTE_LIMIT - 1;

    /// Appends the first `len` of `bytes`, as [`Sink::write_small`] does.
    #[inline(always)]
    pub fn put(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        // Behind the end nothing is stored any more; `finish` finds out.
        if self.position <= self.end {
            self.chunk.writer.write_small_at(self.position, bytes, len);
        }
        self.position += len;
    }

    /// Appends `bytes`.
    #[inline]
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.end.saturating_sub(self.position) {
            self.chunk.writer.write_at(self.position, bytes);
        }
        self.position = self.position.saturating_add(bytes.len());
    }

    /// Replaces one byte that was put before: a length that was not known yet.
    #[inline(always)]
    pub fn set(&mut self, offset: usize, byte: u8) {
        if offset < self.len() && self.position <= self.end {
            self.chunk.writer.write_at(self.start + offset, &[byte]);
        }
    }

    /// The bytes put so far.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.position - self.start
    }

    /// Whether nothing was put yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the packet; `false` if it became longer than was said, or is empty. Then nothing was written.
    #[inline(always)]
    #[must_use]
    pub fn finish(self) -> bool {
        let len = self.len();
        if self.position > self.end || len == 0 {
            return false;
        }
        self.chunk.writer.write_at(self.start - 1, &[len as u8]);
        self.chunk.position = self.position;
        *self.written = self.written.wrapping_add(len as u64);
        self.chunk.count_small_packet();
        true
    }
}

impl Chunk {
    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.position)
    }

    fn can_begin_packet(&self) -> bool {
        self.room() >= MIN_ROOM && self.packets < WRITER_MAX_PACKETS_PER_CHUNK
    }

    /// Whether a packet of this size fits, its own size and what stores of [`SMALL_LEN`] bytes write behind it, and something behind
    /// that for the empty packet that is counted ahead.
    #[inline(always)]
    fn can_take_small_packet(&self, max_len: usize) -> bool {
        self.room() > 1 + max_len + SMALL_LEN && self.packets < WRITER_MAX_PACKETS_PER_CHUNK
    }

    /// Counts a packet that is finished, and, as [`finish_packet`](Self::finish_packet) does, one ahead.
    #[inline(always)]
    fn count_small_packet(&mut self) {
        self.packets += 1;
        if !self.is_inflated {
            self.is_inflated = true;
            self.writer.increment_packet_count();
        }
        self.writer.increment_packet_count();
    }

    /// Reserves a fragment's size and counts its packet.
    fn begin_packet(&mut self) {
        self.header = self.position;
        self.position += HEADER_SIZE;
        self.packets += 1;
        if self.is_inflated {
            self.is_inflated = false;
        } else {
            self.writer.increment_packet_count();
        }
    }

    fn finish_fragment(&mut self) {
        let len = self.position.saturating_sub(self.header + HEADER_SIZE);
        // A chunk is smaller than 64 KiB.
        self.writer.write_at(self.header, &varint::redundant4(len as u32));
    }

    /// Ends a fragment and its packet; `false` if the chunk is full.
    fn finish_packet(&mut self) -> bool {
        let len = self.position.saturating_sub(self.header + HEADER_SIZE);
        self.fill_len(self.header, len as u32);
        if self.room() == 0 {
            return false;
        }
        self.writer.increment_packet_count();
        self.is_inflated = true;
        true
    }

    /// Writes a size to its reserved bytes; `true` if it took one byte and everything behind it moved down by three.
    fn fill_len(&mut self, offset: usize, len: u32) -> bool {
        let begin = offset + HEADER_SIZE;
        let len_here = self.position.saturating_sub(begin);
        if len_here >= ONE_BYTE_LIMIT || len as usize != len_here {
            self.writer.write_at(offset, &varint::redundant4(len));
            return false;
        }
        let mut moved = [0; ONE_BYTE_LIMIT];
        let moved = &mut moved[..=len_here];
        // The size and the bytes behind it, as they will stand.
        self.writer.read_at(begin, &mut moved[1..]);
        moved[0] = len_here as u8;
        self.writer.write_at(offset, moved);
        self.position -= HEADER_SIZE - 1;
        true
    }

    /// Makes the data match the count: the empty packet that was counted ahead becomes real.
    fn settle(&mut self) {
        if self.is_inflated {
            self.is_inflated = false;
            self.writer.write_at(self.position, &[0]);
            self.position += 1;
        }
    }
}
