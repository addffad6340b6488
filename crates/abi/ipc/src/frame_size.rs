//! How large a frame may be.

use std::error::Error;
use std::fmt;

/// The largest frame, header included: upstream's receive buffer (`kIPCBufferSize`), so a larger one breaks its connection.
pub const MAX_FRAME_SIZE: usize = 128 * 1024;

/// The bytes of the length that stands before each frame.
pub const HEADER_SIZE: usize = 4;

/// A frame that no receiver would take, or that a sender should not have sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The frame does not fit into upstream's receive buffer. A connection that receives such a length is to be dropped.
    TooLarge {
        /// The size of the frame, header included.
        size: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size } => write!(
                f,
                "IPC frame of {size} bytes is larger than the protocol's limit of {MAX_FRAME_SIZE} bytes (header included)"
            ),
        }
    }
}

impl Error for FrameError {}
