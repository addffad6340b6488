//! One client's requests, thousands of them in a write, each of which takes the service a while.

use std::io;

use ferretto_protos::{DataSourceDescriptor, QueryServiceStateRequest};

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "many_requests",
    tells: "1,000 queries for 1,000 data sources in one write, and none of the answers read",
    needs_many: false,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const SOURCES: usize = 1000;
const REQUESTS: usize = 1000;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("many", 4096 * 16)?;
    for source in 0..SOURCES {
        let name = format!("many.{source}.{}", "x".repeat(200));
        producer.register(&DataSourceDescriptor { name: Some(name), ..Default::default() })?;
    }
    let mut consumer = target.consumer()?;
    let query = QueryServiceStateRequest { sessions_only: Some(false) };
    producer.sync()?;
    let answer = target.consumer()?.ask("QueryServiceState", &query)?;
    Refused::unless(answer.bytes > 200 * SOURCES, "the data sources are not there")?;
    let mut bytes = Vec::new();
    for _ in 0..REQUESTS {
        bytes.extend(consumer.bytes_of("QueryServiceState", &query, false));
    }
    while target.goes_on() {
        consumer.write_for(&bytes, target)?;
    }
    Ok(())
}
