//! Read-only clones, for sessions that are cloned while they go on.

use crate::loss::READ_GAP;
use crate::ring::Ring;
use crate::sequence::Sequence;
use crate::sequences::KEEP_EMPTY;
use crate::{CreateError, Released, Stats, TraceBuffer};

impl TraceBuffer {
    /// How much [`continue_clone`](Self::continue_clone) copies at a time, in bytes.
    pub const CLONE_PART_BYTES: usize = crate::copying::PART_BYTES;

    /// A copy that can be read, not written: chunks and patches given to it are ignored.
    ///
    /// What has been read here is read there too; the counters of reading start again.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn clone_read_only(&self) -> Result<Self, CreateError> {
        Ok(self.clone_around(self.ring.copy_used()?))
    }

    /// Begins a [copy](Self::clone_read_only) of what is here now, for [`continue_clone`](Self::continue_clone) to go on with. One that
    /// is under way is given up.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn begin_clone(&mut self) -> Result<(), CreateError> {
        let nothing = Ring::new(1)?;
        self.ring.begin_copy()?;
        self.clone = Some(Box::new(self.clone_around(nothing)));
        Ok(())
    }

    /// Copies [`CLONE_PART_BYTES`](Self::CLONE_PART_BYTES) more. Gives the clone when it is whole, and nothing if none was begun.
    ///
    /// Whatever happens to this buffer in between, the clone holds what was here when it began.
    pub fn continue_clone(&mut self) -> Option<Self> {
        let ring = self.ring.continue_copy()?;
        let mut clone = self.clone.take()?;
        clone.ring = ring;
        Some(*clone)
    }

    /// Gives up a clone that was begun; its memory is the caller's to drop.
    pub fn abandon_clone(&mut self) -> Option<Released> {
        self.clone = None;
        self.ring.abandon_copy()
    }

    /// Has a clone been begun that is not whole yet?
    pub fn is_being_cloned(&self) -> bool {
        self.clone.is_some()
    }

    /// Goes on in the place of `before`, as what is empty: with the next packet of each sequence that had something unread there, or a loss
    /// that nobody was told of yet, whoever reads here is told that something is missing. Else names from before would be taken for those
    /// of after.
    ///
    /// Of many sequences only as many are remembered as an empty buffer remembers.
    pub fn go_on_without(&mut self, before: &Self) {
        let slots = before.sequences.slots().into_iter();
        let is_missed = |sequence: &&Sequence| !sequence.is_empty() || sequence.loss() != 0;
        for sequence in slots.map(|slot| before.sequences.get(slot)).filter(is_missed).take(KEEP_EMPTY) {
            let slot = self.add_sequence(sequence.key, sequence.client);
            self.sequences.begin_after_loss(slot, READ_GAP | sequence.loss());
        }
    }

    fn clone_around(&self, ring: Ring) -> Self {
        Self {
            policy: self.policy,
            read_only: true,
            closed: self.closed,
            has_data: self.has_data,
            ring,
            write_at: self.write_at,
            parts: self.parts,
            crowded_index_bytes: self.crowded_index_bytes,
            sequences: self.sequences.clone(),
            stats: Stats {
                bytes_read: 0,
                chunks_read: 0,
                readaheads_failed: 0,
                readaheads_succeeded: 0,
                ..self.stats
            },
            histograms: self.histograms.clone(),
            read_pass: None,
            interrupted: None,
            looks_left: usize::MAX,
            evict_looks: 0,
            erased_chunks: 0,
            fold: self.fold.as_ref().map(|fold| Box::new(fold.for_clone())),
            packet_parts: Vec::new(),
            resident: 0,
            clone: None,
        }
    }
}
