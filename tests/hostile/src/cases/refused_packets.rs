//! A buffer full of packets that are refused one after another when it is read.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest, commit_data_request::ChunksToMove,
};

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "refused_packets",
    tells: "64 MiB of packets that say whom to trust, read back again and again",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const BUFFERS: std::ops::Range<u32> = 2..4;
const CHUNK_BYTES: usize = 60_000;
const CHUNKS: u32 = 1100;
/// A `trusted_uid` of 0, behind its length.
const PACKET: [u8; 3] = [2, 0x18, 0];

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("refused", 4096 * 16)?;
    producer.listen()?;
    let name = Some("refused".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(
        "buffers { size_kb: 65536 fill_policy: DISCARD } data_sources { config { name: 'refused' } }",
    ))?;
    for number in 0..CHUNKS {
        for buffer in BUFFERS {
            producer.commit(&commit(number, buffer))?;
        }
    }
    producer.sync()?;
    consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
    let refused = consumer.stats()?.invalid_packets();
    Refused::unless(refused > u64::from(CHUNKS) * 900, "few packets were there to be refused")?;
    while target.goes_on() {
        consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
    }
    Ok(())
}

/// A chunk of a thousand such packets, which is all that its header has a number for.
fn commit(number: u32, buffer: u32) -> CommitDataRequest {
    const PACKETS: u16 = 1000;
    let mut data = number.to_le_bytes().to_vec();
    data.extend([1, 0]);
    data.extend(PACKETS.to_le_bytes());
    (0..PACKETS).for_each(|_| data.extend(PACKET));
    data.truncate(CHUNK_BYTES);
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
