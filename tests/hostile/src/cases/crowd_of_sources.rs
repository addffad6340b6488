//! A query whose answer is large, for somebody who does not read.

use std::io;

use ferretto_protos::{DataSourceDescriptor, QueryServiceStateRequest};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "crowd_of_sources",
    tells: "20 producers with 1,000 data sources of 1,000 bytes each, and a consumer that asks for all of them and reads nothing",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const PRODUCERS: usize = 20;
const SOURCES: usize = 1000;
const NAME_BYTES: usize = 1000;

fn run(target: &Target) -> io::Result<()> {
    let crowd: Vec<Client> = (0..PRODUCERS).map(|_| crowd(target)).collect::<io::Result<_>>()?;
    let mut consumer = target.consumer()?;
    let query = QueryServiceStateRequest { sessions_only: Some(false) };
    let answer = target.consumer()?.ask("QueryServiceState", &query)?;
    Refused::unless(answer.bytes > PRODUCERS * SOURCES * NAME_BYTES, "the data sources are not there")?;
    let bytes = consumer.bytes_of("QueryServiceState", &query, false);
    while target.goes_on() {
        consumer.write_for(&bytes, target)?;
    }
    drop(crowd);
    Ok(())
}

fn crowd(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer("crowd", 4096 * 16)?;
    for source in 0..SOURCES {
        let name = format!("crowd.{source}.{}", "x".repeat(NAME_BYTES));
        producer.register(&DataSourceDescriptor { name: Some(name), ..Default::default() })?;
    }
    producer.sync()?;
    Ok(producer)
}
