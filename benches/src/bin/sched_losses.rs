//! Prints what recordings lose while threads wake each other up as fast as they can: `ferretto record` as it is, and with a config that
//! asks for all of `sched/*` and leaves the buffers of the kernel and of the service at their defaults; then the same config with
//! upstream's service, probes and command line.

use std::process::Command;
use std::thread;
use std::time::Duration;

use ferretto_benches::PingPong;
use ferretto_interop::{Maker, Peers, Program, TraceQuery, World, both, trace_query, tracefs};

/// Runs of each, unless the first argument says otherwise.
const RUNS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(120);

/// `record -b` of the same size is the default.
const ALL_OF_SCHED: &str = r#"
    buffers { size_kb: 65536 }
    data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "sched/*" } } }
    write_into_file: true
    file_write_period_ms: 500
    flush_period_ms: 5000
    duration_ms: 7000
"#;

/// A kernel under this load takes seconds to switch its events on, longer than upstream's probes are given: the load begins when
/// recording has, and lasts to its end.
const LOAD_AFTER: Duration = Duration::from_secs(2);

/// What is recorded, and by whom.
#[derive(Debug, Clone, Copy)]
enum Recording {
    Default,
    AllOfSched(Maker),
}

fn main() -> Result<(), String> {
    tracefs()?;
    let (peers, sql) = (both()?, trace_query()?);
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    for run in 1..=runs {
        println!("run {run} of {runs}");
        record("record", Recording::Default, &peers, &sql)?;
        record("record, sched/*", Recording::AllOfSched(Maker::Ferretto), &peers, &sql)?;
        record("upstream, sched/*", Recording::AllOfSched(Maker::Upstream), &peers, &sql)?;
    }
    Ok(())
}

/// One recording under load, and a line on what came of it.
fn record(name: &str, what: Recording, peers: &Peers, sql: &TraceQuery) -> Result<(), String> {
    let mut world = match what {
        Recording::AllOfSched(Maker::Upstream) => {
            let mut world = World::with_traced(peers, Maker::Upstream);
            world.start_probes(peers, Maker::Upstream);
            world
        }
        _ => World::new(),
    };
    let trace = world.path("trace.pftrace");
    let command = command(what, peers, &mut world).map_err(|error| error.to_string())?;
    let load = thread::spawn(|| {
        thread::sleep(LOAD_AFTER);
        PingPong::start()
    });
    let done = world.run(command, TIMEOUT);
    load.join().map_err(|_| "no load".to_owned())?.stop();
    if !done.status.success() {
        return Err(done.stderr);
    }
    let slices = sql.number(&trace, "select count(*) from sched");
    let size = std::fs::metadata(&trace).map_err(|error| error.to_string())?.len();
    let losses = sql.losses(&trace);
    let lost = if losses.is_empty() { "nothing".to_owned() } else { losses.join("; ") };
    println!("  {name}: {slices} slices, {} MB; lost: {lost}", size / 1_000_000);
    for line in done.stderr.lines().filter(|line| line.starts_with("Lost") && !losses.is_empty()) {
        println!("    record says: {line}");
    }
    Ok(())
}

/// The command that writes `trace.pftrace` in the world's folder.
fn command(what: Recording, peers: &Peers, world: &mut World) -> std::io::Result<Command> {
    let (trace, config) = (world.path("trace.pftrace"), world.path("sched.txtpb"));
    std::fs::write(&config, ALL_OF_SCHED)?;
    let mut command = match what {
        Recording::AllOfSched(Maker::Upstream) => {
            let mut command = peers.command(Maker::Upstream, Program::Perfetto);
            command.arg("--txt");
            command
        }
        _ => {
            let program = peers.command(Maker::Ferretto, Program::Traced).get_program().to_owned();
            let mut command = Command::new(program);
            command.arg("record");
            command
        }
    };
    match what {
        Recording::Default => command.args(["-t", "7s"]),
        Recording::AllOfSched(_) => command.arg("-c").arg(&config),
    };
    command.arg("-o").arg(&trace);
    Ok(command)
}
