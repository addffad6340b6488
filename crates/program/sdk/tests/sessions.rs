//! Sessions from code, against a service on a thread of this process.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use ferretto::tracing_session::{CloneOf, CloneOptions, SessionError, SessionSetup};
use ferretto::{Connector, TracingSession};
use ferretto_producer::{ProducerClient, ProducerOptions};
use ferretto_protos::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_protos::trace_config::{BufferConfig, DataSource, TriggerConfig};
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor, Trace, TraceConfig};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A service with a socket, and this process as its producer.
fn address() -> &'static str {
    static HOST: OnceLock<(Host, String)> = OnceLock::new();
    let (_, address) = HOST.get_or_init(|| {
        let (host, address) = host("main");
        let stream = host.connect_producer().unwrap();
        ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
        (host, address)
    });
    address
}

fn host(name: &str) -> (Host, String) {
    let address = format!("@ferretto-sessions-{name}-{}", std::process::id());
    let consumer_address = Some(address.parse().unwrap());
    (Host::spawn(HostOptions { consumer_address, ..Default::default() }).unwrap(), address)
}

/// A session that is to be.
fn setup() -> SessionSetup {
    TracingSession::connect(address()).unwrap().timeout(TIMEOUT)
}

/// Tests take turns, as they share the categories' state and the service.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many packets mention a text.
fn count(trace: &[u8], text: &str) -> usize {
    let trace = Trace::decode(trace).unwrap();
    let mentions = |packet: &Vec<u8>| packet.windows(text.len()).any(|part| part == text.as_bytes());
    trace.packet.iter().map(Message::encode_to_vec).filter(mentions).count()
}

fn packets(trace: &[u8]) -> usize {
    Trace::decode(trace).unwrap().packet.len()
}

/// The smallest executor: no runtime is needed.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

/// What a callback was told.
fn told<T>() -> (Sender<T>, Receiver<T>) {
    channel()
}

#[test]
fn the_first_event_after_start_is_recorded() {
    let _turn = turn();
    for round in 0..20 {
        let session = setup().categories(["first*"]).start().unwrap();
        ferretto::instant!("first.category", "the first");
        ferretto::instant!("other", "not wanted");
        let trace = session.stop().unwrap().into_vec().unwrap();
        assert_eq!(count(&trace, "the first"), 1, "round {round}");
        assert_eq!(count(&trace, "not wanted"), 0, "round {round}");
    }
}

#[test]
fn categories_can_be_left_out() {
    let _turn = turn();
    let setup = setup().categories(["out*"]).without_categories(["out.detail"]);
    let session = setup.start().unwrap();
    ferretto::instant!("out.main", "wanted here");
    ferretto::instant!("out.detail", "left out");
    let trace = session.stop().unwrap().into_vec().unwrap();
    assert_eq!((count(&trace, "wanted here"), count(&trace, "left out")), (1, 0));
}

#[test]
fn a_session_is_awaited_without_a_runtime() {
    let _turn = turn();
    let trace = block_on(async {
        let mut session = setup().categories(["await"]).start_async().await?;
        ferretto::instant!("await", "first mark");
        session.flush_async(TIMEOUT).await?;
        let read = session.read()?.into_vec_async().await?;
        assert_eq!(count(&read, "first mark"), 1);
        ferretto::instant!("await", "second mark");
        assert!(!session.stats_async().await?.buffer_stats.is_empty());
        assert!(!session.query_service_state_async().await?.producers.is_empty());
        let mut packets = Vec::new();
        let mut trace = session.stop_async().await?;
        let summary = trace.read()?.for_each_batch_async(|batch| packets.extend_from_slice(batch)).await?;
        assert_eq!(summary.packets, packets.len() as u64);
        Ok::<_, SessionError>(packets)
    });
    let is_second = |packet: &&bytes::Bytes| packet.windows(11).any(|part| part == b"second mark");
    assert_eq!(trace.unwrap().iter().filter(is_second).count(), 1);
}

#[test]
fn callbacks_tell_of_start_flush_read_and_stop() {
    let _turn = turn();
    let (started, start) = told();
    let (flushed, flush) = told();
    let (read, reads) = told();
    let (stopped, stop) = told();
    let (log, lines) = told();
    let (on_start, on_stop) = (log.clone(), log);
    let setup = setup().categories(["calls"]);
    let setup = setup.on_start(move || on_start.send("start").unwrap());
    let setup = setup.on_stop(move || on_stop.send("stop").unwrap());
    setup.start_with(move |session| started.send(session).unwrap()).unwrap();
    let mut session = start.recv_timeout(TIMEOUT).unwrap().unwrap();
    assert_eq!(lines.recv_timeout(TIMEOUT).unwrap(), "start");
    ferretto::instant!("calls", "called");
    session.flush_with(TIMEOUT, move |result| flushed.send(result).unwrap()).unwrap();
    flush.recv_timeout(TIMEOUT).unwrap().unwrap();
    let (packet, end) = (read.clone(), read);
    let on_batch = move |batch: &[bytes::Bytes]| packet.send(Ok(batch.len())).unwrap();
    let on_end = move |result| end.send(Err(result)).unwrap();
    session.read().unwrap().for_each_batch_with(on_batch, on_end).unwrap();
    let mut sum = 0;
    let summary = loop {
        match reads.recv_timeout(TIMEOUT).unwrap() {
            Ok(packets) => sum += packets as u64,
            Err(summary) => break summary.unwrap(),
        }
    };
    assert!(sum > 0);
    assert_eq!(sum, summary.packets);
    session.stop_with(move |trace| stopped.send(trace).unwrap()).unwrap();
    let trace = stop.recv_timeout(TIMEOUT).unwrap().unwrap();
    assert_eq!(lines.recv_timeout(TIMEOUT).unwrap(), "stop");
    trace.into_vec().unwrap();
}

#[test]
fn blocking_calls_and_callbacks_do_not_keep_each_other_waiting() {
    let _turn = turn();
    let mut session = setup().categories(["mixed"]).start().unwrap();
    let (flushed, flush) = told();
    for _ in 0..50 {
        let flushed = flushed.clone();
        session.flush_with(TIMEOUT, move |result| flushed.send(result).unwrap()).unwrap();
        session.stats().unwrap();
    }
    for _ in 0..50 {
        flush.recv_timeout(TIMEOUT).unwrap().unwrap();
    }
    session.stop().unwrap().into_vec().unwrap();
}

#[test]
fn all_forms_of_reading_give_the_same() {
    let _turn = turn();
    let mut session = setup().categories(["forms"]).start().unwrap();
    let event = || ferretto::instant!("forms", "form");
    let mut reads = Vec::new();
    event();
    session.flush(TIMEOUT).unwrap();
    reads.push(session.read().unwrap().into_vec().unwrap());
    event();
    session.flush(TIMEOUT).unwrap();
    let mut written = Vec::new();
    let summary = session.read().unwrap().write_to(&mut written).unwrap();
    assert_eq!(summary.packets, packets(&written) as u64);
    reads.push(written);
    event();
    session.flush(TIMEOUT).unwrap();
    let mut batches = Vec::new();
    session.read().unwrap().for_each_batch(|batch| batches.extend_from_slice(batch)).unwrap();
    event();
    let mut trace = session.stop().unwrap();
    let mut iterator = trace.read().unwrap().packets();
    let rest: Result<Vec<_>, _> = iterator.by_ref().collect();
    let rest = rest.unwrap();
    assert_eq!(iterator.summary().unwrap().packets, rest.len() as u64);
    assert!(iterator.next().is_none());
    drop(iterator);
    let mut framed = Vec::new();
    for packet in batches.iter().chain(&rest) {
        ferretto_consumer::write_packet(&mut framed, packet).unwrap();
    }
    reads.push(framed);
    let whole = reads.concat();
    let events = Trace::decode(whole.as_slice()).unwrap().packet.into_iter().map(|p| p.encode_to_vec());
    let is_event = |packet: &Vec<u8>| {
        let number = ferretto_protos::fields::trace_packet::TRACK_EVENT;
        ferretto_protozero::read::Fields::new(packet).flatten().any(|field| field.number == number)
    };
    assert_eq!(events.filter(is_event).count(), 4);
    assert_eq!(count(&trace.into_vec().unwrap(), "form"), 0, "reading takes out what it reads");
}

#[test]
fn a_read_that_is_left_does_not_hold_up_the_session() {
    let _turn = turn();
    let mut session = setup().categories(["left"]).start().unwrap();
    (0..100_000).for_each(|_| ferretto::instant!("left", "many"));
    session.flush(TIMEOUT).unwrap();
    let first = session.read().unwrap().packets().next();
    assert!(first.unwrap().is_ok());
    session.stats().unwrap();
    let trace = session.stop().unwrap().into_vec().unwrap();
    assert!(packets(&trace) < 100_000, "what was not taken is lost");
}

#[test]
fn a_trace_is_saved_whole_or_not_at_all() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pftrace");
    let session = setup().categories(["save"]).start().unwrap();
    ferretto::instant!("save", "mark");
    let summary = session.stop().unwrap().save(&path).unwrap();
    let trace = std::fs::read(&path).unwrap();
    assert_eq!((count(&trace, "mark"), packets(&trace) as u64), (1, summary.packets));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let missing = folder.path().join("missing/t.pftrace");
    let mut session = setup().categories(["save"]).start().unwrap();
    let error = session.read().unwrap().save(&missing).unwrap_err().to_string();
    assert!(error.contains("missing/t.pftrace") && error.contains("No such file"), "{error}");

    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = session.read().unwrap().write_to(Full).unwrap_err();
    assert!(matches!(error, SessionError::Sink(_)), "{error}");
    session.stop().unwrap().into_vec().unwrap();
}

#[test]
fn the_service_writes_a_file_that_has_its_name_at_the_end() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pftrace");
    let setup = setup().categories(["file"]).write_into_file(&path).unwrap();
    let mut session = setup.start().unwrap();
    ferretto::instant!("file", "in the file");
    assert!(!path.exists() && folder.path().join("t.pftrace.partial").exists());
    assert!(matches!(session.read(), Err(SessionError::InFile { path: Some(_) })));
    let trace = session.stop().unwrap();
    assert_eq!(trace.path(), Some(path.as_path()));
    assert_eq!(count(&std::fs::read(&path).unwrap(), "in the file"), 1);
    let error = trace.into_vec().unwrap_err().to_string();
    assert!(error.contains("t.pftrace"), "{error}");

    let other = folder.path().join("other");
    let file = std::fs::File::create_new(&other).unwrap();
    let session = TracingSession::connect(address()).unwrap().categories(["file"]).write_into(file);
    let session = session.start().unwrap();
    ferretto::instant!("file", "by descriptor");
    let trace = session.stop().unwrap();
    assert_eq!(trace.path(), None);
    assert_eq!(count(&std::fs::read(&other).unwrap(), "by descriptor"), 1);
}

#[test]
fn a_config_that_writes_a_file_needs_one() {
    let _turn = turn();
    let error = setup().config_text("buffers { size_kb: 64 } write_into_file: true").unwrap().start();
    assert!(error.unwrap_err().to_string().contains("write_into_file"), "says what to call");
}

#[test]
fn a_session_ends_by_its_duration() {
    let _turn = turn();
    let (sender, ended) = told();
    let setup = setup().categories(["short"]).duration(Duration::from_millis(50));
    let mut session = setup.on_stop(move || sender.send(()).unwrap()).start().unwrap();
    session.wait(Some(TIMEOUT)).unwrap();
    assert!(session.has_ended());
    ended.recv_timeout(TIMEOUT).unwrap();
    assert!(!session.stop().unwrap().into_vec().unwrap().is_empty());
}

#[test]
fn waiting_has_an_end() {
    let _turn = turn();
    let mut session = setup().categories(["long"]).start().unwrap();
    let error = session.wait(Some(Duration::from_millis(20))).unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error}");
    let error = block_on(session.wait_async(Some(Duration::from_millis(20)))).unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error}");
}

#[test]
fn configs_come_as_text_as_messages_and_as_bytes() {
    let _turn = turn();
    let text = r#"buffers { size_kb: 128 } data_sources { config { name: "track_event" } } unique_session_name: "x""#;
    let config = TraceConfig::decode(&*ferretto_protos::text::parse_trace_config(text).unwrap()).unwrap();
    let setups = [
        setup().config_text(text).unwrap(),
        setup().config(&config),
        setup().config_bytes(config.encode_to_vec()),
    ];
    for setup in setups {
        let mut session = setup.start().unwrap();
        assert_eq!(session.unique_name(), "x");
        assert_eq!(session.stats().unwrap().buffer_stats[0].buffer_size(), 128 * 1024);
        ferretto::instant!("config", "configured");
        assert_eq!(count(&session.stop().unwrap().into_vec().unwrap(), "configured"), 1);
    }
    let error = setup().config_text("bufers {}").unwrap_err().to_string();
    assert!(error.contains("did you mean `buffers`"), "{error}");
    let error = setup().config(&config).categories(["net"]).start().unwrap_err().to_string();
    assert!(error.contains("`categories`"), "{error}");
}

#[test]
fn a_refusal_says_why() {
    let _turn = turn();
    let first = setup().unique_name("taken").start().unwrap();
    let error = setup().unique_name("taken").start().unwrap_err();
    assert!(matches!(error, SessionError::Refused(_)) && error.to_string().contains("taken"), "{error}");
    let error = setup().unique_name("taken").set_up().unwrap_err();
    assert!(matches!(error, SessionError::Refused(_)), "{error}");
    drop(first);
}

#[test]
fn a_session_is_set_up_first_and_started_later() {
    let _turn = turn();
    let mut session = setup().categories(["later"]).set_up().unwrap();
    ferretto::instant!("later", "too early");
    session.start().unwrap();
    ferretto::instant!("later", "in time");
    let trace = session.stop().unwrap().into_vec().unwrap();
    assert_eq!((count(&trace, "too early"), count(&trace, "in time")), (0, 1));
}

#[test]
fn a_copy_has_what_was_recorded_and_the_session_goes_on() {
    let _turn = turn();
    let mut session = setup().categories(["copy"]).start().unwrap();
    ferretto::instant!("copy", "before");
    let copies = [
        session.clone_trace().unwrap(),
        block_on(session.clone_trace_async()).unwrap(),
        by(CloneOf::Name(session.unique_name().to_owned())).unwrap(),
        by(CloneOf::Id(session.id().unwrap().unwrap())).unwrap(),
    ];
    ferretto::instant!("copy", "after");
    let uuids: Vec<_> = copies.iter().map(|copy| copy.uuid().unwrap()).collect();
    assert!(uuids.iter().all(|uuid| *uuid != 0) && uuids[0] != uuids[1]);
    for copy in copies {
        let copy = copy.into_vec().unwrap();
        assert_eq!((count(&copy, "before"), count(&copy, "after")), (1, 0));
    }
    let trace = session.stop().unwrap().into_vec().unwrap();
    assert_eq!((count(&trace, "before"), count(&trace, "after")), (1, 1));
    let error = by(CloneOf::Name("nobody's".to_owned())).unwrap_err();
    assert!(matches!(error, SessionError::Clone(_)), "{error}");
}

fn by(which: CloneOf) -> Result<ferretto::tracing_session::RecordedTrace, SessionError> {
    setup().clone_session(&which, &CloneOptions::default())
}

#[test]
fn a_copy_is_written_into_a_file_whether_the_session_is_or_not() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let [original, first, second] = ["original", "first", "second"].map(|name| folder.path().join(name));
    let into_file = setup().categories(["copied"]).write_into_file(&original).unwrap();
    for (setup, path) in [(setup().categories(["copied"]), first), (into_file, second)] {
        let session = setup.start().unwrap();
        ferretto::instant!("copied", "mark");
        let options = CloneOptions { into_file: Some(path.clone()), ..Default::default() };
        let copy = another_setup().clone_session(&CloneOf::Name(session.unique_name().to_owned()), &options);
        assert_eq!(copy.unwrap().path(), Some(path.as_path()));
        assert_eq!(count(&std::fs::read(&path).unwrap(), "mark"), 1);
    }
}

fn another_setup() -> SessionSetup {
    setup()
}

#[test]
fn a_ring_keeps_the_newest_and_the_other_policy_the_oldest() {
    let _turn = turn();
    for (discards, oldest, newest) in [(false, 0, 1), (true, 1, 0)] {
        let setup = setup().categories(["ring"]).buffer_size_kb(64);
        let setup = if discards { setup.discard_when_full() } else { setup };
        let mut session = setup.start().unwrap();
        let long = "x".repeat(1000);
        ferretto::instant!("ring", "event", text = "the oldest");
        for _ in 0..20 {
            (0..20).for_each(|_| ferretto::instant!("ring", "event", text = &*long));
            session.flush(TIMEOUT).unwrap();
        }
        ferretto::instant!("ring", "event", text = "the newest");
        let trace = session.stop().unwrap().into_vec().unwrap();
        assert_eq!(
            (count(&trace, "the oldest"), count(&trace, "the newest")),
            (oldest, newest),
            "{discards}"
        );
    }
}

#[test]
fn the_service_is_asked() {
    let _turn = turn();
    let mut session = setup().categories(["ask"]).unique_name("asked").start().unwrap();
    let state = session.query_service_state().unwrap();
    assert!(state.producers.iter().any(|producer| producer.name() == "test"));
    assert!(state.tracing_sessions.iter().any(|session| session.unique_session_name() == "asked"));
    assert!(session.query_capabilities().unwrap().has_clone_session());
    assert!(setup().query_capabilities().unwrap().has_query_capabilities());
    assert!(!setup().query_service_state().unwrap().data_sources.is_empty());
    assert_eq!(session.stats().unwrap().buffer_stats.len(), 1);
}

#[test]
fn a_config_is_changed_while_it_runs() {
    let _turn = turn();
    let config = |filter: &str| TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(64), ..Default::default() }],
        data_sources: vec![DataSource {
            config: Some(DataSourceConfig { name: Some("track_event".into()), ..Default::default() }),
            producer_name_filter: vec![filter.to_owned()],
            ..Default::default()
        }],
        unique_session_name: Some("changed".to_owned()),
        ..Default::default()
    };
    let mut session = setup().config(&config("nobody")).start().unwrap();
    ferretto::instant!("change", "before the change");
    let mut wider = config("nobody");
    wider.data_sources[0].producer_name_filter.push("test".to_owned());
    session.change_config(&wider).unwrap();
    let until = Instant::now() + TIMEOUT;
    let mut trace = Vec::new();
    while count(&trace, "after the change") == 0 {
        assert!(Instant::now() < until);
        ferretto::instant!("change", "after the change");
        session.flush(TIMEOUT).unwrap();
        trace.extend(session.read().unwrap().into_vec().unwrap());
    }
    assert_eq!(count(&trace, "before the change"), 0);
}

#[test]
fn a_dropped_session_ends() {
    let _turn = turn();
    let (sender, told) = told::<()>();
    let session = setup().unique_name("dropped").on_stop(move || drop(sender)).start().unwrap();
    drop(session);
    let until = Instant::now() + TIMEOUT;
    let is_there = || {
        let state = setup().query_service_state().unwrap();
        state.tracing_sessions.iter().any(|session| session.unique_session_name() == "dropped")
    };
    while is_there() {
        assert!(Instant::now() < until, "the session goes on");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Its callback is let go of, with what it held.
    assert_eq!(told.recv_timeout(TIMEOUT), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_service_that_dies_is_an_error() {
    let (host, address) = host("dies");
    let setup = || TracingSession::connect(&address).unwrap().timeout(TIMEOUT);
    let (sender, errors) = told();
    let on_error = sender.clone();
    let session = setup()
        .on_error(move |error| on_error.send(error.to_string()).unwrap())
        .on_stop(move || sender.send("stop".to_owned()).unwrap())
        .start()
        .unwrap();
    let mut blocking = setup().start().unwrap();
    drop(host);
    assert!(errors.recv_timeout(TIMEOUT).unwrap().contains("went away"));
    assert_eq!(errors.recv_timeout(TIMEOUT).unwrap(), "stop");
    assert!(matches!(session.stop(), Err(SessionError::Disconnected(_))));
    let error = blocking.flush(TIMEOUT).unwrap_err();
    assert!(matches!(error, SessionError::Call(_)), "{error}");
    assert!(matches!(blocking.wait(None), Err(SessionError::Disconnected(_))));
    assert!(matches!(TracingSession::connect(&address), Err(SessionError::Connect(_))));
    assert!(matches!(TracingSession::connect("vsock://x"), Err(SessionError::Address { .. })));
}

#[test]
fn a_data_source_that_does_not_start_is_told() {
    let (host, address) = host("slow");
    let connector = Connector::Stream(host.connect_producer().unwrap());
    let options = ProducerOptions { connector, ..ProducerOptions::new("slow") };
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&DataSourceDescriptor {
        name: Some("slow".into()),
        will_notify_on_start: Some(true),
        ..Default::default()
    });
    while !client.sync() {
        client.wait(Some(TIMEOUT), &[]).unwrap();
    }
    assert!(client.drain(TIMEOUT));
    let slow = DataSourceConfig { name: Some("slow".into()), ..Default::default() };
    let setup = || TracingSession::connect(&address).unwrap().data_source(slow.clone());
    let short = Duration::from_millis(50);
    let error = setup().timeout(short).start().unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error}");
    let error = block_on(setup().timeout(short).start_async()).unwrap_err();
    assert!(error.to_string().contains("start of all data sources did not happen within 50 ms"), "{error}");
}

#[test]
fn a_start_that_is_given_up_leaves_no_session() {
    let _turn = turn();
    let mut future = Box::pin(setup().unique_name("given up").start_async());
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(future);
    let session = setup().unique_name("given up").start();
    // The service may see the end of the other connection a moment later.
    let until = Instant::now() + TIMEOUT;
    let mut result = session;
    while let Err(SessionError::Refused(_)) = result {
        assert!(Instant::now() < until);
        result = setup().unique_name("given up").start();
    }
    result.unwrap().stop().unwrap().into_vec().unwrap();
}

#[test]
fn a_session_is_left_alone_and_taken_over() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let file = std::fs::File::create_new(&path).unwrap();
    let session = setup().categories(["alone"]).write_into(OwnedFd::from(file)).start().unwrap();
    let name = session.unique_name().to_owned();
    session.detach("key").unwrap();
    ferretto::instant!("alone", "mark");
    let session = setup().attach("key").unwrap();
    assert_eq!(session.unique_name(), name);
    let trace = session.stop().unwrap();
    assert!(matches!(trace.into_vec(), Err(SessionError::InFile { path: None })));
    assert_eq!(count(&std::fs::read(&path).unwrap(), "mark"), 1);
    assert!(setup().attach("key").is_err());
    let session = setup().write_into_file(folder.path().join("named")).unwrap().start().unwrap();
    assert!(matches!(session.detach("key"), Err(SessionError::DetachedFile { .. })));
}

fn with_trigger(mode: TriggerMode) -> TraceConfig {
    let trigger = Trigger { name: Some("now".to_owned()), stop_delay_ms: Some(1), ..Default::default() };
    TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(64), ..Default::default() }],
        trigger_config: Some(TriggerConfig {
            trigger_mode: Some(mode.into()),
            trigger_timeout_ms: Some(600_000),
            triggers: vec![trigger],
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn triggers_start_stop_and_copy() {
    for mode in [TriggerMode::StartTracing, TriggerMode::StopTracing] {
        let mut session = TracingSession::in_process()
            .unwrap()
            .timeout(TIMEOUT)
            .config(&with_trigger(mode))
            .start()
            .unwrap();
        assert!(!session.has_ended());
        session.activate_triggers(&["something", "now"]).unwrap();
        session.wait(Some(TIMEOUT)).unwrap();
        assert!(!session.stop().unwrap().into_vec().unwrap().is_empty(), "{mode:?}");
    }
    let (sender, hits) = told();
    let setup = TracingSession::in_process().unwrap().timeout(TIMEOUT);
    let mut session = setup
        .config(&with_trigger(TriggerMode::CloneSnapshot))
        .on_clone_trigger(move |hit| sender.send(hit.trigger_name().to_owned()).unwrap())
        .start()
        .unwrap();
    for _ in 0..2 {
        session.activate_triggers(&["now"]).unwrap();
        assert_eq!(hits.recv_timeout(TIMEOUT).unwrap(), "now");
    }
    session.clone_trace().unwrap().into_vec().unwrap();
    let error = another_setup().activate_triggers(&["now"]).unwrap_err();
    assert!(matches!(error, SessionError::NoProducerSocket));
}

#[test]
fn a_callback_that_panics_harms_no_other() {
    let _turn = turn();
    let (sender, told) = told();
    let session = setup()
        .on_start(|| panic!("on purpose"))
        .on_stop(move || sender.send(()).unwrap())
        .duration(Duration::from_millis(20))
        .start()
        .unwrap();
    told.recv_timeout(TIMEOUT).unwrap();
    drop(session);
}
