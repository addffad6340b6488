//! Requests full of patches for chunks that are not there, each of which is sought among hundreds of its writer's.

use std::io;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::ChunkToPatch;
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor};

use crate::chunks::{chunk, commit_all};
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
    let payload = [vec![79], vec![8; 79]].concat();
    let row = |row| (1..=WRITERS).map(move |writer| (writer, 4 * row));
    let chunks = (1..=ROWS).flat_map(row).map(|(writer, id)| chunk(BUFFER, writer, id, 1, 0, &payload));
    commit_all(&mut producer, chunks, 1200)?;
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
    Ok(())
}
