//! A session that writes into a real file is cloned into another one.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, CloneSessionRequest, clone_session_request::Selector};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

fn config() -> protos::TraceConfig {
    protos::TraceConfig {
        buffers: vec![protos::trace_config::BufferConfig { size_kb: Some(64), ..Default::default() }],
        unique_session_name: Some("writes".to_owned()),
        write_into_file: Some(true),
        file_write_period_ms: Some(100),
        ..Default::default()
    }
}

fn consumer(host: &Host) -> Consumer {
    Consumer::over(host.connect_consumer().unwrap()).unwrap()
}

fn create(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

/// How many ids a trace file has.
fn ids(file: &[u8]) -> usize {
    let packets = protos::Trace::decode(file).unwrap().packet;
    assert!(matches!(packets.last().and_then(|last| last.data.as_ref()), Some(Data::TraceStats(_))));
    packets.iter().filter(|packet| matches!(packet.data, Some(Data::TraceUuid(_)))).count()
}

#[test]
fn a_clone_has_the_file_and_what_was_not_written_yet() {
    let host = Host::spawn(HostOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    let mut writing = consumer(&host);
    writing.enable_tracing(config().encode_to_vec(), Some(create(&source).into())).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while fs::metadata(&source).unwrap().len() == 0 {
        assert!(Instant::now() < end, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    let selector = Some(Selector::UniqueSessionName("writes".to_owned()));
    let request = CloneSessionRequest { selector, ..Default::default() };
    let mut cloning = consumer(&host);
    let response = cloning.clone_session(&request, Some(create(&copy).into())).unwrap();
    assert!(response.success() && response.was_write_into_file(), "{response:?}");
    // When the answer comes, the file is complete.
    let cloned = fs::read(&copy).unwrap();
    cloning.free().unwrap();
    assert_eq!(ids(&cloned), 2, "the source's beginning, then a trace of its own");
    // A target that takes nothing.
    let mut failing = consumer(&host);
    let response = failing.clone_session(&request, Some(File::open(&copy).unwrap().into())).unwrap();
    assert!(!response.success() && response.error().contains("cannot be written"), "{response:?}");
    // The session goes on as if nothing had been.
    writing.disable().unwrap();
    let written = fs::read(&source).unwrap();
    assert_eq!(ids(&written), 1);
    let common = written.iter().zip(&cloned).take_while(|(a, b)| a == b).count();
    assert!(common > 0 && reaches_over_the_id(&written, common), "the clone begins as the source does");
}

/// Whether these first bytes reach over the id of the trace.
fn reaches_over_the_id(file: &[u8], len: usize) -> bool {
    let packets = protos::Trace::decode(file).unwrap().packet;
    let until_id = packets.iter().position(|packet| matches!(packet.data, Some(Data::TraceUuid(_)))).unwrap();
    let beginning = protos::Trace { packet: packets[..=until_id].to_vec() };
    beginning.encoded_len() <= len
}
