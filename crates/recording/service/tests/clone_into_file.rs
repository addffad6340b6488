//! Clones of sessions that write into a file.

mod world;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, TracePacket};
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerConn, limits};
use world::{FakeFile, World, config, packet, payloads};

const SOURCE: FileHandle = FileHandle(1);
const CLONE: FileHandle = FileHandle(2);

/// A session that has written `a` and `b` into its file and holds `c`.
fn writing(more: &str) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let mode = "write_into_file: true file_write_period_ms: 1000 write_flush_mode: WRITE_FLUSH_DISABLED";
    world.enable_into(consumer, &config(&format!("{mode} {more}")), SOURCE);
    for (index, text) in ["a", "b"].into_iter().enumerate() {
        world.emit(producer, 1, index as u32, 1, &[&packet(text)]);
        world.advance_ms(1000);
    }
    assert_eq!(payloads(&world.file_packets(SOURCE)), ["a", "b"]);
    world.emit(producer, 1, 2, 1, &[&packet("c")]);
    (world, producer, consumer)
}

fn ask_for_clone(world: &mut World, file: Option<FileHandle>) -> ConsumerConn {
    let other = world.consumer(1000);
    if let Some(file) = file {
        world.files.entry(file).or_default();
    }
    let selector = Some(Selector::SessionId(1));
    let request = protos::CloneSessionRequest { selector, ..Default::default() };
    world.ask_with(other, ConsumerCall::CloneSession(request), file);
    other
}

fn response(world: &mut World, of: ConsumerConn) -> protos::CloneSessionResponse {
    world.answer(of, "CloneSession")
}

fn count(packets: &[TracePacket], is: fn(&Data) -> bool) -> usize {
    packets.iter().filter_map(|packet| packet.data.as_ref()).filter(|data| is(data)).count()
}

#[test]
fn each_packet_comes_once_and_the_source_goes_on() {
    let (mut world, producer, consumer) = writing("");
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.acknowledge_flushes(producer);
    let told = response(&mut world, other);
    assert!(told.success() && told.was_write_into_file(), "{told:?}");
    assert!(world.files[&CLONE].closed && !world.files[&SOURCE].closed);
    let packets = world.file_packets(CLONE);
    assert_eq!(payloads(&packets), ["a", "b", "c"]);
    let sequences: Vec<_> = packets
        .iter()
        .filter(|packet| matches!(packet.data, Some(Data::ForTesting(_))))
        .map(|packet| packet.optional_trusted_packet_sequence_id)
        .collect();
    assert!(sequences.iter().all(|id| *id == sequences[0]), "{sequences:?}");
    // The clone begins anew: with a config and an id of its own.
    let uuids: Vec<_> = packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TraceUuid(uuid)) => Some((uuid.msb(), uuid.lsb())),
            _ => None,
        })
        .collect();
    assert_eq!(uuids.len(), 2);
    assert_eq!(uuids[1], (told.uuid_msb(), told.uuid_lsb()));
    assert_eq!(uuids[0].1, uuids[1].1);
    assert_ne!(uuids[0].0, uuids[1].0);
    assert_eq!(count(&packets, |data| matches!(data, Data::TraceConfig(_))), 2);
    assert!(matches!(packets.last().and_then(|last| last.data.as_ref()), Some(Data::TraceStats(_))));
    world.free(other);
    world.emit(producer, 1, 3, 1, &[&packet("d")]);
    world.disable(consumer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert_eq!(payloads(&world.file_packets(SOURCE)), ["a", "b", "c", "d"]);
    assert_eq!(payloads(&world.file_packets(CLONE)), ["a", "b", "c"]);
}

/// What the source writes while the clone waits for its flush is in its file then, and no longer in its buffers.
#[test]
fn the_copy_ends_where_the_buffers_begin() {
    let (mut world, producer, _) = writing("");
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.advance_ms(1000);
    assert_eq!(payloads(&world.file_packets(SOURCE)), ["a", "b", "c"]);
    world.emit(producer, 1, 3, 1, &[&packet("d")]);
    world.acknowledge_flushes(producer);
    assert!(response(&mut world, other).success());
    assert_eq!(payloads(&world.file_packets(CLONE)), ["a", "b", "c", "d"]);
}

#[test]
fn a_long_file_is_copied_in_pieces_and_stays_open_for_it() {
    let (mut world, producer, consumer) = writing("");
    for index in 3..600u32 {
        world.emit(producer, 1, index, 1, &[&packet(&"x".repeat(2000))]);
        world.advance_ms(1000);
    }
    assert!(world.files[&SOURCE].bytes.len() > limits::FILE_WRITE_BYTES, "more than one piece");
    world.files_wait = true;
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.acknowledge_flushes(producer);
    // The source ends and is erased before anything is copied.
    world.free(consumer);
    assert_eq!(world.reply(other, "CloneSession"), None, "nothing is written yet");
    world.files_wait = false;
    world.run();
    assert!(response(&mut world, other).success());
    assert!(world.files[&SOURCE].closed && world.files[&CLONE].closed);
    assert_eq!(payloads(&world.file_packets(CLONE)).len(), 600);
}

#[test]
fn what_cannot_be_written_is_told_and_disturbs_nobody() {
    let (mut world, producer, consumer) = writing("");
    world.files.insert(CLONE, FakeFile { breaks: true, ..FakeFile::default() });
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.acknowledge_flushes(producer);
    let told = response(&mut world, other);
    assert!(!told.success() && told.error().contains("No space left"), "{told:?}");
    assert!(world.files[&CLONE].closed && !world.files[&SOURCE].closed);
    assert_eq!(world.query(other).tracing_sessions.len(), 1, "the clone is erased");
    world.disable(consumer);
    assert_eq!(payloads(&world.file_packets(SOURCE)), ["a", "b", "c"]);
}

#[test]
fn without_a_file_or_after_the_end_it_is_refused() {
    let (mut world, _, consumer) = writing("");
    let other = ask_for_clone(&mut world, None);
    assert!(response(&mut world, other).error().contains("file descriptor"));
    world.disable(consumer);
    let other = ask_for_clone(&mut world, Some(CLONE));
    assert!(response(&mut world, other).error().contains("complete"));
    assert!(world.files[&CLONE].closed);
}

#[test]
fn nobody_waits_for_the_clone_of_a_consumer_that_is_gone() {
    for is_flushed in [false, true] {
        let (mut world, producer, consumer) = writing("");
        world.files_wait = true;
        let other = ask_for_clone(&mut world, Some(CLONE));
        if is_flushed {
            world.acknowledge_flushes(producer);
        }
        world.hang_up(other);
        world.files_wait = false;
        world.run();
        assert!(world.files[&CLONE].closed, "flushed: {is_flushed}");
        assert!(world.files[&CLONE].bytes.is_empty(), "flushed: {is_flushed}");
        assert_eq!(world.query(consumer).tracing_sessions.len(), 1);
    }
}

/// The limit of the source's file says nothing of the clone's: what did not go into the one is in the other.
#[test]
fn the_limit_of_the_sources_file_is_not_the_clones() {
    let (mut world, producer, _) = writing("max_file_size_bytes: 4000");
    let texts: Vec<String> = (0..4).map(|index| format!("{index}{}", "x".repeat(2000))).collect();
    for (index, text) in (3..).zip(&texts) {
        world.emit(producer, 1, index, 1, &[&packet(text)]);
    }
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.acknowledge_flushes(producer);
    assert!(response(&mut world, other).success());
    let mut expected = vec!["a", "b", "c"];
    expected.extend(texts.iter().map(String::as_str));
    assert_eq!(payloads(&world.file_packets(CLONE)), expected);
}

/// What did not fit is lost; a clone that goes on behind it would have a gap of which nobody knows.
#[test]
fn a_full_file_is_as_good_as_complete() {
    let mut world = World::default();
    let producer = world.producer("p");
    let notifies = protos::DataSourceDescriptor {
        name: Some("data".to_owned()),
        will_notify_on_stop: Some(true),
        ..Default::default()
    };
    world.register_as(producer, notifies);
    let consumer = world.consumer(1000);
    let mode = "write_into_file: true file_write_period_ms: 1000 write_flush_mode: WRITE_FLUSH_DISABLED";
    world.enable_into(consumer, &config(&format!("{mode} max_file_size_bytes: 4000")), SOURCE);
    for index in 0..3 {
        world.emit(producer, 1, index, 1, &[&packet(&"x".repeat(2000))]);
    }
    world.advance_ms(1000);
    assert_eq!(world.query(consumer).tracing_sessions[0].state(), "STOP_WAIT");
    let other = ask_for_clone(&mut world, Some(CLONE));
    assert!(response(&mut world, other).error().contains("full"));
    assert!(world.files[&CLONE].closed);
}

/// A clone is its consumer's only when it is complete.
#[test]
fn a_consumer_that_takes_another_session_meanwhile_has_no_use_for_the_clone() {
    let (mut world, producer, _) = writing("");
    world.files_wait = true;
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.acknowledge_flushes(producer);
    world.free(other);
    world.enable(other, &config(""));
    world.files_wait = false;
    world.run();
    let told = response(&mut world, other);
    assert!(told.error().contains("has a tracing session"), "{told:?}");
    assert!(world.files[&CLONE].closed);
    assert_eq!(world.query(other).tracing_sessions.len(), 2, "the source and its own");
    assert_eq!(world.ended(other), None, "its own goes on");
}

#[test]
fn an_exclusive_session_leaves_the_file_and_takes_the_clone() {
    let (mut world, producer, _) = writing("");
    world.files_wait = true;
    let other = ask_for_clone(&mut world, Some(CLONE));
    world.acknowledge_flushes(producer);
    let root = world.consumer(0);
    world.enable(root, &config("exclusive_prio: 1"));
    world.files_wait = false;
    world.run();
    assert!(response(&mut world, other).success());
    assert_eq!(payloads(&world.file_packets(CLONE)), ["a", "b", "c"]);
    assert_eq!(world.query(root).tracing_sessions.len(), 1);
    assert_eq!(world.ended(root), None);
}
