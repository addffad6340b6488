//! Read-only clones, for sessions that are cloned while they go on.

use crate::{CreateError, Stats, TraceBuffer};

impl TraceBuffer {
    /// A copy that can be read, not written: chunks and patches given to it are ignored.
    ///
    /// What has been read here is read there too; the counters of reading start again.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn clone_read_only(&self) -> Result<Self, CreateError> {
        Ok(Self {
            policy: self.policy,
            read_only: true,
            closed: self.closed,
            has_data: self.has_data,
            ring: self.ring.copy_used()?,
            write_at: self.write_at,
            sequences: self.sequences.clone(),
            stats: Stats {
                bytes_read: 0,
                chunks_read: 0,
                readaheads_failed: 0,
                readaheads_succeeded: 0,
                ..self.stats
            },
            histograms: self.histograms.clone(),
            read_pass: None,
            fold: self.fold.as_ref().map(|fold| Box::new(fold.for_clone())),
            packet_parts: Vec::new(),
            resident: 0,
        })
    }
}
