//! Traces through our own client library into whatever service listens on the system's producer socket: the counterpart of
//! tests/upstream-client.
//!
//! Usage: `sdk-client EVENTS SECONDS [startup]`: `EVENTS` rounds (a slice with arguments, an instant, a counter each) spread over
//! `SECONDS`, starting with the moment a session enables the category, or, with `startup`, at once, by startup tracing. Prints `events N`
//! at the end.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use ferretto::{CounterTrack, StartupConfig};

ferretto::categories! {
    static CATEGORIES = {
        CLIENT = "ferretto.client", "Events of our client library", ["interop"];
    }
}

static COUNTER: CounterTrack = CounterTrack::new("ferretto counter");

/// How long to wait for a session that enables the category: the tests start one at once.
const ENABLE_TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let rounds: u64 = args.next().ok_or("usage: sdk-client EVENTS SECONDS")?.parse()?;
    let seconds: f64 = args.next().ok_or("usage: sdk-client EVENTS SECONDS")?.parse()?;
    let pause = Duration::from_secs_f64(seconds / rounds.max(1) as f64);

    let builder = ferretto::builder("ferretto.interop").categories(CATEGORIES);
    match args.next().as_deref() {
        None => builder.init()?,
        Some("startup") => {
            builder.startup_tracing(StartupConfig::categories(["ferretto.client"])).init()?;
            println!("tracing");
        }
        Some(other) => return Err(format!("{other:?} is not `startup`").into()),
    }
    let start = Instant::now();
    while !CLIENT.is_enabled() {
        if start.elapsed() > ENABLE_TIMEOUT {
            return Err("no session enabled the category ferretto.client".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for round in 0..rounds {
        {
            let _slice = ferretto::slice!(CLIENT, "ferretto slice", round = round, text = "from ferretto");
            ferretto::instant!(CLIENT, "ferretto instant");
            ferretto::counter!(CLIENT, COUNTER, round);
        }
        std::thread::sleep(pause);
    }
    println!("events {rounds}");
    ferretto::flush(Duration::from_secs(5));
    Ok(())
}
