//! Filling in sizes that a writer did not know yet when its chunk was full.

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
    pub fn try_patch(
        &mut self,
        producer: ProducerId,
        writer: u16,
        chunk_id: u32,
        patches: &[Patch],
        more_pending: bool,
    ) -> bool {
        let _ = (producer, writer, chunk_id, patches, more_pending);
        todo!()
    }
}
