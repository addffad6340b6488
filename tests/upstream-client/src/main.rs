//! Traces through upstream's own client library (the crate `perfetto-sdk`) into whatever service listens on the system's
//! producer socket, so that the interop tests can see how that library gets on with `ferretto traced`.
//!
//! Usage: `upstream-client EVENTS SECONDS [BURST [THREADS]]`: `EVENTS` rounds (a slice with arguments, an instant, a counter each) spread
//! over `SECONDS`, starting with the moment a session enables the category. With `BURST` they are bare instants instead, so many
//! at once before each pause, of each of `THREADS`. Prints `events N` at the end.
//!
//! `upstream-client cost` measures trace points instead, in this process, as the example `cost` of our library does.

mod cost;

use std::time::{Duration, Instant};

use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::track_event::{
    EventContext, TrackEvent, TrackEventCounter, TrackEventDebugArg, TrackEventTrack,
};
use perfetto_sdk::{
    track_event_begin, track_event_categories, track_event_category_enabled, track_event_counter,
    track_event_end, track_event_instant,
};

track_event_categories! {
    pub mod categories {
        ( "upstream.client", "Events of upstream's client library", [ "interop" ] ),
    }
}
use categories as perfetto_te_ns;

/// How long to wait for a session that enables the category: the tests start one at once.
const ENABLE_TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rounds = args.next().ok_or("usage: upstream-client EVENTS SECONDS")?;
    if rounds == "cost" {
        return cost::run();
    }
    let rounds: u64 = rounds.parse()?;
    let seconds: f64 = args.next().ok_or("usage: upstream-client EVENTS SECONDS")?.parse()?;
    let burst: Option<u64> = args.next().map(|burst| burst.parse()).transpose()?;
    let threads: u64 = args.next().map_or(Ok(1), |threads| threads.parse())?;
    let pause = Duration::from_secs_f64(seconds / (rounds / burst.unwrap_or(1)).max(1) as f64);

    Producer::init(ProducerInitArgsBuilder::new().backends(Backends::SYSTEM).build());
    TrackEvent::init();
    categories::register()?;
    let counter =
        TrackEventTrack::register_counter_track("upstream counter", TrackEventTrack::process_track_uuid())?;

    let start = Instant::now();
    while !track_event_category_enabled!("upstream.client") {
        if start.elapsed() > ENABLE_TIMEOUT {
            return Err("no session enabled the category upstream.client".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(burst) = burst {
        let run = move || instants(rounds, burst, seconds);
        let others: Vec<_> = (1..threads).map(|_| std::thread::spawn(run)).collect();
        run();
        others.into_iter().for_each(|thread| thread.join().expect("nothing panics"));
        return finish(rounds * threads);
    }
    for round in 0..rounds {
        track_event_begin!("upstream.client", "upstream slice", |ctx: &mut EventContext| {
            ctx.add_debug_arg("round", TrackEventDebugArg::Uint64(round));
            ctx.add_debug_arg("text", TrackEventDebugArg::String("from upstream"));
        });
        track_event_instant!("upstream.client", "upstream instant");
        track_event_counter!("upstream.client", |ctx: &mut EventContext| {
            ctx.set_track(&counter);
            ctx.set_counter(TrackEventCounter::Int64(round as i64));
        });
        track_event_end!("upstream.client");
        std::thread::sleep(pause);
    }
    finish(rounds)
}

/// Whoever is late catches up.
fn instants(events: u64, burst: u64, seconds: f64) {
    let start = Instant::now();
    for event in 0..events {
        track_event_instant!("upstream.client", "upstream instant");
        if event % burst == burst - 1 {
            let due = Duration::from_secs_f64(seconds * (event + 1) as f64 / events as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
}

fn finish(events: u64) -> Result<(), Box<dyn std::error::Error>> {
    println!("events {events}");
    // The session's last flush collects what is still in this process's chunks.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}
