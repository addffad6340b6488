//! What the service says of itself, in statistics and in configs: the fields that upstream fills, and one of ours for losses.

mod world;

use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::trace_stats::FinalFlushOutcome;
use ferretto_protos::tracing_service_event::EventType;
use ferretto_protos::{self as protos, clone_session_request::Selector};
use ferretto_service::ConsumerCall;
use prost::Message;
use world::{World, config, only_setup, packet};

#[test]
fn statistics_leave_out_what_did_not_happen() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    world.register(producer, "unused");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let before = world.stats(consumer);
    assert_eq!((before.data_sources_registered(), before.data_sources_seen()), (2, 1), "instances are seen");
    assert_eq!(before.chunk_payload_histogram_def, [] as [i64; 0], "there are no histograms");
    let buffer = before.buffer_stats[0];
    assert!(buffer.buffer_size() > 0 && buffer.chunks_written.is_none() && buffer.abi_violations.is_none());

    world.emit(producer, 1, 0, 1, &[&packet("x")]);
    let after = world.stats(consumer);
    assert!(!after.chunk_payload_histogram_def.is_empty());
    assert_eq!(after.buffer_stats[0].chunks_written, Some(1));
}

#[test]
fn statistics_of_a_program_of_many_threads_fit_into_a_reply() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("").replace("size_kb: 128", "size_kb: 4096"));
    for writer in 1..=10_000 {
        world.emit_inline(producer, writer, 1, &packet("x"));
    }
    let reply = world.stats(consumer);
    let bytes = ferretto_protos::GetTraceStatsResponse { trace_stats: Some(reply.clone()) }.encode_to_vec();
    assert!(reply.writer_stats.len() > 1000 && bytes.len() < 128 * 1024, "{}", bytes.len());
    let in_trace = world.read(consumer).into_iter().find_map(|packet| match packet.data {
        Some(Data::TraceStats(stats)) => Some(stats.writer_stats.len()),
        _ => None,
    });
    assert_eq!(in_trace, Some(10_000));
}

/// Each of 128 buffers could have histograms of 16,384 writers.
#[test]
fn histograms_are_bounded_for_all_buffers_of_a_session() {
    for (buffers, expected) in [(4, 600), (128, 512)] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        let all = "buffers { size_kb: 64 } ".repeat(buffers);
        world.enable(consumer, &format!("{all} data_sources {{ config {{ name: 'data' }} }}"));
        (1..=600).for_each(|writer| world.emit_inline(producer, writer, 1, &packet("x")));
        assert_eq!(world.stats(consumer).writer_stats.len(), expected);
    }
}

#[test]
fn a_packet_of_statistics_has_no_time() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let packets = world.read(consumer);
    let stats = packets.iter().find(|packet| matches!(packet.data, Some(Data::TraceStats(_)))).unwrap();
    assert_eq!((stats.timestamp, stats.timestamp_clock_id), (None, None));
}

#[test]
fn producers_are_told_of_the_clock_for_the_duration_if_it_is_another() {
    for (more, told) in [("", None), ("duration_ms: 9 prefer_suspend_clock_for_duration: true", Some(true))] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(more));
        let (_, told_config) = only_setup(&world.commands(producer));
        assert_eq!(told_config.prefer_suspend_clock_for_duration, told);
    }
}

/// A consumer that asks for a clone of session 1.
fn clone_of_first(world: &mut World, for_bugreport: bool) -> ferretto_service::ConsumerConn {
    let cloner = world.consumer(1000);
    let request = protos::CloneSessionRequest {
        selector: Some(Selector::SessionId(1)),
        for_bugreport: Some(for_bugreport),
        ..Default::default()
    };
    world.ask(cloner, ConsumerCall::CloneSession(request));
    cloner
}

#[test]
fn the_final_flush_is_the_services_own() {
    const TRACE_STOP: u64 = 2;
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("duration_ms: 100"));
    let request = protos::FlushRequest { flags: Some(TRACE_STOP), ..Default::default() };
    world.ask(consumer, ConsumerCall::Flush(request));
    assert_eq!(world.stats(consumer).final_flush_outcome(), FinalFlushOutcome::FinalFlushUnspecified);

    let cloner = clone_of_first(&mut world, false);
    assert_eq!(world.stats(cloner).final_flush_outcome(), FinalFlushOutcome::FinalFlushSucceeded);
    assert_eq!(world.stats(consumer).final_flush_outcome(), FinalFlushOutcome::FinalFlushUnspecified);
    world.advance_ms(200);
    assert_eq!(world.stats(consumer).final_flush_outcome(), FinalFlushOutcome::FinalFlushSucceeded);
}

#[test]
fn who_was_too_slow_comes_before_the_end_of_the_flush() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("flush_timeout_ms: 50"));
    let cloner = clone_of_first(&mut world, false);
    world.advance_ms(100);
    assert_eq!(world.stats(cloner).final_flush_outcome(), FinalFlushOutcome::FinalFlushFailed);
    let events = world.read(cloner).into_iter().filter_map(|packet| match packet.data {
        Some(Data::ServiceEvent(event)) => event.event_type,
        _ => None,
    });
    let events: Vec<EventType> = events.collect();
    let place = |is: fn(&EventType) -> bool| events.iter().position(is).expect("the event");
    let slow = place(|event| matches!(event, EventType::LastFlushSlowDataSources(_)));
    assert_eq!(slow + 1, place(|event| matches!(event, EventType::AllDataSourcesFlushed(_))));
}

#[test]
fn producers_are_told_that_a_flush_is_for_a_bug_report() {
    for (for_bugreport, expected) in [(false, 0x013), (true, 0x113)] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(""));
        clone_of_first(&mut world, for_bugreport);
        let flags = world.commands(producer).into_iter().find_map(|command| match command {
            Cmd::Flush(flush) => Some(flush.flags()),
            _ => None,
        });
        assert_eq!(flags, Some(expected));
    }
}

#[test]
fn what_is_lost_is_counted_where_it_is_lost() {
    let mut world = World::default();
    let before = world.producer("before");
    let consumer = world.consumer(1000);
    // Lost before the session, and no matter of its.
    world.emit_inline(before, 1, 9, &packet("x"));
    world.enable(consumer, &config("flush_timeout_ms: 10"));
    let at_start = world.stats(consumer).losses.expect("it is counted");
    assert_eq!(
        at_start,
        protos::trace_stats::Losses { buffers: at_start.buffers.clone(), ..Default::default() }
    );

    world.refuse_memory();
    let producer = world.producer("p");
    world.register(producer, "data");
    world.emit_inline(producer, 1, 9, &packet("x"));
    let losses = world.stats(consumer).losses.unwrap();
    assert_eq!((losses.producers_without_memory(), losses.chunks_discarded()), (1, 1));
    let sources: Vec<_> = losses.sources.iter().map(|source| (source.name(), source.producers())).collect();
    assert_eq!(sources, [("data", 1)]);

    // It is at work, and nobody may look into what it has not handed over.
    world.disconnect(producer);
    assert_eq!(world.stats(consumer).losses.unwrap().unseen_ends(), 1);
}
