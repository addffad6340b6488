//! A config that asks for many data sources of which there are many.

use std::io;
use std::thread;
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "matches",
    tells: "configs with 4,096 data sources each, while 100 producers offer 1,000 each",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const PRODUCERS: usize = 100;
const SOURCES: usize = 1000;
const CONFIGURED: usize = 4096;
const PAUSE: Duration = Duration::from_millis(100);

fn run(target: &Target) -> io::Result<()> {
    let crowd: Vec<Client> = (0..PRODUCERS).map(|_| crowd(target)).collect::<io::Result<_>>()?;
    let configured: String = (0..CONFIGURED)
        .map(|index| format!("data_sources {{ config {{ name: '{}' }} }}", index % 7))
        .collect();
    let config = config(&format!("buffers {{ size_kb: 64 }} {configured}"));
    let mut consumers = Vec::new();
    while target.goes_on() {
        // It does not wait for what it has asked for. Those after the fifth are refused.
        let mut consumer = target.consumer()?;
        consumer.enable(&config)?;
        consumers.push(consumer);
        thread::sleep(PAUSE);
    }
    // Beside that of the honest.
    Refused::unless(target.consumer()?.sessions()? > 1, "all sessions were refused")?;
    drop((crowd, consumers));
    Ok(())
}

fn crowd(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer("crowd", 4096 * 16)?;
    let mut bytes = Vec::new();
    for source in 0..SOURCES {
        let name = Some((source % 10).to_string());
        bytes.extend(producer.register_bytes(&DataSourceDescriptor { name, ..Default::default() }));
    }
    producer.write(&bytes)?;
    Ok(producer)
}
