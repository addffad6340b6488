//! Our consumer on upstream's service, and on ours: the same promises.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ferretto_consumer::{CallError, ConnectError, Consumer, Event, Observe, flush_flags, write_packet};
use ferretto_interop::{Maker, Peers, World, config, ferretto, need, upstream, wait_for_end};
use ferretto_ipc::address::Address;
use ferretto_protos::{CloneSessionRequest, clone_session_request::Selector};

const TIMEOUT: Duration = Duration::from_secs(10);
const ONE_BUFFER: &str = "buffers { size_kb: 1024 } unique_session_name: 'one'";

/// One test a maker, so that each can be skipped by itself.
macro_rules! on_each_service {
    ($($promise:ident)*) => {
        mod upstreams {
            use super::*;
            $(#[test] fn $promise() { super::$promise(&need!(upstream()), Maker::Upstream); })*
        }
        mod ours {
            use super::*;
            $(#[test] fn $promise() { super::$promise(&need!(ferretto()), Maker::Ferretto); })*
        }
    };
}

on_each_service! {
    state_and_capabilities_are_told
    a_session_is_recorded_and_read_back
    a_refused_config_comes_back_as_its_error
    a_deferred_session_starts_when_told
    a_session_writes_into_a_file_that_was_handed_over
    a_session_survives_detached_and_is_attached_again
    a_session_is_cloned_by_another_consumer
    what_is_not_there_is_refused
    a_service_that_dies_is_noticed
}

fn read(consumer: &mut Consumer) -> Vec<u8> {
    let mut trace = Vec::new();
    let summary = consumer.read_buffers(|packet| write_packet(&mut trace, packet)).unwrap();
    assert!(summary.packets > 0 && !summary.torn && summary.oversized_packets == 0, "{summary:?}");
    trace
}

fn state_and_capabilities_are_told(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let mut consumer = world.consumer();
    let state = consumer.query_service_state(false).unwrap();
    assert_eq!(state.num_sessions(), 0);
    assert!(!state.tracing_service_version().is_empty());
    let capabilities = consumer.query_capabilities().unwrap();
    assert!(capabilities.has_query_capabilities());
    assert!(consumer.has_method("CloneSession"));
}

fn a_session_is_recorded_and_read_back(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let mut consumer = world.consumer();
    for _round in 0..2 {
        consumer.observe(Observe::ALL_DATA_SOURCES_STARTED).unwrap();
        consumer.enable_tracing(config(ONE_BUFFER), None).unwrap();
        assert!(matches!(consumer.poll(Some(TIMEOUT)), Some(Event::Observed(_))));
        let state = world.consumer().query_service_state(false).unwrap();
        assert_eq!((state.num_sessions(), state.num_sessions_started()), (1, 1));
        consumer.flush(TIMEOUT, flush_flags::REASON_EXPLICIT | flush_flags::INITIATOR_COMMAND_LINE).unwrap();
        consumer.stats().unwrap();
        consumer.disable().unwrap();
        assert_eq!(wait_for_end(&mut consumer), None);
        read(&mut consumer);
        consumer.free().unwrap();
        assert_eq!(consumer.query_service_state(true).unwrap().num_sessions(), 0);
    }
}

fn a_refused_config_comes_back_as_its_error(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let mut consumer = world.consumer();
    // More than the limit of 128 buffers (facts of tracing_service_impl.cc: kMaxBuffersPerConsumer).
    consumer.enable_tracing(config(&"buffers { size_kb: 4 }\n".repeat(200)), None).unwrap();
    let error = wait_for_end(&mut consumer).expect("an error text");
    assert!(error.contains("buffer"), "{error}");
    // The connection is as good as before.
    consumer.enable_tracing(config(ONE_BUFFER), None).unwrap();
    consumer.disable().unwrap();
    assert_eq!(wait_for_end(&mut consumer), None);
}

fn a_deferred_session_starts_when_told(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let mut consumer = world.consumer();
    let text = "buffers { size_kb: 1024 } deferred_start: true duration_ms: 200";
    consumer.enable_tracing(config(text), None).unwrap();
    let state = consumer.query_service_state(false).unwrap();
    assert_eq!((state.num_sessions(), state.num_sessions_started()), (1, 0));
    consumer.start_tracing().unwrap();
    assert_eq!(consumer.query_service_state(false).unwrap().num_sessions_started(), 1);
    assert_eq!(wait_for_end(&mut consumer), None, "and ends by itself");
    read(&mut consumer);
}

fn a_session_writes_into_a_file_that_was_handed_over(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let path = world.path("into_file.pftrace");
    let file: OwnedFd = File::create(&path).unwrap().into();
    let mut consumer = world.consumer();
    let text = "buffers { size_kb: 1024 } write_into_file: true file_write_period_ms: 100 duration_ms: 300";
    consumer.enable_tracing(config(text), Some(file)).unwrap();
    assert_eq!(wait_for_end(&mut consumer), None);
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
}

fn a_session_survives_detached_and_is_attached_again(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let file: OwnedFd = File::create(world.path("detached.pftrace")).unwrap().into();
    let text = config("buffers { size_kb: 1024 } write_into_file: true");
    let mut first = world.consumer();
    first.enable_tracing(text.clone(), Some(file)).unwrap();
    first.detach("a key").unwrap();
    drop(first);

    let mut second = world.consumer();
    assert_eq!(second.query_service_state(false).unwrap().num_sessions(), 1);
    let attached = second.attach("a key").unwrap();
    assert!(!attached.is_empty());
    second.notify_when_disabled().unwrap();
    second.disable().unwrap();
    assert_eq!(wait_for_end(&mut second), None);
}

fn a_session_is_cloned_by_another_consumer(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let mut original = world.consumer();
    original.enable_tracing(config(ONE_BUFFER), None).unwrap();
    let mut cloner = world.consumer();
    let selector = Selector::UniqueSessionName("one".to_owned());
    let request = CloneSessionRequest { selector: Some(selector), ..Default::default() };
    let answer = cloner.clone_session(&request, None).unwrap();
    assert!(answer.success(), "{answer:?}");
    read(&mut cloner);
    original.disable().unwrap();
    assert_eq!(wait_for_end(&mut original), None);
    read(&mut original);
}

fn what_is_not_there_is_refused(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let mut consumer = world.consumer();
    assert_eq!(consumer.attach("no such key"), Err(CallError::Rejected { method: "Attach" }));
    assert_eq!(consumer.detach("no session"), Err(CallError::Rejected { method: "Detach" }));
    assert_eq!(consumer.stats(), Err(CallError::Rejected { method: "GetTraceStats" }));
    let selector = Selector::UniqueSessionName("no such name".to_owned());
    let request = CloneSessionRequest { selector: Some(selector), ..Default::default() };
    assert!(!consumer.clone_session(&request, None).unwrap().success());
}

fn a_service_that_dies_is_noticed(peers: &Peers, maker: Maker) {
    let mut world = World::with_traced(peers, maker);
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(ONE_BUFFER), None).unwrap();
    consumer.query_service_state(false).unwrap();
    world.kill_service();
    assert!(matches!(consumer.poll(Some(TIMEOUT)), Some(Event::Disconnected { .. })));
    assert_eq!(consumer.poll(Some(TIMEOUT)), None);
    assert!(matches!(consumer.disable(), Err(CallError::Disconnected { .. })));

    let address = Address::Path(world.consumer_socket());
    let error = Consumer::connect(&address).unwrap_err();
    assert!(matches!(error, ConnectError::NoService { .. }), "{error}");
    assert!(error.to_string().contains("ferretto traced"), "{error}");
}
