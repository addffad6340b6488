//! Rings full of small chunks in which there is nothing to read, or nothing yet, read back again and again.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest, SyncRequest,
    commit_data_request::ChunksToMove,
};

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "unreadable_chunks",
    tells: "two million chunks behind one that waits for a patch, or with nothing in them, read back again and again",
    needs_many: false,
    asks_for_kib: 128 * 1024,
    is_slow: true,
    run,
};

const BUFFERS: std::ops::Range<u32> = 2..4;
const CHUNKS: u32 = 2_000_000;
const IN_A_REQUEST: usize = 3000;
/// Of a chunk's header (upstream: `shared_memory_abi.h`).
const LAST_CONTINUES: u16 = 2;
const NEEDS_PATCHING: u16 = 4;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("tiny", 4096 * 16)?;
    producer.listen()?;
    let name = Some("tiny".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    let buffers = "buffers { size_kb: 65536 } buffers { size_kb: 65536 }";
    consumer.have_enabled(&config(&format!("{buffers} data_sources {{ config {{ name: 'tiny' }} }}")))?;
    for buffer in BUFFERS {
        let flags = if buffer == BUFFERS.start { LAST_CONTINUES | NEEDS_PATCHING } else { 0 };
        let chunks =
            std::iter::once(chunk(buffer, 0, 1, flags)).chain((1..CHUNKS).map(|id| chunk(buffer, id, 2, 0)));
        let mut chunks = chunks.peekable();
        while chunks.peek().is_some() && target.goes_on() {
            let chunks_to_move = chunks.by_ref().take(IN_A_REQUEST).collect();
            producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
        }
    }
    producer.call("Sync", &SyncRequest::default())?;
    for _ in 0..5 {
        consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
    }
    Ok(())
}

/// With so many fragments of no bytes.
fn chunk(buffer: u32, id: u32, fragments: u16, flags: u16) -> ChunksToMove {
    let mut data = id.to_le_bytes().to_vec();
    data.extend([1, 0]);
    data.extend((fragments | flags << 10).to_le_bytes());
    data.resize(data.len() + usize::from(fragments), 0);
    ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() }
}
