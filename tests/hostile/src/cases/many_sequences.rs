//! A producer with as many writers as there can be, each with one small chunk in each of as many buffers as there may be; and clones of that.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{CloneSessionRequest, CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest};

use crate::chunks::chunk;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "many_sequences",
    tells: "32,767 writers with a small chunk in each of 128 buffers, and clones of them",
    needs_many: true,
    // The buffers, and those of the clones.
    asks_for_kib: 4 * BUFFERS as u64 * BUFFER_KIB,
    is_slow: true,
    run: |target| run(target, false),
};

pub(crate) const READ: Case = Case {
    name: "many_sequences_read",
    tells: "the same, where all of a buffer is read before anything is in the next one",
    run: |target| run(target, true),
    ..CASE
};

const BUFFERS: u32 = 128;
const BUFFER_KIB: u64 = 1024;
const MAX_WRITER_ID: u16 = 32_767;
/// In one request.
const CHUNKS: usize = 2000;
/// With its length before it.
const SMALLEST_PACKET: [u8; 3] = [2, 0x08, 0x01];

fn run(target: &Target, reads: bool) -> io::Result<()> {
    let mut producer = target.producer("threads", 4096 * 16)?;
    producer.listen()?;
    let name = Some("threads".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    let buffers: String = (0..BUFFERS)
        .map(|index| {
            format!(
                "buffers {{ size_kb: {BUFFER_KIB} }} \
                 data_sources {{ config {{ name: 'threads' target_buffer: {index} }} }}"
            )
        })
        .collect();
    consumer.have_enabled(&config(&format!("{buffers} unique_session_name: 'threads'")))?;
    for buffer in 2..2 + BUFFERS {
        let writers: Vec<u16> = (1..=MAX_WRITER_ID).collect();
        for writers in writers.chunks(CHUNKS) {
            let chunks_to_move =
                writers.iter().map(|writer| chunk(buffer, *writer, 0, 1, 0, &SMALLEST_PACKET)).collect();
            producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
        }
        if reads {
            producer.sync()?;
            consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
            // With it what is empty is forgotten.
            producer.commit(&CommitDataRequest {
                chunks_to_move: vec![chunk(buffer, MAX_WRITER_ID, 0, 1, 0, &SMALLEST_PACKET)],
                ..Default::default()
            })?;
        }
    }
    producer.sync()?;
    let chunks: u64 = consumer.stats()?.buffer_stats.iter().map(|buffer| buffer.chunks_written()).sum();
    Refused::unless(chunks > 100_000, "nothing was written")?;
    let selector = Some(Selector::UniqueSessionName("threads".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    for _ in 0..3 {
        let mut another = target.consumer()?;
        another.call("CloneSession", &clone)?;
    }
    Ok(())
}
