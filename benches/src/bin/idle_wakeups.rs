//! Prints how often an idle service of each maker wakes up: with nobody connected, and with a session in which nothing happens.

use std::time::Duration;

use ferretto_benches::{MAKERS, voluntary_switches};
use ferretto_interop::{World, both, config};

const SECONDS: u64 = 12;

/// The service itself reads the clocks now and then while tracing goes on; so rarely here that it is not seen.
const CONFIG: &str = r#"
    buffers { size_kb: 1024 }
    data_sources { config { name: "nobody.has.this" } }
    builtin_data_sources { snapshot_interval_ms: 3600000 }
"#;

fn main() -> Result<(), String> {
    let peers = both()?;
    println!("{:<10} {:>18} {:>18}", "traced", "idle, a second", "session, a second");
    for maker in MAKERS {
        let mut world = World::with_traced(&peers, maker);
        let pid = world.daemons().first().ok_or("no service")?.pid();
        let idle = wakeups(pid);
        let mut consumer = world.consumer();
        consumer.enable_tracing(config(CONFIG), None).map_err(|error| error.to_string())?;
        let session = wakeups(pid);
        let name = format!("{maker:?}").to_lowercase();
        println!("{name:<10} {:>18.2} {:>18.2}", a_second(idle), a_second(session));
    }
    Ok(())
}

fn a_second(count: u64) -> f64 {
    count as f64 / SECONDS as f64
}

/// How often the process has gone to sleep, and so woken up, in a while that begins when it has calmed down.
fn wakeups(pid: u32) -> u64 {
    std::thread::sleep(Duration::from_secs(2));
    let before = voluntary_switches(pid);
    std::thread::sleep(Duration::from_secs(SECONDS));
    voluntary_switches(pid) - before
}
