//! Measures upstream's trace buffers with the workloads that ours is measured with.

use ferretto_trace_buffer::{Chunk, FillPolicy};

use crate::cpp::{Buffer, Version};

#[path = "../../../crates/recording/trace-buffer/examples/throughput/workloads.rs"]
mod workloads;

use workloads::Measured;

/// Prints `NAME BYTES_PER_SECOND` for the workload named, or for all.
///
/// # Errors
/// If there is no such workload.
pub(crate) fn print(version: Version, wanted: Option<&str>) -> Result<(), String> {
    let all = || [&workloads::OF_BUFFERS[..], &["memcpy"]].concat();
    for name in wanted.map_or_else(all, |name| vec![name]) {
        let speed = match version {
            Version::V1 => workloads::measure::<V1>(name),
            Version::V2 => workloads::measure::<V2>(name),
        };
        println!("{name} {:.0}", speed.ok_or_else(|| format!("no such workload: {name}"))?);
    }
    Ok(())
}

struct V1(Buffer);

struct V2(Buffer);

fn create(version: Version, size_bytes: usize) -> Buffer {
    Buffer::new(version, size_bytes, FillPolicy::Ring).expect("memory for the ring")
}

impl Measured for V1 {
    fn create(size_bytes: usize) -> Self {
        Self(create(Version::V1, size_bytes))
    }

    fn copy(&mut self, chunk: &Chunk<'_>) {
        self.0.copy(chunk);
    }

    fn read_all(&mut self) -> usize {
        self.0.read_all()
    }
}

impl Measured for V2 {
    fn create(size_bytes: usize) -> Self {
        Self(create(Version::V2, size_bytes))
    }

    fn copy(&mut self, chunk: &Chunk<'_>) {
        self.0.copy(chunk);
    }

    fn read_all(&mut self) -> usize {
        self.0.read_all()
    }
}
