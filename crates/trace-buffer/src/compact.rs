//! Giving memory back after a burst.

use crate::TraceBuffer;

impl TraceBuffer {
    /// Moves the chunks that are still unread to the front of a ring and lets go of memory behind them.
    ///
    /// Does nothing for clones and for buffers that discard, nor when unread chunks lie on both sides of the
    /// write cursor. Meant to be called after a complete read pass; ends the pass.
    pub fn compact(&mut self) {
        todo!()
    }
}
