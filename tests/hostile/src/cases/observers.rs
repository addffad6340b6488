//! Sessions with as many instances as a user may have, whose consumer asks again and again how they are, or which all end at one time.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, ObserveEventsRequest};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "observers",
    tells: "consumers of five sessions with as many instances as a user may have ask again and again how these are",
    needs_many: true,
    asks_for_kib: 5 * 64,
    is_slow: true,
    run: |target| observe(target, false),
};

pub(crate) const ENDS: Case = Case {
    name: "ends_at_once",
    tells: "five such sessions, whose starts and stops are observed, end at one time",
    run: |target| observe(target, true),
    ..CASE
};

const SOURCES: usize = 256;
const SESSIONS: usize = 5;

fn observe(target: &Target, ends: bool) -> io::Result<()> {
    let mut producer = target.producer("p", 4096 * 16)?;
    let mut bytes = Vec::new();
    for _ in 0..SOURCES {
        let source =
            DataSourceDescriptor { name: Some("s".to_owned()), no_flush: Some(true), ..Default::default() };
        bytes.extend(producer.register_bytes(&source));
    }
    producer.write(&bytes)?;
    producer.sync()?;
    let sources = "data_sources { config { name: 's' } }".repeat(SOURCES);
    let mut consumers: Vec<Client> = Vec::new();
    let request = ObserveEventsRequest { events_to_observe: vec![1, 2] };
    let end_at = Instant::now() + Duration::from_secs(8);
    for _ in 0..SESSIONS {
        let mut consumer = target.consumer()?;
        let left_ms = end_at.saturating_duration_since(Instant::now()).as_millis();
        let end = if ends { format!("duration_ms: {left_ms}") } else { String::new() };
        consumer.have_enabled(&config(&format!("buffers {{ size_kb: 64 }} {sources} {end}")))?;
        consumer.send("ObserveEvents", &request)?;
        consumer.settle()?;
        consumers.push(consumer);
    }
    if ends {
        thread::sleep(end_at.saturating_duration_since(Instant::now()) + Duration::from_secs(1));
        return consumers.iter_mut().try_for_each(Client::settle);
    }
    for _ in 0..30 {
        for consumer in &mut consumers {
            consumer.send("ObserveEvents", &request)?;
        }
        consumers.iter_mut().try_for_each(Client::settle)?;
    }
    Ok(())
}
