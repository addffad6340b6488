//! Packets of many megabytes on their way out: what nobody takes is not read in advance.

mod world;

use std::collections::BTreeMap;

use ferretto_protos::trace_packet::Data;
use ferretto_protos::{TestEvent, TracePacket};
use ferretto_service::{ConsumerConn, FileContent, FileHandle, ProducerConn, limits};
use prost::Message;
use world::{World, config, only_setup};

const PACKET_BYTES: usize = 20 << 20;

/// A packet of one field.
fn large(seed: u8) -> Vec<u8> {
    let text = char::from(b'a' + seed).to_string().repeat(PACKET_BYTES);
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
