//! Prints how fast the buffer is: `NAME BYTES_PER_SECOND` for each of three workloads, which `workloads.rs` describes.
//!
//! With an argument, only the workload of that name runs; `memcpy`, `fold_single` and `fold_1000` are more.

mod workloads;

use std::process::ExitCode;

use ferretto_trace_buffer::TraceBuffer;

/// A buffer that folds what it overwrites.
struct Folding(TraceBuffer);

impl workloads::Measured for Folding {
    fn create(size_bytes: usize) -> Self {
        Self(<TraceBuffer as workloads::Measured>::create(size_bytes).fold_overwritten())
    }

    fn copy(&mut self, chunk: &ferretto_trace_buffer::Chunk<'_>) {
        self.0.copy_chunk(chunk);
    }

    fn read_all(&mut self) -> usize {
        workloads::Measured::read_all(&mut self.0)
    }
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let names = wanted.as_deref().map_or(workloads::OF_BUFFERS.to_vec(), |name| vec![name]);
    for name in names {
        let speed = match name.strip_prefix("fold_") {
            Some(how) => workloads::measure::<Folding>(&format!("write_{how}")),
            None => workloads::measure::<TraceBuffer>(name),
        };
        let Some(speed) = speed else {
            eprintln!("no such workload: {name}");
            return ExitCode::FAILURE;
        };
        println!("{name} {speed:.0}");
    }
    ExitCode::SUCCESS
}
