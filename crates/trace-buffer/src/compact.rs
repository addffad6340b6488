//! Giving memory back after a burst.

use crate::{FillPolicy, TraceBuffer};

/// Memory is kept for what was in use and this part of it more, so that the next burst of the same size
/// finds it resident (upstream: trace_buffer_v2.cc, `kSpareCapacityDivisor`).
const SPARE_DIVISOR: usize = 4;

impl TraceBuffer {
    /// Moves the chunks that are still unread to the front of a ring and lets go of memory behind them.
    ///
    /// Does nothing for clones and for buffers that discard, nor when unread chunks lie on both sides of the
    /// write cursor. Meant to be called after a complete read pass; ends the pass.
    pub fn compact(&mut self) {
        self.end_pass();
        if self.policy != FillPolicy::Ring || self.read_only {
            return;
        }
        let mut chunks: Vec<_> = self.sequences.chunks_mut().collect();
        chunks.sort_unstable();

        let write_at = self.write_at;
        let on_both_sides = chunks.first().is_some_and(|first| (**first as usize) < write_at)
            && chunks.last().is_some_and(|last| **last as usize >= write_at);
        if on_both_sides {
            self.stats.compactions_skipped += 1;
            return;
        }

        let mut end = 0;
        for chunk in chunks {
            let outer_size = self.ring.header(*chunk as usize).outer_size();
            self.ring.move_chunk(*chunk as usize, end);
            *chunk = end as u32; // the ring is smaller than 4 GiB
            end += outer_size;
        }
        self.truncate_ring(end);
        self.stats.compactions += 1;
    }

    fn truncate_ring(&mut self, end: usize) {
        let used = self.ring.used();
        self.resident = self.resident.max(used);
        let keep = used + (used / SPARE_DIVISOR).min(self.ring.size() - used);
        let release = keep < self.resident;
        self.ring.truncate(end, release);
        if release {
            self.resident = end;
        }
        self.write_at = end;
    }
}
