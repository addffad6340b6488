//! Chunks that wait for the rest of a packet come again in a ring that folds, when they are overwritten: half the ring for one small chunk.

use std::io;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;
use prost::encoding::encode_varint;

use crate::chunks::{FIRST_CONTINUES, LAST_CONTINUES, chunk, commit_all};
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "fold_moves",
    tells: "8,900 writers that are within a packet fill a ring of 512 MiB that folds, and small chunks come after them",
    needs_many: false,
    asks_for_kib: 512 * 1024,
    is_slow: true,
    run: |target| moves(target, 521_760, 1, 8900, 1, 60_000),
};

pub(crate) const MANY: Case = Case {
    name: "fold_moves_many",
    tells: "130,000 writers with four small chunks each do so in a ring of 32 MiB",
    needs_many: true,
    asks_for_kib: 32 * 1024,
    run: |target| moves(target, 32_700, 8, 16_300, 4, 60),
    ..CASE
};

const BUFFER: u32 = 2;

fn moves(
    target: &Target,
    kib: usize,
    producers: usize,
    writers: u16,
    rows: u32,
    bytes: usize,
) -> io::Result<()> {
    let mut all = Vec::new();
    for _ in 0..producers {
        let mut producer = target.producer("moves", 4096 * 16)?;
        producer.listen()?;
        let name = Some("moves".to_owned());
        producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
        producer.sync()?;
        all.push(producer);
    }
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {kib} fold_overwritten: true }} data_sources {{ config {{ name: 'moves' }} }}"
    )))?;
    let mut payload = Vec::new();
    encode_varint(bytes as u64, &mut payload);
    payload.extend([8, 1].repeat(bytes / 2));
    let in_a_request = (100_000 / (payload.len() + 24)).clamp(1, 3000);
    for row in 0..rows {
        let flags = LAST_CONTINUES | if row > 0 { FIRST_CONTINUES } else { 0 };
        for producer in &mut all {
            let chunks = (1..=writers).map(|writer| chunk(BUFFER, writer, row, 1, flags, &payload));
            commit_all(producer, chunks, in_a_request)?;
        }
    }
    for id in 0..20 {
        commit_all(&mut all[0], std::iter::once(chunk(BUFFER, 32_767, id, 1, 0, &[2, 8, 1])), 1)?;
    }
    let stats = consumer.stats()?;
    let overwritten = stats.buffer_stats[0].chunks_overwritten();
    Refused::unless(overwritten > 0, "none was overwritten")
}
