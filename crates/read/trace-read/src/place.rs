//! Where a packet is.

use std::fmt;

/// Where a packet begins: its tag's offset in the trace's bytes (those inside of gzip or zstd, if the whole file is compressed), and for
/// one that was compressed together with others its offset in the unpacked batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Offset in the trace, in bytes.
    pub offset: u64,
    /// Offset in the batch that begins at [`offset`](Self::offset), in bytes.
    pub in_batch: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_batch {
            None => write!(f, "offset {}", self.offset),
            Some(inner) => write!(f, "offset {inner} of what is compressed at offset {}", self.offset),
        }
    }
}
