//! Filling in sizes that a writer did not know yet when its chunk was full.

use crate::chunk_flags::NEEDS_PATCHING;
use crate::ring::PLAIN;
use crate::sequences::SequenceKey;
use crate::{ProducerId, TraceBuffer};

/// Four bytes to put at an offset of a chunk's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// Offset in bytes from the start of the chunk's payload.
    pub offset: u32,
    /// What to put there.
    pub data: [u8; 4],
}

impl TraceBuffer {
    /// Applies `patches` in order. Unless `more_pending`, the chunk can be read from then on.
    ///
    /// Returns false if the chunk is gone or a patch lies outside its payload; patches before that one stay.
    /// Ends the read pass.
    pub fn try_patch(
        &mut self,
        producer: ProducerId,
        writer: u16,
        chunk_id: u32,
        patches: &[Patch],
        more_pending: bool,
    ) -> bool {
        if self.read_only {
            return false;
        }
        self.end_pass();
        let patched = self.patch_chunk(SequenceKey::new(producer, writer), chunk_id, patches, more_pending);
        match patched {
            Some(()) => self.stats.patches_succeeded += patches.len() as u64,
            None => self.stats.patches_failed += 1, // one per call, as upstream counts
        }
        patched.is_some()
    }

    fn patch_chunk(
        &mut self,
        key: SequenceKey,
        chunk_id: u32,
        patches: &[Patch],
        more_pending: bool,
    ) -> Option<()> {
        let slot = self.sequences.find(key)?;
        let at = self.sequences.get(slot).find(chunk_id, &self.ring)?;
        let mut header = self.ring.header(at);
        header.flags &= !PLAIN;
        self.ring.set_header(at, header);

        for patch in patches {
            self.ring.patch(at, &header, patch.offset as usize, patch.data)?;
        }
        if !more_pending {
            header.flags &= !NEEDS_PATCHING;
            self.ring.set_header(at, header);
        }
        Some(())
    }
}
