//! What a commit does to the buffer.

use crate::{ClientIdentity, ProducerId, TraceBuffer};

/// One chunk as it was found in a producer's shared memory.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Whose shared memory it was in.
    pub producer: ProducerId,
    /// Who that is.
    pub client: ClientIdentity,
    /// The writer's number within the producer.
    pub writer: u16,
    /// The chunk's number within the writer; counts up and wraps round.
    pub chunk_id: u32,
    /// Fragments that the chunk's header announces.
    pub num_fragments: u16,
    /// The header's flags, see [`chunk_flags`]; other bits are ignored.
    pub flags: u8,
    /// False when the chunk was scraped while its writer may still be writing to it.
    pub complete: bool,
    /// What follows the chunk's header, perhaps with unused space at its end.
    pub payload: &'a [u8],
}

/// The flags in a chunk's header. Source: upstream's shared_memory_abi.h, `ChunkHeader::Flags`.
pub mod chunk_flags {
    /// The first fragment continues the packet of the chunk before.
    pub const FIRST_CONTINUES_FROM_PREVIOUS: u8 = 1;
    /// The last fragment's packet goes on in the next chunk.
    pub const LAST_CONTINUES_ON_NEXT: u8 = 2;
    /// Patches are on their way for the last fragment.
    pub const NEEDS_PATCHING: u8 = 4;
    /// All of them.
    pub const MASK: u8 = 7;
}

impl TraceBuffer {
    /// Stores a chunk, or what is new in it if the buffer has it already.
    pub fn copy_chunk(&mut self, chunk: &Chunk<'_>) {
        let _ = chunk;
        todo!()
    }
}
