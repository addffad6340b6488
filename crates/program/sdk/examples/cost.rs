//! What a trace point costs on this machine: nanoseconds, medians of several runs.
//!
//!     cargo run --release -p ferretto --example cost
//!
//! The tracing service runs on a thread of this process and takes the events while they are written. All of them must be in the trace:
//! dropping them would be cheap.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ferretto::Connector;
use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_protos::fields::trace_packet;
use ferretto_protos::text::parse_trace_config;
use ferretto_protozero::read::Fields;
use ferretto_traced::in_process::{Host, HostOptions};

ferretto::categories! {
    static CATEGORIES = {
        COST = "cost", "What is measured";
        OFF = "off", "Nobody records it";
    }
}

/// The buffer holds everything that is written, so that nothing is overwritten.
const CONFIG: &str = r#"
    buffers { size_kb: 262144 }
    data_sources {
        config { name: "track_event" track_event_config { enabled_categories: "cost" disabled_categories: "*" } }
    }
"#;
const RUNS: usize = 15;
/// Of each kind in each run. A run's events fit into the shared memory, so that none is lost even if the service does not get the
/// processor.
const REPETITIONS: u64 = 30_000;
const OFF_REPETITIONS: u64 = 10_000_000;
const SHARED_MEMORY_BYTES: u32 = 4 * 1024 * 1024;
/// The least that an event takes of it.
const MIN_EVENT_BYTES: u64 = 12;
/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::spawn(HostOptions::default())?;
    ferretto::builder("org.example.cost")
        .categories(CATEGORIES)
        .connector(Connector::Stream(host.connect_producer()?))
        .shared_memory_size(SHARED_MEMORY_BYTES)
        .init()?;
    let mut consumer = start(&host)?;
    report("off", OFF_REPETITIONS, |number| {
        ferretto::instant!(OFF, "event", number = number);
    });
    let mut expected = warm_up();
    expected += report("instant", REPETITIONS, |_| {
        ferretto::instant!(COST, "event");
    });
    expected += 2 * report("span", REPETITIONS, |_| {
        let _slice = ferretto::slice!(COST, "event");
    });
    expected += 2 * report("args2", REPETITIONS, |number| {
        let _slice = ferretto::slice!(COST, "event", number = number, half = number / 2);
    });
    let found = events_in_trace(&mut consumer)?;
    if found != expected {
        return Err(format!("the trace holds {found} of {expected} events: the figures mean nothing").into());
    }
    Ok(())
}

fn start(host: &Host) -> Result<Consumer, Box<dyn Error>> {
    let mut consumer = Consumer::over(host.connect_consumer()?)?;
    consumer.observe(Observe::ALL_DATA_SOURCES_STARTED)?;
    consumer.enable_tracing(parse_trace_config(CONFIG)?, None)?;
    // Another thread is told that it may trace now.
    while !COST.is_enabled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(consumer)
}

/// Fills the shared memory once, so that no page of it is new to the kernel any more; how many events that took.
fn warm_up() -> u64 {
    const ROUNDS: u64 = 12;
    const _: () = assert!(ROUNDS * REPETITIONS * MIN_EVENT_BYTES > SHARED_MEMORY_BYTES as u64);
    for _ in 0..ROUNDS {
        (0..REPETITIONS).for_each(|_| ferretto::instant!(COST, "event"));
        ferretto::flush(TIMEOUT);
    }
    ROUNDS * REPETITIONS
}

/// Prints what one call costs; how many calls that took.
fn report(name: &str, repetitions: u64, mut work: impl FnMut(u64)) -> u64 {
    // The first run warms everything up.
    let mut runs: Vec<f64> = (0..=RUNS)
        .map(|_| {
            ferretto::flush(TIMEOUT);
            let start = Instant::now();
            (0..repetitions).for_each(|number| work(black_box(number)));
            start.elapsed().as_secs_f64() * 1e9 / repetitions as f64
        })
        .skip(1)
        .collect();
    runs.sort_by(f64::total_cmp);
    println!("{name} {:.2}", runs.get(RUNS / 2).copied().unwrap_or(f64::NAN));
    repetitions * (RUNS as u64 + 1)
}

fn events_in_trace(consumer: &mut Consumer) -> Result<u64, Box<dyn Error>> {
    ferretto::flush(TIMEOUT);
    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut events = 0;
    consumer.read_buffers(|packet| {
        let is_event = |number| number == trace_packet::TRACK_EVENT;
        events += u64::from(Fields::new(packet).flatten().any(|field| is_event(field.number)));
        Ok(())
    })?;
    Ok(events)
}
