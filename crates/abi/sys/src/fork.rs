//! What a library has to do around `fork()`.

use std::ffi::c_int;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What is called around each `fork()` of this process, on the thread that forks.
#[derive(Debug, Clone, Copy)]
pub struct ForkHandlers {
    /// Before: takes the locks that the child is to find free.
    pub prepare: fn(),
    /// After, in the parent: frees them.
    pub parent: fn(),
    /// After, in the child, where no other thread of the parent exists.
    pub child: fn(),
}

// SAFETY: as POSIX declares it; the standard library links it.
// JUSTIFICATION: the crate `libc` for one function is too much for programs that only link the SDK.
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

static HANDLERS: OnceLock<ForkHandlers> = OnceLock::new();

/// Has these called at every `fork()` from now on (`pthread_atfork`). A second call does nothing.
///
/// Not called by `vfork`, `posix_spawn` and what uses them, such as [`std::process::Command`] without `pre_exec`: such a child runs
/// another program at once.
///
/// # Errors
///
/// If there is no memory.
pub fn at_fork(handlers: ForkHandlers) -> io::Result<()> {
    static REGISTERING: Mutex<()> = Mutex::new(());
    let _registering = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    if HANDLERS.get().is_some() {
        return Ok(());
    }
    // SAFETY: the three are functions of this library that take nothing, give nothing and do not unwind over the caller: `extern "C"`.
    // JUSTIFICATION: nothing else tells a library that the process is about to fork, or that it is the child.
    let error = unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // Nobody else sets it: the lock is held.
    let _ = HANDLERS.set(handlers);
    Ok(())
}

/// Closes descriptors of threads of the parent process, which do not exist in this child process and so will never use or close them.
/// For the child handler of [`at_fork`] only.
pub fn close_inherited(descriptors: &[RawFd]) {
    for descriptor in descriptors {
        // SAFETY: no memory is touched. Their owners are in memory that only threads of the parent could reach.
        // JUSTIFICATION: a child that keeps the parent's sockets open hides the parent's end from those at the other end.
        unsafe { rustix::io::close(*descriptor) };
    }
}

extern "C" fn prepare() {
    if let Some(handlers) = HANDLERS.get() {
        (handlers.prepare)();
    }
}

extern "C" fn parent() {
    if let Some(handlers) = HANDLERS.get() {
        (handlers.parent)();
    }
}

extern "C" fn child() {
    if let Some(handlers) = HANDLERS.get() {
        (handlers.child)();
    }
}
