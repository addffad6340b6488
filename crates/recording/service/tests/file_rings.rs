//! Rings that are written into a file, and fill faster than the config thinks.

mod world;

use ferretto_protos::DataSourceDescriptor;
use ferretto_service::{FileHandle, ProducerConn};
use world::{World, config, packet, payloads};

const FILE: FileHandle = FileHandle(1);

/// A session with a ring of 128 KiB, written every minute unless there is a reason.
fn writing(more: &str) -> (World, ProducerConn) {
    let mut world = World::default();
    let producer = world.producer("p");
    let descriptor = DataSourceDescriptor {
        name: Some("data".to_owned()),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    };
    world.register_as(producer, descriptor);
    let consumer = world.consumer(1000);
    let text = config(&format!("write_into_file: true file_write_period_ms: 60000 {more}"));
    world.enable_into(consumer, &text, FILE);
    world.commands(producer);
    (world, producer)
}

/// Emits this many packets of 3,000 bytes, one in a chunk; each is named by its number.
fn emit(world: &mut World, producer: ProducerConn, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let text = format!("{number} {}", "x".repeat(3000));
        world.emit(producer, 1, number, 1, &[&packet(&text)]);
    }
}

fn numbers(world: &World) -> Vec<u32> {
    let payloads = payloads(&world.file_packets(FILE));
    payloads.iter().filter_map(|text| text.split(' ').next()?.parse().ok()).collect()
}

#[test]
fn a_quarter_that_is_new_is_written_before_its_time() {
    let (mut world, producer) = writing("");
    emit(&mut world, producer, 0..10);
    assert_eq!(numbers(&world), []);
    emit(&mut world, producer, 10..300);
    let written = numbers(&world);
    assert!(written.len() > 280, "{}", written.len());
    assert!(written.iter().copied().eq(0..written.len() as u32), "nothing is missing: {written:?}");
}

#[test]
fn producers_flush_before_the_ring_has_turned_but_not_all_the_time() {
    let (mut world, producer) = writing("");
    emit(&mut world, producer, 0..20);
    assert_eq!(world.acknowledge_flushes(producer), 0, "less than half is new");
    emit(&mut world, producer, 20..30);
    assert_eq!(world.acknowledge_flushes(producer), 1);
    emit(&mut world, producer, 30..100);
    assert_eq!(world.acknowledge_flushes(producer), 0, "it was just now");
    world.advance_ms(100);
    emit(&mut world, producer, 100..101);
    assert_eq!(world.acknowledge_flushes(producer), 1);
}

#[test]
fn who_wants_no_flushes_gets_none() {
    let (mut world, producer) = writing("write_flush_mode: WRITE_FLUSH_DISABLED");
    emit(&mut world, producer, 0..300);
    assert_eq!(world.acknowledge_flushes(producer), 0);
}

#[test]
fn names_are_repeated_after_something_was_overwritten() {
    let (mut world, producer) = writing("");
    let clears = |world: &mut World| {
        let names = world.command_names(producer);
        names.into_iter().filter(|name| *name == "clear").count()
    };
    emit(&mut world, producer, 0..100);
    assert_eq!(clears(&mut world), 0, "all of it is in the file");
    world.files_wait = true;
    emit(&mut world, producer, 100..200);
    world.files_wait = false;
    world.run();
    assert_eq!(clears(&mut world), 1);
    let written = numbers(&world);
    assert!(written.len() < 200, "something was overwritten: {}", written.len());
    world.advance_ms(100);
    emit(&mut world, producer, 200..300);
    assert_eq!(clears(&mut world), 1, "more was overwritten after that");
    world.advance_ms(100);
    emit(&mut world, producer, 300..400);
    assert_eq!(clears(&mut world), 0, "nothing more was overwritten");
}
