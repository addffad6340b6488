//! Prints what `ferretto record` of `sched/*` with its default buffers loses while threads wake each other up as fast as they can.

use std::process::Command;
use std::time::Duration;

use ferretto_benches::PingPong;
use ferretto_interop::{Maker, Program, World, ferretto, trace_query, tracefs};

const TIMEOUT: Duration = Duration::from_secs(120);

fn main() -> Result<(), String> {
    tracefs()?;
    let (peers, sql) = (ferretto()?, trace_query()?);
    let world = World::new();
    let trace = world.path("trace.pftrace");
    let mut command = Command::new(peers.command(Maker::Ferretto, Program::Traced).get_program());
    command.args(["record", "-t", "10s", "-o"]).arg(&trace);
    let load = PingPong::start();
    let done = world.run(command, TIMEOUT);
    let wakes = load.stop();
    if !done.status.success() {
        return Err(done.stderr);
    }
    let slices = sql.number(&trace, "select count(*) from sched");
    let size = std::fs::metadata(&trace).map_err(|error| error.to_string())?.len();
    println!("wake-ups {wakes}, slices {slices}, {size} bytes");
    let losses = sql.losses(&trace);
    println!("losses {}", if losses.is_empty() { "none".to_owned() } else { losses.join("; ") });
    print!("{}{}", done.stdout, done.stderr);
    Ok(())
}
