//! Triggers that sessions wait for, called out without end.

use std::io;

use ferretto_interop::config;
use ferretto_protos::ActivateTriggersRequest;

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "triggers",
    tells: "five sessions wait for 1,000 triggers each, sixteen by expressions, and all are called out as fast as they go",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const SESSIONS: usize = 5;
const TRIGGERS: usize = 1000;
/// All that a config may have for its triggers.
const EXPRESSIONS: usize = 16;
const NAMES_AT_ONCE: usize = 1000;

fn run(target: &Target) -> io::Result<()> {
    let triggers: String = (0..TRIGGERS)
        .map(|number| {
            let regex =
                if number < EXPRESSIONS { "producer_name_regex: '(.*.*.*)*shouter.*(.*.*)*'" } else { "" };
            format!("triggers {{ name: 't{number}' stop_delay_ms: 60000 {regex} max_per_24_h: 1000000 }}")
        })
        .collect();
    let mut consumers = Vec::new();
    for mode in ["CLONE_SNAPSHOT", "STOP_TRACING", "CLONE_SNAPSHOT", "STOP_TRACING", "CLONE_SNAPSHOT"] {
        let mut consumer = target.consumer()?;
        consumer.have_enabled(&config(&format!(
            "buffers {{ size_kb: 64 }} trigger_config {{ trigger_mode: {mode} trigger_timeout_ms: 60000 {triggers} }}"
        )))?;
        consumers.push(consumer);
    }
    assert_eq!(consumers.len(), SESSIONS);
    let mut shouter = target.producer("shouter", 4096 * 16)?;
    let trigger_names = (0..NAMES_AT_ONCE).map(|number| format!("t{}", number % TRIGGERS)).collect();
    let request = ActivateTriggersRequest { trigger_names };
    let bytes: Vec<u8> =
        (0..100).flat_map(|_| shouter.bytes_of("ActivateTriggers", &request, true)).collect();
    while target.goes_on() {
        shouter.write_for(&bytes, target)?;
    }
    Ok(())
}
