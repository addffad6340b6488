//! Packets of many megabytes, read back by IPC.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest, commit_data_request::ChunksToMove,
};

use prost::encoding::encode_varint;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "large_packets",
    tells: "a packet of 50 MiB, compressed and read back",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const BUFFERS: std::ops::Range<u32> = 2..5;
const FRAGMENT_BYTES: usize = 60_000;
/// Less than the service takes (`limits::MAX_PACKET_BYTES`).
const FRAGMENTS: u32 = 30 * 1024 * 1024 / FRAGMENT_BYTES as u32;
/// A field that nobody knows.
const FIELD: u64 = 1999;
/// Of a chunk's header (upstream: `shared_memory_abi.h`).
const FIRST_CONTINUES: u16 = 1;
const LAST_CONTINUES: u16 = 2;

fn run(target: &Target) -> io::Result<()> {
    for compression in
        ["", "compression_type: COMPRESSION_TYPE_DEFLATE", "compression { zstd { level: 22 } }"]
    {
        read_one(target, compression)?;
    }
    Ok(())
}

fn read_one(target: &Target, compression: &str) -> io::Result<()> {
    let mut producer = target.producer("large", 4096 * 16)?;
    producer.listen()?;
    let name = Some("large".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    let buffers = "buffers { size_kb: 65536 fill_policy: DISCARD }";
    let source = "data_sources { config { name: 'large' } }";
    consumer.have_enabled(&config(&format!("{buffers} {compression} {source}")))?;
    for number in 0..FRAGMENTS {
        for buffer in BUFFERS {
            producer.commit(&fragment(number, buffer))?;
        }
    }
    producer.sync()?;
    let answer = consumer.ask("ReadBuffers", &ReadBuffersRequest::default())?;
    Refused::unless(answer.bytes > FRAGMENT_BYTES * FRAGMENTS as usize, "the packet was not read back")
}

fn fragment(number: u32, buffer: u32) -> CommitDataRequest {
    let mut flags = 0;
    if number != 0 {
        flags |= FIRST_CONTINUES;
    }
    if number + 1 != FRAGMENTS {
        flags |= LAST_CONTINUES;
    }
    let mut data = number.to_le_bytes().to_vec();
    data.extend([1, 0]);
    data.extend((1 | flags << 10).to_le_bytes());
    // The packet is one field: of a million small ones, more than which are refused, none is large.
    let mut fragment = Vec::new();
    if number == 0 {
        encode_varint(FIELD << 3 | 2, &mut fragment);
        encode_varint(u64::from(FRAGMENTS) * FRAGMENT_BYTES as u64, &mut fragment);
    }
    let noise = |index: usize| (index.wrapping_mul(2_654_435_761) >> 20) as u8;
    fragment.extend((0..FRAGMENT_BYTES).map(noise));
    encode_varint(fragment.len() as u64, &mut data);
    data.extend(fragment);
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
