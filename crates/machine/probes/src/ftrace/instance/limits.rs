//! What sessions may take of the kernel: it gives what it is asked for, whoever asks.

/// An instance's buffers take this share of the machine's memory at the most: the kernel gives what it is asked for, whoever asks, and that
/// memory is nobody's whom it could end instead.
const MEMORY_SHARE: u64 = 8;
/// Kernel probes of one session: each takes the probes' thread some hundredths of a second to set up and to remove, and a return probe
/// memory for a thousand calls at once.
pub(super) const MAX_KPROBES_OF_SESSION: usize = 64;
/// Kernel probes of all sessions.
pub(super) const MAX_KPROBES: usize = 256;

/// What a new session may take of the kernel, beside what others have of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For the buffers of all CPUs together.
    pub(crate) buffers_kb: u64,
    /// In all instances.
    pub(crate) kprobes: usize,
    /// For the tracing session, which may have several data sources.
    pub(crate) kprobes_of_session: usize,
}

impl Limits {
    /// What one instance may take while there is no other.
    pub(crate) fn of_machine() -> Self {
        Self {
            buffers_kb: memory_bytes() / 1024 / MEMORY_SHARE,
            kprobes: MAX_KPROBES,
            kprobes_of_session: MAX_KPROBES_OF_SESSION,
        }
    }
}

pub(super) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // A long: 32 bits wide on 32-bit machines.
    #[allow(clippy::useless_conversion)]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit.max(1)))
}
