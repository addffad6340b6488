//! Programs that end in the middle: what they have traced until then is in the trace.

mod session;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use ferretto::protos::TracePacket;
use ferretto::protos::debug_annotation::{NameField, Value};
use ferretto::protos::trace_packet::{Data, OptionalTrustedPacketSequenceId};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use session::{Session, TIMEOUT, config, wait_until};

/// Tells the program, which is this one with another first test, where to connect and how to end.
const SOCKET: &str = "FERRETTO_TEST_SOCKET";
/// As above.
const END: &str = "FERRETTO_TEST_END";
/// Events of the program.
const EVENTS: usize = 5000;

/// The program. Run by the tests below.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn program() {
    let Ok(socket) = std::env::var(SOCKET) else {
        return;
    };
    let connector = ferretto::Connector::Address(socket.parse().unwrap());
    ferretto::builder("program").connector(connector).init().unwrap();
    ferretto::install_panic_hook();
    wait_until("the session", || ferretto::enabled!("exits"));
    // Another thread holds some, too.
    let (traced, is_traced) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..EVENTS {
            ferretto::instant!("exits", "on a thread");
            wait_for_room();
        }
        traced.send(()).unwrap();
        std::thread::sleep(TIMEOUT);
    });
    for _ in 0..EVENTS {
        ferretto::instant!("exits", "in main");
        wait_for_room();
    }
    is_traced.recv().unwrap();
    match std::env::var(END).unwrap().as_str() {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "kill" => {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
        "panic" => panic!("something {}", "went wrong"),
        other => unreachable!("{other}"),
    }
}

/// This is not about programs that are too fast.
fn wait_for_room() {
    static WRITTEN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    if WRITTEN.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 500 == 499 {
        ferretto::flush(Duration::from_secs(10));
    }
}

/// Records the program.
fn record(end: &str) -> (ExitStatus, Vec<TracePacket>) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("producer");
    let socket = socket.to_str().unwrap();
    let producer_addresses = vec![socket.parse().unwrap()];
    let host = Host::spawn(HostOptions { producer_addresses, ..HostOptions::default() }).unwrap();
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "program", "--ignored"]).env(SOCKET, socket).env(END, end);
    let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    session::wait_for_source(&mut consumer, "track_event");
    let session = Session::start(consumer, &config(&["track_event"]));
    let status = program.wait().unwrap();
    // The service has to see its end: that comes after all it sent.
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    wait_until("its end", || consumer.query_service_state(false).unwrap().producers.is_empty());
    (status, session.stop())
}

/// Events of each name, which the sequences have said.
fn counts(packets: &[TracePacket]) -> [usize; 2] {
    let events: Vec<_> = packets
        .iter()
        .filter(|packet| matches!(&packet.data, Some(Data::TrackEvent(event)) if event.debug_annotations.is_empty()))
        .collect();
    let sequence = |packet: &TracePacket| match packet.optional_trusted_packet_sequence_id {
        Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(id)) => id,
        None => panic!("{packet:?}"),
    };
    let mut sequences: Vec<u32> = events.iter().map(|packet| sequence(packet)).collect();
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len(), 2);
    [0, 1].map(|index| events.iter().filter(|packet| sequence(packet) == sequences[index]).count())
}

#[test]
fn what_a_program_that_exits_has_traced_is_in_the_trace() {
    let (status, packets) = record("exit");
    assert!(status.success(), "{status}");
    assert_eq!(counts(&packets), [EVENTS; 2]);
}

#[test]
fn what_a_program_that_aborts_has_traced_is_in_the_trace() {
    let (status, packets) = record("abort");
    assert_eq!(status.signal(), Some(rustix::process::Signal::ABORT.as_raw()), "{status}");
    assert_eq!(counts(&packets), [EVENTS; 2]);
}

#[test]
fn what_a_program_that_is_killed_has_traced_is_in_the_trace() {
    let (status, packets) = record("kill");
    assert_eq!(status.signal(), Some(rustix::process::Signal::KILL.as_raw()), "{status}");
    assert_eq!(counts(&packets), [EVENTS; 2]);
}

#[test]
fn a_panic_is_marked_with_its_message_and_its_place() {
    let (status, packets) = record("panic");
    assert_eq!(status.code(), Some(101), "{status}");
    assert_eq!(counts(&packets), [EVENTS; 2]);
    let mut marks = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackEvent(event)) if !event.debug_annotations.is_empty() => Some((packet, event)),
        _ => None,
    });
    let (packet, event) = marks.next().unwrap();
    assert!(marks.next().is_none());
    let names = &packet.interned_data.as_ref().unwrap().debug_annotation_names;
    let arguments = event.debug_annotations.iter().map(|argument| {
        let Some(NameField::NameIid(iid)) = &argument.name_field else { panic!("{argument:?}") };
        let name = names.iter().find(|name| name.iid() == *iid).unwrap().name();
        let Some(Value::StringValue(value)) = &argument.value else { panic!("{argument:?}") };
        (name, value.as_str())
    });
    let arguments: Vec<_> = arguments.collect();
    assert_eq!(arguments[0], ("message", "something went wrong"));
    let (name, place) = arguments[1];
    assert!(name == "location" && place.contains("tests/exits.rs:"), "{place}");
}
