//! Prints how fast the trace buffer is, in GB/s, beside bare copies of the same bytes and beside upstream's trace buffer, run in turn in
//! one sitting: the medians of several rounds and their ratios. Ours that folds what it overwrites (`fold_…`) stands beside upstream's
//! that does not (`write_…`), which cannot.
//!
//! Upstream's half is a program of its own, for it needs a C++ compiler. It is run if `FERRETTO_UPSTREAM_BUFFER` names it:
//!
//! ```sh
//! cargo build --release --manifest-path tests/upstream-buffer/Cargo.toml --target-dir target/upstream-buffer
//! FERRETTO_UPSTREAM_BUFFER=target/upstream-buffer/release/upstream-buffer \
//!   cargo run --release -p ferretto-benches --bin trace_buffer
//! ```

#[path = "../../../crates/recording/trace-buffer/examples/throughput/folding.rs"]
mod folding;
#[path = "../../../crates/recording/trace-buffer/examples/throughput/workloads.rs"]
mod workloads;

use std::ffi::OsString;
use std::process::Command;

use ferretto_benches::median;

const ROUNDS: usize = 5;

fn main() -> Result<(), String> {
    let peer = std::env::var_os("FERRETTO_UPSTREAM_BUFFER");
    if peer.is_none() {
        println!(
            "upstream's is skipped: FERRETTO_UPSTREAM_BUFFER does not name the program (tests/upstream-buffer)"
        );
    }
    println!("{:<14}{:>8}{:>10}{:>18}{:>16}", "GB/s", "ours", "upstream", "ours / upstream", "ours / memcpy");
    let mut copies = Vec::new();
    for workload in [&workloads::OF_BUFFERS[..], &folding::WORKLOADS].concat() {
        let of_peer = workload.replace("fold_", "write_");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(measure(workload)?);
            copies.push(measure("memcpy")?);
            if let Some(program) = &peer {
                theirs.push(measure_peer(program, &of_peer)?);
            }
        }
        let (ours, copy) = (median(ours), median(copies.clone()));
        let [mut upstream, mut to_upstream, mut to_copy] = ["-"; 3].map(str::to_owned);
        if !theirs.is_empty() {
            let theirs = median(theirs);
            upstream = giga(theirs);
            to_upstream = format!("{:.2}", ours as f64 / theirs as f64);
        }
        if workload != "read" {
            to_copy = format!("{:.2}", ours as f64 / copy as f64);
        }
        println!("{workload:<14}{:>8}{upstream:>10}{to_upstream:>18}{to_copy:>16}", giga(ours));
    }
    println!("{:<14}{:>8}", "memcpy", giga(median(copies)));
    Ok(())
}

fn giga(bytes_per_second: u64) -> String {
    format!("{:.2}", bytes_per_second as f64 / 1e9)
}

fn measure(workload: &str) -> Result<u64, String> {
    let speed = folding::measure_any(workload).ok_or("no such workload")?;
    Ok(speed as u64)
}

/// Upstream's buffer is measured by the program named, which prints `NAME BYTES_PER_SECOND`.
fn measure_peer(program: &OsString, workload: &str) -> Result<u64, String> {
    let failed = |what: String| format!("{}: {what}", program.display());
    let output = Command::new(program).args(["throughput", workload]).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let speed = printed.trim().strip_prefix(workload).and_then(|speed| speed.trim().parse().ok());
    speed.ok_or_else(|| failed(format!("printed {printed:?}, {}", String::from_utf8_lossy(&output.stderr))))
}
