//! A program that records itself, with nothing but itself.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferretto::protos::{DataSourceConfig, DataSourceDescriptor, Trace, fields};
use ferretto::{Backends, DataSource, DataSourceHandle, TracingSession};
use prost::Message;

/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Tests take turns, as they share the categories' state.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(trace: &[u8], text: &str) -> usize {
    let trace = Trace::decode(trace).unwrap();
    let mentions = |packet: &Vec<u8>| packet.windows(text.len()).any(|part| part == text.as_bytes());
    trace.packet.iter().map(Message::encode_to_vec).filter(mentions).count()
}

fn init() {
    ferretto::builder("test").backends(Backends::IN_PROCESS).init().unwrap();
}

#[test]
fn the_first_event_is_in_the_trace_of_a_program_that_has_just_begun() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pftrace");
    // Again and again: the second time the program begins as well.
    for _ in 0..10 {
        init();
        let session = TracingSession::in_process().unwrap().categories(["net*"]).start().unwrap();
        ferretto::instant!("net.first", "mark one");
        session.stop().unwrap().save(&path).unwrap();
        assert_eq!(count(&std::fs::read(&path).unwrap(), "mark one"), 1);
        assert!(ferretto::shutdown());
    }
}

#[test]
fn sessions_of_one_program_do_not_disturb_each_other() {
    let _turn = turn();
    init();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                for round in 0..10 {
                    let text = format!("mark {number}/{round}.");
                    let session = TracingSession::in_process().unwrap().timeout(TIMEOUT).start().unwrap();
                    ferretto::instant!("threads", "event", text = &*text);
                    let trace = session.stop().unwrap().into_vec().unwrap();
                    assert_eq!(count(&trace, &text), 1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[derive(Default)]
struct Late;

impl DataSource for Late {
    type IncrementalState = ();
    type ThreadState = ();
}

#[test]
fn a_data_source_that_was_just_registered_is_recorded_from_the_start() {
    let _turn = turn();
    init();
    static LATE: DataSourceHandle<Late> = DataSourceHandle::new();
    LATE.register(DataSourceDescriptor { name: Some("late".into()), ..Default::default() }).unwrap();
    let config = DataSourceConfig { name: Some("late".into()), ..Default::default() };
    let session = TracingSession::in_process().unwrap().data_source(config).start().unwrap();
    LATE.trace(|ctx| {
        let mut packet = ctx.new_packet();
        packet.nested(fields::trace_packet::FOR_TESTING).string(1, "mark of its own");
    });
    assert_eq!(count(&session.stop().unwrap().into_vec().unwrap(), "mark of its own"), 1);
}

#[test]
fn a_program_that_is_not_initialised_has_sessions_without_itself() {
    let _turn = turn();
    ferretto::shutdown();
    let session = TracingSession::in_process().unwrap().start().unwrap();
    ferretto::instant!("nobody", "mark of nobody");
    let trace = session.stop().unwrap().into_vec().unwrap();
    assert!(!trace.is_empty());
    assert_eq!(count(&trace, "mark of nobody"), 0);
}

/// In a sandbox there is no file system to find a socket in, and nobody else is to come in.
#[test]
fn nothing_of_it_has_a_name() {
    let _turn = turn();
    init();
    let session = TracingSession::in_process().unwrap().start().unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    let own: HashSet<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    assert!(own.len() >= 4, "two pairs: {own:?}");
    let mut seen = 0;
    for line in std::fs::read_to_string("/proc/net/unix").unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(6).is_some_and(|inode| own.contains(*inode)) {
            seen += 1;
            assert_eq!(words.get(7), None, "{line}");
        }
    }
    assert!(seen >= 4, "{seen} of {own:?}");
    session.stop().unwrap().into_vec().unwrap();
}
