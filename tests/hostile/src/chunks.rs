//! Chunks by value, as producers without shared memory commit them.

use std::io;

use ferretto_protos::CommitDataRequest;
use ferretto_protos::commit_data_request::ChunksToMove;

use crate::client::Client;

/// The first fragment goes on with the packet of the chunk before.
pub(crate) const FIRST_CONTINUES: u16 = 1;
/// The last fragment's packet goes on in the next chunk.
pub(crate) const LAST_CONTINUES: u16 = 2;

/// Where the flags begin, in the number that has the fragments' count, too.
const FLAGS_SHIFT: u32 = 10;

/// A chunk of so many fragments, for a buffer of the service's.
pub(crate) fn chunk(
    buffer: u32,
    writer: u16,
    id: u32,
    fragments: u16,
    flags: u16,
    payload: &[u8],
) -> ChunksToMove {
    let mut data = Vec::with_capacity(8 + payload.len());
    data.extend(id.to_le_bytes());
    data.extend(writer.to_le_bytes());
    data.extend((fragments | flags << FLAGS_SHIFT).to_le_bytes());
    data.extend(payload);
    ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() }
}

/// Commits chunks, so many in a request, and waits until the service has them.
pub(crate) fn commit_all(
    producer: &mut Client,
    mut chunks: impl Iterator<Item = ChunksToMove>,
    in_a_request: usize,
) -> io::Result<()> {
    loop {
        let chunks_to_move: Vec<_> = chunks.by_ref().take(in_a_request).collect();
        if chunks_to_move.is_empty() {
            return producer.sync();
        }
        producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
    }
}
