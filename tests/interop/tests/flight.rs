//! The flight recorder in the eyes of upstream's Trace Processor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Daemon, Maker, Peers, TraceQuery, World, both, ferretto, need, trace_query, tracefs};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Rings go round at the pace of programs that are not optimized.
const LAPS_TIMEOUT: Duration = Duration::from_secs(90);

fn recorder(peers: &Peers, world: &World, name: &str, args: &[&str]) -> Daemon {
    let mut command = peers.ferretto();
    command.args(["record", "--flight", "--name", name]).args(args);
    let recorder = world.spawn(command, "recorder");
    world.wait_until("the recorder", || {
        recorder.log().contains("At the end") || recorder.log().contains("Nothing is")
    });
    recorder
}

fn snapshot(peers: &Peers, world: &World, name: &str, file: &str) {
    let mut command: Command = peers.ferretto();
    command.args(["snapshot", "--name", name, "-o"]).arg(world.path(file));
    let done = world.run(command, TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stderr.contains("Lost: nothing"), "{}", done.stderr);
}

/// Threads that ran in the snapshot, those without a process that has a name, and when the first and the last of them ran.
fn look(sql: &TraceQuery, trace: &Path) -> (i64, i64, i64, i64) {
    let ran = "from sched join thread using (utid) left join process using (upid) where utid != 0";
    let numbers = sql.numbers(
        trace,
        &[
            &format!("select count(distinct utid) {ran}"),
            &format!("select count(distinct utid) {ran} and (upid is null or process.name is null)"),
            "select coalesce(min(ts), 0) from sched",
            "select coalesce(max(ts), 0) from sched",
        ],
    );
    assert_eq!(sql.losses(trace), Vec::<String>::new());
    (numbers[0], numbers[1], numbers[2], numbers[3])
}

#[test]
fn names_survive_in_rings_that_have_gone_round() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    need!(tracefs());
    let mut world = World::new();
    let name = format!("ring-{}", std::process::id());
    let mut recorder = recorder(&peers, &world, &name, &["--keep", "128kb"]);
    let mut busy = Command::new("sh");
    busy.args(["-c", "while true; do sleep 0.002; done"]);
    world.start(busy, "busy");
    let mut first = (0, 0, 0, 0);
    world.wait_until("events", || {
        snapshot(&peers, &world, &name, "first");
        first = look(&sql, &world.path("first"));
        first.0 > 3
    });
    // When the ring has gone round its first event is a later one.
    let mut later = first;
    world.wait_within(LAPS_TIMEOUT, "the ring has gone round", || {
        snapshot(&peers, &world, &name, "later");
        later = look(&sql, &world.path("later"));
        later.2 > first.3
    });
    for (threads, nameless, ..) in [first, later] {
        assert!(threads > 3, "{threads}");
        assert_eq!(nameless, 0, "of {threads} threads");
    }
    recorder.signal(Signal::INT);
    assert!(recorder.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recorder.log());
}

/// A program that fills a ring. Twice as many would be too many for programs that are not optimized, on two processors.
const THREADS: &str = "50";
const RATE: &str = "4000";

/// Bytes that a buffer has taken in: the first one, "events".
fn bytes_written(sql: &TraceQuery, trace: &Path) -> u64 {
    sql.number(trace, "select value from stats where name = 'traced_buf_bytes_written' and idx = 0")
        .cast_unsigned()
}

/// What Trace Processor says of a snapshot in which nothing may be skipped, when the ring has gone round so often.
fn check_ring_of_threads(keep_kb: u64, laps: u64) {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    let world = World::new();
    let name = format!("threads-{keep_kb}-{}", std::process::id());
    let keep = format!("{keep_kb}kb");
    let program = env!("CARGO_BIN_EXE_sdk-threads");
    let mut recorder =
        recorder(&peers, &world, &name, &["--keep", &keep, "--", program, THREADS, RATE, "600"]);
    let trace = world.path("trace");
    world.wait_within(LAPS_TIMEOUT, "the ring has gone round", || {
        snapshot(&peers, &world, &name, "trace");
        bytes_written(&sql, &trace) > laps * keep_kb * 1024
    });
    // Once more, for the clones leave no trace in each other.
    snapshot(&peers, &world, &name, "trace");
    assert_eq!(sql.losses(&trace), Vec::<String>::new());
    let of_threads =
        "from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)";
    let numbers = sql.numbers(
        &trace,
        &[
            "select count(*) from slice",
            "select count(*) from slice where coalesce(name, '') not in ('read', 'compute', 'store', 'look')",
            &format!("select count(distinct utid) {of_threads} where thread.name glob 'worker-*'"),
            &format!("select count(*) {of_threads} where coalesce(thread.name, '') not glob 'worker-*'"),
            "select coalesce(max(ts) - min(ts), 0) from slice",
        ],
    );
    let [slices, nameless, threads, others, span_ns] = numbers[..] else { panic!("{numbers:?}") };
    eprintln!("{keep_kb} KiB: {slices} slices of {threads} threads in {} ms", span_ns / 1_000_000);
    assert!(slices as u64 > keep_kb * 1024 / 100, "{slices}");
    assert_eq!((nameless, threads, others), (0, 50, 0));
    assert!(span_ns < 60_000_000_000, "{span_ns}");
    recorder.signal(Signal::INT);
    recorder.wait(TIMEOUT);
}

#[test]
fn all_that_fifty_threads_left_in_a_ring_is_read() {
    check_ring_of_threads(16 << 10, 2);
}

#[test]
fn all_that_fifty_threads_left_in_a_small_ring_is_read() {
    check_ring_of_threads(1 << 10, 40);
}

#[test]
fn a_recorder_on_upstreams_daemons_gives_snapshots() {
    let (peers, sql) = (need!(both()), need!(trace_query()));
    need!(tracefs());
    let mut world = World::with_traced(&peers, Maker::Upstream);
    world.start_probes(&peers, Maker::Upstream);
    let mut recorder = recorder(&peers, &world, "flight", &["--system", "--keep", "4mb"]);
    let trace = world.path("trace");
    world.wait_until("events", || {
        snapshot(&peers, &world, "flight", "trace");
        sql.number(&trace, "select count(*) from sched where dur > 0") > 0
    });
    assert!(sql.number(&trace, "select count(*) from process where name is not null") > 0);
    recorder.signal(Signal::INT);
    assert!(recorder.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recorder.log());
}
