//! Events from before the session.

mod support;

use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};
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
    // Little, so that it can be filled.
    let builder =
        ferretto::builder("test").connector(Connector::Stream(stream)).shared_memory_size(256 * 1024);
    builder.startup_tracing(startup).init().unwrap();
}

fn startup(prefix: &str) -> StartupConfig {
    StartupConfig::categories([format!("{prefix}*")]).timeout(PATIENCE)
}

/// What the library has told the log since the last call.
fn take_log() -> String {
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    static LISTENS: OnceLock<()> = OnceLock::new();
    struct Log;
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LOG.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    LISTENS.get_or_init(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).init());
    String::from_utf8(std::mem::take(&mut LOG.lock().unwrap_or_else(PoisonError::into_inner))).unwrap()
}

/// Such a config.
fn wanting(enabled: &[&str], disabled: &[&str]) -> TrackEventConfig {
    TrackEventConfig {
        enabled_categories: enabled.iter().map(|name| (*name).to_owned()).collect(),
        disabled_categories: disabled.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
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
    ferretto::instant!("other.b", "before");
    ferretto::instant!("another", "not recorded");
    let without_arguments = TrackEventConfig { filter_debug_annotations: Some(true), ..only("other") };
    for config in [only("other.a"), TrackEventConfig::default(), without_arguments] {
        let recording = Recording::start_on(&host, config);
        ferretto::instant!("other.a", "during");
        assert_eq!(texts(&recording.stop()), ["instant other.a/during"], "{}", take_log());
    }
    // The one that was waited for, and one after it, which wants the same and is too late.
    let recording = Recording::start_on(&host, only("other"));
    let second = Recording::start_on(&host, only("other"));
    ferretto::instant!("other.a", "after");
    let mut expected = vec!["instant other.a/before", "instant other.b/before"];
    expected.extend(["instant other.a/during"; 3]);
    expected.push("instant other.a/after");
    assert_eq!(texts(&recording.stop()), expected);
    assert_eq!(texts(&second.stop()), ["instant other.a/after"]);
    assert!(ferretto::shutdown());
}

#[test]
fn a_session_may_say_it_in_other_words() {
    let _turn = turn();
    let everything = StartupConfig::new().enable_categories(["*"]).timeout(PATIENCE);
    let list = StartupConfig::categories(["words.b", "words.a", "nobody.has.this"]).timeout(PATIENCE);
    let cases = [
        // What is not wanted was not recorded: nothing of it happened.
        (everything.clone(), wanting(&["words.a", "words.b"], &["*"])),
        (everything.clone(), wanting(&["*"], &["words.c"])),
        (everything, wanting(&["words.*"], &["*", "words.c"])),
        (list.clone(), wanting(&["words.a", "words.b"], &["*"])),
        (list.clone(), wanting(&["words.*"], &["words.c", "*"])),
        (startup("words"), wanting(&["words.a", "words.b", "words.c"], &["*"])),
    ];
    for (startup, config) in cases {
        let host = host();
        init(&host, startup.clone());
        ferretto::instant!("words.a", "before");
        ferretto::instant!("words.b", "before");
        let recording = Recording::start_on(&host, config.clone());
        ferretto::instant!("words.c", "is it wanted?");
        ferretto::instant!("words.a", "after");
        let trace = recording.stop();
        assert!(ferretto::shutdown());
        let mut expected = vec!["instant words.a/before", "instant words.b/before"];
        // The session's words count once it is there.
        let wants_c = config.enabled_categories.iter().any(|name| name == "words.c");
        expected.extend(wants_c.then_some("instant words.c/is it wanted?"));
        expected.push("instant words.a/after");
        assert_eq!(texts(&trace), expected, "{startup:?} {config:?} {}", take_log());
    }
}

#[test]
fn what_is_not_adopted_is_counted_and_said() {
    let _turn = turn();
    take_log();
    let host = host();
    init(&host, startup("said").timeout(Duration::from_secs(2)));
    for number in 0..1000 {
        ferretto::instant!("said.a", "lost", number = number);
    }
    ferretto::instant!("said.b", "lost");
    let recording = Recording::start_on(&host, wanting(&["said.a"], &["*"]));
    assert_eq!(texts(&recording.stop()), [""; 0]);
    wait_until("the time-out", || !ferretto::enabled!("said.a"));
    // 1,001 events, the beginning of the sequence, its thread and its process.
    let log = std::cell::RefCell::new(String::new());
    for line in [
        (
            "a session does not get what was traced before it, 1004 packets, ",
            ": it does not want category said.b",
        ),
        ("what was traced before a session is lost, 1004 packets, ", ": no session wanted it in time"),
    ] {
        wait_until("the log's line", || {
            log.borrow_mut().push_str(&take_log());
            let has = |said: &str| said.contains(line.0) && said.ends_with(line.1);
            log.borrow().lines().any(has)
        });
    }
    assert!(log.into_inner().contains(" bytes, and 0 for which there was no memory: "));
    assert!(ferretto::shutdown());

    // More than the memory takes, and then the program ends.
    let host = self::host();
    init(&host, startup("said"));
    for number in 0..100_000 {
        ferretto::instant!("said.a", "too much", number = number);
    }
    ferretto::flush(Duration::ZERO);
    assert!(ferretto::shutdown());
    let log = take_log();
    let line = log.lines().find(|line| line.contains("what was traced before a session is lost, "));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.ends_with(": tracing ended before a session wanted it"), "{line}");
    let mut numbers =
        line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let counts: Vec<u64> = numbers.by_ref().collect();
    let [.., packets, bytes, dropped] = *counts else { panic!("{line}") };
    // The rest of what a writer looks for memory after is not counted yet: a kilobyte.
    assert!((99_800..=100_003).contains(&(packets + dropped)), "{line}");
    assert!(packets > 5_000 && (100_000..=256 * 1024 / 4 * 3 + 4096).contains(&bytes), "{line}");
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
