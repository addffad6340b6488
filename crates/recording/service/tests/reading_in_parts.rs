//! A batch that is read ends after so many chunks, whatever is in them, and the next one goes on from there.

mod world;

use ferretto_protos::CommitDataRequest;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerConn, Token, limits};
use world::{World, config_bytes, packet, payloads};

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
