//! The way of the data: commits, patches, flushes, scraping, read-back, files, clones.

mod world;

use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch};
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::tracing_service_event::EventType;
use ferretto_protos::{self as protos, CommitDataRequest, TracePacket, clone_session_request::Selector};
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerCall, ProducerConn, limits};
use ferretto_shm::ChunkFlags;
use prost::Message;
use world::{CREATED_FILE, Introduction, SERVICE_UID, World, config, named, packet, payloads};

/// A world with a running session: one producer, one data source, buffer 1.
fn tracing(more: &str) -> (World, ProducerConn, ConsumerConn) {
    tracing_with(&named("p"), more)
}

fn tracing_with(who: &Introduction, more: &str) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::default();
    let producer = world.introduce(who);
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(more));
    assert_eq!(world.ended(consumer), None);
    world.commands(producer);
    (world, producer, consumer)
}

fn scraping() -> Introduction {
    Introduction { scraping: true, ..named("p") }
}

fn register_writer(world: &mut World, producer: ProducerConn, writer: u32, buffer: u32) {
    let request =
        protos::RegisterTraceWriterRequest { trace_writer_id: Some(writer), target_buffer: Some(buffer) };
    world.call(producer, ProducerCall::RegisterTraceWriter(request));
}

fn kind(packet: &TracePacket) -> &'static str {
    match &packet.data {
        Some(Data::ClockSnapshot(_)) => "clock_snapshot",
        Some(Data::SynchronizationMarker(_)) => "marker",
        Some(Data::TraceConfig(_)) => "trace_config",
        Some(Data::TraceUuid(_)) => "uuid",
        Some(Data::TraceProvenance(_)) => "provenance",
        Some(Data::SystemInfo(_)) => "system_info",
        Some(Data::TraceStats(_)) => "stats",
        Some(Data::ForTesting(_)) => "data",
        Some(Data::ServiceEvent(event)) => match event.event_type {
            Some(EventType::TracingStarted(_)) => "tracing_started",
            Some(EventType::AllDataSourcesStarted(_)) => "all_data_sources_started",
            Some(EventType::FlushStarted(_)) => "flush_started",
            Some(EventType::AllDataSourcesFlushed(_)) => "all_data_sources_flushed",
            Some(EventType::ReadTracingBuffersCompleted(_)) => "read_completed",
            Some(EventType::TracingDisabled(_)) => "tracing_disabled",
            Some(EventType::CloneStarted(_)) => "clone_started",
            Some(EventType::BufferCloned(_)) => "buffer_cloned",
            _ => "other_event",
        },
        _ => "other",
    }
}

fn kinds(packets: &[TracePacket]) -> Vec<&'static str> {
    packets.iter().map(kind).collect()
}

#[test]
fn packets_come_back_in_upstreams_order_with_trusted_fields() {
    let (mut world, producer, consumer) = tracing("trace_uuid_msb: 3 trace_uuid_lsb: 4");
    let before = packet("x");
    world.emit(producer, 5, 0, 1, &[&before]);
    world.emit(producer, 6, 0, 1, &[&packet("y")]);
    world.disable(consumer);
    let packets = world.read(consumer);
    assert_eq!(
        kinds(&packets),
        [
            "clock_snapshot",
            "trace_config",
            "uuid",
            "clock_snapshot",
            "marker",
            "provenance",
            "system_info",
            "tracing_started",
            "all_data_sources_started",
            "tracing_disabled",
            "data",
            "data",
            "read_completed",
            "stats",
        ]
    );
    for packet in packets.iter().filter(|packet| kind(packet) != "data") {
        assert_eq!(sequence(packet), 1);
        assert_eq!(uid(packet), 7, "the service's own");
        let timed = packet.timestamp.is_some();
        assert_eq!(packet.timestamp_clock_id, timed.then_some(6));
    }
    let data: Vec<&TracePacket> = packets.iter().filter(|packet| kind(packet) == "data").collect();
    assert_eq!((sequence(data[0]), sequence(data[1])), (2, 3));
    assert_eq!((uid(data[0]), data[0].trusted_pid()), (1000, producer.0 as i32 + 5000));
    assert_eq!(packets[2].data, Some(Data::TraceUuid(protos::TraceUuid { msb: Some(3), lsb: Some(4) })));
    let sequences = [(2, 1), (3, 1)].map(|(id, producer_id)| protos::trace_provenance::Sequence {
        id: Some(id),
        producer_id: Some(producer_id),
    });
    let buffers = vec![protos::trace_provenance::Buffer { sequences: sequences.to_vec() }];
    assert_eq!(packets[5].data, Some(Data::TraceProvenance(protos::TraceProvenance { buffers })));
    // Once is enough: the next read has only what is new.
    assert_eq!(kinds(&world.read(consumer)), ["read_completed"]);
}

fn sequence(packet: &TracePacket) -> u32 {
    match packet.optional_trusted_packet_sequence_id {
        Some(protos::trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(id)) => id,
        None => 0,
    }
}

fn uid(packet: &TracePacket) -> i32 {
    match packet.optional_trusted_uid {
        Some(protos::trace_packet::OptionalTrustedUid::TrustedUid(uid)) => uid,
        None => -1,
    }
}

#[test]
fn builtin_packets_can_be_switched_off() {
    let (mut world, _, consumer) = tracing(
        "builtin_data_sources { disable_clock_snapshotting: true disable_trace_config: true disable_system_info: true \
         disable_service_events: true }",
    );
    assert_eq!(kinds(&world.read(consumer)), ["uuid", "marker", "provenance", "stats"]);
}

#[test]
fn the_marker_stands_last_in_its_packet() {
    let (mut world, _, consumer) = tracing("");
    world.ask(consumer, ConsumerCall::ReadBuffers(Default::default()));
    let bodies = world.consumers.get_mut(&consumer).unwrap().replies.remove("ReadBuffers").unwrap();
    let slices = bodies
        .into_iter()
        .flat_map(|body| protos::ReadBuffersResponse::decode(body.unwrap()).unwrap().slices);
    let marker =
        [0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79];
    assert_eq!(slices.filter(|slice| slice.data().ends_with(&marker)).count(), 1);
}

#[test]
fn spoofed_and_malformed_packets_are_dropped_and_counted() {
    let (mut world, producer, consumer) = tracing("");
    let spoofed = |field: u32| {
        let mut bytes = packet("spoof");
        prost::encoding::uint64::encode(field, &1, &mut bytes);
        bytes
    };
    let reserved = [3, 10, 79, 98];
    for (index, field) in (0u32..).zip(reserved) {
        world.emit(producer, 1, index, 1, &[&spoofed(field)]);
    }
    world.emit(producer, 1, 4, 1, &[&[0x0b], &[0x0a, 0x7f], &packet("good")]);
    assert_eq!(world.read_payloads(consumer), ["good"]);
    assert_eq!(world.stats(consumer).invalid_packets(), reserved.len() as u64 + 2);
}

#[test]
fn packets_larger_than_a_frame_come_in_slices() {
    let (mut world, producer, consumer) = tracing("");
    world.free(consumer);
    world.enable(consumer, "buffers { size_kb: 4096 } data_sources { config { name: \"data\" } }");
    let (_, config) = world::only_setup(&world.commands(producer));
    let buffer = config.target_buffer() as u16;
    let big = packet(&"x".repeat(300_000));
    let chunk_bytes = 4000;
    let parts: Vec<&[u8]> = big.chunks(chunk_bytes).collect();
    let last = parts.len() - 1;
    for (index, part) in parts.iter().enumerate() {
        let mut chunk = world.write(producer, 1, index as u32, &[part]);
        if index > 0 {
            chunk.set_flags(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
        }
        if index < last {
            chunk.set_flags(ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
        }
        let at = chunk.complete().unwrap();
        world.commit_chunk(producer, World::move_request(at, buffer));
    }
    let read = world.read_payloads(consumer);
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].len(), 300_000);
}

#[test]
fn losses_are_marked() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, "buffers { size_kb: 4 } data_sources { config { name: \"data\" } }");
    let packets: Vec<Vec<u8>> =
        (0..20).map(|index| packet(&format!("{index}{}", "x".repeat(1000)))).collect();
    for (index, packet) in (0u32..).zip(&packets) {
        world.emit(producer, 1, index, 1, &[packet]);
    }
    let data: Vec<TracePacket> =
        world.read(consumer).into_iter().filter(|packet| kind(packet) == "data").collect();
    assert!(data.len() < packets.len());
    assert_eq!(data[0].previous_packet_dropped() & 65, 65, "present, overwritten");
    assert_eq!(data[1].previous_packet_dropped(), 0);
}

#[test]
fn commits_to_foreign_buffers_are_discarded_and_counted() {
    let (mut world, producer, consumer) = tracing("");
    let stranger = world.producer("stranger");
    world.register(stranger, "unasked");
    let other = world.consumer(1000);
    world.enable(other, "buffers { size_kb: 4 } data_sources { config { name: \"unasked\" } }");
    for buffer in [1, 0, 3, 0xffff] {
        let at = world.write(stranger, 1, buffer.into(), &[&packet("forged")]).complete().unwrap();
        world.commit_chunk(stranger, World::move_request(at, buffer));
    }
    world.emit(stranger, 1, 7, 2, &[&packet("own")]);
    assert_eq!(world.stats(consumer).chunks_discarded(), 4);
    assert_eq!(world.read_payloads(consumer), [] as [&str; 0]);
    assert_eq!(world.read_payloads(other), ["own"]);
    // A writer that has announced its buffer is held to it.
    register_writer(&mut world, producer, 9, 5);
    world.emit(producer, 9, 0, 1, &[&packet("not announced")]);
    assert_eq!(world.stats(consumer).chunks_discarded(), 5);
}

#[test]
fn buffers_of_a_freed_session_take_nothing() {
    let (mut world, producer, consumer) = tracing("");
    world.free(consumer);
    world.emit(producer, 1, 0, 1, &[&packet("late")]);
    world.enable(consumer, &config(""));
    let (_, config) = world::only_setup(&world.commands(producer)[1..]);
    assert_eq!(config.target_buffer(), 2, "ids are not reused at once");
    assert_eq!(world.stats(consumer).chunks_discarded(), 1);
}

#[test]
fn chunks_by_value_are_taken_within_bounds() {
    let (mut world, producer, consumer) = tracing_with(&Introduction { emulated: true, ..named("p") }, "");
    assert!(world.producers[&producer].response.as_ref().unwrap().use_shmem_emulation());
    let chunk = |payload: &[u8], packets: u16| {
        let mut data = vec![0, 0, 0, 0, 1, 0];
        data.extend_from_slice(&packets.to_le_bytes());
        data.extend_from_slice(payload);
        ChunksToMove { target_buffer: Some(1), data: Some(data.into()), ..Default::default() }
    };
    world.commit_chunk(producer, chunk(&world::fragment(&packet("by value")), 1));
    for len in [0, 1, 7, 65_529, 65_535, 65_536, 100_000] {
        let data = Some(vec![0; len].into());
        world.commit_chunk(producer, ChunksToMove { target_buffer: Some(1), data, ..Default::default() });
    }
    assert_eq!(world.read_payloads(consumer), ["by value"]);
    assert!(world.stats(consumer).chunks_discarded() >= 7);
}

#[test]
fn chunks_that_are_not_there_are_discarded() {
    let (mut world, producer, consumer) = tracing("");
    world.view(producer);
    let at = world.write(producer, 1, 0, &[&packet("once")]).complete().unwrap();
    let held = world.write(producer, 2, 0, &[&packet("held")]);
    let wrong = [
        (u32::MAX, 0),
        (64, 0),
        (at.page, 1),
        (at.page, 14),
        (at.page, u32::MAX),
        (held.index().page, held.index().chunk),
        (63, 0),
    ];
    for (page, chunk) in wrong {
        world.commit_chunk(
            producer,
            ChunksToMove {
                page: Some(page),
                chunk: Some(chunk),
                target_buffer: Some(1),
                ..Default::default()
            },
        );
    }
    for _ in 0..2 {
        world.commit_chunk(producer, World::move_request(at, 1));
    }
    assert_eq!(world.read_payloads(consumer), ["once"]);
    assert_eq!(world.stats(consumer).chunks_discarded(), wrong.len() as u64 + 1);
}

#[test]
fn commits_before_there_is_memory_are_discarded() {
    let mut world = World::default();
    let producer = world.producer("p");
    let chunk = ChunksToMove { page: Some(0), chunk: Some(0), target_buffer: Some(1), ..Default::default() };
    world.commit_chunk(producer, chunk);
    world.acknowledge_flush(producer, u64::MAX);
}

fn patch(offset: u32, data: &[u8]) -> chunk_to_patch::Patch {
    chunk_to_patch::Patch { offset: Some(offset), data: Some(data.to_vec().into()) }
}

fn patches(buffer: u32, writer: u32, patches: Vec<chunk_to_patch::Patch>, more: bool) -> CommitDataRequest {
    let chunk = ChunkToPatch {
        target_buffer: Some(buffer),
        writer_id: Some(writer),
        chunk_id: Some(0),
        patches,
        has_more_patches: Some(more),
    };
    CommitDataRequest { chunks_to_patch: vec![chunk], ..Default::default() }
}

#[test]
fn a_chunk_that_needs_patches_is_read_when_it_has_them() {
    // Compaction moves what waits to where that lay which was read.
    ["", "experimental_trace_buffer_v2_compaction: true"].into_iter().for_each(check_patched);
}

fn check_patched(more: &str) {
    let (mut world, producer, consumer) = tracing(more);
    world.emit(producer, 2, 0, 1, &[&packet("before")]);
    let whole = packet("0123456789");
    let mut chunk = world.write(producer, 1, 0, &[&whole[..8]]);
    chunk.set_flags(ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK | ChunkFlags::NEEDS_PATCHING);
    chunk.write_at(5, &[0; 4]);
    let at = chunk.complete().unwrap();
    world.commit_chunk(producer, World::move_request(at, 1));
    let mut chunk = world.write(producer, 1, 1, &[&whole[8..]]);
    chunk.set_flags(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
    let at = chunk.complete().unwrap();
    world.commit_chunk(producer, World::move_request(at, 1));
    assert_eq!(world.read_payloads(consumer), ["before"]);
    // The first fragment has a size of one byte before it.
    world.commit(producer, patches(1, 1, vec![patch(5, &whole[4..8])], false));
    assert_eq!(world.read_payloads(consumer), ["0123456789"]);
    let stats = world.stats(consumer).buffer_stats[0];
    assert_eq!(stats.patches_succeeded(), 1);
    assert_eq!(stats.compactions(), if more.is_empty() { 0 } else { 2 });
}

#[test]
fn hostile_patches_are_discarded_and_counted() {
    let cases = [
        (patches(1, 1, vec![patch(0, b"abc")], false), 1, 0),
        (patches(1, 1, vec![patch(0, b"abcde")], false), 1, 0),
        (patches(1, 1, vec![patch(u32::MAX, b"abcd")], false), 0, 1),
        (patches(1, 1, vec![patch(65_533, b"abcd")], false), 0, 1),
        (patches(2, 1, vec![patch(0, b"abcd")], false), 1, 0),
        (patches(0x1_0001, 1, vec![patch(0, b"abcd")], false), 1, 0),
        (patches(1, 0, vec![patch(0, b"abcd")], false), 1, 0),
        (patches(1, 32_768, vec![patch(0, b"abcd")], false), 1, 0),
        (patches(1, 65_537, vec![patch(0, b"abcd")], false), 1, 0),
        (patches(1, 1, vec![patch(0, b"abcd"); 1025], false), 1025, 0),
    ];
    for (request, discarded, failed) in cases {
        let (mut world, producer, consumer) = tracing("");
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        world.commit(producer, request.clone());
        let stats = world.stats(consumer);
        assert_eq!(stats.patches_discarded(), discarded, "{request:?}");
        assert_eq!(stats.buffer_stats[0].patches_failed(), failed, "{request:?}");
    }
}

#[test]
fn flush_is_answered_when_all_producers_have() {
    let (mut world, p, consumer) = tracing("");
    let q = world.producer("q");
    world.register(q, "data");
    world.commands(q);
    world.flush(consumer, 0);
    assert_eq!(world.acknowledge_flushes(p), 1);
    assert_eq!(world.reply(consumer, "Flush"), None);
    assert_eq!(world.acknowledge_flushes(q), 1);
    assert!(world.reply(consumer, "Flush").unwrap().is_some());
    let stats = world.stats(consumer);
    assert_eq!((stats.flushes_requested(), stats.flushes_succeeded(), stats.flushes_failed()), (1, 1, 0));
}

#[test]
fn flushes_are_batched_by_the_highest_acknowledged() {
    let (mut world, producer, consumer) = tracing("");
    for _ in 0..5 {
        world.flush(consumer, 0);
    }
    let commands = world.commands(producer);
    let Some(Cmd::Flush(last)) = commands.last() else { panic!("{commands:?}") };
    world.acknowledge_flush(producer, last.request_id());
    assert_eq!(world.consumers[&consumer].replies["Flush"].len(), 5);
    assert_eq!(world.stats(consumer).flushes_succeeded(), 5);
}

#[test]
fn flush_fails_in_time() {
    let (mut world, _, consumer) = tracing("flush_timeout_ms: 300");
    for (timeout_ms, expected_ms) in [(0, 300), (1000, 1000)] {
        world.flush(consumer, timeout_ms);
        world.advance_ms(expected_ms - 1);
        assert_eq!(world.reply(consumer, "Flush"), None);
        world.advance_ms(1);
        assert_eq!(world.reply(consumer, "Flush"), Some(None));
    }
    assert_eq!(world.stats(consumer).flushes_failed(), 2);
}

#[test]
fn a_dead_producer_does_not_hold_up_a_flush() {
    let (mut world, producer, consumer) = tracing("");
    world.flush(consumer, 0);
    world.disconnect(producer);
    assert!(world.reply(consumer, "Flush").unwrap().is_some());
}

#[test]
fn pending_flushes_are_bounded() {
    let (mut world, _, consumer) = tracing("");
    for _ in 0..limits::MAX_PENDING_FLUSHES {
        world.flush(consumer, 0);
    }
    assert_eq!(world.reply(consumer, "Flush"), None);
    world.flush(consumer, 0);
    assert_eq!(world.reply(consumer, "Flush"), Some(None));
}

#[test]
fn no_flush_data_sources_are_left_alone() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(
        producer,
        protos::DataSourceDescriptor {
            name: Some("data".to_owned()),
            no_flush: Some(true),
            ..Default::default()
        },
    );
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    world.commands(producer);
    world.flush(consumer, 0);
    assert!(world.reply(consumer, "Flush").unwrap().is_some());
    assert_eq!(world.command_names(producer), [""; 0]);
}

#[test]
fn periodic_flushes_come_with_their_period() {
    let (mut world, producer, _) = tracing("flush_period_ms: 1000");
    let mut flushes = 0;
    for _ in 0..50 {
        world.advance_ms(100);
        flushes += world.acknowledge_flushes(producer);
    }
    assert_eq!(flushes, 5);
}

#[test]
fn flushes_scrape_chunks_that_are_being_written() {
    let (mut world, producer, consumer) = tracing_with(&scraping(), "");
    register_writer(&mut world, producer, 1, 1);
    let chunk = world.write(producer, 1, 0, &[&packet("a"), &packet("b"), &packet("unfinished")]);
    let unknown = world.write(producer, 2, 0, &[&packet("unregistered"), &packet("x")]);
    world.flush(consumer, 0);
    world.acknowledge_flushes(producer);
    assert_eq!(world.read_payloads(consumer), ["a", "b"]);
    // The commit of the same chunk brings the rest, and nothing twice.
    let at = chunk.complete().unwrap();
    world.commit_chunk(producer, World::move_request(at, 1));
    assert_eq!(world.read_payloads(consumer), ["unfinished"]);
    drop(unknown);
}

#[test]
fn scraping_happens_at_the_end_and_when_a_producer_dies_and_only_if_wanted() {
    for (who, disconnects, expected) in
        [(scraping(), true, vec!["a"]), (scraping(), false, vec!["a"]), (named("p"), true, vec![])]
    {
        let (mut world, producer, consumer) = tracing_with(&who, "");
        register_writer(&mut world, producer, 1, 1);
        let chunk = world.write(producer, 1, 0, &[&packet("a"), &packet("b")]);
        if disconnects {
            world.disconnect(producer)
        } else {
            world.disable(consumer)
        }
        assert_eq!(world.read_payloads(consumer), expected);
        drop(chunk);
    }
}

#[test]
fn a_file_gets_everything_and_ends_with_stats() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let file = FileHandle(1);
    world.enable_into(
        consumer,
        &config("write_into_file: true file_write_period_ms: 100 duration_ms: 1000"),
        file,
    );
    let mut expected = Vec::new();
    for index in 0..10u32 {
        let text = format!("{index}");
        world.emit(producer, 1, index, 1, &[&packet(&text)]);
        expected.push(text);
        world.advance_ms(100);
        world.acknowledge_flushes(producer);
    }
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert!(world.files[&file].closed);
    let packets = world.file_packets(file);
    assert_eq!(payloads(&packets), expected);
    assert_eq!(kind(packets.last().unwrap()), "stats");
    assert!(world.read(consumer).is_empty(), "the file has it all");
}

#[test]
fn a_ring_is_written_into_the_file_before_it_is_full() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let file = FileHandle(1);
    world.enable_into(consumer, &config("write_into_file: true file_write_period_ms: 4000"), file);
    // The buffer holds 128 KB.
    let texts: Vec<String> = (0..200).map(|index| format!("{index} {}", "x".repeat(3000))).collect();
    for (index, text) in (0..).zip(&texts) {
        world.emit(producer, 1, index, 1, &[&packet(text)]);
    }
    assert!(payloads(&world.file_packets(file)).len() > 180);
    world.disable(consumer);
    assert_eq!(payloads(&world.file_packets(file)), texts);
}

#[test]
fn a_file_is_written_before_the_end_is_told_even_when_the_session_is_freed() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let file = FileHandle(1);
    world.enable_into(consumer, &config("write_into_file: true"), file);
    world.emit(producer, 1, 0, 1, &[&packet("x")]);
    world.hang_up(consumer);
    assert_eq!(payloads(&world.file_packets(file)), ["x"]);
    assert!(world.files[&file].closed);
    assert_eq!(world.service.session_count(), 0);
}

#[test]
fn a_file_that_cannot_be_written_ends_the_session_with_an_error() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    let file = FileHandle(1);
    world.enable_into(consumer, &config("write_into_file: true file_write_period_ms: 100"), file);
    world.advance_ms(100);
    world.files.get_mut(&file).unwrap().breaks = true;
    world.advance_ms(100);
    let error = world.ended(consumer).unwrap();
    assert!(error.contains("No space left on device"), "{error}");
    assert!(world.files[&file].closed);
}

#[test]
fn max_file_size_ends_the_session() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let file = FileHandle(1);
    let max = 4000;
    world.enable_into(
        consumer,
        &config(&format!("write_into_file: true file_write_period_ms: 100 max_file_size_bytes: {max}")),
        file,
    );
    for index in 0..10u32 {
        world.emit(producer, 1, index, 1, &[&packet(&"x".repeat(500))]);
    }
    world.advance_ms(100);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    let len = world.files[&file].bytes.len();
    assert!(len <= max && len > max - 600 - max / 16, "{len}");
    assert!(!payloads(&world.file_packets(file)).is_empty());
}

/// Whoever reads it later knows that it is not all.
#[test]
fn a_file_that_is_full_says_so_at_its_end() {
    // With room for statistics, and for one word.
    for (max, has_buffers) in [(100_000, true), (3_000, true), (700, false)] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        let file = FileHandle(1);
        let text = format!("write_into_file: true file_write_period_ms: 100 max_file_size_bytes: {max}");
        world.enable_into(consumer, &config(&text), file);
        for index in 0..max as u32 / 30 {
            world.emit(producer, 1, index, 1, &[&packet(&"x".repeat(30))]);
        }
        world.advance_ms(100);
        assert_eq!(world.ended(consumer).as_deref(), Some(""));
        assert!(world.files[&file].bytes.len() <= max);
        let packets = world.file_packets(file);
        let Some(Data::TraceStats(stats)) = packets.last().and_then(|packet| packet.data.as_ref()) else {
            panic!("{max}: the last one is {:?}", packets.last());
        };
        assert!(stats.losses.as_ref().is_some_and(|losses| losses.file_is_full()), "{max}: {stats:?}");
        assert_eq!(!stats.buffer_stats.is_empty(), has_buffers, "{max}");
    }
}

#[test]
fn an_output_path_is_created_for_root_and_the_services_user_only() {
    let mut world = World::default();
    let stranger = world.consumer(1000);
    world.enable(stranger, &config("write_into_file: true output_path: \"/tmp/x\""));
    assert!(world.ended(stranger).unwrap().contains("with the rights of the service's user"));
    assert!(!world.files.contains_key(&CREATED_FILE));
    let mut of_root = World::default();
    let root = of_root.consumer(0);
    of_root.enable(root, &config("write_into_file: true output_path: \"/tmp/x\""));
    of_root.disable(root);
    assert!(!of_root.file_packets(CREATED_FILE).is_empty());
    let consumer = world.consumer(SERVICE_UID);
    world.enable(consumer, &config("write_into_file: true output_path: \"/tmp/x\""));
    world.disable(consumer);
    assert!(!world.file_packets(CREATED_FILE).is_empty());
    // Both a descriptor and a path: refused, and the descriptor is closed.
    world.free(consumer);
    world.ended(consumer);
    world.enable_into(consumer, &config("write_into_file: true output_path: \"/tmp/x\""), FileHandle(5));
    assert!(world.ended(consumer).unwrap().contains("got both"));
    assert!(world.files[&FileHandle(5)].closed);
    // A descriptor without need is closed as well.
    world.enable_into(consumer, &config(""), FileHandle(6));
    assert!(world.files[&FileHandle(6)].closed);
}

#[test]
fn what_may_not_be_written_to_is_refused_before_anything_starts() {
    let mut world = World::default();
    let (user, cloner) = (world.consumer(1000), world.consumer(1000));
    world.enable_into(user, &config("unique_session_name: \"s\" write_into_file: true"), FileHandle(5));
    assert_eq!(world.ended(user), None);
    world.refuse_files();
    let selector = Selector::UniqueSessionName("s".to_owned());
    world.files.insert(FileHandle(6), Default::default());
    world.ask_with(cloner, clone_by(selector), Some(FileHandle(6)));
    let told: protos::CloneSessionResponse = world.answer(cloner, "CloneSession");
    assert!(!told.success() && told.error().contains("it is a socket"), "{told:?}");
    let other = world.consumer(1000);
    world.enable_into(other, &config("write_into_file: true"), FileHandle(7));
    assert!(world.ended(other).unwrap().contains("it is a socket"));
    assert!(world.files[&FileHandle(6)].closed && world.files[&FileHandle(7)].closed);
}

/// It may write before it says so.
#[test]
fn a_data_source_that_has_not_said_that_it_started_is_flushed() {
    let mut world = World::default();
    let producer = world.producer("p");
    let descriptor = protos::DataSourceDescriptor {
        name: Some("data".to_owned()),
        will_notify_on_start: Some(true),
        ..Default::default()
    };
    world.register_as(producer, descriptor);
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    world.flush(consumer, 0);
    assert_eq!(world.acknowledge_flushes(producer), 1);
}

#[test]
fn files_are_flushed_as_their_mode_says() {
    // Mode, write period, expected flushes in 20 s.
    let cases = [
        ("", 1000, 4),
        ("", 10_000, 2),
        ("write_flush_mode: WRITE_FLUSH_ENABLED", 1000, 20),
        ("write_flush_mode: WRITE_FLUSH_DISABLED", 1000, 0),
        ("write_flush_mode: WRITE_FLUSH_DISABLED flush_period_ms: 2000", 1000, 10),
    ];
    for (mode, period, expected) in cases {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        let text = config(&format!("write_into_file: true file_write_period_ms: {period} {mode}"));
        world.enable_into(consumer, &text, FileHandle(1));
        let mut flushes = 0;
        for _ in 0..200 {
            world.advance_ms(100);
            flushes += world.acknowledge_flushes(producer);
        }
        assert_eq!(flushes, expected, "{mode} {period}");
    }
}

fn clone_by(selector: Selector) -> ConsumerCall {
    ConsumerCall::CloneSession(protos::CloneSessionRequest { selector: Some(selector), ..Default::default() })
}

#[test]
fn a_clone_has_what_was_there_and_the_session_goes_on() {
    let (mut world, producer, consumer) = tracing("unique_session_name: \"name\"");
    world.emit(producer, 1, 0, 1, &[&packet("before")]);
    for selector in [Selector::SessionId(1), Selector::UniqueSessionName("name".to_owned())] {
        let other = world.consumer(1000);
        world.ask(other, clone_by(selector));
        assert_eq!(world.reply(other, "CloneSession"), None, "it waits for the flush");
        world.acknowledge_flushes(producer);
        let response: protos::CloneSessionResponse = world.answer(other, "CloneSession");
        assert!(response.success(), "{response:?}");
        let packets = world.read(other);
        assert_eq!(payloads(&packets), ["before"]);
        let kinds = kinds(&packets);
        assert!(kinds.contains(&"clone_started") && kinds.contains(&"buffer_cloned"), "{kinds:?}");
        assert_eq!(kinds.last(), Some(&"stats"));
        world.free(other);
    }
    world.emit(producer, 1, 1, 1, &[&packet("after")]);
    assert_eq!(world.read_payloads(consumer), ["before", "after"]);
}

#[test]
fn clones_are_refused_to_others_and_of_nothing() {
    let (mut world, _, _) = tracing("");
    let stranger = world.consumer(1001);
    for (selector, expected) in [
        (Selector::SessionId(1), "another user"),
        (Selector::SessionId(99), "not found"),
        (Selector::SessionId(u64::MAX), "not found"),
    ] {
        world.ask(stranger, clone_by(selector));
        let response: protos::CloneSessionResponse = world.answer(stranger, "CloneSession");
        assert!(!response.success() && response.error().contains(expected), "{response:?}");
    }
}

#[test]
fn clones_that_wait_for_their_flush_do_not_slip_past_the_limit() {
    let (mut world, producer, _) = tracing("");
    for _ in 2..limits::MAX_SESSIONS_PER_UID {
        let another = world.consumer(1000);
        world.enable(another, &config(""));
    }
    let others = [world.consumer(1000), world.consumer(1000)];
    for other in others {
        world.ask(other, clone_by(Selector::SessionId(1)));
    }
    world.acknowledge_flushes(producer);
    let answers = others.map(|other| world.answer::<protos::CloneSessionResponse>(other, "CloneSession"));
    assert!(answers[0].success(), "{answers:?}");
    assert!(answers[1].error().contains("too many"), "{answers:?}");
}

#[test]
fn a_clone_fails_when_its_session_goes_away_during_the_flush() {
    let (mut world, _, consumer) = tracing("");
    let other = world.consumer(1000);
    world.ask(other, clone_by(Selector::SessionId(1)));
    world.hang_up(consumer);
    let response: protos::CloneSessionResponse = world.answer(other, "CloneSession");
    assert!(!response.success());
}

#[test]
fn transfer_on_clone_moves_and_clear_before_clone_forgets() {
    for (option, clone, original) in
        [("transfer_on_clone", vec!["before"], vec![]), ("clear_before_clone", vec![], vec![])]
    {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        world.enable(
            consumer,
            &format!(
                "buffers {{ size_kb: 4 {option}: true }} data_sources {{ config {{ name: \"data\" }} }}"
            ),
        );
        world.emit(producer, 1, 0, 1, &[&packet("before")]);
        let other = world.consumer(1000);
        world.ask(other, clone_by(Selector::SessionId(1)));
        world.acknowledge_flushes(producer);
        assert_eq!(world.read_payloads(other), clone, "{option}");
        assert_eq!(world.read_payloads(consumer), original as Vec<&str>, "{option}");
    }
}

/// What is lost between a read while recording and the end is told, too.
#[test]
fn the_last_read_ends_with_stats_even_if_there_were_some_just_before() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, "buffers { size_kb: 4 } data_sources { config { name: \"data\" } }");
    let overwritten = |world: &mut World| {
        let packets = world.read(consumer);
        let stats = packets.into_iter().find_map(|packet| match packet.data {
            Some(Data::TraceStats(stats)) => Some(stats),
            _ => None,
        });
        stats.expect("stats").buffer_stats[0].chunks_overwritten()
    };
    assert_eq!(overwritten(&mut world), 0);
    for chunk_id in 0..10 {
        world.emit(producer, 1, chunk_id, 1, &[&packet(&"long ".repeat(200))]);
    }
    world.disable(consumer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert!(overwritten(&mut world) > 0);
}

/// A data source that is slow to stop may still write when all is over, and has been read.
#[test]
fn what_comes_after_the_end_is_in_stats_that_follow_it() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(
        producer,
        protos::DataSourceDescriptor {
            name: Some("data".to_owned()),
            will_notify_on_stop: Some(true),
            ..Default::default()
        },
    );
    let consumer = world.consumer(1000);
    world.enable(consumer, "buffers { size_kb: 4 } data_sources { config { name: \"data\" } }");
    world.disable(consumer);
    world.advance_ms(10_000);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    let mut chunks_written = || {
        let packets = world.read(consumer);
        let stats = packets.iter().find_map(|packet| match &packet.data {
            Some(Data::TraceStats(stats)) => Some(stats.buffer_stats[0].chunks_written()),
            _ => None,
        });
        world.emit(producer, 1, 0, 1, &[&packet("late")]);
        stats
    };
    assert_eq!(chunks_written(), Some(0));
    assert_eq!(chunks_written(), Some(1));
    assert_eq!(chunks_written(), None);
}

/// Names from before would be taken for those of after.
#[test]
fn what_follows_on_a_clone_that_takes_all_away_says_that_something_is_missing() {
    let of_all_clones = |case: (&'static str, bool)| [1, 2].map(|clones| (case.0, case.1, clones));
    for (option, is_read_before, clones) in
        [("transfer_on_clone", false), ("clear_before_clone", false), ("transfer_on_clone", true)]
            .into_iter()
            .flat_map(of_all_clones)
    {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        world.enable(
            consumer,
            &format!(
                "buffers {{ size_kb: 4 {option}: true }} data_sources {{ config {{ name: \"data\" }} }}"
            ),
        );
        world.emit(producer, 1, 0, 1, &[&packet("before")]);
        if is_read_before {
            assert_eq!(world.read_payloads(consumer), ["before"]);
        }
        // Nothing comes between the clones: the second must not take the first one's loss along.
        for _ in 0..clones {
            let other = world.consumer(1000);
            world.ask(other, clone_by(Selector::SessionId(1)));
            world.acknowledge_flushes(producer);
        }
        world.emit(producer, 1, 1, 1, &[&packet("after")]);
        world.emit(producer, 1, 2, 1, &[&packet("later")]);
        let packets = world.read(consumer);
        let of_producer = packets.iter().filter(|packet| matches!(packet.data, Some(Data::ForTesting(_))));
        let losses: Vec<bool> = of_producer.map(|packet| packet.previous_packet_dropped() != 0).collect();
        assert_eq!(
            losses,
            [!is_read_before, false],
            "{option}, {clones} times, read before: {is_read_before}"
        );
    }
}

#[test]
fn what_is_left_of_a_ring_can_be_read() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        "buffers { size_kb: 64 fold_overwritten: true } data_sources { config { name: \"data\" } }",
    );
    let name = protos::EventName { iid: Some(1), name: Some("once".to_owned()) };
    let interned_data = protos::InternedData { event_names: vec![name], ..Default::default() };
    let name =
        TracePacket { interned_data: Some(interned_data), sequence_flags: Some(1), ..TracePacket::default() }
            .encode_to_vec();
    world.emit(producer, 1, 0, 1, &[&name]);
    for chunk_id in 1..1000 {
        let event =
            TracePacket { sequence_flags: Some(2), ..TracePacket::decode(&*packet("event")).unwrap() };
        let event = event.encode_to_vec();
        world.emit(producer, 1, chunk_id, 1, &[event.as_slice(); 20]);
    }
    let clone = world.consumer(1000);
    world.ask(clone, clone_by(Selector::SessionId(1)));
    world.acknowledge_flushes(producer);
    for reader in [clone, consumer] {
        let packets = world.read(reader);
        let first = packets.iter().find(|packet| packet.sequence_flags.is_some()).unwrap();
        assert_eq!(first.sequence_flags(), 1);
        assert_ne!(first.previous_packet_dropped(), 0);
        let names = &first.interned_data.as_ref().unwrap().event_names;
        assert_eq!(names[0].name(), "once");
        assert!(packets.iter().filter(|packet| packet.sequence_flags() == 2).count() > 100);
        assert_eq!(packets.iter().filter(|packet| packet.previous_packet_dropped() != 0).count(), 1);
    }
}

#[test]
fn producers_repeat_names_that_a_ring_had_no_room_for() {
    let mut world = World::default();
    let producer = world.producer("p");
    let descriptor = protos::DataSourceDescriptor {
        name: Some("data".to_owned()),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    };
    world.register_as(producer, descriptor);
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        "buffers { size_kb: 4 fold_overwritten: true } data_sources { config { name: \"data\" } }",
    );
    world.commands(producer);
    let say_names = |world: &mut World, chunk_ids: std::ops::Range<u32>| {
        let name = protos::EventName { iid: Some(1), name: Some("long ".repeat(100)) };
        let interned_data = protos::InternedData { event_names: vec![name], ..Default::default() };
        let names = TracePacket {
            interned_data: Some(interned_data),
            sequence_flags: Some(1),
            ..TracePacket::default()
        };
        let names = names.encode_to_vec();
        chunk_ids.for_each(|chunk_id| world.emit(producer, 1, chunk_id, 1, &[&names]));
    };
    say_names(&mut world, 0..5);
    assert_eq!(world.command_names(producer), [""; 0], "all is there");
    say_names(&mut world, 5..20);
    assert_eq!(world.command_names(producer), ["clear"]);
    say_names(&mut world, 20..40);
    assert_eq!(world.command_names(producer), [""; 0], "they were asked just now");
    world.advance_ms(1000);
    say_names(&mut world, 40..60);
    assert_eq!(world.command_names(producer), ["clear"]);
}

#[test]
fn what_was_scraped_before_its_buffer_was_taken_away_comes_again_with_its_chunk() {
    let mut world = World::default();
    let producer = world.introduce(&scraping());
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        "buffers { size_kb: 4 transfer_on_clone: true } data_sources { config { name: \"data\" } }",
    );
    world.commands(producer);
    register_writer(&mut world, producer, 1, 1);
    let chunk = world.write(producer, 1, 0, &[&packet("a"), &packet("b"), &packet("unfinished")]);
    let clone = world.consumer(1000);
    world.ask(clone, clone_by(Selector::SessionId(1)));
    world.acknowledge_flushes(producer);
    assert_eq!(world.read_payloads(clone), ["a", "b"]);
    // As upstream's: the new buffer does not know what the old one had.
    let at = chunk.complete().unwrap();
    world.commit_chunk(producer, World::move_request(at, 1));
    assert_eq!(world.read_payloads(consumer), ["a", "b", "unfinished"]);
}

#[test]
fn clock_snapshots_are_kept_when_clocks_drift_and_bounded() {
    let (mut world, _, consumer) = tracing("builtin_data_sources { snapshot_interval_ms: 1000 }");
    world.read(consumer);
    let snapshots =
        |packets: &[TracePacket]| packets.iter().filter(|packet| kind(packet) == "clock_snapshot").count();
    world.advance_ms(5000);
    assert_eq!(snapshots(&world.read(consumer)), 1, "the ring was empty; then nothing drifted");
    let packets = world.read(consumer);
    assert_eq!(snapshots(&packets), 0);
    assert!(!kinds(&packets).contains(&"marker"));
}

#[test]
fn producers_that_commit_fast_may_be_left_alone_unless_somebody_waits_for_them() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(
        producer,
        protos::DataSourceDescriptor {
            name: Some("data".to_owned()),
            will_notify_on_stop: Some(true),
            ..Default::default()
        },
    );
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    world.commands(producer);
    let rest = |world: &mut World| world.service.poll_rest_ns(&world.now);
    let mut chunk_ids = 0..;
    let mut commit_twice = |world: &mut World| {
        for id in chunk_ids.by_ref().take(2) {
            world.emit(producer, 1, id, 1, &[&packet("x")]);
        }
        world.advance_ms(1);
    };
    let longest = limits::MAX_REST.as_nanos() as u64;
    assert_eq!(rest(&mut world), 0, "it has just registered");
    world.advance_ms(1);
    commit_twice(&mut world);
    assert_eq!(rest(&mut world), longest);
    assert_eq!(rest(&mut world), 0, "nothing has come since");

    world.flush(consumer, 0);
    commit_twice(&mut world);
    assert_eq!(rest(&mut world), 0, "a flush waits");
    commit_twice(&mut world);
    assert_eq!(world.acknowledge_flushes(producer), 1);
    assert_eq!(rest(&mut world), 0, "there is more than commits");
    world.advance_ms(1);
    commit_twice(&mut world);
    assert_eq!(rest(&mut world), longest);

    register_writer(&mut world, producer, 1, 1);
    commit_twice(&mut world);
    assert_eq!(rest(&mut world), 0, "there is more than commits");

    let held: Vec<_> = (1000..1040).map(|id| world.write(producer, 1, id, &[&packet("x")])).collect();
    commit_twice(&mut world);
    assert_eq!(rest(&mut world), 0, "there is little room left in the memory");
    held.into_iter().for_each(drop);

    world.disable(consumer);
    commit_twice(&mut world);
    assert_eq!(rest(&mut world), 0, "a session waits for its end");
}
