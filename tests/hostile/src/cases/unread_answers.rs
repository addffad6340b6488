//! Consumers that read nothing of what they asked for.

use std::io;

use ferretto_protos::{DataSourceDescriptor, QueryServiceStateRequest};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "unread_answers",
    tells: "50 consumers ask for 4 MiB of data sources, and read none of it",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const CONSUMERS: usize = 50;
const SOURCES: usize = 1000;
const NAME_BYTES: usize = 4000;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("much", 4096 * 16)?;
    for source in 0..SOURCES {
        let name = format!("much.{source}.{}", "x".repeat(NAME_BYTES));
        producer.register(&DataSourceDescriptor { name: Some(name), ..Default::default() })?;
    }
    let mut deaf: Vec<Client> = (0..CONSUMERS).map(|_| target.consumer()).collect::<io::Result<_>>()?;
    let query = QueryServiceStateRequest { sessions_only: Some(false) };
    producer.sync()?;
    let answer = target.consumer()?.ask("QueryServiceState", &query)?;
    Refused::unless(answer.bytes > SOURCES * NAME_BYTES * 9 / 10, "the data sources are not there")?;
    while target.goes_on() {
        for consumer in &mut deaf {
            let bytes = consumer.bytes_of("QueryServiceState", &query, false).repeat(100);
            // Each may be hung up on.
            let _ = consumer.write_some(&bytes);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(())
}
