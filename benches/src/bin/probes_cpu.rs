//! Prints the processor time that the data sources of each maker spend on the same config under the same load, run in turn with the
//! same service (upstream's), and the ratio of the medians.

use std::time::Duration;

use ferretto_benches::{MAKERS, PingPong, cpu_ns, median};
use ferretto_interop::{Maker, Peers, Program, World, both, tracefs};

const RUNS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
    buffers { size_kb: 262144 }
    data_sources { config { name: "linux.ftrace" ftrace_config {
        ftrace_events: "sched/*" ftrace_events: "task/*"
    } } }
    data_sources { config { name: "linux.process_stats" process_stats_config {
        scan_all_processes_on_start: true record_thread_names: true proc_stats_poll_ms: 1000
    } } }
    data_sources { config { name: "linux.sys_stats" sys_stats_config {
        meminfo_period_ms: 1000 vmstat_period_ms: 1000 stat_period_ms: 1000
    } } }
    duration_ms: 5000
"#;

fn main() -> Result<(), String> {
    tracefs()?;
    let peers = both()?;
    let mut medians = Vec::new();
    let mut runs: Vec<Vec<(u64, u64)>> = vec![Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (maker, runs) in MAKERS.into_iter().zip(&mut runs) {
            runs.push(run(&peers, maker)?);
        }
    }
    println!("{:<10} {:>10} {:>14} {:>16}", "probes", "CPU ms", "wake-ups", "ns a wake-up");
    for (maker, runs) in MAKERS.into_iter().zip(runs) {
        let cpu = median(runs.iter().map(|run| run.0).collect());
        let wakes = median(runs.iter().map(|run| run.1).collect());
        let each = median(runs.iter().map(|run| run.0 / run.1.max(1)).collect());
        let name = format!("{maker:?}").to_lowercase();
        println!("{name:<10} {:>10.1} {wakes:>14} {each:>16}", cpu as f64 / 1e6);
        medians.push(each);
    }
    println!(
        "ratio {:.2} (ns a wake-up, ours to upstream's, medians of {RUNS})",
        medians[0] as f64 / medians[1] as f64
    );
    Ok(())
}

/// One recording: the processor time of the data sources in ns, and the wake-ups of the load.
fn run(peers: &Peers, maker: Maker) -> Result<(u64, u64), String> {
    let mut world = World::with_traced(peers, Maker::Upstream);
    world.start_probes(peers, maker);
    let config = world.path("config.txtpb");
    std::fs::write(&config, CONFIG).map_err(|error| error.to_string())?;
    let pid = world.daemons().last().ok_or("no daemon")?.pid();
    let load = PingPong::start();
    let before = cpu_ns(pid);
    let mut command = peers.command(Maker::Upstream, Program::Perfetto);
    command.arg("--txt").arg("-c").arg(&config).arg("-o").arg(world.path("trace"));
    let done = world.run(command, TIMEOUT);
    let spent = cpu_ns(pid) - before;
    let wakes = load.stop();
    if done.status.success() { Ok((spent, wakes)) } else { Err(done.stderr) }
}
