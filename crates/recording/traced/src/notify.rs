//! Telling whoever started the daemon that it is ready (upstream: `TRACED_NOTIFY_FD`).

use std::fs::OpenOptions;
use std::io::Write;

use ferretto_ipc::address::environment;

/// Names a descriptor that wants a `1`.
const NOTIFY_ENV: &str = "TRACED_NOTIFY_FD";

/// Writes the word to the descriptor that the environment names. The descriptor is opened anew by its name in `/proc`, for owning a
/// number would be `unsafe`; the inherited one closes when the process ends.
pub(crate) fn ready() {
    let Some(value) = environment(NOTIFY_ENV) else { return };
    let Some(number) = value.to_str().and_then(|value| value.parse::<u32>().ok()) else {
        tracing::error!("{NOTIFY_ENV}={value:?} is no descriptor");
        return;
    };
    let written = OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{number}"))
        .and_then(|mut fd| fd.write_all(b"1"));
    if let Err(error) = written {
        tracing::error!(
            "cannot say on descriptor {number} ({NOTIFY_ENV}) that the service is ready: {error}"
        );
    }
}
