//! Two recorders of the kernel's events at a time, one of them upstream's, which does not know of others.

use std::path::Path;
use std::time::Duration;

use ferretto_interop::{Maker, Peers, World, both, need, trace_query, tracefs};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Through the services of that world, as long as it says.
fn record(peers: &Peers, world: &World, args: &[&str]) -> std::process::Command {
    let mut command = peers.ferretto();
    command.arg("record").arg("-o").arg(world.path("trace.pftrace")).args(args);
    command
}

fn upstreams_daemons(peers: &Peers) -> World {
    let mut world = World::with_traced(peers, Maker::Upstream);
    world.start_probes(peers, Maker::Upstream);
    world
}

fn root_records() -> bool {
    let root = Path::new("/sys/kernel/tracing");
    let is_on = |file: &str| std::fs::read_to_string(root.join(file)).is_ok_and(|text| text.starts_with('1'));
    is_on("tracing_on") && is_on("events/sched/sched_switch/enable")
}

#[test]
fn a_recording_of_upstreams_goes_on_beside_ours() {
    need!(tracefs());
    let (peers, sql) = (need!(both()), need!(trace_query()));
    let theirs = upstreams_daemons(&peers);
    let mut recording = theirs.spawn(record(&peers, &theirs, &["--system", "-t", "5s"]), "record");
    theirs.wait_until("upstream records", root_records);
    let ours = World::new();
    let done = ours.run(record(&peers, &ours, &["--own", "-t", "1500ms"]), TIMEOUT);
    assert!(done.status.success() && done.stderr.contains("Lost: nothing."), "{}", done.stderr);
    assert!(root_records(), "theirs goes on");
    recording.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", recording.log()));
    for world in [&theirs, &ours] {
        let trace = world.path("trace.pftrace");
        let lasts = "select (trace_end() - max(ts)) < 1000000000 from sched";
        assert_eq!(sql.number(&trace, lasts), 1, "{}", recording.log());
        assert_eq!(sql.losses(&trace), Vec::<String>::new());
    }
}

#[test]
fn a_recording_of_ours_has_what_upstreams_takes_or_says_that_it_has_not() {
    need!(tracefs());
    let (peers, sql) = (need!(both()), need!(trace_query()));
    let ours = World::new();
    let mut recording = ours.spawn(record(&peers, &ours, &["--own", "-t", "6s"]), "record");
    std::thread::sleep(Duration::from_secs(1));
    let theirs = upstreams_daemons(&peers);
    let done = theirs.run(record(&peers, &theirs, &["--system", "-t", "1s"]), TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    recording.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", recording.log()));
    let (said, trace) = (recording.log(), ours.path("trace.pftrace"));
    if said.contains("Lost: nothing.") {
        let lasts = "select trace_end() - max(ts) < 1000000000 from sched";
        assert_eq!(sql.number(&trace, lasts), 1, "{said}");
        assert_eq!(sql.losses(&trace), Vec::<String>::new());
    } else {
        // Kernels before 6.16: both record in the root of tracefs.
        assert!(said.contains("kernel events, from some moment on: another program interfered"), "{said}");
        assert!(!sql.losses(&trace).is_empty(), "other readers are told as well");
    }
}
