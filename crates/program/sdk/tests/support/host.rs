//! A service in this process, for all tests of a program.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ferretto::Connector;
use ferretto_traced::in_process::{Host, HostOptions};

/// Serves this process's tracing, which can only be initialised once: with so much shared memory, or with what the service gives (0).
pub(crate) fn host_with(shared_memory_bytes: u32) -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let host = Host::spawn(HostOptions::default()).unwrap();
        let stream = host.connect_producer().unwrap();
        let builder = ferretto::builder("test").connector(Connector::Stream(stream));
        builder.shared_memory_size(shared_memory_bytes).init().unwrap();
        host
    })
}

/// Tests take turns, as they share the categories' state, and a user has a few sessions at a time only.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
