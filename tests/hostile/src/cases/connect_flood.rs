//! A thread that connects and hangs up, as fast as it can: the others who want to connect have to get in.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_ipc::address::Address;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "connect_flood",
    tells: "a thread connects to the consumers' socket and hangs up, without end, while others come and ask",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

/// A newcomer gets in, and has its first answer, within this, on a machine that may be busy.
const NEWCOMER_WAITS: Duration = Duration::from_secs(2);
const BETWEEN_NEWCOMERS: Duration = Duration::from_millis(20);

fn run(target: &Target) -> io::Result<()> {
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut connections = 0u64;
            while target.goes_on() {
                connections += u64::from(UnixStream::connect(&target.consumers).is_ok());
            }
            connections
        });
        let mut longest = Duration::ZERO;
        while target.goes_on() {
            longest = longest.max(newcomer(target)?);
            thread::sleep(BETWEEN_NEWCOMERS);
        }
        let connections = flood.join().unwrap_or_default();
        eprintln!("connect_flood: {connections} connections; a newcomer waited for {longest:?} at the most");
        Refused::unless(longest < NEWCOMER_WAITS, "a newcomer did not get in in time")
    })
}

/// What it waited for its first answer, connecting included, as all our commands connect.
fn newcomer(target: &Target) -> io::Result<Duration> {
    let start = Instant::now();
    let refused =
        |error: &dyn std::fmt::Display| Refused::because(format!("a newcomer did not get in: {error}"));
    let mut consumer =
        Consumer::connect(&Address::Path(target.consumers.clone())).map_err(|error| refused(&error))?;
    consumer.query_service_state(true).map_err(|error| refused(&error))?;
    Ok(start.elapsed())
}
