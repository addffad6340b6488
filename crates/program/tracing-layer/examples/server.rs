//! A server without a network that uses `tracing`, and records itself.
//!
//!     cargo run -p ferretto-tracing --example server [FILE]

use std::error::Error;
use std::fs::File;
use std::time::Duration;

use ferretto::Connector;
use ferretto_consumer::{Consumer, Event, Observe, write_packet};
use ferretto_protos::text::parse_trace_config;
use ferretto_traced::in_process::{Host, HostOptions};
use tokio::time::sleep;
use tracing::{Instrument, debug, info, info_span, warn};
use tracing_subscriber::prelude::*;

/// With `DEBUG`, which is off by default.
const CONFIG: &str = r#"
    buffers { size_kb: 4096 }
    data_sources {
        config { name: "track_event" track_event_config { enabled_categories: "server*" } }
    }
"#;
/// Far more than it takes.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn request(id: u64) {
    info!(id, "accepted");
    let query = info_span!("query", table = "users", rows = tracing::field::Empty);
    async {
        sleep(Duration::from_millis(2 + id % 3)).await;
        info_span!("decode").in_scope(|| std::thread::sleep(Duration::from_micros(300)));
        tracing::Span::current().record("rows", id * 10);
    }
    .instrument(query)
    .await;
    if id % 4 == 3 {
        warn!(id, "slow client");
    }
    debug!("done");
}

async fn serve() {
    let mut tasks = Vec::new();
    for id in 0..10 {
        tasks.push(tokio::spawn(request(id).instrument(info_span!("request", id))));
        sleep(Duration::from_millis(1)).await;
    }
    for task in tasks {
        // None of them panics.
        let _ = task.await;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "server.pftrace".to_owned());
    let host = Host::spawn(HostOptions::default())?;
    // A program that is recorded by others needs these two lines only.
    ferretto::builder("org.example.server").connector(Connector::Stream(host.connect_producer()?)).init()?;
    tracing_subscriber::registry().with(ferretto_tracing::layer()).init();

    let mut consumer = start(&host)?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build()?.block_on(serve());
    ferretto::flush(TIMEOUT);
    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut out = File::create(&file)?;
    consumer.read_buffers(|packet| write_packet(&mut out, packet))?;
    println!("wrote {file}: open it in https://ui.perfetto.dev");
    Ok(())
}

/// Begins to record, as soon as this process is known to the service.
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
