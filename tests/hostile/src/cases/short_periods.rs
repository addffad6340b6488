//! Sessions that have everything done again and again, as often as a config may ask for it, with as many instances as there may be.

use std::io::{self, Read as _};
use std::thread;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "short_periods",
    tells: "five sessions with 65,000 instances are flushed and begin anew a hundred times a second each",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const SOURCES: usize = 1000;
const SESSIONS: usize = 5;
const CONFIGURED: usize = 13;

fn run(target: &Target) -> io::Result<()> {
    let mut crowd = target.producer("crowd", 4096 * 16)?;
    let mut bytes = Vec::new();
    for _ in 0..SOURCES {
        let source = DataSourceDescriptor {
            name: Some("crowd".to_owned()),
            handles_incremental_state_clear: Some(true),
            ..Default::default()
        };
        bytes.extend(crowd.register_bytes(&source));
    }
    crowd.write(&bytes)?;
    crowd.listen()?;
    let mut commands = crowd.stream().try_clone()?;
    // Ends with the connection.
    thread::spawn(move || {
        let mut read = vec![0; 1 << 20];
        while commands.read(&mut read).is_ok_and(|count| count > 0) {}
    });
    let configured = "data_sources { config { name: 'crowd' } }".repeat(CONFIGURED);
    let periods = "flush_period_ms: 10 flush_timeout_ms: 1 incremental_state_config { clear_period_ms: 10 } \
                   builtin_data_sources { snapshot_interval_ms: 100 }";
    let text = config(&format!("buffers {{ size_kb: 64 }} {periods} {configured}"));
    let mut consumers = Vec::new();
    for _ in 0..SESSIONS {
        let mut consumer = target.consumer()?;
        consumer.have_enabled(&text)?;
        consumers.push(consumer);
    }
    while target.goes_on() {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(())
}
