//! The clock of an instance of tracefs beside the boot clock.

/// The buffer's clock and the boot clock at one moment, for readers to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockPair {
    /// `FtraceClock`.
    pub(crate) clock: u64,
    pub(crate) ftrace_ns: u64,
    pub(crate) boot_ns: u64,
}
