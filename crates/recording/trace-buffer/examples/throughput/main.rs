//! Prints how fast the buffer is: `NAME BYTES_PER_SECOND` for each of several workloads, which `workloads.rs` describes.
//!
//! With an argument, only the workload of that name runs; `memcpy` is one more.

mod folding;
mod workloads;

use std::process::ExitCode;

fn ours() -> Vec<&'static str> {
    [&workloads::OF_BUFFERS[..], &folding::WORKLOADS].concat()
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let names = wanted.as_deref().map_or(ours(), |name| vec![name]);
    for name in names {
        let Some(speed) = folding::measure_any(name) else {
            eprintln!("no such workload: {name}");
            return ExitCode::FAILURE;
        };
        println!("{name} {speed:.0}");
    }
    ExitCode::SUCCESS
}
