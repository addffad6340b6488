//! Prints what a recording loses while threads wake each other up as fast as they can: `ferretto record` as it is, and with a config that
//! asks for all of `sched/*` and leaves the buffers of the kernel and of the service at their defaults.

use std::process::Command;
use std::time::Duration;

use ferretto_benches::PingPong;
use ferretto_interop::{Maker, Program, TraceQuery, World, ferretto, trace_query, tracefs};

const TIMEOUT: Duration = Duration::from_secs(120);

/// `record -b` of the same size is the default.
const ALL_OF_SCHED: &str = r#"
    buffers { size_kb: 65536 }
    data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "sched/*" } } }
    write_into_file: true
    file_write_period_ms: 500
    flush_period_ms: 5000
"#;

fn main() -> Result<(), String> {
    tracefs()?;
    let (peers, sql) = (ferretto()?, trace_query()?);
    let program = peers.command(Maker::Ferretto, Program::Traced).get_program().to_owned();
    let world = World::new();
    let config = world.path("sched.txtpb");
    std::fs::write(&config, ALL_OF_SCHED).map_err(|error| error.to_string())?;
    let mut default = Command::new(&program);
    default.args(["record", "-t", "5s", "-o"]);
    let mut all = Command::new(&program);
    all.arg("record").arg("-c").arg(&config).args(["-t", "5s", "-o"]);
    for (name, command) in [("default", default), ("sched/*", all)] {
        run(name, command, &world, &sql)?;
    }
    Ok(())
}

fn run(name: &str, mut command: Command, world: &World, sql: &TraceQuery) -> Result<(), String> {
    let trace = world.path(&format!("{}.pftrace", name.replace(['/', '*'], "_")));
    command.arg(&trace);
    let load = PingPong::start();
    let done = world.run(command, TIMEOUT);
    let wakes = load.stop();
    if !done.status.success() {
        return Err(done.stderr);
    }
    let slices = sql.number(&trace, "select count(*) from sched");
    let size = std::fs::metadata(&trace).map_err(|error| error.to_string())?.len();
    println!("{name}: {wakes} wake-ups, {slices} slices, {} MB in the file", size / 1_000_000);
    let losses = sql.losses(&trace);
    println!("  lost: {}", if losses.is_empty() { "nothing".to_owned() } else { losses.join("; ") });
    for line in done.stderr.lines().filter(|line| line.starts_with("Lost")) {
        println!("  record says: {line}");
    }
    Ok(())
}
