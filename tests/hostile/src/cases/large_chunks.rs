//! A ring of large chunks in which there is nothing to read, which is read again and again.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, ReadBuffersRequest};
use prost::encoding::encode_varint;

use crate::chunks::{LAST_CONTINUES, chunk, commit_all};
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "large_chunks",
    tells: "half a gigabyte of chunks of 32 KB is read again and again, and all wait for the rest of a packet",
    needs_many: false,
    asks_for_kib: MIB as u64 * 1024,
    is_slow: true,
    run,
};

const MIB: usize = 512;
const CHUNK_BYTES: usize = 32_000;
const HEADER_BYTES: usize = 16;
const WRITERS: u16 = 64;
const BUFFER: u32 = 2;
const READS: usize = 50;
/// The last fragment waits for patches.
const NEEDS_PATCHING: u16 = 4;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("large", 4096 * 16)?;
    producer.listen()?;
    let name = Some("large".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {} }} data_sources {{ config {{ name: 'large' }} }}",
        MIB * 1024
    )))?;
    let mut payload = Vec::new();
    encode_varint(CHUNK_BYTES as u64, &mut payload);
    payload.resize(payload.len() + CHUNK_BYTES, 0);
    let rows = MIB * 1024 * 1024 / (payload.len() + 2 * HEADER_BYTES) / usize::from(WRITERS);
    let chunks = (0..rows as u32).flat_map(|row| {
        let payload = &payload;
        (1..=WRITERS)
            .map(move |writer| chunk(BUFFER, writer, row, 1, LAST_CONTINUES | NEEDS_PATCHING, payload))
    });
    commit_all(&mut producer, chunks, 3)?;
    (0..READS).try_for_each(|_| consumer.call("ReadBuffers", &ReadBuffersRequest::default()))
}
