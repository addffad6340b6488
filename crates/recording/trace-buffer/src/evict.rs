//! Makes room in the ring.
//!
//! What is overwritten is drained first, through the same walk that reading uses: chunks earlier in the
//! sequence than the one in the way go with it, and the sequence learns what it lost. Whoever wants the packets
//! for a last time gets them on this way: see [`OverwriteSink`].

use crate::drain::{Part, Purpose};
use crate::fragments::{Found, fragment_at};
use crate::loss::{OVERWRITE, READ_GAP};
use crate::ring::{HEADER_BYTES, Header, PLAIN};
use crate::{FillPolicy, Packet, ProducerId, TraceBuffer};

/// Gets the packets that a ring overwrites before anyone has read them. See
/// [`TraceBuffer::copy_chunk_with`].
pub trait OverwriteSink {
    /// Are the producer's packets wanted? If not, their chunks can go without being looked at.
    fn wants(&self, producer: ProducerId) -> bool;

    /// May any of these packets of the producer be wanted? They are whole ones, with their sizes between them. It saves the walk over
    /// them.
    fn wants_some_of(&self, _producer: ProducerId, _packets: &[u8]) -> bool {
        true
    }

    /// Takes a packet that is about to be overwritten.
    ///
    /// It is whole, and the next one of its sequence; but it has not been [validated](crate::validator). What
    /// its `loss` says is still to be said: the sequence's next packet that is read will say it, too.
    fn take(&mut self, packet: &Packet<'_>);

    /// Packets of a producer whose packets are wanted go without being given: there are too many at once.
    fn miss(&mut self, _producer: ProducerId) {}
}

/// Wants nothing.
impl OverwriteSink for () {
    #[inline]
    fn wants(&self, _producer: ProducerId) -> bool {
        false
    }

    fn take(&mut self, _packet: &Packet<'_>) {}
}

/// The buffer discards and is full.
pub(crate) struct Full;

impl TraceBuffer {
    /// Clears `outer_size` bytes from the write cursor on, which is put back to the start if they do not fit
    /// before the end. `outer_size` is at most the buffer's size.
    pub(crate) fn make_room(&mut self, outer_size: usize, sink: &mut impl OverwriteSink) -> Result<(), Full> {
        let tail = self.ring.size() - self.write_at;
        if outer_size > tail {
            if self.policy == FillPolicy::Discard {
                return Err(Full);
            }
            if tail > 0 {
                self.clear_next(tail, sink);
            }
            self.write_at = 0;
            if self.stats.write_wrap_count == 0 {
                self.ring.turn();
            }
            self.stats.write_wrap_count += 1;
        }
        self.clear_next(outer_size, sink);
        Ok(())
    }

    /// Evicts every chunk that begins in the next `size` bytes, and makes a gap of what is left of the last.
    #[inline]
    fn clear_next(&mut self, size: usize, sink: &mut impl OverwriteSink) {
        let clear_end = self.write_at + size;
        let mut at = self.write_at;
        while at < clear_end && at < self.ring.used() {
            let header = self.ring.header(at);
            match header.slot {
                None => self.stats.padding_bytes_cleared += header.outer_size() as u64,
                Some(slot) => self.evict(slot, at, &header, sink),
            }
            at += header.outer_size();
        }
        // Who folds has asked for it already, to look at it.
        if self.fold.is_none() {
            self.ring.prefetch_place(at);
        }
        if at > clear_end {
            let gap = at - clear_end; // a multiple of a header's size, and no larger than a chunk
            self.ring.set_header(clear_end, Header::padding((gap - HEADER_BYTES) as u16));
            self.stats.padding_bytes_written += gap as u64;
        }
    }

    /// Drains the sequence up to the chunk at `at`, which is left as padding.
    #[inline]
    fn evict(&mut self, slot: u32, at: usize, header: &Header, sink: &mut impl OverwriteSink) {
        if self.fold.is_some() {
            return self.evict_folding(slot, at, header, sink);
        }
        let producer = self.sequences.get(slot).key.producer();
        let wanted = sink.wants(producer);
        if self.is_plain_first(slot, at, header) {
            if wanted {
                self.give_plain(slot, at, header, sink);
            }
            self.erase_plain_first(slot, at, header);
            return;
        }
        let Some(mut drain) = self.start_drain(slot, at, Purpose::Evict) else { return };
        let mut lost_any = false;
        while self.drain_next(&mut drain) {
            lost_any = true;
            if wanted {
                sink.take(&self.packet(slot, &self.packet_parts));
            }
        }
        if drain.rests {
            self.erase_rest(&drain);
            if wanted {
                sink.miss(producer);
            }
        }
        if lost_any || drain.rests {
            self.sequences.get_mut(slot).add_loss(OVERWRITE);
        }
    }

    /// The usual case: the chunk is the first of its sequence, nobody has read any of it, and it holds whole
    /// packets only. Then its payload, long gone from the caches, need not be walked if nobody wants it.
    pub(crate) fn is_plain_first(&self, slot: u32, at: usize, header: &Header) -> bool {
        header.has(PLAIN)
            && header.unread == header.payload_size
            && self.sequences.get(slot).first() == Some(at)
    }

    /// Gives out the packets of a chunk that holds whole ones only, those of no bytes left out.
    fn give_plain(&self, slot: u32, at: usize, header: &Header, sink: &mut impl OverwriteSink) {
        self.ring.prefetch_chunk(at + header.outer_size());
        let payload = self.ring.payload(at, header);
        if !sink.wants_some_of(self.sequences.get(slot).key.producer(), payload) {
            return;
        }
        let mut fragment_start = 0;
        while let Found::Fragment(fragment) = fragment_at(payload, fragment_start, header.flags) {
            if fragment.body_size() > 0 {
                let part = Part::of(at, fragment_start, &fragment);
                sink.take(&self.packet(slot, std::slice::from_ref(&part)));
            }
            fragment_start = fragment.end;
        }
    }

    /// Does what draining such a chunk does.
    #[inline]
    fn erase_plain_first(&mut self, slot: u32, at: usize, header: &Header) {
        let sequence = self.sequences.get_mut(slot);
        if sequence.has_gap_before(header.id) {
            sequence.add_loss(READ_GAP);
        }
        sequence.add_loss(OVERWRITE);
        self.count_consumed(Purpose::Evict, header.outer_size());
        self.erase_first(slot, at, header);
    }

    /// A packet of the sequence that consists of these parts.
    fn packet<'a>(&'a self, slot: u32, parts: &'a [Part]) -> Packet<'a> {
        let sequence = self.sequences.get(slot);
        Packet::new(sequence, sequence.loss(), self.ring.bytes(), parts)
    }
}
