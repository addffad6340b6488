//! How far the clock of events is from the kernel's boot clock.
//!
//!     cargo run --release -p ferretto --example clock [SECONDS]
//!
//! Traces a thousand events a second, for a minute if nothing is said, asks the kernel for the time before and after each, and finds the
//! events' own times in the trace. Prints by how much these lie outside of what the kernel said.

use std::error::Error;
use std::time::{Duration, Instant};

use ferretto::Connector;
use ferretto_consumer::{Consumer, Event};
use ferretto_protos::fields::trace_packet;
use ferretto_protos::text::parse_trace_config;
use ferretto_protozero::read::{Fields, Value};
use ferretto_traced::in_process::{Host, HostOptions};
use rustix::time::{ClockId, clock_gettime};

ferretto::categories! {
    static CATEGORIES = { TICK = "tick", "What is compared"; }
}

/// Absolute times are easier to read, and come from the same clock.
const CONFIG: &str = r#"
    buffers { size_kb: 262144 }
    data_sources {
        config { name: "track_event" track_event_config { disable_incremental_timestamps: true } }
    }
"#;
const PERIOD: Duration = Duration::from_millis(1);
/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let host = Host::spawn(HostOptions::default())?;
    let connector = Connector::Stream(host.connect_producer()?);
    ferretto::builder("org.example.clock").categories(CATEGORIES).connector(connector).init()?;
    let mut consumer = Consumer::over(host.connect_consumer()?)?;
    consumer.enable_tracing(parse_trace_config(CONFIG)?, None)?;
    while !TICK.is_enabled() {
        std::thread::sleep(PERIOD);
    }
    let brackets = tick(Duration::from_secs_f64(seconds));
    let times = times_in_trace(&mut consumer)?;
    if times.len() != brackets.len() {
        return Err(format!("the trace holds {} of {} events", times.len(), brackets.len()).into());
    }
    // What was interrupted in between says little, but nothing wrong.
    let mut errors: Vec<u64> =
        times.iter().zip(&brackets).map(|(time, (before, after))| outside(*time, *before, *after)).collect();
    let mut middles: Vec<u64> = times
        .iter()
        .zip(&brackets)
        .map(|(time, (before, after))| time.abs_diff(before.midpoint(*after)))
        .collect();
    errors.sort_unstable();
    middles.sort_unstable();
    let max = errors.last().copied().unwrap_or(0);
    let typical = middles.get(middles.len() / 2).copied().unwrap_or(0);
    println!(
        "{} events in {seconds} s: at most {max} ns outside, typically {typical} ns from the middle",
        times.len()
    );
    Ok(())
}

fn tick(duration: Duration) -> Vec<(u64, u64)> {
    let start = Instant::now();
    let mut brackets = Vec::new();
    while start.elapsed() < duration {
        let before = boot_time();
        ferretto::instant!(TICK, "tick");
        brackets.push((before, boot_time()));
        std::thread::sleep(PERIOD);
    }
    brackets
}

fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

fn outside(time: u64, before: u64, after: u64) -> u64 {
    before.saturating_sub(time).max(time.saturating_sub(after))
}

fn times_in_trace(consumer: &mut Consumer) -> Result<Vec<u64>, Box<dyn Error>> {
    ferretto::flush(TIMEOUT);
    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut times = Vec::new();
    consumer.read_buffers(|packet| {
        let fields = || Fields::new(packet).flatten();
        if fields().any(|field| field.number == trace_packet::TRACK_EVENT) {
            times.extend(fields().find_map(|field| match field.value {
                Value::Varint(time) if field.number == trace_packet::TIMESTAMP => Some(time),
                _ => None,
            }));
        }
        Ok(())
    })?;
    Ok(times)
}
