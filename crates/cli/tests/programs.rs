//! Programs that are recorded from their first event to their last, however short they live and however they end.
//!
//! `cargo test` records each kind a few times; `FERRETTO_RUNS=1000` says how often, and with `-- --nocapture` there are figures.

mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Place, packets, stderr, wait_until};
use ferretto_protos::TracePacket;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::track_event::NameField;

const RUNS_ENV: &str = "FERRETTO_RUNS";
const DEFAULT_RUNS: usize = 8;

/// Tells the program, which is this one with another first test, what to do and how to end.
const END_ENV: &str = "FERRETTO_TEST_END";
/// A file in which the program says how far it came.
const PROGRESS_ENV: &str = "FERRETTO_TEST_PROGRESS";

/// Its threads, and events of each.
const THREADS: usize = 2;
const EVENTS: usize = 100;
/// Children of the program that has some.
const CHILDREN: usize = 3;

/// The program. Run by the tests below.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn program() {
    let Ok(end) = std::env::var(END_ENV) else {
        return;
    };
    ferretto::init("org.example.brief").unwrap();
    ferretto::instant!("brief", "first");
    let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(write_some)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    match end.as_str() {
        "children" => (0..CHILDREN).for_each(|_| run_child()),
        "a kill at any time" => write_until_killed(),
        _ => {}
    }
    ferretto::instant!("brief", "last");
    match end.as_str() {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "panic" => panic!("as it should"),
        "kill" => {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
        _ => {}
    }
}

fn write_some() {
    for _ in 0..EVENTS {
        ferretto::instant!("brief", "middle");
    }
}

fn run_child() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(ARGS).env(END_ENV, "return").stdout(Stdio::null());
    assert!(child.status().unwrap().success());
}

/// An event, then word that it was written; a hundred thousand a second, which is not what this is about.
fn write_until_killed() {
    const PAUSE: Duration = Duration::from_micros(10);
    let progress = std::fs::File::create(std::env::var_os(PROGRESS_ENV).unwrap()).unwrap();
    for written in 1_u64.. {
        let next = Instant::now() + PAUSE;
        ferretto::instant!("brief", "counted", written);
        progress.write_all_at(&written.to_le_bytes(), 0).unwrap();
        while Instant::now() < next {}
    }
}

/// What makes this program that one.
const ARGS: [&str; 3] = ["--exact", "program", "--ignored"];

fn runs() -> usize {
    std::env::var(RUNS_ENV).ok().map_or(DEFAULT_RUNS, |runs| runs.parse().expect("a number"))
}

/// `ferretto record`, of the program that ends so.
fn recorder(place: &Place, args: &[&str], end: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut all = vec!["record", "-o", "t.pftrace"];
    all.extend_from_slice(args);
    all.extend_from_slice(&["--", program.to_str().unwrap()]);
    all.extend_from_slice(&ARGS);
    let mut command = place.ferretto(&all);
    command.env(END_ENV, end).env(PROGRESS_ENV, place.path("progress"));
    command
}

/// How often the trace has each event, by its name.
fn events(path: &Path) -> BTreeMap<String, usize> {
    let mut names: BTreeMap<(u32, u64), String> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for packet in packets(path) {
        let sequence = sequence_of(&packet);
        for name in packet.interned_data.iter().flat_map(|data| &data.event_names) {
            names.insert((sequence, name.iid()), name.name().to_owned());
        }
        if let Some(Data::TrackEvent(event)) = &packet.data
            && let Some(NameField::NameIid(iid)) = event.name_field
        {
            *counts.entry(names[&(sequence, iid)].clone()).or_default() += 1;
        }
    }
    counts
}

fn sequence_of(packet: &TracePacket) -> u32 {
    use ferretto_protos::trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId;
    match packet.optional_trusted_packet_sequence_id {
        Some(TrustedPacketSequenceId(id)) => id,
        None => 0,
    }
}

fn expected(programs: usize) -> BTreeMap<String, usize> {
    let counts = [("first", programs), ("middle", programs * THREADS * EVENTS), ("last", programs)];
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

#[test]
fn all_of_a_program_is_in_the_trace_however_it_ends() {
    for end in ["return", "exit", "abort", "panic", "kill"] {
        for run in 0..runs() {
            let place = Place::new();
            let output = recorder(&place, &[], end).output().unwrap();
            assert_eq!(
                events(&place.path("t.pftrace")),
                expected(1),
                "{end}, run {run}: {}",
                stderr(&output)
            );
            assert!(stderr(&output).contains("Lost: nothing."), "{end}, run {run}: {}", stderr(&output));
        }
    }
}

#[test]
fn children_are_recorded_as_well() {
    for run in 0..runs() {
        let place = Place::new();
        let output = recorder(&place, &[], "children").output().unwrap();
        let found = events(&place.path("t.pftrace"));
        assert_eq!(found, expected(1 + CHILDREN), "run {run}: {}", stderr(&output));
    }
}

#[test]
fn what_was_written_before_a_kill_is_in_the_trace() {
    for run in 0..runs() {
        let place = Place::new();
        let mut recorder = recorder(&place, &[], "a kill at any time").stderr(Stdio::null()).spawn().unwrap();
        wait_until("the program writes", || progress(&place) > 0);
        // Some other moment of its life in each run.
        std::thread::sleep(Duration::from_micros(7_919 * (run as u64 + 1) % 50_000));
        kill_child_of(recorder.id());
        recorder.wait().unwrap();
        let (written, found) = (progress(&place), events(&place.path("t.pftrace")));
        let counted = found.get("counted").copied().unwrap_or_default() as u64;
        // It may have been killed between the two.
        assert!(counted == written || counted == written + 1, "run {run}: {written} written, {found:?}");
        assert_eq!(found.get("first"), Some(&1), "run {run}");
    }
}

fn progress(place: &Place) -> u64 {
    let said = std::fs::read(place.path("progress")).unwrap_or_default();
    said.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn kill_child_of(parent: u32) {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    assert!(Command::new("kill").arg("-9").args(children.split_whitespace()).status().unwrap().success());
}

#[test]
fn a_program_that_starts_during_a_session_misses_nothing() {
    let place = Place::new();
    let mut recorder = place.ferretto(&["record", "-o", "t.pftrace"]).stderr(Stdio::null()).spawn().unwrap();
    let socket = place.path("producer.sock");
    wait_until("the service listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    // Its sources have started when the first of the programs is seen at all: that is not what this is about.
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..runs() {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(ARGS).env(END_ENV, "return").env("PERFETTO_PRODUCER_SOCK_NAME", &socket);
        assert!(program.stdout(Stdio::null()).status().unwrap().success());
    }
    common::send_signal(&recorder, "-INT");
    recorder.wait().unwrap();
    assert_eq!(events(&place.path("t.pftrace")), expected(runs()));
}

#[test]
fn a_program_that_finds_no_service_is_named() {
    let place = Place::new();
    let program = std::env::current_exe().unwrap();
    let args = ["record", "--", "env", "PERFETTO_PRODUCER_SOCK_NAME=/nowhere", program.to_str().unwrap()];
    let output = place.ferretto(&args).args(ARGS).env(END_ENV, "return").output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("org.example.brief (process"), "{said}");
    assert!(said.contains("no tracing service is where it looks"), "{said}");
    assert!(!said.contains("Lost: nothing"), "{said}");
}
