//! As many flushes as may be pending, each of thousands of producers, that end at one time.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, FlushRequest, FreeBuffersRequest};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "flush_pile",
    tells: "999 flushes of 3,000 producers are pending in each of five sessions, which end at once",
    needs_many: true,
    asks_for_kib: 5 * 64,
    is_slow: true,
    run,
};

const PRODUCERS: usize = 3000;
const SESSIONS: usize = 5;
const FLUSHES: usize = 999;
const FLUSH_TIMEOUT_MS: u32 = 600_000;

fn run(target: &Target) -> io::Result<()> {
    // None listens, so none is told.
    let mut crowd: Vec<Client> =
        (0..PRODUCERS).map(|_| target.producer("crowd", 4096)).collect::<io::Result<_>>()?;
    for producer in &mut crowd {
        producer.register(&DataSourceDescriptor { name: Some("crowd".to_owned()), ..Default::default() })?;
        producer.sync()?;
    }
    let mut consumers = Vec::new();
    for _ in 0..SESSIONS {
        let mut consumer = target.consumer()?;
        consumer
            .have_enabled(&config("buffers { size_kb: 64 } data_sources { config { name: 'crowd' } }"))?;
        consumers.push(consumer);
    }
    let flush = FlushRequest { timeout_ms: Some(FLUSH_TIMEOUT_MS), ..Default::default() };
    for consumer in &mut consumers {
        for _ in 0..FLUSHES {
            consumer.send("Flush", &flush)?;
        }
        consumer.settle()?;
    }
    for consumer in &mut consumers {
        consumer.call("FreeBuffers", &FreeBuffersRequest::default())?;
    }
    Ok(())
}
