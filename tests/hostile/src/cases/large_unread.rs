//! Packets of 30 MiB that are on their way to somebody who does not take them: to a consumer, through a filter, and into a pipe.

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, EnableTracingRequest, ReadBuffersRequest, TraceConfig,
    commit_data_request::ChunksToMove, fields,
};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;
use prost::encoding::encode_varint;

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const READER: Case = Case {
    name: "large_unread",
    tells: "a consumer asks for a filtered packet of 30 MiB, and reads nothing",
    needs_many: false,
    asks_for_kib: READ_BUFFER_KIB,
    is_slow: true,
    run: |target| ask(target, 1),
};

pub(crate) const READERS: Case = Case {
    name: "large_unread_five_times",
    tells: "five of them",
    needs_many: true,
    asks_for_kib: 5 * READ_BUFFER_KIB,
    run: |target| ask(target, 5),
    ..READER
};

pub(crate) const PIPE: Case = Case {
    name: "large_unread_pipe",
    tells: "a session with three packets of 30 MiB writes into a pipe that nobody reads",
    needs_many: false,
    asks_for_kib: PIPE_BUFFER_KIB,
    run: |target| pipe(target, 1),
    ..READER
};

pub(crate) const PIPES: Case = Case {
    name: "large_unread_five_pipes",
    tells: "five of them",
    needs_many: true,
    asks_for_kib: 5 * PIPE_BUFFER_KIB,
    run: |target| pipe(target, 5),
    ..READER
};

const READ_BUFFER_KIB: u64 = 33 * 1024;
const PIPE_BUFFER_KIB: u64 = 96 * 1024;
const PIPE_PACKETS: u32 = 3;
/// How long the service has for what it does with them: the first write into a file, too.
const HELD: Duration = Duration::from_secs(3);

const FRAGMENT_BYTES: usize = 60_000;
/// Less than the service takes (`limits::MAX_PACKET_BYTES`).
const FRAGMENTS: u32 = 30 * 1024 * 1024 / FRAGMENT_BYTES as u32;
/// A field that nobody knows.
const FIELD: u32 = 1999;
/// Of a chunk's header (upstream: `shared_memory_abi.h`).
const FIRST_CONTINUES: u16 = 1;
const LAST_CONTINUES: u16 = 2;

fn ask(target: &Target, sessions: u32) -> io::Result<()> {
    let mut producer = producer(target)?;
    let text =
        format!("buffers {{ size_kb: {READ_BUFFER_KIB} }} data_sources {{ config {{ name: 'large' }} }}");
    let filter = TraceFilter { bytecode_v2: Some(program().into()), ..Default::default() };
    let mut bytes = config(&text);
    bytes.extend(TraceConfig { trace_filter: Some(filter), ..Default::default() }.encode_to_vec());
    let mut consumers = Vec::new();
    for _ in 0..sessions {
        let mut consumer = target.consumer()?;
        consumer.have_enabled(&bytes)?;
        consumers.push(consumer);
    }
    commit(&mut producer, 1, sessions)?;
    for consumer in &mut consumers {
        are_there(consumer, 1)?;
        consumer.send("ReadBuffers", &ReadBuffersRequest::default())?;
    }
    thread::sleep(HELD);
    Ok(())
}

fn pipe(target: &Target, sessions: u32) -> io::Result<()> {
    let mut producer = producer(target)?;
    let text = format!(
        "buffers {{ size_kb: {PIPE_BUFFER_KIB} fill_policy: DISCARD }} \
         data_sources {{ config {{ name: 'large' }} }} write_into_file: true file_write_period_ms: 2000"
    );
    let bytes = config(&text);
    let mut consumers: Vec<(Client, PipeReader)> = Vec::new();
    for _ in 0..sessions {
        let mut consumer = target.consumer()?;
        let (reader, writer) = io::pipe()?;
        let request = EnableTracingRequest { trace_config: Some(bytes.clone().into()), ..Default::default() };
        consumer.send_with_fd("EnableTracing", &request, writer.as_fd())?;
        consumer.settle()?;
        consumers.push((consumer, reader));
    }
    commit(&mut producer, PIPE_PACKETS, sessions)?;
    consumers.iter_mut().try_for_each(|(consumer, _)| are_there(consumer, PIPE_PACKETS))?;
    thread::sleep(HELD);
    Ok(())
}

fn producer(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer("large", 4096 * 16)?;
    producer.listen()?;
    let name = Some("large".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    producer.sync()?;
    Ok(producer)
}

/// Keeps the large field.
fn program() -> Vec<u8> {
    let mut builder = BytecodeBuilder::new();
    let (trace, packet) = (builder.message(), builder.message());
    builder.nested(trace, fields::trace::PACKET, packet);
    builder.keep(packet, FIELD);
    builder.build().map(|built| built.bytecode_v2).unwrap_or_default()
}

/// Packets for the buffers of so many sessions. Those of the honest have the first.
fn commit(producer: &mut Client, packets: u32, sessions: u32) -> io::Result<()> {
    for number in 0..packets * FRAGMENTS {
        for buffer in 2..2 + sessions {
            producer.commit(&fragment(number, buffer))?;
        }
    }
    producer.sync()
}

fn are_there(consumer: &mut Client, packets: u32) -> io::Result<()> {
    let stats = consumer.stats()?;
    let written: u64 = stats.buffer_stats.iter().map(|buffer| buffer.bytes_written()).sum();
    let expected = u64::from(packets * FRAGMENTS) * FRAGMENT_BYTES as u64;
    Refused::unless(written >= expected, "the packets are not in the buffer")
}

fn fragment(number: u32, buffer: u32) -> CommitDataRequest {
    let (id, number) = (number, number % FRAGMENTS);
    let mut flags = 0;
    if number != 0 {
        flags |= FIRST_CONTINUES;
    }
    if number + 1 != FRAGMENTS {
        flags |= LAST_CONTINUES;
    }
    let mut data = id.to_le_bytes().to_vec();
    data.extend([1, 0]);
    data.extend((1 | flags << 10).to_le_bytes());
    let mut fragment = Vec::new();
    if number == 0 {
        encode_varint(u64::from(FIELD) << 3 | 2, &mut fragment);
        encode_varint(u64::from(FRAGMENTS) * FRAGMENT_BYTES as u64, &mut fragment);
    }
    fragment.extend((0..FRAGMENT_BYTES).map(|index| (index.wrapping_mul(2_654_435_761) >> 20) as u8));
    encode_varint(fragment.len() as u64, &mut data);
    data.extend(fragment);
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
