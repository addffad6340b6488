//! What a session may want of a program that is another user's.

mod world;

use ferretto_protos::DataSourceConfig;
use ferretto_protos::data_source_config::BufferExhaustedPolicy;
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_service::{ConsumerConn, ProducerConn, limits};
use world::{Introduction, SERVICE_UID, World, instance, named};

const OWNER: u32 = 1000;
const STRANGERS: [u32; 3] = [2001, 2002, 2003];

/// A program of this user, with one data source.
fn program(world: &mut World, uid: u32) -> ProducerConn {
    let producer = world.introduce(&Introduction { uid, ..named("program") });
    world.register(producer, "data");
    producer
}

/// Wants the data source so many times, each with these fields of its config.
fn want(world: &mut World, uid: u32, times: usize, fields: &str) -> ConsumerConn {
    let consumer = world.consumer(uid);
    let sources = format!("data_sources {{ config {{ name: 'data' {fields} }} }}").repeat(times);
    world.enable(consumer, &format!("buffers {{ size_kb: 64 }} {sources}"));
    consumer
}

/// The configs that a program got since the last time.
fn configs(world: &mut World, producer: ProducerConn) -> Vec<DataSourceConfig> {
    let commands = world.commands(producer);
    let setups = commands.iter().filter(|command| matches!(command, Cmd::SetupDataSource(_)));
    setups.map(|setup| instance(setup).1).collect()
}

fn places(world: &mut World, producer: ProducerConn, uid: u32, times: usize) -> (ConsumerConn, usize) {
    let consumer = want(world, uid, times, "");
    (consumer, configs(world, producer).len())
}

#[test]
fn strangers_leave_places_to_others_and_to_those_who_are_none() {
    let mut world = World::default();
    let producer = program(&mut world, OWNER);
    let taken = STRANGERS.map(|uid| places(&mut world, producer, uid, 8));
    let of_one = limits::MAX_INSTANCES_FOR_A_STRANGER;
    assert_eq!(taken.map(|(_, count)| count), [of_one, of_one, 0]);
    assert_eq!(2 * of_one, limits::MAX_INSTANCES_FOR_STRANGERS);
    for uid in [OWNER, 0, SERVICE_UID] {
        assert_eq!(places(&mut world, producer, uid, 3).1, 3, "{uid}");
    }
    // In further sessions there is no more; and what is left out is said.
    assert_eq!(places(&mut world, producer, STRANGERS[0], 1).1, 0);
    let left_out = world.stats(taken[0].0).losses.unwrap_or_default().sources_left_out();
    assert_eq!(left_out, 8 - of_one as u64);
    // What is over takes no place any more.
    world.disable(taken[0].0);
    world.advance_ms(10_000);
    assert_eq!(places(&mut world, producer, STRANGERS[2], 8).1, of_one);
}

#[test]
fn programs_of_root_have_more_places_and_some_are_roots() {
    for uid in [0, SERVICE_UID] {
        let mut world = World::default();
        let producer = program(&mut world, uid);
        let taken = STRANGERS.map(|uid| places(&mut world, producer, uid, 100).1);
        let of_one = limits::MAX_INSTANCES_FOR_A_STRANGER_OF_ROOTS;
        assert_eq!(taken, [of_one, limits::MAX_INSTANCES_FOR_STRANGERS_OF_ROOTS - of_one, 0]);
        assert_eq!(places(&mut world, producer, 0, 8).1, 8);
    }
}

#[test]
fn whose_programs_are_behind_a_relay_is_not_believed() {
    let mut world = World::default();
    let producer = world.introduce(&Introduction { uid: OWNER, emulated: true, ..named("program") });
    world.register(producer, "data");
    assert_eq!(places(&mut world, producer, OWNER, 8).1, limits::MAX_INSTANCES_FOR_A_STRANGER);
    assert_eq!(places(&mut world, producer, 0, 8).1, 8);
}

#[test]
fn a_stranger_makes_no_program_wait_or_end() {
    use BufferExhaustedPolicy as Policy;
    let cases = [
        (Policy::BufferExhaustedUnspecified, Policy::BufferExhaustedUnspecified),
        (Policy::BufferExhaustedDrop, Policy::BufferExhaustedDrop),
        (Policy::BufferExhaustedStallThenAbort, Policy::BufferExhaustedDrop),
        (Policy::BufferExhaustedStallThenDrop, Policy::BufferExhaustedDrop),
    ];
    for (wanted, for_strangers) in cases {
        for uid in [OWNER, 0, SERVICE_UID, STRANGERS[0]] {
            let mut world = World::default();
            let producer = program(&mut world, OWNER);
            want(&mut world, uid, 1, &format!("buffer_exhausted_policy: {}", wanted.as_str_name()));
            let got = configs(&mut world, producer)[0].buffer_exhausted_policy();
            assert_eq!(got, if uid == STRANGERS[0] { for_strangers } else { wanted }, "{uid}");
        }
    }
}
