//! What a process holds of the machine's memory, as the kernel counts it.

use std::fs;

/// KiB in RAM now.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    field(pid, "VmRSS:")
}

/// The most KiB since [`forget_peak`].
pub(crate) fn peak_kib(pid: u32) -> u64 {
    field(pid, "VmHWM:")
}

/// Has the kernel begin anew with the peak.
pub(crate) fn forget_peak(pid: u32) {
    // 5 is that, by proc(5). A kernel that does not know it keeps a peak that is too high, which fails no one wrongly: it is from a start.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// 0 if the process is gone, which the caller notices.
fn field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).unwrap_or(0)
}
