//! Thousands of consumers that ask all at one time.

use std::io;

use ferretto_protos::QueryServiceStateRequest;

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "crowd_of_askers",
    tells: "2,900 consumers ask for the state of the service, twenty times in a write, again and again",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const CONSUMERS: usize = 2900;
const REQUESTS: usize = 20;

fn run(target: &Target) -> io::Result<()> {
    let mut crowd: Vec<Client> = (0..CONSUMERS).map(|_| target.consumer()).collect::<io::Result<_>>()?;
    let query = QueryServiceStateRequest { sessions_only: Some(true) };
    while target.goes_on() {
        for consumer in &mut crowd {
            let bytes = consumer.bytes_of("QueryServiceState", &query, true).repeat(REQUESTS);
            consumer.write_some(&bytes)?;
        }
    }
    Ok(())
}
