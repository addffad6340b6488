//! The tracing service of this process: on a thread of its own, without names that others could connect to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_traced::daemon;
use ferretto_traced::in_process::{Host, HostOptions};

use crate::runtime::Held;

/// The service, and the process that it runs in.
static HOST: Mutex<Option<(u32, &'static Host)>> = Mutex::new(None);

/// The service of this process. The first call starts its thread, which runs until the process ends.
///
/// A child after `fork` has no such thread; it gets a service of its own.
///
/// # Errors
///
/// If the system refuses the thread or its descriptors; the next call tries again.
pub(crate) fn host() -> Result<&'static Host, daemon::Error> {
    let mut place = lock();
    let pid = std::process::id();
    if let Some((owner, host)) = *place
        && owner == pid
    {
        return Ok(host);
    }
    // Leaked, as it lives as long as the process. What a forked child inherits is leaked, too: dropping it would wait for a thread that
    // is not there.
    let host: &'static Host = Box::leak(Box::new(Host::spawn(HostOptions::default())?));
    *place = Some((pid, host));
    Ok(host)
}

/// Keeps others out while the process forks.
pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(lock())
}

fn lock() -> MutexGuard<'static, Option<(u32, &'static Host)>> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_service_and_both_sides_reach_it() {
        let first = host().unwrap();
        assert!(std::ptr::eq(first, host().unwrap()));
        first.connect_producer().unwrap();
        first.connect_consumer().unwrap();
    }
}
