//! The connection's life: a service that comes late, dies and comes back; the end of tracing, and a new beginning.

mod session;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto::protos::trace_packet::Data;
use ferretto::protos::{DataSourceDescriptor, TracePacket, fields};
use ferretto::{Ack, Backends, Connector, DataSource, DataSourceHandle};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use session::{Session, config, texts, wait_until};

/// Tests take turns: there is one runtime.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place for a service's socket.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ferretto-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder.join("producer"))
    }

    fn host(&self) -> Host {
        let producer_addresses = vec![self.0.to_str().unwrap().parse().unwrap()];
        Host::spawn(HostOptions { producer_addresses, ..HostOptions::default() }).unwrap()
    }

    fn connector(&self) -> Connector {
        Connector::Address(self.0.to_str().unwrap().parse().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap_or(Path::new("")));
    }
}

fn consumer(host: &Host) -> Consumer {
    Consumer::over(host.connect_consumer().unwrap()).unwrap()
}

#[derive(Default)]
struct Source;

impl DataSource for Source {
    type IncrementalState = ();
    type ThreadState = ();
}

fn say(handle: &'static DataSourceHandle<Source>, text: &str) {
    handle.trace(|ctx| ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, text));
}

fn track_events(packets: &[TracePacket]) -> usize {
    packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_)))).count()
}

#[test]
fn a_service_that_comes_late_and_one_that_comes_back_are_served() {
    static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();
    let _turn = turn();
    let place = Place::new("comes-back");
    ferretto::builder("test").connector(place.connector()).init().unwrap();
    SOURCE.register(DataSourceDescriptor { name: Some("test.late".into()), ..Default::default() }).unwrap();
    say(&SOURCE, "nobody is there");
    for round in ["first", "second", "third"] {
        let host = place.host();
        let session = Session::start(consumer(&host), &config(&["test.late", "track_event"]));
        say(&SOURCE, round);
        ferretto::instant!("test.lifecycle", "instant");
        let packets = session.stop();
        assert_eq!(texts(&packets), [round]);
        assert_eq!(track_events(&packets), 1);
        // It dies while it records.
        let session = Session::start(consumer(&host), &config(&["test.late", "track_event"]));
        say(&SOURCE, "never read");
        drop((session, host));
        wait_until("the end", || !SOURCE.is_enabled() && !ferretto::enabled!("test.lifecycle"));
        say(&SOURCE, "nobody is there");
        ferretto::instant!("test.lifecycle", "instant");
    }
    assert!(ferretto::shutdown());
}

#[test]
fn tracing_can_end_and_begin_anew_elsewhere() {
    static ENDS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    #[derive(Default)]
    struct Ending;
    impl DataSource for Ending {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_stop(&mut self, _: Ack) {
            assert!(!ferretto::shutdown(), "it waits for this callback");
            assert!(ferretto::init("in a callback").is_err());
            ENDS.lock().unwrap().push("stop");
            ENDING.trace(|ctx| ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, "last"));
        }
    }
    impl Drop for Ending {
        fn drop(&mut self) {
            ENDS.lock().unwrap().push("drop");
        }
    }
    static ENDING: DataSourceHandle<Ending> = DataSourceHandle::new();
    let _turn = turn();
    ENDING.register(DataSourceDescriptor { name: Some("test.ending".into()), ..Default::default() }).unwrap();
    assert!(!ferretto::shutdown() && !ferretto::is_initialized());
    for _ in 0..3 {
        ENDS.lock().unwrap().clear();
        let host = Host::spawn(HostOptions::default()).unwrap();
        let stream = host.connect_producer().unwrap();
        ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
        assert!(ferretto::is_initialized());
        ferretto::init("again").unwrap();
        let mut session = Session::start(consumer(&host), &config(&["test.ending", "track_event"]));
        ferretto::instant!("test.lifecycle", "before the end");
        assert!(ferretto::shutdown());
        assert!(!ferretto::is_initialized() && !ENDING.is_enabled());
        assert_eq!(*ENDS.lock().unwrap(), ["stop", "drop"]);
        ferretto::instant!("test.lifecycle", "after the end");
        assert!(!ferretto::flush(session::TIMEOUT) && !ferretto::activate_triggers(&["any"]));
        session.flush();
        let packets = session.stop();
        assert_eq!((texts(&packets), track_events(&packets)), (vec!["last"], 1));
    }
}

#[test]
fn threads_that_end_while_they_are_recorded_lose_nothing() {
    static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();
    let _turn = turn();
    let host = Host::spawn(HostOptions::default()).unwrap();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
    SOURCE
        .register(DataSourceDescriptor { name: Some("test.threads".into()), ..Default::default() })
        .unwrap();
    let session = Session::start(consumer(&host), &config(&["test.threads", "track_event"]));
    for _ in 0..20 {
        let threads: Vec<_> = (0..10)
            .map(|_| {
                std::thread::spawn(|| {
                    say(&SOURCE, "x");
                    let _slice = ferretto::slice!("test.lifecycle", "short life");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // The shared memory has 64 pages, and a thread takes two of them.
        assert!(ferretto::flush(session::TIMEOUT));
    }
    let packets = session.stop();
    assert_eq!((texts(&packets).len(), track_events(&packets)), (200, 400));
    assert!(ferretto::shutdown());
}

#[test]
fn init_options_arrive() {
    let _turn = turn();
    let host = Host::spawn(HostOptions::default()).unwrap();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test.options")
        .connector(Connector::Stream(stream))
        .shared_memory_size(1 << 20)
        .page_size(16384)
        .allocate_shared_memory()
        .init()
        .unwrap();
    let session = Session::start(consumer(&host), &config(&["track_event"]));
    // More than a page of 4 KiB holds goes into one chunk.
    for number in 0..300 {
        ferretto::instant!(
            "test.lifecycle",
            "instant",
            number = number,
            text = "so that it takes some more room"
        );
    }
    let packets = session.stop();
    assert_eq!(track_events(&packets), 300);
    assert!(ferretto::shutdown());
}

#[test]
fn a_backend_that_is_not_built_in_is_an_error() {
    let _turn = turn();
    let builder = ferretto::builder("test").backends(Backends::IN_PROCESS);
    let result = builder.init();
    if cfg!(feature = "in-process") {
        result.unwrap();
        assert!(ferretto::shutdown());
    } else {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("feature `in-process`"), "{error}");
        assert!(!ferretto::is_initialized());
    }
}
