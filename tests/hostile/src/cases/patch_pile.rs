//! Requests full of patches for chunks that are not there, each of which is sought among hundreds of its writer's.

use std::io;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "patch_pile",
    tells: "11,000 patches a request for chunks of 15,000 writers with 300 chunks each",
    needs_many: false,
    asks_for_kib: 512 * 1024,
    is_slow: true,
    run,
};

const WRITERS: u16 = 15_000;
const ROWS: u32 = 300;
const BUFFER: u32 = 2;
const PATCHES: usize = 11_000;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("patches", 4096 * 16)?;
    producer.listen()?;
    let name = Some("patches".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer
        .have_enabled(&config("buffers { size_kb: 524288 } data_sources { config { name: 'patches' } }"))?;
    let mut chunks = (1..=ROWS).flat_map(|row| (1..=WRITERS).map(move |writer| chunk(writer, 4 * row)));
    loop {
        let chunks_to_move: Vec<_> = chunks.by_ref().take(1200).collect();
        if chunks_to_move.is_empty() {
            break;
        }
        producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
    }
    producer.sync()?;
    let written = consumer.stats()?.buffer_stats[0].chunks_written();
    Refused::unless(written > 1_000_000, "they were not written")?;
    let patch = |number: usize| ChunkToPatch {
        target_buffer: Some(BUFFER),
        writer_id: Some((number * 1337 % usize::from(WRITERS)) as u32 + 1),
        chunk_id: Some(3),
        ..Default::default()
    };
    let chunks_to_patch: Vec<_> = (0..PATCHES).map(patch).collect();
    let request = CommitDataRequest { chunks_to_patch, ..Default::default() };
    for _ in 0..20 {
        producer.commit(&request)?;
        producer.sync()?;
    }
    let failed = consumer.stats()?.buffer_stats[0].patches_failed();
    Refused::unless(failed > 1000, "nothing was to be patched")?;
    drop::<Client>(producer);
    Ok(())
}

fn chunk(writer: u16, id: u32) -> ChunksToMove {
    let mut data = id.to_le_bytes().to_vec();
    data.extend(writer.to_le_bytes());
    data.extend([1, 0, 79]);
    data.resize(8 + 80, 8);
    ChunksToMove { target_buffer: Some(BUFFER), data: Some(data.into()), ..Default::default() }
}
