//! Processes that fork: the child leaves alone what its parent shares with the service, and is silent or a producer of its own.

#![allow(unsafe_code, reason = "fork() is what is tested")]

mod session;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ferretto::protos::trace_packet::Data;
use ferretto::protos::{DataSourceDescriptor, TracePacket, TrackEventConfig, fields};
use ferretto::tracing_session::SessionError;
use ferretto::{
    AfterFork, Backends, Builder, Category, Connector, DataSource, DataSourceHandle, StartupConfig,
    TracingSession,
};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use session::{Session, TIMEOUT, config, texts, wait_until};

unsafe extern "C" {
    fn fork() -> i32;
}

/// Tests take turns: there is one runtime, which ends with each.
struct Turn {
    _lock: MutexGuard<'static, ()>,
}

impl Turn {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        Self { _lock: TURN.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        ferretto::shutdown();
    }
}

/// Of the test's process, since its first initialisation.
const UUID: u64 = 7;

fn builder(name: &str) -> Builder {
    ferretto::builder(name).process_uuid(UUID)
}

/// Runs `work` in a child process.
fn in_child(work: impl FnOnce()) -> Pid {
    // SAFETY: the C library lets a child of a process with threads allocate, and everything else that `work` needs is what is tested.
    // JUSTIFICATION: no safe interface forks without running another program.
    let pid = unsafe { fork() };
    if pid == 0 {
        let result = catch_unwind(AssertUnwindSafe(work));
        // Not back to the test harness, of which this child has a copy. Destructors of this thread's state run.
        exit(i32::from(result.is_err()));
    }
    Pid::from_raw(pid).expect("fork() works")
}

/// Waits for a child, and kills it if it hangs.
fn expect_success(child: Pid) {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
            assert_eq!(status.exit_status(), Some(0), "{status:?}");
            return;
        }
        if Instant::now() > until {
            kill_process(child, Signal::KILL).unwrap();
            waitpid(Some(child), WaitOptions::empty()).unwrap();
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Default)]
struct Source;

impl DataSource for Source {
    type IncrementalState = ();
    type ThreadState = ();
}

static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();

fn register() {
    let descriptor = DataSourceDescriptor { name: Some("test.fork".into()), ..Default::default() };
    // Once for all tests.
    let _ = SOURCE.register(descriptor);
}

fn say(text: &str) {
    SOURCE.trace(|ctx| ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, text));
}

fn consumer(host: &Host) -> Consumer {
    Consumer::over(host.connect_consumer().unwrap()).unwrap()
}

/// A service with a socket.
fn host_at(path: &Path) -> Host {
    let producer_addresses = vec![path.to_str().unwrap().parse().unwrap()];
    Host::spawn(HostOptions { producer_addresses, ..HostOptions::default() }).unwrap()
}

fn socket(name: &str) -> tempfile::TempDir {
    tempfile::Builder::new().prefix(name).tempdir().unwrap()
}

/// Numbers of the events of a category's name, in the order of each sequence.
fn track_events(packets: &[TracePacket]) -> usize {
    packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_)))).count()
}

#[test]
fn a_silent_child_neither_hangs_nor_touches_what_its_parent_shares() {
    const CHILDREN: usize = 60;
    /// `previous_packet_dropped`.
    const LOST_TO_FULL_MEMORY: u32 = 0x100;
    let _turn = Turn::new();
    let host = Host::spawn(HostOptions::default()).unwrap();
    let stream = host.connect_producer().unwrap();
    builder("test").connector(Connector::Stream(stream)).shared_memory_size(64 * 1024).init().unwrap();
    register();
    let session = Session::start(consumer(&host), &config(&["test.fork", "track_event"]));
    // Threads that take the locks all the time.
    let is_over = AtomicBool::new(false);
    let (is_over, mut written) = (&is_over, 0);
    thread::scope(|scope| {
        let busy: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let mut written = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let category = Category::dynamic(&format!("fork.{thread}.{}", written % 500));
                        ferretto::instant!((category), "busy", number = written);
                        written += 1;
                        if written % 64 == 0 {
                            ferretto::flush(Duration::from_secs(10));
                        }
                    }
                    written
                })
            })
            .collect();
        for number in 0..CHILDREN {
            ferretto::instant!("fork.main", "before");
            say("parent");
            let child = in_child(|| {
                assert!(!ferretto::is_initialized() && !SOURCE.is_enabled());
                assert!(!ferretto::enabled!("fork.main") && !ferretto::enabled!("fork.new"));
                for round in 0..300 {
                    ferretto::instant!("fork.main", "child");
                    let category = Category::dynamic(&format!("fork.child.{round}"));
                    ferretto::instant!((category), "child");
                    say("child");
                }
                assert!(!ferretto::flush(Duration::from_secs(10)));
                thread::spawn(|| ferretto::instant!("fork.main", "child")).join().unwrap();
            });
            expect_success(child);
            ferretto::instant!("fork.main", "after", number = number);
            assert!(ferretto::flush(TIMEOUT), "the parent's threads end their chunks themselves");
        }
        is_over.store(true, Ordering::Relaxed);
        for busy in busy {
            written += busy.join().unwrap();
        }
    });
    let packets = session.stop();
    // A chunk of memory that a child ends is lost to its parent, until there is none left.
    assert!(packets.iter().all(|packet| packet.previous_packet_dropped() & LOST_TO_FULL_MEMORY == 0));
    assert_eq!(texts(&packets), vec!["parent"; CHILDREN]);
    assert_eq!(track_events(&packets), written + 2 * CHILDREN);
}

#[test]
fn a_child_that_reconnects_is_a_process_of_its_own() {
    let _turn = Turn::new();
    let folder = socket("reconnects");
    let path = folder.path().join("producer");
    let host = host_at(&path);
    let address = path.to_str().unwrap().parse().unwrap();
    builder("test").connector(Connector::Address(address)).after_fork(AfterFork::Reconnect).init().unwrap();
    register();
    let session = Session::start(consumer(&host), &config(&["test.fork", "track_event"]));
    ferretto::instant!("fork.family", "parent");
    say("parent");
    let child = in_child(|| {
        assert!(!ferretto::is_initialized(), "it waits for something to trace");
        say("this is why it connects");
        wait_until("the session", || SOURCE.is_enabled() && ferretto::enabled!("fork.family"));
        ferretto::instant!("fork.family", "child");
        say("child");
        let grandchild = in_child(|| {
            wait_until("the session", || ferretto::enabled!("fork.family") && SOURCE.is_enabled());
            ferretto::instant!("fork.family", "grandchild");
            say("grandchild");
            assert!(ferretto::flush(TIMEOUT));
        });
        expect_success(grandchild);
        assert!(ferretto::flush(TIMEOUT));
    });
    expect_success(child);
    ferretto::instant!("fork.family", "parent again");
    let packets = session.stop();
    let mut said = texts(&packets);
    said.sort_unstable();
    assert_eq!(said, ["child", "grandchild", "parent"]);
    assert_eq!(track_events(&packets), 4);
    // Three processes, as they describe themselves and as the service knows them.
    let mut processes: Vec<(i32, u64)> = Vec::new();
    for packet in &packets {
        let Some(Data::TrackDescriptor(track)) = &packet.data else {
            continue;
        };
        if let Some(process) = &track.process {
            assert_eq!(process.pid(), packet.trusted_pid());
            processes.push((process.pid(), track.uuid()));
        }
        if let Some(thread) = &track.thread {
            assert_eq!(thread.pid(), packet.trusted_pid());
        }
    }
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 3, "{processes:?}");
    assert_eq!(processes.iter().filter(|(_, uuid)| *uuid == UUID).count(), 1, "{processes:?}");
}

#[test]
fn a_child_leaves_the_sessions_of_its_parent_alone() {
    let _turn = Turn::new();
    builder("test").backends(Backends::IN_PROCESS).after_fork(AfterFork::Reconnect).init().unwrap();
    let session = TracingSession::in_process().unwrap().categories(["fork.session"]).start().unwrap();
    let mut session = Some(session);
    ferretto::instant!("fork.session", "of the parent");
    let child = in_child(|| {
        let mut inherited = session.take().unwrap();
        assert!(inherited.has_ended());
        for refused in [inherited.flush(TIMEOUT), inherited.start(), inherited.wait(None)] {
            assert!(matches!(refused, Err(SessionError::Forked)), "{refused:?}");
        }
        drop(inherited);
        // It has a service of its own, and records itself.
        let session = TracingSession::in_process().unwrap().categories(["fork.session"]).start().unwrap();
        wait_until("the session", || ferretto::enabled!("fork.session"));
        ferretto::instant!("fork.session", "of the child");
        let trace = session.stop().unwrap().into_vec().unwrap();
        assert_eq!(names(&trace), ["of the child"]);
    });
    expect_success(child);
    ferretto::instant!("fork.session", "of the parent again");
    let trace = session.take().unwrap().stop().unwrap().into_vec().unwrap();
    assert_eq!(names(&trace), ["of the parent", "of the parent again"]);
}

#[test]
fn a_child_writes_nothing_into_the_startup_of_its_parent() {
    let _turn = Turn::new();
    let folder = socket("startup");
    let path = folder.path().join("producer");
    let address = path.to_str().unwrap().parse().unwrap();
    let startup = StartupConfig::categories(["fork.startup"]).timeout(TIMEOUT);
    builder("test").connector(Connector::Address(address)).startup_tracing(startup).init().unwrap();
    ferretto::instant!("fork.startup", "before");
    let child = in_child(|| {
        assert!(!ferretto::enabled!("fork.startup"));
        for _ in 0..1000 {
            ferretto::instant!("fork.startup", "child");
        }
        thread::spawn(|| ferretto::instant!("fork.startup", "child")).join().unwrap();
    });
    expect_success(child);
    ferretto::instant!("fork.startup", "after");
    let host = host_at(&path);
    let mut wanted = config(&["track_event"]);
    let events = TrackEventConfig {
        enabled_categories: vec!["fork.startup".to_owned()],
        disabled_categories: vec!["*".to_owned()],
        ..Default::default()
    };
    wanted.data_sources[0].config.as_mut().unwrap().track_event_config = Some(events);
    let session = Session::start(consumer(&host), &wanted);
    ferretto::instant!("fork.startup", "adopted");
    let packets = session.stop();
    assert_eq!(track_events(&packets), 3);
}

/// Names of events in the order in which they are said first.
fn names(trace: &[u8]) -> Vec<String> {
    let trace = <ferretto::protos::Trace as prost::Message>::decode(trace).unwrap();
    let data = trace.packet.iter().filter_map(|packet| packet.interned_data.as_ref());
    data.flat_map(|data| data.event_names.iter().map(|name| name.name().to_owned())).collect()
}

#[test]
fn a_silent_child_can_begin_by_itself_and_does_not_hide_its_parents_end() {
    let _turn = Turn::new();
    let folder = socket("end");
    let path = folder.path().join("producer");
    let host = host_at(&path);
    let begin = |name: &str| {
        let address = path.to_str().unwrap().parse().unwrap();
        builder(name).connector(Connector::Address(address)).init().unwrap();
        wait_until("the connection", || ferretto::flush(Duration::from_secs(1)));
    };
    let mut consumer = consumer(&host);
    let mut producers = move || -> Vec<String> {
        let state = consumer.query_service_state(false).unwrap();
        let mut names: Vec<String> =
            state.producers.iter().map(|producer| producer.name().to_owned()).collect();
        names.sort_unstable();
        names
    };
    begin("test process");
    let parent = in_child(|| {
        begin("parent");
        // One child that is silent, one that is not.
        in_child(|| thread::sleep(TIMEOUT));
        in_child(|| {
            begin("child");
            thread::sleep(TIMEOUT);
        });
        thread::sleep(TIMEOUT);
        exit(1);
    });
    wait_until("all of them", || producers() == ["child", "parent", "test process"]);
    kill_process(parent, Signal::KILL).unwrap();
    waitpid(Some(parent), WaitOptions::empty()).unwrap();
    let killed = Instant::now();
    wait_until("the parent's end", || producers() == ["child", "test process"]);
    assert!(killed.elapsed() < TIMEOUT / 2, "not only when its children have ended");
}
