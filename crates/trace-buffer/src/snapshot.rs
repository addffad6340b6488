//! Read-only clones, for sessions that are cloned while they go on.

use crate::{CreateError, TraceBuffer};

impl TraceBuffer {
    /// A copy that can be read, not written: chunks and patches given to it are ignored.
    ///
    /// What has been read here is read there too; the counters of reading start again.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn clone_read_only(&self) -> Result<Self, CreateError> {
        todo!()
    }
}
