//! A buffer that folds what it overwrites, to be measured as others are.

use ferretto_trace_buffer::{Chunk, TraceBuffer};

use super::workloads::{self, Measured};

/// The workloads of such a buffer.
pub(crate) const WORKLOADS: [&str; 3] = ["fold_single", "fold_1000", "fold_small"];

/// Bytes per second of a workload of either kind of buffer. `None` if there is none of that name.
pub(crate) fn measure_any(workload: &str) -> Option<f64> {
    match workload.strip_prefix("fold_") {
        Some(how) => workloads::measure::<Folding>(&format!("write_{how}")),
        None => workloads::measure::<TraceBuffer>(workload),
    }
}

struct Folding(TraceBuffer);

impl Measured for Folding {
    fn create(size_bytes: usize) -> Self {
        Self(<TraceBuffer as Measured>::create(size_bytes).fold_overwritten())
    }

    fn copy(&mut self, chunk: &Chunk<'_>) {
        self.0.copy_chunk(chunk);
    }

    fn read_all(&mut self) -> usize {
        Measured::read_all(&mut self.0)
    }
}
