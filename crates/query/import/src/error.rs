//! Why a file could not be read.

use std::io;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its bytes could not be had.
    #[error(transparent)]
    Io(#[from] io::Error),
}
