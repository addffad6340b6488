//! A data source that comes and goes beside a session with as many instances as there may be.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, UnregisterDataSourceRequest};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "comes_and_goes",
    tells: "a data source comes and goes beside a session with 65,536 instances of others",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const SOURCES: usize = 1000;
const CONFIGURED: usize = 66;
const TIMES: usize = 500;

fn run(target: &Target) -> io::Result<()> {
    let mut crowd = target.producer("crowd", 4096 * 16)?;
    let mut bytes = Vec::new();
    for _ in 0..SOURCES {
        let name = Some("crowd".to_owned());
        bytes.extend(crowd.register_bytes(&DataSourceDescriptor { name, ..Default::default() }));
    }
    crowd.write(&bytes)?;
    let mut guest = target.producer("guest", 4096 * 16)?;
    let mut consumer = target.consumer()?;
    let configured = "data_sources { config { name: 'crowd' } }".repeat(CONFIGURED);
    let guest_config = "data_sources { config { name: 'guest' } }";
    crowd.sync()?;
    consumer.have_enabled(&config(&format!("buffers {{ size_kb: 64 }} {guest_config} {configured}")))?;
    let bytes = come_and_go(&mut guest);
    while target.goes_on() {
        guest.write_for(&bytes, target)?;
    }
    Ok(())
}

fn come_and_go(guest: &mut Client) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..TIMES {
        let name = Some("guest".to_owned());
        bytes
            .extend(guest.register_bytes(&DataSourceDescriptor { name: name.clone(), ..Default::default() }));
        let request = UnregisterDataSourceRequest { data_source_name: name };
        bytes.extend(guest.bytes_of("UnregisterDataSource", &request, true));
    }
    bytes
}
