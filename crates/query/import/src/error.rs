//! Why a file could not be read.

use std::io;

use ferretto_trace_formats::recognize::Format;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its bytes could not be had, or not be unpacked.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no trace, but what the words say.
    #[error("it is no Perfetto trace: {0}")]
    NotATrace(&'static str),
    /// It is of a format that is known, and not read.
    #[error("it is no trace that can be read: it seems to be {}{}", .0.words(), advice(*.0))]
    Refused(Format),
    /// It is of another format that is read, and cannot be.
    #[error("it seems to be {}, and cannot be read: {error}", .format.words())]
    Unreadable {
        /// The format.
        format: Format,
        /// Why.
        #[source]
        error: ferretto_trace_formats::Error,
    },
    /// It is an archive, and no file in it could be read.
    #[error("nothing in this zip archive can be read; {member}: {trouble}")]
    Archive {
        /// The first of them.
        member: String,
        /// Why.
        trouble: String,
    },
    /// The archive's manifest cannot be followed.
    #[error("its manifest, {manifest}, cannot be followed: {trouble}")]
    Manifest {
        /// Its path in the archive.
        manifest: String,
        /// What is wrong with it, or with a file that is not as it says.
        trouble: String,
    },
    /// What cannot lie in a file became more than the bound, or there was no room for the file.
    #[error(
        "its tables need more memory than the {} MB that they may have: it was not read to its end",
        .limit_bytes / 1_000_000
    )]
    Memory {
        /// The bound.
        limit_bytes: u64,
    },
    /// What had no room in memory could not be read from the temporary file.
    #[error("the temporary file, which had what memory has no room for, could not be read")]
    Spilled,
    /// Whoever watched wanted no more.
    #[error("it was not read to its end")]
    Stopped,
}

fn advice(format: Format) -> String {
    format.advice().map(|advice| format!("; {advice}")).unwrap_or_default()
}
