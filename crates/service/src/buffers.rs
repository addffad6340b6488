//! A session's buffer, and what becomes of that which it overwrites.

use ferretto_trace_buffer::{Chunk, CreateError, TraceBuffer};

use crate::protovms::ProtoVms;

/// A trace buffer, and the VMs that get what it overwrites.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) trace: TraceBuffer,
    pub(crate) vms: ProtoVms,
}

impl Buffer {
    pub(crate) fn new(trace: TraceBuffer) -> Self {
        Self { trace, vms: ProtoVms::default() }
    }

    pub(crate) fn store(&mut self, chunk: &Chunk<'_>) {
        match self.vms.is_empty() {
            true => self.trace.copy_chunk(chunk),
            false => self.trace.copy_chunk_with(chunk, &mut self.vms),
        }
    }

    /// What is there and how it came about, to be read and not to be changed.
    pub(crate) fn clone_read_only(&self) -> Result<Self, CreateError> {
        Ok(Self { trace: self.trace.clone_read_only()?, vms: self.vms.clone_read_only() })
    }

    /// Puts an empty trace buffer in the place of this one, and gives the old one with the states as they are.
    ///
    /// The empty one remembers nothing: a chunk that was scraped into the old one comes whole when it is committed (as upstream's does).
    ///
    /// For the VMs that stay here, what goes is overwritten: their producers write on from there. (Upstream's
    /// new buffer has no VMs.)
    pub(crate) fn replace(&mut self) -> Result<Self, CreateError> {
        let mut fresh = TraceBuffer::new(self.trace.size(), self.trace.fill_policy())?;
        let vms = self.vms.clone_read_only();
        if !self.vms.is_empty() {
            let mut unread = self.trace.clone_read_only()?;
            self.vms.take_all(&mut unread);
        }
        std::mem::swap(&mut self.trace, &mut fresh);
        Ok(Self { trace: fresh, vms })
    }
}
