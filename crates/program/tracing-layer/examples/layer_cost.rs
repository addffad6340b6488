//! What the layer costs a program that uses `tracing`: nanoseconds of processor time for a span, medians of several runs.
//!
//!     cargo run --release -p ferretto-tracing --example layer_cost [SPANS]
//!
//! `bare` is a registry without layers, `layer` one with this layer while a session records, `off` with this layer while none does (spans of `INFO`, which are known then, and of `DEBUG`). A span is
//! created, entered, left and closed; `with fields`, it has a number and a text. The tracing service runs on a thread of this process and takes the events while they are written. All
//! of them must be in the trace. With a number of spans only one kind is run, once, for counting instructions: `SPANS bare` or `SPANS
//! layer`.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use ferretto::Connector;
use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_protos::fields::trace_packet;
use ferretto_protos::text::parse_trace_config;
use ferretto_protozero::read::Fields;
use ferretto_traced::in_process::{Host, HostOptions};
use rustix::time::{ClockId, clock_gettime};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

const CONFIG: &str = r#"
    buffers { size_kb: 262144 }
    data_sources {
        config { name: "track_event" track_event_config { enabled_categories: "layer_cost" disabled_categories: "*" } }
    }
"#;
const RUNS: usize = 15;
/// A run's events fit into the shared memory, so that none is lost even if the service does not get the processor.
const REPETITIONS: u64 = 30_000;
const SHARED_MEMORY_BYTES: u32 = 4 * 1024 * 1024;
/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let host = Host::spawn(HostOptions::default())?;
    ferretto::builder("org.example.layer-cost")
        .connector(Connector::Stream(host.connect_producer()?))
        .shared_memory_size(SHARED_MEMORY_BYTES)
        .init()?;
    if let Some(spans) = arguments.next() {
        return run_once(&host, spans.parse()?, arguments.next().as_deref() == Some("layer"));
    }
    let off = middle((0..=RUNS).map(|_| run(&with_layer(), REPETITIONS, without_fields)).collect());
    let off_debug = middle((0..=RUNS).map(|_| run(&with_layer(), REPETITIONS, of_debug)).collect());
    println!("off {off:.1}\noff of DEBUG {off_debug:.1}");
    compare("", &host, without_fields)?;
    compare(" with fields", &host, with_fields)
}

fn compare(what: &str, host: &Host, span: impl Fn(u64)) -> Result<(), Box<dyn Error>> {
    let consumer = start(host)?;
    // In turns, so that a machine that is slower for a while is so for both.
    let (mut bare, mut layer) = (Vec::new(), Vec::new());
    for _ in 0..=RUNS {
        bare.push(run(&Dispatch::new(registry()), REPETITIONS, &span));
        layer.push(run(&with_layer(), REPETITIONS, &span));
    }
    let (bare, layer) = (middle(bare), middle(layer));
    println!("bare{what} {bare:.1}\nlayer{what} {layer:.1}\ndifference{what} {:.1}", layer - bare);
    check(consumer, 2 * REPETITIONS * (RUNS as u64 + 1))
}

#[inline(always)]
fn without_fields(_number: u64) {
    drop(black_box(tracing::info_span!("span").entered()));
}

#[inline(always)]
fn of_debug(_number: u64) {
    drop(black_box(tracing::debug_span!("span").entered()));
}

#[inline(always)]
fn with_fields(number: u64) {
    drop(black_box(tracing::info_span!("span with fields", number, text = "text").entered()));
}

fn with_layer() -> Dispatch {
    Dispatch::new(registry().with(ferretto_tracing::layer()))
}

/// Nanoseconds for a span. Not inlined: what counts instructions can count those in here.
#[inline(never)]
fn run(dispatch: &Dispatch, spans: u64, span: impl Fn(u64)) -> f64 {
    tracing::dispatcher::with_default(dispatch, || {
        ferretto::flush(TIMEOUT);
        let start = processor_ns();
        for number in 0..spans {
            span(number);
        }
        (processor_ns() - start) / spans as f64
    })
}

/// The processor time of this thread: a machine that does other things too changes that the least.
fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The first one warms everything up.
fn middle(mut runs: Vec<f64>) -> f64 {
    let runs = runs.get_mut(1..).unwrap_or_default();
    runs.sort_by(f64::total_cmp);
    runs.get(RUNS / 2).copied().unwrap_or(f64::NAN)
}

fn run_once(host: &Host, spans: u64, has_layer: bool) -> Result<(), Box<dyn Error>> {
    let consumer = start(host)?;
    let dispatch = if has_layer { with_layer() } else { Dispatch::new(registry()) };
    let mut left = spans;
    while left > 0 {
        run(&dispatch, left.min(REPETITIONS), without_fields);
        left -= left.min(REPETITIONS);
    }
    check(consumer, if has_layer { 2 * spans } else { 0 })
}

fn start(host: &Host) -> Result<Consumer, Box<dyn Error>> {
    let mut consumer = Consumer::over(host.connect_consumer()?)?;
    while consumer.query_service_state(false)?.data_sources.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    consumer.observe(Observe::ALL_DATA_SOURCES_STARTED)?;
    consumer.enable_tracing(parse_trace_config(CONFIG)?, None)?;
    loop {
        match consumer.poll(Some(TIMEOUT)) {
            Some(Event::Observed(events)) if events.all_data_sources_started() => return Ok(consumer),
            None | Some(Event::TracingDisabled { .. }) => return Err("the session did not start".into()),
            _ => {}
        }
    }
}

fn check(mut consumer: Consumer, expected: u64) -> Result<(), Box<dyn Error>> {
    ferretto::flush(TIMEOUT);
    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut found = 0;
    consumer.read_buffers(|packet| {
        let is_event = |number| number == trace_packet::TRACK_EVENT;
        found += u64::from(Fields::new(packet).flatten().any(|field| is_event(field.number)));
        Ok(())
    })?;
    if found != expected {
        return Err(format!("the trace holds {found} of {expected} events: the figures mean nothing").into());
    }
    Ok(())
}
