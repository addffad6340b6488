//! Regular expressions that take long to compile, to match, or much memory.

use std::io;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "expressions",
    tells: "configs full of expressions that are large when compiled, while 1,000 producers have names that they almost match",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const PRODUCERS: usize = 300;
const NAME_BYTES: usize = 4000;
/// What is small in a config and large in memory, each in another way.
const PATTERNS: [&str; 4] =
    ["(a?){50}{50}a{2000}", "(?:a|aa|aaa|aaaa)*{40}{40}b", "(((a*)*)*)*b{500}{4}", "(?:[a-z0-9]*x){200}y"];

fn run(target: &Target) -> io::Result<()> {
    let crowd: Vec<Client> = (0..PRODUCERS).map(|_| almost(target)).collect::<io::Result<_>>()?;
    let many = |pattern: &str, count: usize| {
        let filters = format!("producer_name_regex_filter: '{pattern}' ").repeat(count);
        config(&format!("buffers {{ size_kb: 64 }} data_sources {{ {filters} config {{ name: 'almost' }} }}"))
    };
    let configs: Vec<Vec<u8>> =
        PATTERNS.iter().flat_map(|pattern| [many(pattern, 1), many(pattern, 1000)]).collect();
    for config in configs.iter().cycle() {
        if !target.goes_on() {
            break;
        }
        let mut consumer = target.consumer()?;
        consumer.enable(config)?;
        consumer.settle()?;
    }
    drop(crowd);
    Ok(())
}

fn almost(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer(&"a".repeat(NAME_BYTES), 4096 * 16)?;
    producer.register(&DataSourceDescriptor { name: Some("almost".to_owned()), ..Default::default() })?;
    Ok(producer)
}
