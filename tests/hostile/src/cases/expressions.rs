//! Regular expressions that take long to compile, to match, or much memory: as many as are allowed, and such as are refused.

use std::io;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "expressions",
    tells: "configs with as many expressions as there may be, and with larger ones, while ten producers have names that they almost match",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const PRODUCERS: usize = 10;
const NAME_BYTES: usize = 4000;
/// All that a config may have: so many data sources with so many expressions each.
const SOURCES: usize = 63;
const EXPRESSIONS: usize = 16;
/// Such as are taken: they match slowly.
const SLOW: [&str; 2] = ["(.*.*.*)*x.*(.*.*)*y", "(a|aa)*(a|aa)*b"];
/// What is small in a config and too large in memory, each in another way.
const PATTERNS: [&str; 4] =
    ["(a?){50}{50}a{2000}", "(?:a|aa|aaa|aaaa)*{40}{40}b", "(((a*)*)*)*b{500}{4}", "(?:[a-z0-9]*x){200}y"];

fn run(target: &Target) -> io::Result<()> {
    let crowd: Vec<Client> = (0..PRODUCERS).map(|_| almost(target)).collect::<io::Result<_>>()?;
    for pattern in SLOW {
        target.consumer()?.have_enabled(&full_of(pattern, SOURCES, EXPRESSIONS))?;
    }
    let taken = SLOW.map(|pattern| full_of(pattern, SOURCES, EXPRESSIONS));
    let refused = PATTERNS.iter().flat_map(|pattern| [full_of(pattern, 1, 1), full_of(pattern, 1, 1000)]);
    let configs: Vec<Vec<u8>> = taken.into_iter().chain(refused).collect();
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

fn full_of(pattern: &str, sources: usize, expressions: usize) -> Vec<u8> {
    let filters = format!("producer_name_regex_filter: '{pattern}' ").repeat(expressions);
    let source = format!("data_sources {{ {filters} config {{ name: 'almost' }} }}");
    config(&format!("buffers {{ size_kb: 64 }} {}", source.repeat(sources)))
}

fn almost(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer(&"a".repeat(NAME_BYTES), 4096 * 16)?;
    producer.register(&DataSourceDescriptor { name: Some("almost".to_owned()), ..Default::default() })?;
    Ok(producer)
}
