//! Prints the resident memory of an idle service of each maker.

use std::time::Duration;

use ferretto_benches::{MAKERS, resident_kib};
use ferretto_interop::{World, both};

fn main() -> Result<(), String> {
    let peers = both()?;
    println!("{:<10} {:>12} {:>12}", "traced", "resident KiB", "anonymous KiB");
    for maker in MAKERS {
        let mut world = World::with_traced(&peers, maker);
        std::thread::sleep(Duration::from_secs(2));
        let pid = world.daemons().first().ok_or("no daemon")?.pid();
        let (resident, anonymous) = resident_kib(pid);
        println!("{:<10} {resident:>12} {anonymous:>12}", format!("{maker:?}").to_lowercase());
    }
    Ok(())
}
