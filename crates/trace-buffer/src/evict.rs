//! Makes room in the ring.
//!
//! What is overwritten is drained first, through the same walk that reading uses: chunks earlier in the
//! sequence than the one in the way go with it, and the sequence learns what it lost.

use crate::drain::Purpose;
use crate::loss::{OVERWRITE, READ_GAP};
use crate::ring::{HEADER_BYTES, Header, PLAIN};
use crate::{FillPolicy, TraceBuffer};

/// The buffer discards and is full.
pub(crate) struct Full;

impl TraceBuffer {
    /// Clears `outer_size` bytes from the write cursor on, which is put back to the start if they do not fit
    /// before the end. `outer_size` is at most the buffer's size.
    pub(crate) fn make_room(&mut self, outer_size: usize) -> Result<(), Full> {
        let tail = self.ring.size() - self.write_at;
        if outer_size > tail {
            if self.policy == FillPolicy::Discard {
                return Err(Full);
            }
            if tail > 0 {
                self.clear_next(tail);
            }
            self.write_at = 0;
            self.stats.write_wrap_count += 1;
        }
        self.clear_next(outer_size);
        Ok(())
    }

    /// Evicts every chunk that begins in the next `size` bytes, and makes a gap of what is left of the last.
    fn clear_next(&mut self, size: usize) {
        let clear_end = self.write_at + size;
        let mut at = self.write_at;
        while at < clear_end && at < self.ring.used() {
            let header = self.ring.header(at);
            match header.slot {
                None => self.stats.padding_bytes_cleared += header.outer_size() as u64,
                Some(slot) => self.evict(slot, at, &header),
            }
            at += header.outer_size();
        }
        if at > clear_end {
            let gap = at - clear_end; // a multiple of a header's size, and no larger than a chunk
            self.ring.set_header(clear_end, Header::padding((gap - HEADER_BYTES) as u16));
            self.stats.padding_bytes_written += gap as u64;
        }
    }

    /// Drains the sequence up to the chunk at `at`, which is left as padding.
    fn evict(&mut self, slot: u32, at: usize, header: &Header) {
        if self.evict_plain(slot, at, header) {
            return;
        }
        let Some(mut drain) = self.start_drain(slot, at, Purpose::Evict) else { return };
        let mut lost_any = false;
        while self.drain_next(&mut drain) {
            lost_any = true;
        }
        if lost_any {
            self.sequences.get_mut(slot).add_loss(OVERWRITE);
        }
    }

    /// The usual case: the chunk is the first of its sequence, nobody has read any of it, and it holds whole
    /// packets only. Then its payload, long gone from the caches, need not be walked. Does what draining does.
    fn evict_plain(&mut self, slot: u32, at: usize, header: &Header) -> bool {
        let sequence = self.sequences.get_mut(slot);
        let Some(first) = sequence.first() else { return false };
        if first.offset() != at || !header.has(PLAIN) || header.unread != header.payload_size {
            return false;
        }
        if sequence.has_gap_before(first) {
            sequence.add_loss(READ_GAP);
        }
        sequence.add_loss(OVERWRITE);
        self.count_consumed(Purpose::Evict, header.outer_size());
        self.erase_first(slot);
        true
    }
}
