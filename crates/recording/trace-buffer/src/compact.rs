//! Giving memory back after a burst.

use crate::memory::Memory;
use crate::{FillPolicy, TraceBuffer};

/// Memory is kept for what was in use and this part of it more, so that the next burst of the same size
/// finds it resident (upstream: trace_buffer_v2.cc, `kSpareCapacityDivisor`).
const SPARE_DIVISOR: usize = 4;

/// So many unread chunks, and so many bytes of them, are moved at most, of all buffers that are compacted at one time (upstream has no limit).
/// Ours: others wait for it, a millisecond or two; and little is left after a read pass unless somebody sees to it.
#[derive(Debug)]
pub struct CompactionBudget {
    chunks: usize,
    bytes: usize,
}

impl Default for CompactionBudget {
    fn default() -> Self {
        Self { chunks: 16 * 1024, bytes: 4 << 20 }
    }
}

/// Memory that a buffer has let go of. To give back much takes time, which may be another thread's.
#[derive(Debug)]
pub struct Released(#[expect(dead_code, reason = "it is there to be dropped")] pub(crate) Memory);

impl TraceBuffer {
    /// Moves the chunks that are still unread to the front of a ring and lets go of memory behind them.
    ///
    /// Does nothing for clones and for buffers that discard, nor when unread chunks lie on both sides of the
    /// write cursor or are more than the budget has. Meant to be called after a complete read pass; ends the pass.
    pub fn compact(&mut self, budget: &mut CompactionBudget) -> Option<Released> {
        self.end_pass();
        if self.policy != FillPolicy::Ring || self.read_only {
            return None;
        }
        let mut chunks: Vec<_> = self.sequences.chunks_mut().take(budget.chunks + 1).collect();
        let sizes = chunks.iter().map(|chunk| self.ring.header(**chunk as usize).outer_size());
        let (chunks_left, bytes_left) =
            (budget.chunks.checked_sub(chunks.len()), budget.bytes.checked_sub(sizes.sum()));
        budget.chunks = chunks_left.unwrap_or(0);
        let Some(bytes_left) = bytes_left.filter(|_| chunks_left.is_some()) else {
            self.stats.compactions_skipped += 1;
            return None;
        };
        budget.bytes = bytes_left;
        chunks.sort_unstable();

        let write_at = self.write_at;
        let on_both_sides = chunks.first().is_some_and(|first| (**first as usize) < write_at)
            && chunks.last().is_some_and(|last| **last as usize >= write_at);
        if on_both_sides {
            self.stats.compactions_skipped += 1;
            return None;
        }
        self.interrupted = None;

        let mut end = 0;
        for chunk in chunks {
            let outer_size = self.ring.header(*chunk as usize).outer_size();
            self.ring.move_chunk(*chunk as usize, end);
            *chunk = end as u32; // the ring is smaller than 4 GiB
            end += outer_size;
        }
        self.stats.compactions += 1;
        self.truncate_ring(end)
    }

    fn truncate_ring(&mut self, end: usize) -> Option<Released> {
        let used = self.ring.used();
        self.resident = self.resident.max(used);
        let keep = used + (used / SPARE_DIVISOR).min(self.ring.size() - used);
        let release = keep < self.resident;
        let released = self.ring.truncate(end, release);
        if release {
            self.resident = end;
        }
        self.write_at = end;
        released
    }
}
