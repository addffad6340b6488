//! Prints how fast the buffer is: `NAME BYTES_PER_SECOND` for each of three workloads, which `workloads.rs` describes.
//!
//! With an argument, only the workload of that name runs; `memcpy` is one more.

mod workloads;

use std::process::ExitCode;

use ferretto_trace_buffer::TraceBuffer;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let names = wanted.as_deref().map_or(workloads::OF_BUFFERS.to_vec(), |name| vec![name]);
    for name in names {
        let Some(speed) = workloads::measure::<TraceBuffer>(name) else {
            eprintln!("no such workload: {name}");
            return ExitCode::FAILURE;
        };
        println!("{name} {speed:.0}");
    }
    ExitCode::SUCCESS
}
