//! What a library has to do when the program ends.

use std::ffi::c_int;
use std::io;
use std::sync::OnceLock;

// SAFETY: as C declares it; the standard library links it.
// JUSTIFICATION: the crate `libc` for one function is too much for programs that only link the SDK.
unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> c_int;
}

static HANDLER: OnceLock<fn()> = OnceLock::new();

/// Has this called when the program ends by itself: when `main` returns, a thread calls `exit`, or `main` panics. On the thread that
/// ends it, after the destructors of that thread's variables; other threads still run. A second call does nothing.
///
/// Not called for a program that is killed, aborts or runs another program in its place.
///
/// # Errors
///
/// If there is no memory.
pub fn at_exit(handler: fn()) -> io::Result<()> {
    if HANDLER.set(handler).is_err() {
        return Ok(());
    }
    // SAFETY: a function of this library that takes nothing, gives nothing and does not unwind over the caller: `extern "C"`.
    // JUSTIFICATION: nothing else tells a library that the program ends.
    match unsafe { atexit(at_end) } {
        0 => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::OutOfMemory)),
    }
}

extern "C" fn at_end() {
    if let Some(handler) = HANDLER.get() {
        handler();
    }
}
