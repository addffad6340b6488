//! Packets of many megabytes, read back by IPC.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest, commit_data_request::ChunksToMove,
};

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "large_packets",
    tells: "a packet of 50 MiB, compressed and read back",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const BUFFERS: std::ops::Range<u32> = 2..4;
const FRAGMENT_BYTES: usize = 60_000;
const FRAGMENTS: u32 = 50 * 1024 * 1024 / FRAGMENT_BYTES as u32;
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
    consumer
        .enable(&config(&format!("{buffers} {compression} data_sources {{ config {{ name: 'large' }} }}")))?;
    consumer.settle()?;
    for number in 0..FRAGMENTS {
        for buffer in BUFFERS {
            producer.commit(&fragment(number, buffer))?;
        }
    }
    consumer.settle()?;
    consumer.call("ReadBuffers", &ReadBuffersRequest::default())
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
    // Its length in three bytes of a varint, then fields that nobody knows: number 1999, varints below 128.
    let len = FRAGMENT_BYTES as u32;
    data.extend([(len & 0x7f) as u8 | 0x80, (len >> 7 & 0x7f) as u8 | 0x80, (len >> 14) as u8]);
    for index in 0..FRAGMENT_BYTES / 3 {
        data.extend([0xf8, 0x7c, (index.wrapping_mul(2_654_435_761) >> 20) as u8 & 0x7f]);
    }
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
