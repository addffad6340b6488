//! Tasks that run at once on two threads, through whatever service listens on the system's producer socket: as spans of the client library
//! and as spans of the crate `tracing`.
//!
//! Usage: `sdk-tasks REQUESTS`: begins when a session records both categories. Each request has a query below it; `tracing` ones log an
//! event in between.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{Instrument, info, info_span};
use tracing_subscriber::prelude::*;

ferretto::categories! {
    static CATEGORIES = { TASKS = "ferretto.tasks", "Requests and queries"; }
}

/// How long to wait for a session: the tests start one at once.
const ENABLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between requests, a part of what one takes.
const PAUSE: Duration = Duration::from_millis(2);

#[ferretto::trace(category = TASKS, args(id))]
async fn request(id: u64) {
    sleep(PAUSE).await;
    query(id).await;
    sleep(PAUSE).await;
}

#[ferretto::trace(category = TASKS, args(id))]
async fn query(id: u64) {
    sleep(PAUSE * 2).await;
}

async fn logged_request(id: u64) {
    sleep(PAUSE).await;
    info!(target: "logged", id, "accepted");
    sleep(PAUSE * 2).instrument(info_span!(target: "logged", "logged query", id)).await;
    sleep(PAUSE).await;
}

async fn serve(requests: u64) -> Result<(), Box<dyn Error>> {
    let mut tasks = Vec::new();
    for id in 0..requests {
        tasks.push(tokio::spawn(request(id)));
        let span = info_span!(target: "logged", "logged request", id);
        tasks.push(tokio::spawn(logged_request(id).instrument(span)));
        sleep(PAUSE).await;
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let requests = std::env::args().nth(1).ok_or("usage: sdk-tasks REQUESTS")?.parse()?;
    ferretto::builder("ferretto.tasks").categories(CATEGORIES).init()?;
    tracing_subscriber::registry().with(ferretto_tracing::layer()).init();
    let start = Instant::now();
    while !TASKS.is_enabled() || !tracing::enabled!(target: "logged", tracing::Level::INFO) {
        if start.elapsed() > ENABLE_TIMEOUT {
            return Err("no session enabled the categories ferretto.tasks and logged".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?
        .block_on(serve(requests))
}
