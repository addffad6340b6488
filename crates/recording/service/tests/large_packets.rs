//! Packets of many megabytes on their way out: what nobody takes is not read in advance.

mod world;

use std::collections::BTreeMap;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::trace_config::trace_filter::{StringFilterChain, StringFilterPolicy, StringFilterRule};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{
    self as protos, CloneSessionRequest, CloneSessionResponse, TestEvent, TraceConfig, TracePacket, fields,
};
use ferretto_service::{ConsumerCall, ConsumerConn, FileContent, FileHandle, ProducerConn, limits};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;
use world::{World, config, config_bytes, only_setup};

const PACKET_BYTES: usize = 20 << 20;

/// A packet of one field.
fn large(seed: u8) -> Vec<u8> {
    of_bytes(seed, PACKET_BYTES)
}

fn of_bytes(seed: u8, len: usize) -> Vec<u8> {
    let text = char::from(b'a' + seed).to_string().repeat(len);
    let data = Some(Data::ForTesting(TestEvent { str: Some(text), ..Default::default() }));
    TracePacket { data, ..Default::default() }.encode_to_vec()
}

/// A session of this user with so many large packets, which are to be written.
fn session(world: &mut World, producer: ProducerConn, user: u32, packets: u8) -> (ConsumerConn, FileHandle) {
    let consumer = world.consumer(user);
    let file = FileHandle(consumer.0 + 1000);
    let more = "write_into_file: true file_write_period_ms: 100";
    world.enable_into(consumer, &config(more).replace("128", "65536"), file);
    assert_eq!(world.ended(consumer), None);
    let buffer = only_setup(&world.commands(producer)).1.target_buffer() as u16;
    for seed in 0..packets {
        world.emit_in_pieces(producer, u16::from(seed) + 1, buffer, &large(seed));
    }
    (consumer, file)
}

/// What is handed out for each file while nothing of it is written.
fn handed_out(world: &mut World) -> BTreeMap<FileHandle, usize> {
    let mut sums = BTreeMap::new();
    while let Some(write) = world.service.poll_file_write(&world.now) {
        let FileContent::Bytes(bytes) = write.content else { panic!("nothing is copied") };
        *sums.entry(write.file).or_default() += bytes.len();
    }
    sums
}

/// A field that nobody knows, which the filter keeps.
const KEPT: u32 = 1999;

/// A packet of one field that is kept at once, and a text that many rules are tried on.
fn slow_to_filter() -> Vec<u8> {
    let mut packet = Vec::new();
    ferretto_protozero::Message::new(&mut packet).bytes(KEPT, &vec![7; PACKET_BYTES]);
    packet.extend(of_bytes(0, 3000));
    packet
}

/// A session with a filter that takes many batches for such a packet.
fn filtered_session(
    world: &mut World,
    producer: ProducerConn,
    user: u32,
    packets: &[Vec<u8>],
) -> (ConsumerConn, FileHandle) {
    let (mut builder, event_text) = (BytecodeBuilder::new(), 1);
    let (trace, packet, event) = (builder.message(), builder.message(), builder.message());
    builder.nested(trace, fields::trace::PACKET, packet).keep(packet, KEPT);
    builder.nested(packet, fields::trace_packet::FOR_TESTING, event).string(event, event_text, 0);
    let rule = |_| StringFilterRule {
        policy: Some(StringFilterPolicy::SfpMatchRedactGroups as i32),
        regex_pattern: Some("(?:a{20}|b){4}c".to_owned()),
        ..Default::default()
    };
    let filter = TraceFilter {
        bytecode_v2: Some(builder.build().unwrap().bytecode_v2.into()),
        string_filter_chain: Some(StringFilterChain { rules: (0..60).map(rule).collect() }),
        ..Default::default()
    };
    let mode = config("write_into_file: true file_write_period_ms: 100").replace("128", "65536");
    let mut config = config_bytes(&mode).to_vec();
    TraceConfig { trace_filter: Some(filter), ..Default::default() }.encode(&mut config).unwrap();
    let consumer = world.consumer(user);
    let file = FileHandle(consumer.0 + 1000);
    world.files.insert(file, Default::default());
    world.enable_raw(consumer, config.into(), Some(file));
    assert_eq!(world.ended(consumer), None);
    let buffer = only_setup(&world.commands(producer)).1.target_buffer() as u16;
    for (writer, packet) in (1..).zip(packets) {
        world.emit_in_pieces(producer, writer, buffer, packet);
    }
    (consumer, file)
}

/// As it came and what is kept of it are more than a user may have on the way: it is his already.
#[test]
fn a_large_packet_is_filtered_to_its_end() {
    let (mut world, producer) = world();
    let (consumer, file) = filtered_session(&mut world, producer, 1000, &[slow_to_filter()]);
    world.files_wait = false;
    world.disable(consumer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert!(world.files[&file].bytes.len() > PACKET_BYTES);
    assert_eq!(sizes(&world.file_packets(file)), [3000], "and the file is whole");
}

#[test]
fn of_a_file_that_fails_within_a_packet_nothing_is_on_its_way_any_more() {
    let (mut world, producer) = world();
    let (failing, broken) = filtered_session(&mut world, producer, 1000, &[slow_to_filter()]);
    let (consumer, file) = session(&mut world, producer, 1000, 1);
    world.disable(failing);
    let first = world.service.poll_file_write(&world.now).unwrap();
    assert_eq!(first.file, broken);
    world.service.handle_file_written(broken, Err("Broken pipe".to_owned()), &world.now);
    world.files_wait = false;
    world.run();
    assert!(world.ended(failing).unwrap().contains("Broken pipe"));
    world.disable(consumer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert_eq!(sizes(&world.file_packets(file)), [PACKET_BYTES]);
}

const CLONE: FileHandle = FileHandle(77);

/// A clone of this session into a file of its own is asked for and flushed for.
fn clone(world: &mut World, producer: ProducerConn, of: ConsumerConn) -> ConsumerConn {
    let id = world.query(of).tracing_sessions.iter().map(|session| session.id()).max();
    let selector = Some(Selector::SessionId(id.unwrap()));
    let cloner = world.consumer(1000);
    world.files.insert(CLONE, Default::default());
    let request = CloneSessionRequest { selector, ..Default::default() };
    world.ask_with(cloner, ConsumerCall::CloneSession(request), Some(CLONE));
    world.acknowledge_flushes(producer);
    cloner
}

/// A session whose filter is within the first of these packets, and its buffer. All that it had to write is written.
fn within(world: &mut World, producer: ProducerConn, packets: &[Vec<u8>]) -> (ConsumerConn, FileHandle) {
    let (consumer, file) = filtered_session(world, producer, 1000, packets);
    world.advance_ms(100);
    let write = world.service.poll_file_write(&world.now).unwrap();
    let FileContent::Bytes(bytes) = write.content else { panic!("nothing is copied") };
    world.files.get_mut(&file).unwrap().bytes.extend_from_slice(&bytes);
    world.service.handle_file_written(file, Ok(()), &world.now);
    (consumer, file)
}

/// It would be neither in the copy of the file nor in those of the buffers.
#[test]
fn a_clone_takes_a_small_packet_along_that_is_being_filtered() {
    let (mut world, producer) = world();
    let (consumer, file) = within(&mut world, producer, &[of_bytes(0, 3000), of_bytes(1, 30)]);
    let cloner = clone(&mut world, producer, consumer);
    world.advance_ms(0);
    world.files_wait = false;
    world.run();
    assert!(world.answer::<CloneSessionResponse>(cloner, "CloneSession").success());
    assert_eq!(sizes(&world.file_packets(CLONE)), [3000, 30]);
    world.disable(consumer);
    assert_eq!(sizes(&world.file_packets(file)), [3000, 30]);
}

#[test]
fn a_clone_waits_for_a_large_packet_that_is_being_filtered_and_does_nothing_meanwhile() {
    let (mut world, producer) = world();
    let (consumer, file) = within(&mut world, producer, &[slow_to_filter(), of_bytes(1, 30)]);
    let cloner = clone(&mut world, producer, consumer);
    assert!(world.service.is_busy(cloner) && !world.service.has_work());
    assert!(world.service.next_timeout_ns(&world.now).unwrap() > 0);
    world.advance_ms(1000);
    assert!(world.reply(cloner, "CloneSession").is_none());
    world.files_wait = false;
    world.run();
    world.advance_ms(0);
    assert!(world.answer::<CloneSessionResponse>(cloner, "CloneSession").success());
    assert_eq!(sizes(&world.file_packets(CLONE)), [3000, 30]);
    world.disable(consumer);
    assert_eq!(sizes(&world.file_packets(file)), [3000, 30]);
}

#[test]
fn a_clone_goes_on_without_a_large_packet_that_is_not_done_in_time() {
    let (mut world, producer) = world();
    let (consumer, _) = within(&mut world, producer, &[slow_to_filter(), of_bytes(1, 30)]);
    let cloner = clone(&mut world, producer, consumer);
    world.advance_ms(limits::CLONE_WAITS_MS - 200);
    assert!(world.reply(cloner, "CloneSession").is_none() && world.service.is_busy(cloner));
    world.advance_ms(200);
    world.advance_ms(0);
    world.files_wait = false;
    world.run();
    assert!(world.answer::<CloneSessionResponse>(cloner, "CloneSession").success());
    let packets = world.file_packets(CLONE);
    assert_eq!(sizes(&packets), [30]);
    let Some(Data::TraceStats(stats)) = &packets.last().unwrap().data else { panic!("no stats") };
    assert_eq!(stats.losses.as_ref().unwrap().large_packets(), 1);
}

#[test]
fn a_clone_that_waits_for_a_packet_is_told_when_its_source_has_no_file_any_more() {
    for is_freed in [false, true] {
        let (mut world, producer) = world();
        let (consumer, file) = within(&mut world, producer, &[slow_to_filter(), of_bytes(1, 30)]);
        let cloner = clone(&mut world, producer, consumer);
        assert!(world.reply(cloner, "CloneSession").is_none());
        let write = world.service.poll_file_write(&world.now).unwrap();
        assert_eq!(write.file, file);
        let result = if is_freed { Ok(()) } else { Err("Broken pipe".to_owned()) };
        world.service.handle_file_written(file, result, &world.now);
        if is_freed {
            world.free(consumer);
            world.files.get_mut(&file).unwrap().breaks = true;
            world.files_wait = false;
        }
        world.run();
        world.advance_ms(0);
        assert!(!world.answer::<CloneSessionResponse>(cloner, "CloneSession").success());
        assert!(world.files[&CLONE].closed && !world.service.has_work());
    }
}

/// Writes what a file gets, and nothing of what others get. Says what came.
fn written(world: &mut World, file: FileHandle) -> Vec<TracePacket> {
    let mut trace = Vec::new();
    while let Some(write) = world.service.poll_file_write(&world.now) {
        let FileContent::Bytes(bytes) = write.content else { panic!("nothing is copied") };
        if write.file == file {
            trace.extend_from_slice(&bytes);
            world.service.handle_file_written(file, Ok(()), &world.now);
        }
    }
    protos::Trace::decode(trace.as_slice()).unwrap().packet
}

fn sizes(packets: &[TracePacket]) -> Vec<usize> {
    let texts = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::ForTesting(event)) => Some(event.str().len()),
        _ => None,
    });
    texts.collect()
}

/// Two pipes that nobody reads, with a large packet each on its way, and a third session of that user.
fn beside_stuck() -> (World, ProducerConn, [(ConsumerConn, FileHandle); 3], u16) {
    let (mut world, producer) = world();
    let stuck = [1000, 1000].map(|user| session(&mut world, producer, user, 1));
    let third = session(&mut world, producer, 1000, 0);
    stuck.iter().for_each(|(consumer, _)| world.disable(*consumer));
    assert_eq!(handed_out(&mut world).values().filter(|bytes| **bytes > PACKET_BYTES).count(), 2);
    let buffer = 3;
    (world, producer, [stuck[0], stuck[1], third], buffer)
}

#[test]
fn beside_what_nobody_takes_a_users_other_files_go_on_without_large_packets() {
    let (mut world, producer, [_, _, (consumer, file)], buffer) = beside_stuck();
    let most = limits::MAX_PACKET_BYTES_BESIDE_STUCK;
    for (writer, len) in (1..).zip([100, most - 100, most + 1, 200]) {
        world.emit_in_pieces(producer, writer, buffer, &of_bytes(0, len));
    }
    world.disable(consumer);
    assert!(sizes(&written(&mut world, file)).is_empty());
    assert_eq!(
        world.service.next_timeout_ns(&world.now),
        Some(limits::STUCK.as_nanos() as u64),
        "the driver is to come back then"
    );
    world.set_time(world.now.clocks.boottime + limits::STUCK.as_nanos() as u64);
    let packets = written(&mut world, file);
    assert_eq!(sizes(&packets), [100, most - 100, 200]);
    let Some(Data::TraceStats(stats)) = &packets.last().unwrap().data else { panic!("no stats") };
    assert_eq!(stats.losses.as_ref().unwrap().large_packets(), 1);
    assert_eq!(world.service.next_timeout_ns(&world.now), None, "nobody comes back for nothing");
}

/// Who takes a packet just before the others have waited long enough does not have them wait anew.
#[test]
fn what_is_taken_late_again_and_again_does_not_hold_up_a_users_other_files() {
    const ROUNDS: u32 = 4;
    const STEP_NS: u64 = 50_000_000;
    let steps = limits::STUCK.as_nanos() as u64 / STEP_NS;
    let (mut world, producer) = world();
    let [(never, _), (_, slow), (_, file)] = [1, 0, 0].map(|n| session(&mut world, producer, 1000, n));
    world.disable(never);
    handed_out(&mut world);
    let mut waited = 0;
    for round in 0..ROUNDS {
        // It is on its way before the other's is there.
        world.emit_in_pieces(producer, 100 + round as u16, 2, &large(1));
        world.advance_ms(100);
        assert!(handed_out(&mut world)[&slow] > PACKET_BYTES);
        world.emit(producer, 1, round, 3, &[&of_bytes(0, 10)]);
        let mut is_there = false;
        for _ in 1..steps {
            world.set_time(world.now.clocks.boottime + STEP_NS);
            world.service.handle_timeout(&world.now);
            is_there |= !sizes(&written(&mut world, file)).is_empty();
            waited += u64::from(!is_there);
        }
        (0..limits::MAX_FILE_WRITES_IN_FLIGHT)
            .for_each(|_| world.service.handle_file_written(slow, Ok(()), &world.now));
        is_there |= !sizes(&written(&mut world, file)).is_empty();
        assert!(is_there, "round {round}");
    }
    // In the first round, and in the others what comes back meanwhile, and until the next write is due.
    assert!(waited < 2 * steps, "{waited} steps of {steps}");
}

fn world() -> (World, ProducerConn) {
    let mut world = World::default();
    world.files_wait = true;
    let producer = world.producer("p");
    world.register(producer, "data");
    (world, producer)
}

#[test]
fn of_large_packets_one_is_under_way_to_a_file_at_a_time() {
    let (mut world, producer) = world();
    let (consumer, file) = session(&mut world, producer, 1000, 2);
    world.disable(consumer);
    let mut sum = 0;
    for _ in 0..2 {
        let bytes = handed_out(&mut world)[&file];
        assert!(bytes < PACKET_BYTES + 2 * limits::MAX_FILE_BYTES_IN_FLIGHT, "{bytes}");
        sum += bytes;
        (0..limits::MAX_FILE_WRITES_IN_FLIGHT)
            .for_each(|_| world.service.handle_file_written(file, Ok(()), &world.now));
    }
    assert!(sum > 2 * PACKET_BYTES, "{sum}");
}

#[test]
fn a_users_files_have_so_many_bytes_under_way_and_another_users_go_on() {
    let (mut world, producer) = world();
    let sessions: Vec<_> = [1000, 1000, 1000, 1001].map(|user| session(&mut world, producer, user, 1)).into();
    sessions.iter().for_each(|(consumer, _)| world.disable(*consumer));
    let handed_out = handed_out(&mut world);
    let large = |(_, file): &&(ConsumerConn, FileHandle)| {
        handed_out.get(file).is_some_and(|bytes| *bytes > PACKET_BYTES)
    };
    assert_eq!(sessions[..3].iter().filter(large).count(), 2, "{handed_out:?}");
    assert!(large(&&sessions[3]), "{handed_out:?}");
    world.files_wait = false;
    for (_, file) in &sessions {
        (0..limits::MAX_FILE_WRITES_IN_FLIGHT)
            .for_each(|_| world.service.handle_file_written(*file, Ok(()), &world.now));
    }
    world.run();
    assert!(sessions.iter().all(|(consumer, _)| world.ended(*consumer).is_some()));
}
