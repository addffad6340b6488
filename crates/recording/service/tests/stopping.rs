//! A data source is told to stop once, whatever ends it.

mod world;

use ferretto_protos as protos;
use ferretto_service::{ConsumerConn, ProducerCall, ProducerConn, limits};
use world::World;

/// What may end a data source.
#[derive(Clone, Copy, Debug)]
enum End {
    Disable,
    Free,
    Unregister,
}

fn end(world: &mut World, end: End, producer: ProducerConn, consumer: ConsumerConn) {
    match end {
        End::Disable => world.disable(consumer),
        End::Free => world.free(consumer),
        End::Unregister => {
            let request = protos::UnregisterDataSourceRequest { data_source_name: Some("data".to_owned()) };
            world.call(producer, ProducerCall::UnregisterDataSource(request));
        }
    }
}

#[test]
fn a_data_source_is_told_to_stop_once() {
    let cases: &[&[End]] = &[
        &[End::Disable],
        &[End::Free],
        &[End::Unregister],
        &[End::Disable, End::Disable],
        &[End::Disable, End::Free],
        &[End::Disable, End::Unregister],
        &[End::Unregister, End::Disable],
        &[End::Disable, End::Unregister, End::Free],
    ];
    for case in cases {
        for waits in [false, true] {
            let mut world = World::default();
            let producer = world.producer("p");
            let descriptor = protos::DataSourceDescriptor {
                name: Some("data".to_owned()),
                will_notify_on_stop: Some(waits),
                ..Default::default()
            };
            world.register_as(producer, descriptor);
            let consumer = world.consumer(1000);
            world.enable(consumer, "buffers { size_kb: 64 } data_sources { config { name: \"data\" } }");
            for how in *case {
                end(&mut world, *how, producer, consumer);
            }
            let names = world.command_names(producer);
            let stops = names.iter().filter(|name| **name == "stop").count();
            assert_eq!(stops, 1, "{case:?}, and the service waits for it: {waits}: {names:?}");
        }
    }
}

/// Each takes milliseconds, and nobody else is to wait for all of them.
#[test]
fn of_sessions_with_many_instances_one_ends_a_turn() {
    const SOURCES: usize = 256;
    const SECOND_NS: u64 = 1_000_000_000;
    let mut world = World::default();
    let producer = world.producer("p");
    for _ in 0..=limits::MANY_INSTANCES / SOURCES {
        let name = Some("data".to_owned());
        let source = protos::DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() };
        world.register_as(producer, source);
    }
    let sources = "data_sources { config { name: 'data' } }".repeat(SOURCES);
    let consumers = [(); 3].map(|()| world.consumer(1000));
    for consumer in consumers {
        world.enable(consumer, &format!("buffers {{ size_kb: 64 }} {sources} duration_ms: 1000"));
    }
    world.advance_ms(500);
    world.set_time(world.now.clocks.boottime + SECOND_NS);
    let mut ended = Vec::new();
    while ended.iter().sum::<usize>() < consumers.len() {
        assert_eq!(world.service.next_timeout_ns(&world.now), Some(0), "{ended:?}");
        world.service.handle_timeout(&world.now);
        world.run();
        ended.push(consumers.iter().filter(|consumer| world.ended(**consumer).is_some()).count());
    }
    assert!(ended.len() >= consumers.len() && ended.iter().all(|count| *count <= 1), "{ended:?}");
}

/// One answer may end the flushes of many sessions.
#[test]
fn of_sessions_with_many_instances_whose_flushes_end_together_one_ends_a_turn() {
    const SOURCES: usize = 256;
    let mut world = World::default();
    let producer = world.producer("p");
    for number in 0..=limits::MANY_INSTANCES / SOURCES {
        let (name, no_flush) = (Some("data".to_owned()), Some(number > 0));
        world.register_as(producer, protos::DataSourceDescriptor { name, no_flush, ..Default::default() });
    }
    let sources = "data_sources { config { name: 'data' } }".repeat(SOURCES);
    let consumers = [(); 3].map(|()| world.consumer(1000));
    for consumer in consumers {
        world.enable(consumer, &format!("buffers {{ size_kb: 64 }} {sources}"));
    }
    world.advance_ms(0);
    for consumer in consumers {
        world.flush(consumer, 5000);
    }
    let answered = |world: &mut World| {
        consumers.iter().filter(|consumer| world.reply(**consumer, "Flush").is_some()).count()
    };
    world.acknowledge_flushes(producer);
    assert_eq!(answered(&mut world), 1);
    for turn in 2..=consumers.len() {
        world.set_time(world.now.clocks.boottime + 1);
        world.service.handle_timeout(&world.now);
        world.run();
        assert_eq!(answered(&mut world), 1, "in turn {turn}");
    }
}
