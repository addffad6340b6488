//! The way of the data in, where there is much of it: commits and scrapes in steps, and what waits for them.

mod world;

use std::num::NonZeroUsize;

use ferretto_protos as protos;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch};
use ferretto_service::{ConsumerCall, ConsumerConn, ProducerCall, ProducerConn};
use ferretto_shm::ChunkWriter;
use prost::Message;
use world::{Introduction, World, config, named, packet};

/// Chunks that a producer holds, each of another writer.
const WRITERS: u16 = 4;

/// A session that has started, and a step for each chunk.
fn tracing(more: &str) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let producer = world.introduce(&Introduction { scraping: true, ..named("p") });
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(more));
    world.advance_ms(0);
    world.commands(producer);
    (world, producer, consumer)
}

fn name_of(writer: u16) -> String {
    format!("of {writer}")
}

fn expected() -> Vec<String> {
    (1..=WRITERS).map(name_of).collect()
}

/// A chunk that is being written.
fn hold_one(world: &mut World, producer: ProducerConn, writer: u16) -> ChunkWriter {
    let request =
        protos::RegisterTraceWriterRequest { trace_writer_id: Some(writer.into()), target_buffer: Some(1) };
    world.call(producer, ProducerCall::RegisterTraceWriter(request));
    world.write(producer, writer, 0, &[&packet(&name_of(writer)), &packet("unfinished")])
}

fn hold(world: &mut World, producer: ProducerConn) -> Vec<ChunkWriter> {
    (1..=WRITERS).map(|writer| hold_one(world, producer, writer)).collect()
}

fn step(world: &mut World) {
    world.service.handle_timeout(&world.now);
    world.run();
}

fn steps(world: &mut World) -> usize {
    let mut steps = 0;
    while world.service.has_work() {
        step(world);
        steps += 1;
    }
    steps
}

#[test]
fn a_flush_ends_after_its_scrape() {
    let (mut world, producer, consumer) = tracing("");
    let _chunks = hold(&mut world, producer);
    world.flush(consumer, 0);
    world.acknowledge_flushes(producer);
    assert!(world.reply(consumer, "Flush").is_none() && world.service.is_busy(consumer));
    assert!(steps(&mut world) >= WRITERS.into());
    assert!(world.reply(consumer, "Flush").unwrap().is_some() && !world.service.is_busy(consumer));
    assert_eq!(world.read_payloads(consumer), expected());
}

#[test]
fn flushes_that_end_together_are_scraped_for_once() {
    let mut counts = [1, 100].map(|flushes| {
        let (mut world, producer, consumer) = tracing("");
        let _chunks = hold(&mut world, producer);
        (0..flushes).for_each(|_| world.flush(consumer, 1000));
        world.set_time(world.now.clocks.boottime + 1_000_000_000);
        step(&mut world);
        let steps = steps(&mut world);
        let replies = world.consumers.get_mut(&consumer).unwrap().replies.remove("Flush").unwrap();
        assert_eq!(replies, vec![None; flushes], "nobody has answered");
        assert_eq!(world.read_payloads(consumer), expected());
        steps
    });
    counts.sort_unstable();
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn a_flush_that_ends_during_a_scrape_has_one_of_its_own() {
    let (mut world, producer, consumer) = tracing("");
    let _chunks = hold(&mut world, producer);
    (0..2).for_each(|_| world.flush(consumer, 0));
    let flushes: Vec<u64> = world.commands(producer).iter().filter_map(flush_id).collect();
    world.acknowledge_flush(producer, flushes[0]);
    while !has_begun(&mut world, consumer) {
        step(&mut world);
    }
    assert!(world.service.has_work());
    let _late = hold_one(&mut world, producer, WRITERS + 1);
    world.acknowledge_flush(producer, flushes[1]);
    steps(&mut world);
    let replies = world.consumers.get_mut(&consumer).unwrap().replies.remove("Flush").unwrap();
    assert!(replies.len() == 2 && replies.iter().all(Option::is_some));
    let payloads = world.read_payloads(consumer);
    assert!(payloads.contains(&name_of(WRITERS + 1)), "{payloads:?}");
}

/// Who comes during a scrape has nothing for it, however many do, and whatever ids they have.
#[test]
fn a_scrape_ends_beside_producers_that_come_and_go_without_end() {
    for gone_before in [0, u16::MAX - 3] {
        let (mut world, producer, consumer) = tracing("");
        // Ids go round while it lasts.
        for _ in 0..gone_before {
            let passing = world.connect(&named("passing"));
            let request = protos::InitializeConnectionRequest::default();
            world.call(passing, ProducerCall::InitializeConnection(request));
            world.disconnect(passing);
            world.producers.remove(&passing);
        }
        let _chunks = hold(&mut world, producer);
        let mut others: Vec<_> = (0..3).map(|_| newcomer(&mut world)).collect();
        world.flush(consumer, 0);
        world.acknowledge_flushes(producer);
        others.iter().for_each(|(other, _)| {
            world.acknowledge_flushes(*other);
        });
        let mut rounds = 0;
        while world.reply(consumer, "Flush").is_none() {
            assert!(rounds < 100, "{gone_before} came before");
            let other = newcomer(&mut world);
            let (gone, _) = std::mem::replace(&mut others[rounds % 3], other);
            world.disconnect(gone);
            // Those who come and go are work, too.
            (0..24).for_each(|_| step(&mut world));
            rounds += 1;
        }
        let payloads = world.read_payloads(consumer);
        assert!(payloads.starts_with(&expected()), "{payloads:?}");
    }
}

/// One more producer, which holds chunks.
fn newcomer(world: &mut World) -> (ProducerConn, Vec<ChunkWriter>) {
    let other = world.introduce(&Introduction { scraping: true, uid: 2000, ..named("other") });
    world.register(other, "data");
    (other, hold(world, other))
}

fn flush_id(command: &protos::get_async_command_response::Cmd) -> Option<u64> {
    match command {
        protos::get_async_command_response::Cmd::Flush(flush) => Some(flush.request_id()),
        _ => None,
    }
}

/// Chunks are being copied: no others are looked for.
fn has_begun(world: &mut World, consumer: ConsumerConn) -> bool {
    world.stats(consumer).buffer_stats[0].chunks_written() > 0
}

#[test]
fn a_session_ends_after_its_last_scrape() {
    let (mut world, producer, consumer) = tracing("");
    let _chunks = hold(&mut world, producer);
    world.disable(consumer);
    assert!(world.service.is_busy(consumer) && world.ended(consumer).is_none());
    let observer = world.consumer(1000);
    assert_eq!(world.query(observer).tracing_sessions[0].state(), "STOP_WAIT");
    steps(&mut world);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert_eq!(world.query(observer).tracing_sessions[0].state(), "DISABLED");
    assert_eq!(world.read_payloads(consumer), expected());
}

#[test]
fn a_session_that_is_freed_is_not_scraped() {
    let (mut world, producer, consumer) = tracing("");
    let _chunks = hold(&mut world, producer);
    world.flush(consumer, 0);
    world.acknowledge_flushes(producer);
    world.disable(consumer);
    world.hang_up(consumer);
    assert_eq!(world.service.session_count(), 0);
    assert!(steps(&mut world) <= 2, "what was begun is not gone on with");
}

#[test]
fn a_producer_that_vanishes_is_scraped_before_its_memory_goes() {
    let (mut world, producer, consumer) = tracing("");
    let _chunks = hold(&mut world, producer);
    world.flush(consumer, 0);
    world.disconnect(producer);
    assert!(world.reply(consumer, "Flush").is_none() && world.service.has_work());
    steps(&mut world);
    assert!(world.reply(consumer, "Flush").unwrap().is_some(), "nobody is waited for");
    assert_eq!(world.read_payloads(consumer), expected());
    assert_eq!(world.query(consumer).producers, []);
    let next = world.producer("next");
    world.register(next, "data");
    assert_eq!(world.command_names(next), ["setup_tracing", "setup", "start"]);
}

#[test]
fn the_clone_of_a_session_that_stops_has_what_a_producer_holds_that_crashed() {
    let (mut world, producer, consumer) = tracing("");
    let _chunks = hold(&mut world, producer);
    let slow = world.producer("slow");
    let descriptor = protos::DataSourceDescriptor {
        name: Some("data".to_owned()),
        will_notify_on_stop: Some(true),
        ..Default::default()
    };
    world.register_as(slow, descriptor);
    steps(&mut world);
    world.disable(consumer);
    world.disconnect(producer);
    let cloner = world.consumer(1000);
    let selector = Some(protos::clone_session_request::Selector::SessionId(1));
    let request = protos::CloneSessionRequest { selector, ..Default::default() };
    world.ask(cloner, ConsumerCall::CloneSession(request));
    assert!(world.service.has_work());
    steps(&mut world);
    assert_eq!(world.query(cloner).tracing_sessions[0].state(), "STOP_WAIT");
    let response: protos::CloneSessionResponse = world.answer(cloner, "CloneSession");
    assert!(response.success(), "{response:?}");
    assert_eq!(world.read_payloads(cloner), expected());
}

#[test]
fn sources_that_go_take_no_later_ones_along() {
    let (mut world, producer, consumer) = tracing("data_sources { config { name: 'data' } }");
    let request = protos::UnregisterDataSourceRequest { data_source_name: Some("data".to_owned()) };
    world.call(producer, ProducerCall::UnregisterDataSource(request));
    world.register(producer, "data");
    assert!(world.service.has_work());
    steps(&mut world);
    assert_eq!(world.query(consumer).tracing_sessions[0].num_data_sources(), 2);
    let mut names = world.command_names(producer);
    names.sort_unstable();
    assert_eq!(names, ["setup", "setup", "start", "start", "stop", "stop"]);
}

/// A request that moves chunks that are complete.
fn commit(world: &mut World, producer: ProducerConn, chunks: u32) -> protos::CommitDataRequest {
    let chunk = |id: u32| {
        let at = world.write(producer, 1, id, &[&packet(&id.to_string())]).complete().unwrap();
        World::move_request(at, 1)
    };
    protos::CommitDataRequest { chunks_to_move: (0..chunks).map(chunk).collect(), ..Default::default() }
}

#[test]
fn a_large_commit_is_answered_when_all_of_it_is_taken() {
    let (mut world, producer, consumer) = tracing("");
    let request = commit(&mut world, producer, 10);
    world.commits_wait = true;
    world.commit(producer, request);
    let is_answered = |world: &World| world.producers[&producer].last_reply.is_some();
    world.producers.get_mut(&producer).unwrap().last_reply = None;
    let mut parts = 1;
    while world.service.is_committing(producer) {
        assert!(!is_answered(&world));
        world.service.continue_commit(producer, &world.now);
        world.run();
        parts += 1;
    }
    assert!(is_answered(&world) && parts == 10, "{parts}");
    let expected: Vec<String> = (0..10).map(|id| id.to_string()).collect();
    assert_eq!(world.read_payloads(consumer), expected);
}

#[test]
fn what_is_left_of_a_large_commit_is_kept_as_small_as_it_came() {
    const CHUNKS: usize = 60_000;
    let (mut world, producer, _consumer) = tracing("");
    let chunks_to_move = vec![ChunksToMove::default(); CHUNKS];
    world.commits_wait = true;
    world.commit(producer, protos::CommitDataRequest { chunks_to_move, ..Default::default() });
    assert!(world.service.is_committing(producer));
    let bytes = world.service.committing_bytes(producer);
    assert!((CHUNKS..=2 * CHUNKS).contains(&bytes), "{bytes} bytes");
    while world.service.is_committing(producer) {
        world.service.continue_commit(producer, &world.now);
    }
    assert_eq!(world.service.committing_bytes(producer), 0);
}

/// Each chunk is sought for, of thousands.
#[test]
fn a_commit_with_many_patches_is_answered_when_all_are_applied() {
    const PATCHED: u32 = 10;
    let (mut world, producer, consumer) = tracing("");
    let request = commit(&mut world, producer, PATCHED);
    world.commit(producer, request);
    let patches = vec![chunk_to_patch::Patch { offset: Some(0), data: Some(vec![0; 4].into()) }];
    let patch = |id: u32| ChunkToPatch {
        target_buffer: Some(1),
        writer_id: Some(1),
        chunk_id: Some(id),
        patches: patches.clone(),
        ..Default::default()
    };
    // Half of them are not there.
    let chunks_to_patch = (0..2 * PATCHED).map(patch).collect();
    world.commits_wait = true;
    world.producers.get_mut(&producer).unwrap().last_reply = None;
    world.commit(producer, protos::CommitDataRequest { chunks_to_patch, ..Default::default() });
    let mut parts = 1;
    while world.service.is_committing(producer) {
        assert!(world.producers[&producer].last_reply.is_none());
        world.service.continue_commit(producer, &world.now);
        world.run();
        parts += 1;
    }
    assert!(world.producers[&producer].last_reply.is_some() && parts == 2 * PATCHED, "{parts}");
    let stats = world.stats(consumer).buffer_stats[0];
    let found = u64::from(PATCHED);
    assert_eq!((stats.patches_succeeded(), stats.patches_failed()), (found, found));
}

#[test]
fn a_commit_of_who_vanishes_and_one_before_another_call_is_taken_to_its_end() {
    for vanishes in [true, false] {
        let (mut world, producer, consumer) = tracing("");
        let request = commit(&mut world, producer, 10);
        world.commits_wait = true;
        world.commit(producer, request);
        assert!(world.service.is_committing(producer));
        match vanishes {
            true => world.disconnect(producer),
            false => world.call(producer, ProducerCall::Sync(Default::default())),
        }
        steps(&mut world);
        assert!(!world.service.is_committing(producer));
        assert_eq!(world.read_payloads(consumer).len(), 10);
    }
}

#[test]
fn what_a_ring_folds_costs_more_than_what_it_only_takes() {
    for (fill_policy, folds) in [("RING_BUFFER", false), ("RING_BUFFER fold_overwritten: true", true)] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        let buffer = format!("buffers {{ size_kb: 256 fill_policy: {fill_policy} }}");
        world.enable(consumer, &format!("{buffer} data_sources {{ config {{ name: 'data' }} }}"));
        assert_eq!(world.ended(consumer), None);
        world.commits_wait = true;
        let request = commit(&mut world, producer, 60);
        world.commit(producer, request);
        assert_eq!(world.service.is_committing(producer), folds, "{fill_policy}");
    }
}

#[test]
fn observers_take_what_a_reply_has_no_room_for_in_parts() {
    let mut world = World::default();
    let producer = world.producer("p");
    let names: Vec<String> = (0..100).map(|number| format!("{number:04000}")).collect();
    names.iter().for_each(|name| world.register(producer, name));
    let consumer = world.consumer(1000);
    let sources = names.iter().map(|name| format!("data_sources {{ config {{ name: '{name}' }} }}"));
    world.enable(consumer, &format!("buffers {{ size_kb: 128 }} {}", sources.collect::<String>()));
    world.ask(
        consumer,
        ConsumerCall::ObserveEvents(protos::ObserveEventsRequest { events_to_observe: vec![1, 2] }),
    );
    let replies = world.consumers.get_mut(&consumer).unwrap().replies.remove("ObserveEvents").unwrap();
    let parts: Vec<protos::ObservableEvents> = replies
        .into_iter()
        .map(|body| protos::ObserveEventsResponse::decode(body.unwrap()).unwrap().events.unwrap())
        .collect();
    let changes = parts.iter().flat_map(|part| &part.instance_state_changes);
    assert!(changes.map(|change| change.data_source_name()).eq(names.iter().map(String::as_str)));
    let (last, others) = parts.split_last().unwrap();
    assert!(others.len() == 3 && others.iter().all(|part| part.all_data_sources_started.is_none()));
    assert_eq!(last.all_data_sources_started, Some(true));
}
