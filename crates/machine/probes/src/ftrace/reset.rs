//! Brings ftrace into its default state without asking who used it; instances of others stay.

use super::claim;
use super::tracefs::{MOUNT_POINTS, Tracefs};

/// Switches tracing off, shrinks the buffers and removes events, filters and tracers (upstream: HardResetFtraceState). False if no
/// tracefs could be written: not mounted, or not for this user.
pub fn reset_ftrace() -> bool {
    MOUNT_POINTS.iter().any(|root| reset(&Tracefs::new(root.into())))
}

/// What `--cleanup-after-crash` does: the same, for a daemon that died without restoring tracefs.
pub fn cleanup_after_crash() -> bool {
    reset_ftrace()
}

fn reset(tracefs: &Tracefs) -> bool {
    claim::remove_abandoned(tracefs.root());
    let switched_off = tracefs.set_tracing_on(false).is_ok();
    let shrunk = tracefs.set_cpu_buffer_size_kb(4).is_ok();
    // Kernels without these files are fine.
    let _ = tracefs.disable_all_events();
    let _ = tracefs.write("events/raw_syscalls/filter", "0");
    let _ = tracefs.write("current_tracer", "nop");
    switched_off && shrunk && tracefs.clear_trace().is_ok()
}
