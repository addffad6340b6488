//! Why something could not be written.

use std::io;

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes could not be put where they belong.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The trace lacks what the format is about.
    #[error("{0}")]
    Nothing(String),
}
