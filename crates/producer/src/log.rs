//! What goes wrong, told to whoever listens to the crate `tracing`.
//!
//! One place for each level: an event of `tracing` is a kilobyte and a half in every program.

use std::fmt::Arguments;

#[cold]
#[inline(never)]
pub(crate) fn warn(message: Arguments<'_>) {
    tracing::warn!("{message}");
}

#[cold]
#[inline(never)]
pub(crate) fn debug(message: Arguments<'_>) {
    tracing::debug!("{message}");
}
