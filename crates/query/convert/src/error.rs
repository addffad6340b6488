//! Why something could not be written.

use std::io;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes could not be put where they belong.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Read(io::Error),
    /// The trace lacks what the format is about.
    #[error("{0}")]
    Nothing(String),
    /// There is no table or view of this name.
    #[error("there is no table {0}")]
    NoTable(String),
    /// Some of the tables, which memory had no room for, could not be read back.
    #[error("the temporary file, which has what memory has no room for, could not be read")]
    Spilled,
    /// A table is more than the format can hold.
    #[error("{0}")]
    TooLarge(String),
}

impl Error {
    /// Whether whoever should have taken the bytes is gone.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Self::Io(error),
            error => Self::TooLarge(error.to_string()),
        }
    }
}

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(inner) => Self::TooLarge(inner.to_string()),
            },
            error => Self::TooLarge(error.to_string()),
        }
    }
}
