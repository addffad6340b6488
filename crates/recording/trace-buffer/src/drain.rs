//! The walk through one sequence in the order of its chunks, consuming as it goes.
//!
//! A drain begins at the sequence's first chunk and ends with a given one, the target: the chunk that the
//! reader has come to in the ring, or the one that must make room. Only the packet that begins in the target
//! may need fragments from beyond it. Since consumed chunks leave the sequence, the chunk that a drain is at
//! is always the sequence's first.

use std::ops::ControlFlow;

use crate::TraceBuffer;
use crate::chunk_flags::NEEDS_PATCHING;
use crate::fragments::{Found, Fragment, Kind, fragment_at};
use crate::loss::{
    CHUNK_CORRUPTED, ORPHAN_CONTINUATION, OVERWRITE, READ_GAP, REASSEMBLY_BROKEN_CHAIN, REASSEMBLY_GAP,
};
use crate::ring::{HEADER_BYTES, Header, INCOMPLETE};
use crate::sequence::Consumed;

/// A packet that goes on through more chunks than this is lost (upstream has no limit). Ours: it would be 256 MiB in chunks of a page, more
/// than readers take; and whoever writes chunks of some bytes makes others wait while millions are looked at for one packet.
const MAX_CHUNKS_OF_PACKET: usize = 64 * 1024;

/// To make room for one chunk, so many others are looked at for the ends of packets that go, and gone through because they come before it in
/// their sequence (upstream has no limit). Packets whose ends lie beyond are lost, as those are whose ends have not come, and so are those of
/// further chunks that come before it. Ours: thousands of beginnings may lie in the place of one chunk, and a million chunks in which there
/// is nothing between each and its end.
pub(crate) const MAX_EVICT_LOOKS: usize = if cfg!(test) { 64 } else { 16 * 1024 };

/// A chunk is gone through for one look more for each of these. Ours: about as long as it takes to look at one that no cache has.
const BYTES_OF_LOOK: usize = 64;

/// What the chunks are drained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Packets are given out. A chunk that waits for patches or for its writer stalls the sequence.
    Read,
    /// The target must go, whatever it waits for.
    Evict,
}

/// One walk, and how far it has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    purpose: Purpose,
    pub(crate) slot: u32,
    /// The last chunk of the walk.
    target: usize,
    /// The chunk the walk is at, and its header as it is in the ring.
    pub(crate) at: usize,
    pub(crate) header: Header,
    /// Two chunks of this walk did not have consecutive ids. From then on no packet is put together any more
    /// in this walk, as upstream has it (trace_buffer_v2.cc, `sequence_gap_detected_`).
    gap_seen: bool,
    /// The walk is not over: it has looked at enough chunks for now.
    pub(crate) rests: bool,
}

/// A part of a packet: where its bytes are, and what to consume with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The chunk's offset in the ring.
    chunk: u32,
    /// The offset of the bytes in the ring.
    at: u32,
    /// How many bytes.
    size: u16,
    /// How many they are with the varint before them.
    pub(crate) size_with_varint: u16,
}

impl Part {
    #[inline]
    pub(crate) fn new(chunk: usize, header: &Header, fragment: &Fragment) -> Self {
        Self::of(chunk, header.unread_at(), fragment)
    }

    /// The fragment whose varint begins at `start` in the payload of the chunk at `chunk`.
    #[inline]
    pub(crate) fn of(chunk: usize, start: usize, fragment: &Fragment) -> Self {
        Self {
            chunk: chunk as u32, // the ring is smaller than 4 GiB
            at: (chunk + HEADER_BYTES + fragment.body_at) as u32,
            size: fragment.body_size() as u16, // a payload is at most 65,535 bytes
            size_with_varint: (fragment.end - start) as u16,
        }
    }

    /// Of memory that is no ring.
    pub(crate) fn apart(at: usize, size: usize) -> Self {
        let size = size as u16; // whoever makes it cuts the bytes
        Self { chunk: 0, at: at as u32, size, size_with_varint: size }
    }

    #[inline]
    pub(crate) fn bytes<'a>(&self, ring: &'a [u8]) -> &'a [u8] {
        &ring[self.at as usize..][..self.len()]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.size)
    }
}

/// What became of a packet that begins here and should go on in the next chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reassembled {
    Whole,
    /// Its next fragment has not come, or waits for patches.
    NotYet,
    /// It can never be whole, for this reason.
    Lost(u32),
}

impl TraceBuffer {
    /// Starts a walk that ends with the chunk at `target`, which belongs to the sequence in `slot`.
    pub(crate) fn start_drain(&mut self, slot: u32, target: usize, purpose: Purpose) -> Option<Drain> {
        let sequence = self.sequences.get_mut(slot);
        let at = sequence.first()?;
        let header = self.ring.header(at);
        if purpose == Purpose::Read {
            sequence.note_read(header.id);
        }
        if sequence.has_gap_before(header.id) {
            sequence.add_loss(READ_GAP);
        }
        Some(Drain { purpose, slot, target, at, header, gap_seen: false, rests: false })
    }

    /// Is there nothing more to read from the sequence in this read pass?
    #[inline]
    fn is_stalled(&self, slot: u32) -> bool {
        self.sequences.get(slot).is_stalled()
    }

    /// The usual case of [`drain_next`](Self::drain_next) when chunks are overwritten: a whole packet, and not the chunk's last. The header
    /// in the ring is left as it is.
    #[inline]
    pub(crate) fn next_whole(&mut self, drain: &mut Drain) -> bool {
        let payload = self.ring.payload(drain.at, &drain.header);
        let found = fragment_at(payload, drain.header.unread_at(), drain.header.flags);
        let Found::Fragment(fragment) = found else { return false };
        if fragment.kind != Kind::Whole || fragment.body_size() == 0 || fragment.end == payload.len() {
            return false;
        }
        let part = Part::new(drain.at, &drain.header, &fragment);
        drain.header.unread -= part.size_with_varint;
        self.packet_parts.clear();
        self.packet_parts.push(part);
        true
    }

    /// Consumes up to the next packet that is not empty; its parts are then in `packet_parts`. False when the
    /// walk is over, or rests.
    pub(crate) fn drain_next(&mut self, drain: &mut Drain) -> bool {
        drain.rests = false;
        if drain.purpose == Purpose::Read && self.is_stalled(drain.slot) {
            return false;
        }
        loop {
            let payload = self.ring.payload(drain.at, &drain.header);
            match fragment_at(payload, drain.header.unread_at(), drain.header.flags) {
                Found::Fragment(fragment) => {
                    if let ControlFlow::Break(is_packet) = self.take(drain, &fragment) {
                        return is_packet;
                    }
                }
                end @ (Found::Nothing | Found::GivenUp | Found::Corrupt) => {
                    if end == Found::Corrupt {
                        self.sequences.get_mut(drain.slot).add_loss(CHUNK_CORRUPTED);
                    }
                    if !self.leave_chunk(drain) || self.rests(drain) {
                        return false;
                    }
                }
            }
        }
    }

    /// A walk has come to another chunk. Is that enough, for now or for what is evicted?
    #[inline]
    fn rests(&mut self, drain: &mut Drain) -> bool {
        match drain.purpose {
            Purpose::Read => {
                drain.rests = self.looks_left == 0;
                self.looks_left = self.looks_left.saturating_sub(1);
            }
            Purpose::Evict => {
                drain.rests = self.evict_looks >= MAX_EVICT_LOOKS;
                self.evict_looks += 1 + drain.header.outer_size() / BYTES_OF_LOOK;
            }
        }
        drain.rests
    }

    /// What is left of a walk that makes room and [rests](Drain::rests) is lost: its chunks go as they are.
    #[cold]
    pub(crate) fn erase_rest(&mut self, drain: &Drain) {
        while let Some(at) = self.sequences.get(drain.slot).first() {
            let header = self.ring.header(at);
            if header.unread > 0 {
                self.count_consumed(drain.purpose, header.outer_size());
            }
            self.erase_first(drain.slot, at, &header);
            if at == drain.target {
                break;
            }
        }
    }

    /// Deals with the next fragment of the chunk the drain is at. Breaks with true for a packet, with false when
    /// the walk is over.
    #[inline]
    fn take(&mut self, drain: &mut Drain, fragment: &Fragment) -> ControlFlow<bool> {
        let loss = match fragment.kind {
            Kind::Whole => {
                let part = Part::new(drain.at, &drain.header, fragment);
                self.consume_at(drain, part.size_with_varint);
                if part.size == 0 {
                    return ControlFlow::Continue(()); // as in upstream, lest they bloat the trace
                }
                self.packet_parts.clear();
                self.packet_parts.push(part);
                return ControlFlow::Break(true);
            }
            Kind::Continue | Kind::End => {
                let part = Part::new(drain.at, &drain.header, fragment);
                self.consume_at(drain, part.size_with_varint);
                ORPHAN_CONTINUATION
            }
            Kind::Begin => match self.reassemble(drain, fragment) {
                Reassembled::Whole => return ControlFlow::Break(true),
                Reassembled::NotYet if drain.purpose == Purpose::Read => {
                    self.sequences.set_stalled(drain.slot);
                    return ControlFlow::Break(false);
                }
                Reassembled::NotYet => OVERWRITE,
                Reassembled::Lost(reason) => reason,
            },
        };
        self.sequences.get_mut(drain.slot).add_loss(loss);
        ControlFlow::Continue(())
    }

    /// Done with the fragments of the chunk: erases it and goes on to the next. False when the walk is over.
    fn leave_chunk(&mut self, drain: &mut Drain) -> bool {
        if drain.header.has(INCOMPLETE) && drain.purpose == Purpose::Read {
            self.sequences.set_stalled(drain.slot);
            return false;
        }
        self.erase_first(drain.slot, drain.at, &drain.header);
        if drain.at == drain.target {
            return false;
        }
        let Some(next) = self.sequences.get(drain.slot).first() else {
            return false;
        };
        let header = self.ring.header(next);
        if header.id != drain.header.id.wrapping_add(1) {
            drain.gap_seen = true;
            let sequence = self.sequences.get_mut(drain.slot);
            // Upstream says it only of gaps between two walks.
            sequence.add_loss(READ_GAP);
            if drain.purpose == Purpose::Read {
                sequence.note_read(header.id);
            }
        }
        (drain.at, drain.header) = (next, header);
        true
    }

    /// Puts together the packet that begins with `begin`, the last fragment of the chunk the drain is at.
    ///
    /// Each of the next chunks has one fragment of it, in the first place; chunks without fragments are passed
    /// over. The fragments are consumed if the packet is whole, or lost, or must go.
    fn reassemble(&mut self, drain: &mut Drain, begin: &Fragment) -> Reassembled {
        self.packet_parts.clear();
        self.packet_parts.push(Part::new(drain.at, &drain.header, begin));
        let outcome = self.look_ahead(drain.purpose, drain.slot, 0, &drain.header, drain.gap_seen);
        match outcome {
            Reassembled::Whole => self.stats.readaheads_succeeded += 1,
            Reassembled::NotYet | Reassembled::Lost(_) => self.stats.readaheads_failed += 1,
        }
        if outcome != Reassembled::NotYet || drain.purpose == Purpose::Evict {
            for index in 0..self.packet_parts.len() {
                let part = self.packet_parts[index];
                let at = part.chunk as usize;
                self.consume(drain.purpose, at, self.ring.header(at), part.size_with_varint);
            }
            drain.header = self.ring.header(drain.at);
        }
        self.packet_parts.retain(|part| part.size > 0);
        outcome
    }

    /// Collects the fragments that continue the one in `packet_parts`, which is in the sequence's chunk at `index`, with this header.
    pub(crate) fn look_ahead(
        &mut self,
        purpose: Purpose,
        slot: u32,
        index: usize,
        header: &Header,
        gap_seen: bool,
    ) -> Reassembled {
        if header.has(NEEDS_PATCHING) {
            return Reassembled::NotYet;
        }
        let sequence = self.sequences.get(slot);
        let mut id = header.id;
        for ahead in index + 1..sequence.len() {
            if ahead - index > MAX_CHUNKS_OF_PACKET {
                return Reassembled::Lost(REASSEMBLY_BROKEN_CHAIN);
            }
            match purpose {
                Purpose::Read => self.looks_left = self.looks_left.saturating_sub(1),
                Purpose::Evict if self.evict_looks >= MAX_EVICT_LOOKS => return Reassembled::NotYet,
                Purpose::Evict => self.evict_looks += 1,
            }
            let Some(next) = sequence.get(ahead) else { break };
            let header = self.ring.header(next);
            if header.has(NEEDS_PATCHING) {
                return Reassembled::NotYet;
            }
            if gap_seen || header.id != id.wrapping_add(1) {
                return Reassembled::Lost(REASSEMBLY_GAP);
            }
            id = header.id;
            let payload = self.ring.payload(next, &header);
            match fragment_at(payload, header.unread_at(), header.flags) {
                Found::Nothing | Found::GivenUp => {}
                Found::Corrupt => return Reassembled::Lost(CHUNK_CORRUPTED),
                Found::Fragment(fragment) => {
                    let part = Part::new(next, &header, &fragment);
                    match fragment.kind {
                        Kind::Continue => self.packet_parts.push(part),
                        Kind::End => {
                            self.packet_parts.push(part);
                            return Reassembled::Whole;
                        }
                        Kind::Whole | Kind::Begin => return Reassembled::Lost(REASSEMBLY_BROKEN_CHAIN),
                    }
                }
            }
        }
        Reassembled::NotYet
    }

    /// Consumes the next bytes of the chunk that the drain is at.
    #[inline]
    fn consume_at(&mut self, drain: &mut Drain, size: u16) {
        drain.header = self.consume(drain.purpose, drain.at, drain.header, size);
    }

    /// Consumes the next `size` bytes of the chunk at `at`, and counts the chunk when they were its last.
    #[inline]
    fn consume(&mut self, purpose: Purpose, at: usize, mut header: Header, size: u16) -> Header {
        header.unread = header.unread.saturating_sub(size);
        self.ring.set_header(at, header);
        if header.unread == 0 {
            self.count_consumed(purpose, header.outer_size());
        }
        header
    }

    #[inline]
    pub(crate) fn count_consumed(&mut self, purpose: Purpose, outer_size: usize) {
        match purpose {
            Purpose::Read => {
                self.stats.chunks_read += 1;
                self.stats.bytes_read += outer_size as u64;
            }
            Purpose::Evict => {
                self.stats.chunks_overwritten += 1;
                self.stats.bytes_overwritten += outer_size as u64;
            }
        }
    }

    /// Takes the first chunk out of the sequence, which is the one at `at`, and leaves padding in its place.
    #[inline]
    pub(crate) fn erase_first(&mut self, slot: u32, at: usize, header: &Header) {
        self.erased_chunks += 1;
        let consumed =
            Consumed { id: header.id, payload_size: header.payload_size, incomplete: header.has(INCOMPLETE) };
        self.sequences.pop_first_chunk(slot, consumed);
        self.ring.set_header(at, Header::padding(header.size));
    }
}
