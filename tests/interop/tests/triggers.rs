//! Triggers: either maker's command line calls them out and records, on either maker's service; Trace Processor looks at the result.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Maker, Peers, Program, TraceQuery, World, both, need, trace_query};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Service, and the command line on both sides of it.
const MIXES: [(Maker, Maker); 3] = [
    (Maker::Ferretto, Maker::Ferretto),
    (Maker::Ferretto, Maker::Upstream),
    (Maker::Upstream, Maker::Ferretto),
];

/// A service with our data sources.
fn world(peers: &Peers, service: Maker) -> World {
    let mut world = World::with_traced(peers, service);
    world.start_probes(peers, Maker::Ferretto);
    world
}

fn write_config(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.path(name);
    std::fs::write(&path, text).expect("a config file");
    path
}

/// Counters of the system ten times a second, with this trigger config.
fn recorder(peers: &Peers, maker: Maker, world: &World, triggers: &str) -> Command {
    let text = format!(
        r#"buffers {{ size_kb: 4096 }}
           data_sources {{ config {{
             name: "linux.sys_stats"
             sys_stats_config {{ meminfo_period_ms: 100 meminfo_counters: MEMINFO_MEM_TOTAL }} }} }}
           trigger_config {{ {triggers} }}"#
    );
    let config = write_config(world, "config.txtpb", &text);
    let mut command = peers.command(maker, Program::Perfetto);
    command.arg("--txt").arg("-c").arg(config).arg("-o").arg(world.path("trace"));
    command
}

/// `ferretto trigger NAME`, or upstream's `perfetto` with a config that does it: Debian has no `trigger_perfetto`.
fn call_out(peers: &Peers, maker: Maker, world: &World, name: &str) {
    let mut command;
    match maker {
        Maker::Ferretto => {
            command = peers.ferretto();
            command.args(["trigger", name]);
        }
        Maker::Upstream => {
            let text = format!("activate_triggers: \"{name}\"\n");
            command = peers.command(maker, Program::Perfetto);
            command.arg("--txt").arg("-c").arg(write_config(world, "activate.txtpb", &text));
        }
    }
    let done = world.run(command, TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
}

fn wait_for_session(world: &World, state: &str) {
    let mut consumer = world.consumer();
    world.wait_until(state, || {
        let answer = consumer.query_service_state(true).expect("the service tells its state");
        answer.tracing_sessions.iter().any(|session| session.state() == state)
    });
}

/// How often the triggers are in the trace, and how often a counter is.
fn look(sql: &TraceQuery, trace: &Path, trigger: &str) -> (i64, i64) {
    let triggers = format!("select count(*) from slice where name = '{trigger}'");
    let numbers = sql.numbers(trace, &[&triggers, "select count(*) from counter"]);
    (numbers[0], numbers[1])
}

#[test]
fn a_trigger_starts_a_recording() {
    let (peers, sql) = (need!(both()), need!(trace_query()));
    for (service, cli) in MIXES {
        let world = world(&peers, service);
        let triggers = "trigger_mode: START_TRACING trigger_timeout_ms: 60000 triggers { name: \"go\" stop_delay_ms: 700 }";
        let mut recording = world.spawn(recorder(&peers, cli, &world, triggers), "recorder");
        wait_for_session(&world, "CONFIGURED");
        call_out(&peers, cli, &world, "go");
        assert!(recording.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recording.log());
        let (triggers, counters) = look(&sql, &world.path("trace"), "go");
        assert_eq!(triggers, 1, "{service:?} {cli:?}");
        assert!(counters > 0, "{service:?} {cli:?}");
    }
}

#[test]
fn a_trigger_stops_a_recording() {
    let (peers, sql) = (need!(both()), need!(trace_query()));
    for (service, cli) in MIXES {
        let world = world(&peers, service);
        let triggers = "trigger_mode: STOP_TRACING trigger_timeout_ms: 60000 triggers { name: \"enough\" stop_delay_ms: 500 }";
        let mut recording = world.spawn(recorder(&peers, cli, &world, triggers), "recorder");
        wait_for_session(&world, "STARTED");
        call_out(&peers, cli, &world, "other");
        call_out(&peers, cli, &world, "enough");
        assert!(recording.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recording.log());
        let (triggers, counters) = look(&sql, &world.path("trace"), "enough");
        assert_eq!(triggers, 1, "{service:?} {cli:?}");
        assert!(counters > 0, "{service:?} {cli:?}");
    }
}

#[test]
fn without_its_trigger_a_recording_has_no_trace() {
    let peers = need!(both());
    for (service, cli) in MIXES {
        let world = world(&peers, service);
        let triggers = "trigger_mode: STOP_TRACING trigger_timeout_ms: 500 triggers { name: \"never\" }";
        let done = world.run(recorder(&peers, cli, &world, triggers), TIMEOUT);
        assert!(done.status.success(), "{service:?} {cli:?}: {}", done.stderr);
        // Upstream's leaves an empty file behind.
        let size = world.path("trace").metadata().map(|meta| meta.len()).ok();
        assert!(size.is_none_or(|size| size == 0 && cli == Maker::Upstream), "{service:?} {cli:?}: {size:?}");
    }
}

#[test]
fn each_trigger_takes_a_snapshot_while_the_recording_goes_on() {
    let (peers, sql) = (need!(both()), need!(trace_query()));
    for (service, cli) in MIXES {
        let world = world(&peers, service);
        let triggers = "trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 60000 \
                        triggers { name: \"first\" stop_delay_ms: 600 } triggers { name: \"second\" stop_delay_ms: 10 }";
        let mut recording = world.spawn(recorder(&peers, cli, &world, triggers), "recorder");
        wait_for_session(&world, "STARTED");
        for (number, name) in ["first", "second"].into_iter().enumerate() {
            call_out(&peers, cli, &world, name);
            let trace = world.path(&format!("trace.{number}"));
            // It is whole when the last of the service's packets is there: the clone is freed then.
            world.wait_until("a snapshot", || trace.metadata().is_ok_and(|meta| meta.len() > 0));
            wait_for_sessions(&world, 1);
            let (triggers, counters) = look(&sql, &trace, name);
            assert!(triggers >= 1, "{service:?} {cli:?} {name}");
            assert!(counters > 0, "{service:?} {cli:?} {name}");
        }
        recording.signal(Signal::TERM);
        assert!(recording.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recording.log());
    }
}

fn wait_for_sessions(world: &World, count: i32) {
    let mut consumer = world.consumer();
    world.wait_until("the end of clones", || {
        consumer.query_service_state(true).expect("the service tells its state").num_sessions() == count
    });
}
