//! Clones whose buffers are copied part by part, and what happens in between.

mod world;

use std::num::NonZeroUsize;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{CloneSessionRequest, CloneSessionResponse};
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerConn, limits};
use world::{World, packet, payloads};

/// Fills several parts of a copy.
const PACKETS: u32 = 100;
const PACKET_BYTES: usize = 3500;

const CONFIG: &str = "buffers { size_kb: 1024 } data_sources { config { name: 'data' } }";

/// What a packet carries: its number, and room.
fn numbered(number: u32) -> Vec<u8> {
    packet(&format!("{number} {}", "x".repeat(PACKET_BYTES)))
}

fn emit(world: &mut World, producer: ProducerConn, numbers: std::ops::Range<u32>) {
    for number in numbers {
        world.emit(producer, 1, number, 1, &[&numbered(number)]);
    }
}

fn numbers(payloads: &[String]) -> Vec<u32> {
    payloads.iter().map(|payload| payload.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Each step of a copy is one part.
fn world(config: &str) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, config);
    world.advance_ms(0);
    emit(&mut world, producer, 0..PACKETS);
    (world, producer, consumer)
}

/// Asks for a clone and flushes for it; it is not whole yet.
fn begin_clone(world: &mut World, producer: ProducerConn, file: Option<FileHandle>) -> ConsumerConn {
    let other = world.consumer(1000);
    if let Some(file) = file {
        world.files.entry(file).or_default();
    }
    let request = CloneSessionRequest { selector: Some(Selector::SessionId(1)), ..Default::default() };
    world.ask_with(other, ConsumerCall::CloneSession(request), file);
    world.acknowledge_flushes(producer);
    assert!(world.reply(other, "CloneSession").is_none());
    assert!(world.service.has_work() && world.service.is_busy(other) == file.is_none());
    other
}

fn step(world: &mut World) {
    world.service.handle_timeout(&world.now);
    world.run();
}

fn response(world: &mut World, of: ConsumerConn) -> CloneSessionResponse {
    world.advance_ms(0);
    assert!(!world.service.is_busy(of) && !world.service.has_work());
    world.answer(of, "CloneSession")
}

/// How many sessions there are, and how many buffers.
#[track_caller]
fn assert_left(world: &World, sessions: usize, buffers: usize) {
    assert!(has_left(world, sessions, buffers), "{:?}", world.service);
}

fn has_left(world: &World, sessions: usize, buffers: usize) -> bool {
    format!("{:?}", world.service).contains(&format!("sessions: {sessions}, buffers: {buffers},"))
}

#[test]
fn a_clone_is_of_the_time_of_its_flush() {
    let (mut world, producer, consumer) = world(CONFIG);
    let other = begin_clone(&mut world, producer, None);
    // The ring wraps round, so that all of it changes.
    for number in PACKETS..4 * PACKETS {
        emit(&mut world, producer, number..number + 1);
        if number % PACKETS == 0 {
            step(&mut world);
        }
    }
    assert!(response(&mut world, other).success());
    assert_eq!(numbers(&world.read_payloads(other)), Vec::from_iter(0..PACKETS));
    world.disable(consumer);
    world.advance_ms(0);
    let rest = numbers(&world.read_payloads(consumer));
    assert!(rest.len() > 200 && rest.last() == Some(&(4 * PACKETS - 1)), "{rest:?}");
}

#[test]
fn what_the_source_has_read_meanwhile_is_still_in_the_clone() {
    let (mut world, producer, consumer) = world(CONFIG);
    let other = begin_clone(&mut world, producer, None);
    assert_eq!(numbers(&world.read_payloads(consumer)), Vec::from_iter(0..PACKETS));
    assert!(response(&mut world, other).success());
    assert_eq!(numbers(&world.read_payloads(other)), Vec::from_iter(0..PACKETS));
}

#[test]
fn the_source_may_go_before_the_clone_is_whole() {
    let (mut world, producer, consumer) = world(CONFIG);
    let other = begin_clone(&mut world, producer, None);
    world.free(consumer);
    // The one that is copied stays, and goes when it is copied.
    assert_left(&world, 1, 1);
    assert!(response(&mut world, other).success());
    assert_left(&world, 1, 1);
    assert_eq!(numbers(&world.read_payloads(other)), Vec::from_iter(0..PACKETS));
    world.free(other);
    assert_left(&world, 0, 0);
}

#[test]
fn nothing_is_left_of_a_clone_whose_consumer_hangs_up() {
    let (mut world, producer, consumer) = world(CONFIG);
    let other = begin_clone(&mut world, producer, None);
    step(&mut world);
    world.hang_up(other);
    assert!(!world.service.has_work());
    assert_left(&world, 1, 1);
    assert_eq!(numbers(&world.read_payloads(consumer)), Vec::from_iter(0..PACKETS));
}

#[test]
fn clones_of_one_session_come_one_after_another() {
    let (mut world, producer, _) = world(CONFIG);
    let first = begin_clone(&mut world, producer, None);
    let (second, third) = (begin_clone(&mut world, producer, None), begin_clone(&mut world, producer, None));
    emit(&mut world, producer, PACKETS..PACKETS + 1);
    world.hang_up(second);
    assert!(response_after_flushes(&mut world, producer, first).success());
    assert!(response_after_flushes(&mut world, producer, third).success());
    assert_eq!(numbers(&world.read_payloads(first)), Vec::from_iter(0..PACKETS));
    assert_eq!(numbers(&world.read_payloads(third)), Vec::from_iter(0..=PACKETS));
    assert_left(&world, 3, 3);
}

#[test]
fn who_waits_for_a_session_by_name_gets_it_and_names_his_trigger() {
    let (mut world, producer, _) = world(&format!("{CONFIG} unique_session_name: 'own'"));
    let first = begin_clone(&mut world, producer, None);
    let second = world.consumer(1000);
    let request = CloneSessionRequest {
        selector: Some(Selector::UniqueSessionName("own".to_owned())),
        clone_trigger_name: Some("t".repeat(100_000)),
        ..Default::default()
    };
    world.ask(second, ConsumerCall::CloneSession(request));
    assert!(response_after_flushes(&mut world, producer, first).success());
    assert!(response_after_flushes(&mut world, producer, second).success());
    let packets = world.read(second);
    let names = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::CloneSnapshotTrigger(trigger)) => Some(trigger.trigger_name()),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), ["t".repeat(limits::MAX_NAME_BYTES)]);
    assert_eq!(numbers(&payloads(&packets)), Vec::from_iter(0..PACKETS));
}

/// One that had to wait is flushed for when its turn has come.
fn response_after_flushes(
    world: &mut World,
    producer: ProducerConn,
    of: ConsumerConn,
) -> CloneSessionResponse {
    world.advance_ms(0);
    world.acknowledge_flushes(producer);
    response(world, of)
}

/// Both were flushed for at one time.
#[test]
fn what_was_flushed_for_waits_for_the_clone_before_it() {
    let (mut world, producer, _) = world(CONFIG);
    let clones = [world.consumer(1000), world.consumer(1000)];
    for other in clones {
        let request = CloneSessionRequest { selector: Some(Selector::SessionId(1)), ..Default::default() };
        world.ask(other, ConsumerCall::CloneSession(request));
    }
    world.acknowledge_flushes(producer);
    assert!(clones.iter().all(|other| world.service.is_busy(*other)));
    for other in clones {
        assert!(response(&mut world, other).success());
        assert_eq!(numbers(&world.read_payloads(other)), Vec::from_iter(0..PACKETS));
    }
    assert_left(&world, 3, 3);
}

#[test]
fn who_wants_to_be_alone_ends_a_clone_that_is_not_whole() {
    let (mut world, producer, _) = world(CONFIG);
    let other = begin_clone(&mut world, producer, None);
    let alone = world.consumer(0);
    world.enable(alone, &format!("{CONFIG} exclusive_prio: 1"));
    let refused = response(&mut world, other);
    assert!(refused.error().contains("wants to be alone"), "{refused:?}");
    assert_left(&world, 1, 1);
}

#[test]
fn a_file_is_copied_up_to_the_time_of_the_flush() {
    const SOURCE: FileHandle = FileHandle(1);
    const CLONE: FileHandle = FileHandle(2);
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let mode = "write_into_file: true file_write_period_ms: 1000 write_flush_mode: WRITE_FLUSH_DISABLED";
    world.enable_into(consumer, &format!("{CONFIG} {mode}"), SOURCE);
    world.advance_ms(0);
    emit(&mut world, producer, 0..10);
    world.advance_ms(1000);
    emit(&mut world, producer, 10..PACKETS);
    let other = begin_clone(&mut world, producer, Some(CLONE));
    emit(&mut world, producer, PACKETS..PACKETS + 10);
    // The buffers go into the source's file.
    world.service.handle_timeout(&world.now);
    let told = response(&mut world, other);
    assert!(told.success() && told.was_write_into_file(), "{told:?}");
    let payloads = payloads(&world.file_packets(CLONE));
    assert_eq!(numbers(&payloads), Vec::from_iter(0..PACKETS));
    assert!(world.files[&CLONE].closed);
    world.disable(consumer);
    world.advance_ms(0);
    let payloads = world::payloads(&world.file_packets(SOURCE));
    assert_eq!(numbers(&payloads), Vec::from_iter(0..PACKETS + 10));
}

#[test]
fn a_file_is_given_up_with_its_consumer() {
    const CLONE: FileHandle = FileHandle(2);
    let mode = "write_into_file: true file_write_period_ms: 1000";
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable_into(consumer, &format!("{CONFIG} {mode}"), FileHandle(1));
    world.advance_ms(0);
    emit(&mut world, producer, 0..PACKETS);
    let other = begin_clone(&mut world, producer, Some(CLONE));
    world.hang_up(other);
    world.advance_ms(0);
    assert!(world.files[&CLONE].closed);
    assert_left(&world, 1, 1);
}

/// Clones of a session until it is whole, step by step.
fn steps_of_clone(world: &mut World, producer: ProducerConn, uid: u32, source: u64) -> usize {
    let other = world.consumer(uid);
    let request = CloneSessionRequest { selector: Some(Selector::SessionId(source)), ..Default::default() };
    world.ask(other, ConsumerCall::CloneSession(request));
    world.acknowledge_flushes(producer);
    let mut steps = 0;
    while world.reply(other, "CloneSession").is_none() {
        let (was_busy, ended) = (world.service.is_busy(other), world.service.work_ended());
        step(world);
        let is_let_go = was_busy && !world.service.is_busy(other);
        assert!(!is_let_go || world.service.work_ended() != ended, "whoever waits for that would go on to");
        steps += 1;
    }
    world.free(other);
    steps
}

/// Nor does a user with many clones make others wait for more than his turn.
#[test]
fn clones_that_wait_take_no_turns() {
    const WAITING: usize = 300;
    let (mut world, producer, _) = world(CONFIG);
    let own = world.consumer(2000);
    world.enable(own, CONFIG);
    world.advance_ms(0);
    for number in 0..PACKETS {
        world.emit(producer, 1, number, 2, &[&numbered(number)]);
    }
    let alone = steps_of_clone(&mut world, producer, 2000, 2);
    let mut crowd: Vec<_> = (0..WAITING).map(|_| begin_clone(&mut world, producer, None)).collect();
    let beside = steps_of_clone(&mut world, producer, 2000, 2);
    assert!(alone > 1 && beside <= 2 * alone + 2, "{alone} steps, and {beside} beside others");
    // All of them have their answer in the end, and a clone as far as there is room for one.
    while let Some(other) = crowd.pop() {
        match crowd.len() % 3 {
            0 => world.hang_up(other),
            _ => {
                world.advance_ms(0);
                world.acknowledge_flushes(producer);
            }
        }
    }
    world.advance_ms(0);
    assert!(!world.service.has_work());
}

/// Of clones whose flushes end together as many are begun as make up a step; the others have their turn like all that is long.
#[test]
fn clones_whose_flushes_end_together_share_a_step() {
    // To begin one costs 100, and more where a ring folds.
    assert_eq!(begun_together(CONFIG, 250), 2);
    assert_eq!(begun_together(&CONFIG.replace("1024", "1024 fold_overwritten: true"), 250), 1);
}

/// How many of five are, where a step may cost so much.
fn begun_together(config: &str, step_cost: usize) -> usize {
    let mut world = World::with_step_cost(NonZeroUsize::new(step_cost));
    let producer = world.producer("p");
    world.register(producer, "data");
    let clones: Vec<ConsumerConn> = (1..=5)
        .map(|session| {
            let uid = 1000 + session;
            let consumer = world.consumer(uid);
            world.enable(consumer, config);
            world.advance_ms(0);
            let other = world.consumer(uid);
            let selector = Some(Selector::SessionId(session.into()));
            world.ask(
                other,
                ConsumerCall::CloneSession(CloneSessionRequest { selector, ..Default::default() }),
            );
            other
        })
        .collect();
    // A flush that is answered answers those before it.
    world.acknowledge_flushes(producer);
    let sessions = clones.len();
    let begun = (0..=sessions).find(|begun| has_left(&world, sessions + begun, sessions + begun)).unwrap();
    world.advance_ms(0);
    assert!(clones.into_iter().all(|other| response(&mut world, other).success()));
    assert_left(&world, 2 * sessions, 2 * sessions);
    begun
}

/// There are 65,535 ids, and whoever begins and ends sessions meanwhile has come round to those that the clone is to have.
#[test]
fn a_buffer_that_a_clone_is_to_get_is_nobody_elses() {
    const BUFFERS: usize = 128;
    let (mut world, producer, _consumer) = world(CONFIG);
    let cloning = begin_clone(&mut world, producer, None);
    let stranger = world.consumer(7);
    let own =
        format!("{}data_sources {{ config {{ name: 'data' }} }}", "buffers { size_kb: 4 }".repeat(BUFFERS));
    for _ in 0..=usize::from(u16::MAX) / BUFFERS {
        world.free(stranger);
        world.enable(stranger, &own);
    }
    assert!(world.service.is_busy(cloning), "it is not whole yet");
    let response = response(&mut world, cloning);
    assert!(response.success(), "{response:?}");
    assert_eq!(numbers(&world.read_payloads(cloning)), (0..PACKETS).collect::<Vec<_>>());
    world.disable(stranger);
    world.advance_ms(10_000);
    assert_eq!(world.read_payloads(stranger), [""; 0]);
}

/// A consumer may have begun several before the first was flushed for.
#[test]
fn of_clones_that_wait_those_go_whose_consumer_hangs_up() {
    let (mut world, producer, _consumer) = world(CONFIG);
    let (gone, stays) = (world.consumer(1000), world.consumer(1000));
    let request = CloneSessionRequest { selector: Some(Selector::SessionId(1)), ..Default::default() };
    for conn in [gone, gone, stays, gone] {
        world.ask(conn, ConsumerCall::CloneSession(request.clone()));
    }
    let whole = begin_clone(&mut world, producer, None);
    world.hang_up(gone);
    assert!(response(&mut world, whole).success());
    assert!(response(&mut world, stays).success());
    assert_left(&world, 3, 3);
}
