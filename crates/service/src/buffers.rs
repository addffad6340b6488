//! A session's buffer, and what becomes of that which it overwrites.

use ferretto_trace_buffer::{Chunk, CreateError, TraceBuffer};

use crate::protovms::ProtoVms;

/// A trace buffer, and the VMs that get what it overwrites.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) trace: TraceBuffer,
    pub(crate) vms: ProtoVms,
}

/// What stands in the place of a buffer that is taken away. With it at hand, taking cannot fail.
#[derive(Debug)]
pub(crate) struct Replacement {
    empty: TraceBuffer,
    /// For the VMs that stay.
    unread: Option<TraceBuffer>,
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

    /// All that [`replace`](Self::replace) needs memory for.
    pub(crate) fn replacement(&self) -> Result<Replacement, CreateError> {
        let empty = TraceBuffer::new(self.trace.size(), self.trace.fill_policy())?;
        let unread = (!self.vms.is_empty()).then(|| self.trace.clone_read_only()).transpose()?;
        Ok(Replacement { empty, unread })
    }

    /// Puts an empty trace buffer in the place of this one, and gives the old one with the states as they are.
    ///
    /// The empty one remembers nothing: a chunk that was scraped into the old one comes whole when it is committed (as upstream's does).
    ///
    /// For the VMs that stay here, what goes is overwritten: their producers write on from there. (Upstream's
    /// new buffer has no VMs.)
    pub(crate) fn replace(&mut self, with: Replacement) -> Self {
        let vms = self.vms.clone_read_only();
        if let Some(mut unread) = with.unread {
            self.vms.take_all(&mut unread);
        }
        Self { trace: std::mem::replace(&mut self.trace, with.empty), vms }
    }
}
