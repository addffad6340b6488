//! A server without a network: tasks that run at once on several threads, as spans.
//!
//!     cargo run -p ferretto --example async_tasks [FILE]

use std::error::Error;
use std::fs::File;
use std::time::Duration;

use ferretto::{Connector, Instrument};
use ferretto_consumer::{Consumer, Event, write_packet};
use ferretto_protos::text::parse_trace_config;
use ferretto_traced::in_process::{Host, HostOptions};
use tokio::time::sleep;

ferretto::categories! {
    static CATEGORIES = {
        NET = "net", "Requests";
        DB = "db", "Queries";
    }
}

/// Without `ferretto.poll` the threads stay empty.
const CONFIG: &str = r#"
    buffers { size_kb: 4096 }
    data_sources { config { name: "track_event" track_event_config { enabled_categories: "*" enabled_tags: "debug" } } }
"#;
/// Far more than it takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A span, as the function has this attribute.
#[ferretto::trace(category = NET, args(id))]
async fn request(id: u64) {
    sleep(Duration::from_millis(2 + id % 3)).await;
    // One after the other: both are drawn below the request.
    query("users").await;
    query("orders").await;
    if id % 4 == 1 {
        // At once: one below the request, the other beside it, with an arrow.
        tokio::join!(query("left"), query("right"));
    }
    if id == 6 {
        // Goes on after the request.
        tokio::spawn(query("audit"));
    }
}

#[ferretto::trace(category = DB, args(table))]
async fn query(table: &'static str) {
    sleep(Duration::from_millis(3)).await;
    // Something that a thread does: a slice of the thread.
    let _slice = ferretto::slice!(DB, "decode", table);
    std::thread::sleep(Duration::from_micros(200));
}

async fn serve() {
    let mut tasks = Vec::new();
    for id in 0..10 {
        tasks.push(tokio::spawn(request(id)));
        sleep(Duration::from_millis(1)).await;
    }
    for task in tasks {
        // None of them panics.
        let _ = task.await;
    }
    let slow =
        sleep(Duration::from_secs(60)).instrument(ferretto::span!(NET, "given up", reason = "too slow"));
    let _ = tokio::time::timeout(Duration::from_millis(5), slow).await;
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "async_tasks.pftrace".to_owned());
    let host = Host::spawn(HostOptions::default())?;
    let connector = Connector::Stream(host.connect_producer()?);
    ferretto::builder("org.example.async-tasks").categories(CATEGORIES).connector(connector).init()?;
    let mut consumer = Consumer::over(host.connect_consumer()?)?;
    consumer.enable_tracing(parse_trace_config(CONFIG)?, None)?;
    // Another thread is told that it may trace now.
    while !NET.is_enabled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build()?.block_on(serve());
    ferretto::flush(TIMEOUT);
    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut out = File::create(&file)?;
    consumer.read_buffers(|packet| write_packet(&mut out, packet))?;
    println!("wrote {file}: open it in https://ui.perfetto.dev");
    Ok(())
}
