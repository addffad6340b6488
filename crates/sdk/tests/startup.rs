//! Events from before the session.

mod support;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ferretto::{Backends, Connector, InitError, StartupConfig};
use ferretto_producer::ProducerError;
use ferretto_protos::TrackEventConfig;
use ferretto_traced::in_process::{Host, HostOptions};
use support::{Recording, Trace, only, turn};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn host() -> Host {
    Host::spawn(HostOptions::default()).unwrap()
}

fn init(host: &Host, startup: StartupConfig) {
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test").connector(Connector::Stream(stream)).startup_tracing(startup).init().unwrap();
}

fn startup(prefix: &str) -> StartupConfig {
    StartupConfig::categories([format!("{prefix}*")]).timeout(PATIENCE)
}

fn texts(trace: &Trace) -> Vec<&str> {
    trace.events.iter().map(|event| event.text.as_str()).collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_session_that_starts_later_has_the_events_with_their_times() {
    let _turn = turn();
    let host = host();
    init(&host, startup("adopted"));
    let before = ferretto::now();
    ferretto::instant!("adopted", "first", number = 1);
    let open = ferretto::slice!("adopted", "through the start");
    ferretto::instant!("other", "not wanted");
    // A thread that has ended by then, and one that goes on.
    std::thread::Builder::new()
        .name("short".into())
        .spawn(|| ferretto::instant!("adopted", "short thread"))
        .unwrap()
        .join()
        .unwrap();
    let (go_on, wait) = channel();
    let (said, hear) = channel();
    let long = std::thread::Builder::new().name("long".into()).spawn(move || {
        ferretto::instant!("adopted", "long thread");
        said.send(()).unwrap();
        wait.recv().unwrap();
        ferretto::instant!("adopted", "long thread again");
    });
    hear.recv().unwrap();
    let after = ferretto::now();
    std::thread::sleep(Duration::from_secs(1));
    let later = ferretto::now();

    let recording = Recording::start_on(&host, only("adopted"));
    drop(open);
    ferretto::instant!("adopted", "last", number = 2);
    go_on.send(()).unwrap();
    long.unwrap().join().unwrap();
    let trace = recording.stop();
    ferretto::instant!("adopted", "too late");
    assert!(ferretto::shutdown());

    let (main, rest): (Vec<_>, Vec<_>) =
        trace.events.iter().partition(|event| event.track != "short" && event.track != "long");
    let main_texts: Vec<&str> = main.iter().map(|event| &*event.text).collect();
    assert_eq!(
        main_texts,
        [
            "instant adopted/first number=1",
            "begin adopted/through the start",
            "end",
            "instant adopted/last number=2"
        ]
    );
    let mut others: Vec<(&str, &str)> = rest.iter().map(|event| (&*event.track, &*event.text)).collect();
    others.sort_unstable();
    assert_eq!(
        others,
        [
            ("long", "instant adopted/long thread"),
            ("long", "instant adopted/long thread again"),
            ("short", "instant adopted/short thread")
        ]
    );
    for event in &trace.events {
        let is_early = ["first", "begin", "short", "long thread"]
            .iter()
            .any(|word| event.text.contains(word) && !event.text.contains("again"));
        let range = if is_early { before..=after } else { later..=u64::MAX };
        assert!(range.contains(&event.timestamp_ns), "{event:?} is not in {range:?}");
    }
    assert_eq!(trace.processes.first().map(|(pid, _)| *pid), Some(std::process::id().into()));
    assert_eq!(trace.losses, 0);
}

#[test]
fn a_session_that_wants_something_else_starts_with_itself() {
    let _turn = turn();
    let host = host();
    init(&host, startup("other"));
    ferretto::instant!("other.a", "before");
    let without_arguments = TrackEventConfig { filter_debug_annotations: Some(true), ..only("other") };
    for config in [only("other.a"), TrackEventConfig::default(), without_arguments] {
        let recording = Recording::start_on(&host, config);
        ferretto::instant!("other.a", "during");
        assert_eq!(texts(&recording.stop()), ["instant other.a/during"]);
    }
    // The one that was waited for, and one after it, which wants the same and is too late.
    let recording = Recording::start_on(&host, only("other"));
    let second = Recording::start_on(&host, only("other"));
    ferretto::instant!("other.a", "after");
    let mut expected = vec!["instant other.a/before"];
    expected.extend(["instant other.a/during"; 3]);
    expected.push("instant other.a/after");
    assert_eq!(texts(&recording.stop()), expected);
    assert_eq!(texts(&second.stop()), ["instant other.a/after"]);
    assert!(ferretto::shutdown());
}

#[test]
fn a_session_may_want_another_form() {
    let _turn = turn();
    let host = host();
    init(&host, startup("form"));
    ferretto::instant!("form", "before");
    let config = TrackEventConfig { timestamp_unit_multiplier: Some(1000), ..only("form") };
    let recording = Recording::start_on(&host, config);
    ferretto::instant!("form", "after");
    let trace = recording.stop();
    assert_eq!(texts(&trace), ["instant form/before", "instant form/after"]);
    assert_eq!(trace.events[1].timestamp_ns % 1000, 0, "as the session wants it");
    assert!(ferretto::shutdown());
}

#[test]
fn after_the_time_out_nothing_is_recorded_and_a_session_starts_with_itself() {
    let _turn = turn();
    let host = host();
    init(&host, startup("late").timeout(Duration::from_millis(20)));
    ferretto::instant!("late", "lost");
    wait_until("the time-out", || !ferretto::enabled!("late"));
    for _ in 0..2 {
        let recording = Recording::start_on(&host, only("late"));
        // More than three quarters of the memory: it is free again.
        for number in 0..10_000 {
            ferretto::instant!("late", "during", number = number);
            if number % 1000 == 0 {
                ferretto::flush(PATIENCE);
            }
        }
        let trace = recording.stop();
        assert_eq!((trace.events.len(), trace.losses), (10_000, 0));
    }
    assert!(ferretto::shutdown());
}

#[test]
fn without_a_service_nothing_grows() {
    let _turn = turn();
    let nobody = Connector::Address("@ferretto-nobody-is-here".parse().unwrap());
    let startup = startup("alone").timeout(Duration::from_millis(300));
    ferretto::builder("test").connector(nobody).startup_tracing(startup).init().unwrap();
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("perfetto_shmem").count();
    assert!(maps() > 0, "the memory that was made for it");
    std::thread::spawn(|| {
        while ferretto::enabled!("alone") {
            ferretto::instant!("alone", "nobody hears it", number = 7);
        }
    })
    .join()
    .unwrap();
    wait_until("the memory's end", || maps() == 0);
    assert!(ferretto::shutdown());
}

#[test]
fn only_the_first_initialisation_can_trace_the_startup() {
    let _turn = turn();
    let host = host();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
    let again = ferretto::builder("test").startup_tracing(StartupConfig::new()).init();
    assert!(matches!(again, Err(InitError::StartupTooLate)), "{again:?}");
    assert!(again.unwrap_err().to_string().contains("first call"));
    assert!(ferretto::shutdown());

    let odd = ferretto::builder("test").shared_memory_size(12_345).startup_tracing(StartupConfig::new());
    let refused = odd.init();
    assert!(matches!(refused, Err(InitError::Producer(ProducerError::StartupMemory(_)))), "{refused:?}");
    assert!(!ferretto::is_initialized() && !ferretto::enabled!("any"));
}

#[test]
fn a_session_in_this_process_can_have_the_startup_if_there_is_no_other_service() {
    let _turn = turn();
    ferretto::builder("test")
        .backends(Backends::IN_PROCESS)
        .startup_tracing(startup("inside"))
        .init()
        .unwrap();
    ferretto::instant!("inside", "before");
    // Ended by shutdown: no session has come.
    assert!(ferretto::enabled!("inside"));
    assert!(ferretto::shutdown());
    assert!(!ferretto::enabled!("inside"));
}
