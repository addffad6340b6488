//! A batch that is read ends after so many chunks, whatever is in them, and the next one goes on from there.

mod world;

use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::{self as protos, CommitDataRequest, TraceConfig};
use ferretto_service::{
    ConsumerCall, ConsumerConn, FileContent, FileHandle, ProducerCall, ProducerConn, Token, limits,
};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;
use world::{World, config_bytes, fragment, packet, payloads};

const FILE: FileHandle = FileHandle(7);
const CHUNKS: u32 = 2 * limits::READ_CHUNKS as u32 + 100;

fn tracing(config: &str, file: Option<FileHandle>) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let sources = (0..config.matches("size_kb").count())
        .map(|buffer| format!("data_sources {{ config {{ name: 'data' target_buffer: {buffer} }} }}"));
    let config = format!("{config} {}", sources.collect::<String>());
    world.enable_raw(consumer, config_bytes(&config), file);
    assert_eq!(world.ended(consumer), None);
    (world, producer, consumer)
}

/// Chunks by value, of two fragments without bytes each.
fn commit_empty(world: &mut World, producer: ProducerConn, buffer: u32) {
    let chunk = |id: u32| {
        let mut data = id.to_le_bytes().to_vec();
        data.extend([1, 0, 2, 0, 0, 0]);
        ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() }
    };
    for first in (0..CHUNKS).step_by(1000) {
        let chunks_to_move = (first..CHUNKS.min(first + 1000)).map(chunk).collect();
        world.commit(producer, CommitDataRequest { chunks_to_move, ..Default::default() });
    }
}

#[test]
fn chunks_with_nothing_to_read_are_passed_over_in_parts() {
    let (mut world, producer, consumer) = tracing("buffers { size_kb: 4096 } buffers { size_kb: 64 }", None);
    commit_empty(&mut world, producer, 1);
    world.emit(producer, 2, 0, 1, &[&packet("last")]);
    world.emit(producer, 2, 1, 2, &[&packet("other")]);
    world.ask(consumer, ConsumerCall::ReadBuffers(Default::default()));
    let replies = world.consumers[&consumer].replies["ReadBuffers"].len();
    assert!(replies >= 3, "{replies}");
    assert_eq!(payloads(&world.read_replies(consumer)), ["last", "other"]);
    // All of it was consumed.
    world.emit(producer, 2, 2, 1, &[&packet("new")]);
    assert_eq!(world.read_payloads(consumer), ["new"]);
}

#[test]
fn what_comes_while_a_trace_is_read_is_read_as_well() {
    let (mut world, producer, consumer) =
        tracing("buffers { size_kb: 4096 } buffers { size_kb: 4096 }", None);
    commit_empty(&mut world, producer, 2);
    world.emit(producer, 2, 0, 1, &[&packet("first")]);
    let (now, token) = (world.now, Token(9999));
    world.consumers.get_mut(&consumer).unwrap().open.insert(token, "ReadBuffers");
    world.service.handle_consumer_call(
        consumer,
        token,
        ConsumerCall::ReadBuffers(Default::default()),
        None,
        &now,
    );
    let part = world.service.poll_read(consumer, &now).into_iter().map(|reply| reply.body);
    world.consumers.get_mut(&consumer).unwrap().replies.entry("ReadBuffers").or_default().extend(part);
    assert!(world.service.is_reading(consumer), "the second buffer takes several parts");
    world.emit(producer, 2, 1, 1, &[&packet("second")]);
    assert_eq!(payloads(&world.read_replies(consumer)), ["first", "second"]);
}

#[test]
fn a_file_gets_what_comes_after_chunks_with_nothing_to_read() {
    let config = "buffers { size_kb: 4096 } write_into_file: true file_write_period_ms: 60000";
    let (mut world, producer, consumer) = tracing(config, Some(FILE));
    commit_empty(&mut world, producer, 1);
    world.emit(producer, 2, 0, 1, &[&packet("last")]);
    world.disable(consumer);
    world.acknowledge_flushes(producer);
    world.advance_ms(10_000);
    assert_eq!(payloads(&world.file_packets(FILE)), ["last"]);
}

/// What a stranger commits without end.
#[derive(Clone, Copy)]
struct Flood {
    /// Chunks for each part that is read, which are more than it takes.
    chunks: u32,
    packets: usize,
    packet: &'static [u8],
    ring_kb: u32,
    /// Rounds after which it is full.
    full_after: u32,
}

const FLOODS: [Flood; 3] = [
    // `TracePacket.for_testing.str`
    Flood { chunks: 60, packets: 250, packet: b"\xa2\x38\x0b\x0a\x09fromflood", ring_kb: 512, full_after: 3 },
    // No protobuf.
    Flood { chunks: 4, packets: 1000, packet: b"\xff", ring_kb: 64, full_after: 8 },
    // Chunks with nothing in them.
    Flood {
        chunks: limits::READ_CHUNKS as u32 + 1000,
        packets: 0,
        packet: b"",
        ring_kb: 1024,
        full_after: 4,
    },
];

/// Commits another round into two rings, and nothing else happens.
fn pour(world: &mut World, producer: ProducerConn, round: u32, flood: Flood) {
    let chunk = |id: u32, buffer: u32| {
        let mut data = (round * flood.chunks + id).to_le_bytes().to_vec();
        data.extend([1, 0]);
        data.extend((flood.packets as u16).to_le_bytes());
        (0..flood.packets).for_each(|_| data.extend(fragment(flood.packet)));
        ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() }
    };
    let ids = (0..flood.chunks).flat_map(|id| [(id, 1), (id, 2)]);
    let chunks_to_move = ids.map(|(id, buffer)| chunk(id, buffer)).collect();
    let request = CommitDataRequest { chunks_to_move, ..Default::default() };
    let (call, now) = (ProducerCall::CommitData(request), world.now);
    world.service.handle_producer_call(producer, Token(1 << 40), call, None, &now);
    while world.service.is_committing(producer) {
        world.service.continue_commit(producer, &now);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Read,
    Periodic,
    Final,
}

/// The next part of what is read or written. Says whether there was one.
fn next_part(world: &mut World, consumer: ConsumerConn, way: Way) -> bool {
    let now = world.now;
    if way == Way::Read {
        let part = world.service.poll_read(consumer, &now).into_iter().map(|reply| reply.body);
        world.consumers.get_mut(&consumer).unwrap().replies.entry("ReadBuffers").or_default().extend(part);
        return world.service.is_reading(consumer);
    }
    let Some(write) = world.service.poll_file_write(&now) else { return false };
    let FileContent::Bytes(bytes) = write.content else { panic!("nothing is copied") };
    world.files.entry(FILE).or_default().bytes.extend_from_slice(&bytes);
    world.service.handle_file_written(FILE, Ok(()), &now);
    true
}

/// A session of three rings, of which a stranger writes into the first and the second as fast as they are read.
fn beside(flood: Flood, way: Way, more: &str, filter: Option<TraceFilter>) {
    let ring = format!("buffers {{ size_kb: {} }} ", flood.ring_kb);
    let sources: String = (0..3)
        .map(|buffer| format!("data_sources {{ config {{ name: 'data' target_buffer: {buffer} }} }}"))
        .collect();
    let mode = if way == Way::Read { "" } else { "write_into_file: true file_write_period_ms: 100" };
    let mut config = config_bytes(&format!("{} {sources} {mode} {more}", ring.repeat(3))).to_vec();
    TraceConfig { trace_filter: filter, ..Default::default() }.encode(&mut config).unwrap();
    let mut world = World::default();
    world.files_wait = true;
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, config.into(), (way != Way::Read).then_some(FILE));
    assert_eq!(world.ended(consumer), None);
    world.emit(producer, 2, 0, 3, &[&packet("behind")]);
    (0..flood.full_after).for_each(|round| pour(&mut world, producer, round, flood));
    let (now, token) = (world.now, Token(9999));
    let read = ConsumerCall::ReadBuffers(Default::default());
    match way {
        Way::Read => {
            world.consumers.get_mut(&consumer).unwrap().open.insert(token, "ReadBuffers");
            world.service.handle_consumer_call(consumer, token, read, None, &now);
        }
        Way::Periodic => world.advance_ms(100),
        Way::Final => {
            world.disable(consumer);
            world.advance_ms(10_000);
        }
    }
    let mut round = flood.full_after;
    let is_behind = |world: &World| {
        let bytes = world.files.get(&FILE).map_or(&[][..], |file| &file.bytes);
        bytes.windows(6).any(|text| text == b"behind")
    };
    while next_part(&mut world, consumer, way) && (way != Way::Periodic || !is_behind(&world)) {
        assert!(round < 200, "{more}, ring of {} KiB", flood.ring_kb);
        pour(&mut world, producer, round, flood);
        round += 1;
    }
    let is_there = match way {
        Way::Read => world.consumers[&consumer].replies["ReadBuffers"]
            .iter()
            .flatten()
            .any(|body| body.windows(6).any(|text| text == b"behind")),
        Way::Periodic | Way::Final => is_behind(&world),
    };
    assert!(is_there || more.contains("DEFLATE"), "{more}, ring of {} KiB", flood.ring_kb);
    assert!(way != Way::Final || world.service.poll_file_write(&now).is_none());
}

/// Each ring is read as far as it was full when that began, and what came meanwhile up to a bound.
#[test]
fn a_read_ends_beside_who_writes_without_end() {
    let mut builder = BytecodeBuilder::new();
    let (trace, packet) = (builder.message(), builder.message());
    builder.nested(trace, protos::fields::trace::PACKET, packet);
    builder.keep(packet, protos::fields::trace_packet::FOR_TESTING);
    let program = Some(builder.build().unwrap().bytecode_v2.into());
    let filter = TraceFilter { bytecode_v2: program, ..Default::default() };
    for flood in FLOODS {
        for way in [Way::Read, Way::Periodic, Way::Final] {
            beside(flood, way, "", None);
            if flood.packets == 0 {
                continue;
            }
            beside(flood, way, "", Some(filter.clone()));
            if way != Way::Periodic {
                beside(flood, way, "compression_type: COMPRESSION_TYPE_DEFLATE", None);
            }
        }
    }
}
