//! Data sources that come to sessions which want each of them thousands of times, by expressions.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{ActivateTriggersRequest, DataSourceDescriptor};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "late_sources",
    tells: "a data source comes to five sessions with 1,000 slow expressions each, and calls out triggers that have some",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const SESSIONS: usize = 5;
/// Of the expressions of a config, those of one data source.
const AT_ONCE: usize = 16;
const SLOW: &str = "(.*.*.*)*x.*(.*.*)*y";

fn run(target: &Target) -> io::Result<()> {
    let filters = format!("producer_name_regex_filter: '{SLOW}' ").repeat(AT_ONCE);
    let sources = format!("data_sources {{ {filters} config {{ name: 'late' }} }} ").repeat(63);
    let triggers: String = (0..AT_ONCE)
        .map(|n| format!("triggers {{ name: '{n}' stop_delay_ms: 60000 producer_name_regex: '{SLOW}' }} "))
        .collect();
    let config = config(&format!(
        "buffers {{ size_kb: 64 }} {sources} trigger_config {{ trigger_mode: STOP_TRACING trigger_timeout_ms: 60000 {triggers} }}"
    ));
    let mut consumers = Vec::new();
    for _ in 0..SESSIONS {
        let mut consumer = target.consumer()?;
        consumer.enable(&config)?;
        consumer.settle()?;
        consumers.push(consumer);
    }
    while target.goes_on() {
        come(target)?;
    }
    Ok(())
}

fn come(target: &Target) -> io::Result<()> {
    // As long as a name may be.
    let mut producer: Client = target.producer(&"ax".repeat(256), 4096 * 16)?;
    let name = Some("late".to_owned());
    producer.register(&DataSourceDescriptor { name, ..Default::default() })?;
    let trigger_names = (0..1000).map(|n| (n % AT_ONCE).to_string()).collect();
    producer.call("ActivateTriggers", &ActivateTriggersRequest { trigger_names })
}
