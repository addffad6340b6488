//! `ferretto record` in the eyes of upstream's Trace Processor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Maker, TraceQuery, World, both, ferretto, need, trace_query, tracefs};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(60);

fn record(command: Command, world: &World, args: &[&str]) -> Command {
    let mut command = command;
    command.arg("record").arg("-o").arg(world.path("trace.pftrace")).args(args);
    command
}

/// What an ordinary user may see, and for root the scheduling as well.
fn check_trace(sql: &TraceQuery, trace: &Path, scheduling: bool) {
    let mut queries = vec![
        "select count(*) from process where name is not null and cmdline is not null",
        "select count(*) from thread where name is not null",
        "select count(*) from counter",
    ];
    if scheduling {
        queries.push("select count(*) from sched where dur > 0");
        queries.push("select count(*) from thread_state where state = 'S'");
    }
    for (query, number) in queries.iter().zip(sql.numbers(trace, &queries)) {
        assert!(number > 0, "{query}");
    }
    assert_eq!(sql.losses(trace), Vec::<String>::new());
}

#[test]
fn a_trace_recorded_without_any_service_has_everything() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    let world = World::new();
    let done = world.run(record(peers.ferretto(), &world, &["-t", "1500ms"]), TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    check_trace(&sql, &world.path("trace.pftrace"), tracefs().is_ok());
}

#[test]
fn a_command_is_recorded_and_its_status_passed_on() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    need!(tracefs());
    let world = World::new();
    let done = world.run(record(peers.ferretto(), &world, &["--", "sh", "-c", "sleep 1; exit 7"]), TIMEOUT);
    assert_eq!(done.status.code(), Some(7), "{}", done.stderr);
    let trace = world.path("trace.pftrace");
    check_trace(&sql, &trace, true);
    assert!(times_seen(&sql, &trace, "sleep") > 0, "the command's child was not seen: {}", done.stderr);
}

/// How often a thread of that name got another state. Its wake-ups suffice for that: there are virtual machines whose kernel
/// (6.18) leaves out the switches from the idle thread of some CPUs, its own text trace included, so that a thread that runs
/// only twice may have no row in `sched`.
fn times_seen(sql: &TraceQuery, trace: &Path, name: &str) -> i64 {
    let query =
        format!("select count(*) from thread_state join thread using (utid) where thread.name = '{name}'");
    sql.number(trace, &query)
}

#[test]
fn a_command_has_its_name_however_short_it_runs() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    need!(tracefs());
    let world = World::new();
    // Long enough as a shell to be read from /proc as such; what it becomes then is gone before it can be read.
    let busy = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exec sleep 0.01); exit 0";
    let done = world.run(record(peers.ferretto(), &world, &["--", "sh", "-c", busy]), TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    let trace = world.path("trace.pftrace");
    assert!(times_seen(&sql, &trace, "sleep") > 0, "it was seen under its old name only: {}", done.stderr);
}

#[test]
fn ctrl_c_keeps_what_was_recorded() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    let world = World::new();
    let mut recording = world.spawn(record(peers.ferretto(), &world, &[]), "record");
    std::thread::sleep(Duration::from_millis(2000));
    recording.signal(Signal::INT);
    let status = recording.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", recording.log()));
    assert!(status.success(), "{status}: {}", recording.log());
    check_trace(&sql, &world.path("trace.pftrace"), tracefs().is_ok());
}

#[test]
fn a_recording_through_upstreams_daemons_has_everything() {
    need!(tracefs());
    let (peers, sql) = (need!(both()), need!(trace_query()));
    let mut world = World::with_traced(&peers, Maker::Upstream);
    world.start_probes(&peers, Maker::Upstream);
    let done = world.run(record(peers.ferretto(), &world, &["--system", "-t", "1500ms"]), TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    check_trace(&sql, &world.path("trace.pftrace"), true);
}

#[test]
fn a_config_that_the_service_refuses_comes_back_as_its_error() {
    let peers = need!(ferretto());
    let world = World::new();
    let config = world.path("config.txtpb");
    std::fs::write(&config, "buffers { size_kb: 4 }\n".repeat(200)).unwrap();
    let config = config.display().to_string();
    let done = world.run(record(peers.ferretto(), &world, &["-t", "1s", "-c", &config]), TIMEOUT);
    assert!(!done.status.success());
    assert!(done.stderr.contains("buffer"), "{}", done.stderr);
}
