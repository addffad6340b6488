//! The flight recorder in the eyes of upstream's Trace Processor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Daemon, Maker, Peers, TraceQuery, World, both, ferretto, need, trace_query, tracefs};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(60);

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
    world.wait_until("the ring has gone round", || {
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
