//! What goes wrong, told to whoever listens to the crate `tracing`: the log of these libraries, with the target `ferretto`.
//!
//! One place for each level, as an event of `tracing` is more than a kilobyte in every program.

use std::fmt::Arguments;

/// Something that people have to look after.
#[cold]
#[inline(never)]
pub fn error(message: Arguments<'_>) {
    tracing::error!(target: "ferretto", "{message}");
}

/// Something is not as it should be.
#[cold]
#[inline(never)]
pub fn warn(message: Arguments<'_>) {
    tracing::warn!(target: "ferretto", "{message}");
}

/// For those who look for the reason of something.
#[cold]
#[inline(never)]
pub fn debug(message: Arguments<'_>) {
    tracing::debug!(target: "ferretto", "{message}");
}
