//! Consumers that wait for one clone after another, each with more requests behind that.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{
    CloneSessionRequest, CommitDataRequest, DataSourceDescriptor, QueryCapabilitiesRequest,
    commit_data_request::ChunksToMove,
};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "waiting_clones",
    tells: "2,900 consumers want a clone of a session with 60 MiB in its buffer, and then something else",
    needs_many: true,
    // The buffer, and the four clones that there may be.
    asks_for_kib: 5 * 65_536,
    is_slow: true,
    run,
};

const CONSUMERS: usize = 2900;
const BUFFERS: std::ops::Range<u32> = 2..4;
const CHUNK_BYTES: usize = 60_000;
const CHUNKS: u32 = 1000;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("copied", 4096 * 16)?;
    producer.listen()?;
    let name = Some("copied".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(
        "buffers { size_kb: 65536 } unique_session_name: 'copied' data_sources { config { name: 'copied' } }",
    ))?;
    for number in 0..CHUNKS {
        for buffer in BUFFERS {
            producer.commit(&commit(number, buffer))?;
        }
    }
    producer.sync()?;
    let written: u64 = consumer.stats()?.buffer_stats.iter().map(|buffer| buffer.bytes_written()).sum();
    Refused::unless(written > u64::from(CHUNKS) * CHUNK_BYTES as u64, "the buffer is not full")?;
    let mut crowd: Vec<Client> = (0..CONSUMERS).map(|_| target.consumer()).collect::<io::Result<_>>()?;
    let selector = Some(Selector::UniqueSessionName("copied".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    for consumer in &mut crowd {
        let mut bytes = consumer.bytes_of("CloneSession", &clone, true);
        bytes.extend(consumer.bytes_of("QueryCapabilities", &QueryCapabilitiesRequest::default(), false));
        consumer.write(&bytes)?;
    }
    // Each has its answer in the end.
    crowd.iter_mut().try_for_each(Client::wait)
}

/// A chunk with one packet, of a field that nobody knows.
fn commit(number: u32, buffer: u32) -> CommitDataRequest {
    const FIELD: u64 = 1999;
    let mut packet = Vec::new();
    prost::encoding::encode_varint(FIELD << 3 | 2, &mut packet);
    prost::encoding::encode_varint(CHUNK_BYTES as u64, &mut packet);
    packet.resize(packet.len() + CHUNK_BYTES, 7);
    let mut data = number.to_le_bytes().to_vec();
    data.extend([1, 0, 1, 0]);
    prost::encoding::encode_varint(packet.len() as u64, &mut data);
    data.extend(packet);
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
