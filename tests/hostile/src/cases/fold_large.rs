//! A packet that is most of a ring that folds: were it put together when it is overwritten, and gone through, everybody would wait.

use std::io;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor};
use prost::encoding::encode_varint;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "fold_large",
    tells: "a packet of 200 MB of small fields is overwritten in a ring of 256 MiB that folds",
    needs_many: false,
    asks_for_kib: RING_KIB,
    is_slow: true,
    run,
};

const RING_KIB: u64 = 256 * 1024;
const FRAGMENT_BYTES: usize = 60_000;
const FRAGMENTS: u32 = 3500;
/// That many more are stored until the packet is in the way.
const OTHERS: u32 = 1400;
/// The session of the honest has the first buffer, so this is one of the next.
const BUFFERS: std::ops::Range<u32> = 2..4;
const FIELD: [u8; 2] = [0x08, 0x01];
/// Of a chunk's header (upstream: `shared_memory_abi.h`).
const FIRST_CONTINUES: u16 = 1;
const LAST_CONTINUES: u16 = 2;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("large", 4096 * 16)?;
    producer.listen()?;
    let name = Some("large".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {RING_KIB} fold_overwritten: true }} data_sources {{ config {{ name: 'large' }} }}"
    )))?;
    for number in 0..FRAGMENTS {
        let mut flags = 0;
        if number != 0 {
            flags |= FIRST_CONTINUES;
        }
        if number + 1 != FRAGMENTS {
            flags |= LAST_CONTINUES;
        }
        for buffer in BUFFERS {
            producer.commit(&chunk(1, number, flags, buffer))?;
        }
    }
    producer.sync()?;
    for number in 0..OTHERS {
        for buffer in BUFFERS {
            producer.commit(&chunk(2, number, 0, buffer))?;
        }
    }
    producer.sync()?;
    let overwritten = consumer.stats()?.buffer_stats[0].bytes_overwritten();
    Refused::unless(overwritten > FRAGMENT_BYTES as u64 * u64::from(FRAGMENTS), "it was not overwritten")
}

fn chunk(writer: u16, number: u32, flags: u16, buffer: u32) -> CommitDataRequest {
    let mut data = number.to_le_bytes().to_vec();
    data.extend(writer.to_le_bytes());
    data.extend((1 | flags << 10).to_le_bytes());
    encode_varint(FRAGMENT_BYTES as u64, &mut data);
    data.extend(FIELD.repeat(FRAGMENT_BYTES / FIELD.len()));
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
