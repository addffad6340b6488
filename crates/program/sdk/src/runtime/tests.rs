//! Several services at once, and several copies of this library.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_protos::trace_config::{BufferConfig, DataSource};
use ferretto_protos::{DataSourceConfig, TraceConfig, TracePacket, trace_packet::Data};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

use crate::{Backends, Connector, in_process};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Tests take turns: there is one runtime.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(host: &Host, category: &str) -> Consumer {
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let until = Instant::now() + TIMEOUT;
    while consumer.query_service_state(false).unwrap().data_sources.is_empty() {
        assert!(Instant::now() < until, "the producer has not registered");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut config = DataSourceConfig { name: Some("track_event".to_owned()), ..Default::default() };
    let events = config.track_event_config.get_or_insert_default();
    events.enabled_categories.push(category.to_owned());
    events.disabled_categories.push("*".to_owned());
    let config = TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(1024), ..Default::default() }],
        data_sources: vec![DataSource { config: Some(config), ..Default::default() }],
        ..Default::default()
    };
    consumer.observe(Observe::ALL_DATA_SOURCES_STARTED).unwrap();
    consumer.enable_tracing(config.encode_to_vec(), None).unwrap();
    assert!(matches!(consumer.poll(Some(TIMEOUT)), Some(Event::Observed(_))));
    consumer
}

fn count(mut consumer: Consumer) -> usize {
    consumer.disable().unwrap();
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut events = 0;
    consumer
        .read_buffers(|packet| {
            let packet = TracePacket::decode(packet).unwrap();
            events += usize::from(matches!(packet.data, Some(Data::TrackEvent(_))));
            Ok(())
        })
        .unwrap();
    events
}

#[test]
fn sessions_of_several_services_each_get_their_events() {
    let _turn = turn();
    let system = Host::spawn(HostOptions::default()).unwrap();
    let connector = Connector::Stream(system.connect_producer().unwrap());
    crate::builder("test").connector(connector).init().unwrap();
    // Added later, and again to no effect.
    for _ in 0..2 {
        crate::builder("test").backends(Backends::SYSTEM | Backends::IN_PROCESS).init().unwrap();
    }
    let here = in_process::host().unwrap();
    let sessions = [start(&system, "backends.both"), start(here, "backends.*")];
    crate::instant!("backends.both", "for both");
    crate::instant!("backends.here", "for one");
    assert!(crate::flush(TIMEOUT));
    // The loss of one service is nothing to the other.
    let [of_system, of_here] = sessions;
    assert_eq!(count(of_system), 1);
    drop(system);
    crate::instant!("backends.here", "for the other");
    assert_eq!(count(of_here), 3);
    assert!(crate::shutdown());
}

/// This test's crate and the one that other tests link are two builds of it.
#[test]
fn two_copies_of_the_library_are_two_producers() {
    let _turn = turn();
    let host = Host::spawn(HostOptions::default()).unwrap();
    let connector = Connector::Stream(host.connect_producer().unwrap());
    crate::builder("one copy").connector(connector).init().unwrap();
    let connector = Connector::Stream(host.connect_producer().unwrap());
    ferretto::builder("other copy").connector(connector).init().unwrap();
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let until = Instant::now() + TIMEOUT;
    loop {
        let state = consumer.query_service_state(false).unwrap();
        if state.data_sources.len() == 2 {
            assert!(state.producers.iter().all(|producer| producer.pid == state.producers[0].pid));
            break;
        }
        assert!(Instant::now() < until, "both have registered");
        std::thread::sleep(Duration::from_millis(2));
    }
    let session = start(&host, "copies");
    let until = Instant::now() + TIMEOUT;
    while !(crate::enabled!("copies") && ferretto::enabled!("copies")) {
        assert!(Instant::now() < until, "both are recorded");
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..100 {
        let _outer = crate::slice!("copies", "of one");
        ferretto::instant!("copies", "of the other");
    }
    assert!(crate::flush(TIMEOUT) && ferretto::flush(TIMEOUT));
    assert_eq!(count(session), 300);
    // The end of one is nothing to the other.
    assert!(crate::shutdown());
    assert!(!crate::is_initialized() && ferretto::is_initialized());
    let session = start(&host, "copies");
    ferretto::instant!("copies", "of the other");
    assert_eq!(count(session), 1);
    assert!(ferretto::shutdown());
}
