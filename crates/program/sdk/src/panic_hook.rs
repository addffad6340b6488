//! Panics, in the trace.

use std::panic::PanicHookInfo;
use std::time::Duration;

/// How long a panic waits until the service has what the thread traced before it.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Has each panic marked in the trace, as an instant of the category `panic` with its message and its place, and hands over what its
/// thread has traced so far: the last thing that a program that aborts can do. Then the hook that was set before is called.
///
/// Install it once, after other hooks that are to be called, too.
///
/// ```
/// ferretto::init("org.example.server")?;
/// ferretto::install_panic_hook();
/// # Ok::<(), ferretto::InitError>(())
/// ```
pub fn install_panic_hook() {
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        mark(info);
        next(info);
    }));
}

fn mark(info: &PanicHookInfo<'_>) {
    if !crate::enabled!("panic") {
        return;
    }
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("(not a text)");
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    crate::instant!("panic", "panic", message = message, location = location);
    crate::flush(TIMEOUT);
}
