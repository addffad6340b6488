//! Rings that fold, each small enough to be folded at once, and all of them emptied, or taken along, by one request to clone.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::{CloneSessionRequest, CommitDataRequest, DataSourceDescriptor, FreeBuffersRequest};
use prost::encoding::encode_varint;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "fold_clears",
    tells: "clones of a session with 16 rings of 16 MiB, full of small packets, that fold and are cleared before",
    needs_many: true,
    // Two rounds of the rings.
    asks_for_kib: 2 * RINGS * RING_KIB as u64,
    is_slow: true,
    run: |target| clone_twice(target, "clear_before_clone: true"),
};

pub(crate) const TRANSFERS: Case = Case {
    name: "fold_transfers",
    tells: "the same of rings that go to the clone",
    run: |target| clone_twice(target, "transfer_on_clone: true"),
    ..CASE
};

const RINGS: u64 = 16;
const RING_KIB: u32 = 16 * 1024;
const CHUNK_BYTES: u32 = 13_100;
const PACKETS_PER_CHUNK: u16 = 1000;

fn clone_twice(target: &Target, how: &str) -> io::Result<()> {
    let mut producer = target.producer("folded", 4096 * 16)?;
    producer.listen()?;
    let name = Some("folded".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let rings: String = (0..RINGS)
        .map(|index| {
            format!(
                "buffers {{ size_kb: {RING_KIB} fold_overwritten: true {how} }} \
                 data_sources {{ config {{ name: 'folded' target_buffer: {index} }} }}"
            )
        })
        .collect();
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!("{rings} unique_session_name: 'folded'")))?;
    let selector = Some(Selector::UniqueSessionName("folded".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    let mut cloner = target.consumer()?;
    let chunks = RING_KIB * 1024 / 16 * 15 / CHUNK_BYTES;
    for round in 0..2 {
        for number in 0..chunks {
            // The session of the honest has the first buffer.
            for ring in 2..2 + RINGS as u32 {
                producer.commit(&chunk(round * chunks + number, ring))?;
            }
        }
        producer.sync()?;
        let stats = consumer.stats()?;
        let written: u64 = stats.buffer_stats.iter().map(|ring| ring.bytes_written()).sum();
        Refused::unless(written > RINGS * u64::from(RING_KIB) * 1024 / 4, "the rings are not full")?;
        Refused::unless(cloner.ask("CloneSession", &clone)?.last.is_some(), "a clone was refused")?;
        cloner.call("FreeBuffers", &FreeBuffersRequest::default())?;
    }
    Ok(())
}

/// Small packets: a time, and a bit of a track event each.
fn chunk(id: u32, buffer: u32) -> CommitDataRequest {
    const TRACK_EVENT: [u8; 8] = [0x5a, 6, 0x48, 1, 0x50, 1, 0x58, 1];
    let mut data = id.to_le_bytes().to_vec();
    data.extend([1, 0]);
    data.extend(PACKETS_PER_CHUNK.to_le_bytes());
    for number in 0..u64::from(PACKETS_PER_CHUNK) {
        let mut packet = vec![0x40];
        encode_varint(number + 1_000_000, &mut packet);
        packet.extend(TRACK_EVENT);
        encode_varint(packet.len() as u64, &mut data);
        data.extend(packet);
    }
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
