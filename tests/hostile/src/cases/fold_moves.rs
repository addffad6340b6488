//! Chunks that wait for the rest of a packet come again in a ring that folds, when they are overwritten: half the ring for one small chunk.

use std::io;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor};
use prost::encoding::encode_varint;

use crate::client::Client;
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
    tells: "260,000 writers with four tiny chunks each do so in a ring of 32 MiB",
    needs_many: true,
    asks_for_kib: 32 * 1024,
    run: |target| moves(target, 32_700, 8, 32_700, 4, 2),
    ..CASE
};

const BUFFER: u32 = 2;
const FIRST_CONTINUES: u16 = 1;
const LAST_CONTINUES: u16 = 2;

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
            let mut chunks = (1..=writers).map(|writer| chunk(writer, row, 1 | flags << 10, &payload));
            send(producer, &mut chunks, in_a_request)?;
        }
    }
    for id in 0..20 {
        send(&mut all[0], &mut std::iter::once(chunk(32_767, id, 1, &[2, 8, 1])), 1)?;
    }
    let stats = consumer.stats()?;
    let overwritten = stats.buffer_stats[0].chunks_overwritten();

    Refused::unless(overwritten > 0, "none was overwritten")
}

fn send(
    producer: &mut Client,
    chunks: &mut impl Iterator<Item = ChunksToMove>,
    count: usize,
) -> io::Result<()> {
    loop {
        let chunks_to_move: Vec<_> = chunks.by_ref().take(count).collect();
        if chunks_to_move.is_empty() {
            return producer.sync();
        }
        producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
    }
}

fn chunk(writer: u16, id: u32, packets: u16, payload: &[u8]) -> ChunksToMove {
    let mut data = Vec::with_capacity(8 + payload.len());
    data.extend(id.to_le_bytes());
    data.extend(writer.to_le_bytes());
    data.extend(packets.to_le_bytes());
    data.extend(payload);
    ChunksToMove { target_buffer: Some(BUFFER), data: Some(data.into()), ..Default::default() }
}
