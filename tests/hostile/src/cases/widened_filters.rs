//! Filters that grow by changes of a config.

use std::io;

use ferretto_interop::config;
use ferretto_protos::ChangeTraceConfigRequest;

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "widened_filters",
    tells: "filters that get new names and expressions by thousands, as fast as they go",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const SOURCES: usize = 500;
const NAMES: usize = 2500;

fn run(target: &Target) -> io::Result<()> {
    let mut consumer = target.consumer()?;
    let filtered = "data_sources { producer_name_filter: 'a' config { name: 'data' } } ".repeat(SOURCES);
    consumer.enable(&config(&format!("buffers {{ size_kb: 64 }} {filtered}")))?;
    consumer.settle()?;
    let mut round = 0;
    while target.goes_on() {
        let names: String = (0..NAMES).map(|n| format!("producer_name_filter: '{round}.{n}' ")).collect();
        let long = format!("producer_name_filter: '{round}{}' ", "n".repeat(50_000));
        let expressions: String = (0..SOURCES)
            .map(|n| {
                format!("data_sources {{ producer_name_regex_filter: '[a-z0-9]{{9}}{{9}}{round}.{n}' }} ")
            })
            .collect();
        for sources in
            [format!("data_sources {{ {names} }}"), format!("data_sources {{ {long} }}"), expressions]
        {
            let changed = Some(config(&format!("buffers {{ size_kb: 64 }} {sources}")).into());
            consumer.call("ChangeTraceConfig", &ChangeTraceConfigRequest { trace_config: changed })?;
        }
        round += 1;
    }
    Ok(())
}
