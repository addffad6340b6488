//! Sessions that tell thousands of producers to flush, and to say their names again, as often as a config may ask for it.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "crowd_of_flushers",
    tells: "five sessions tell 2,500 producers to flush and to begin anew a hundred times a second each",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const PRODUCERS: usize = 2500;
const SESSIONS: usize = 5;
const CONFIGURED: usize = 4;

fn run(target: &Target) -> io::Result<()> {
    let crowd: Vec<Client> = (0..PRODUCERS).map(|_| flusher(target)).collect::<io::Result<_>>()?;
    let commands: Vec<UnixStream> =
        crowd.iter().map(|producer| producer.stream().try_clone()).collect::<io::Result<_>>()?;
    // Ends with the connections.
    thread::spawn(move || while read_all(&commands) {});
    let configured = "data_sources { config { name: 'crowd' } }".repeat(CONFIGURED);
    let periods = "flush_period_ms: 10 flush_timeout_ms: 1 incremental_state_config { clear_period_ms: 10 }";
    let text = config(&format!("buffers {{ size_kb: 64 }} {periods} {configured}"));
    let mut consumers = Vec::new();
    for _ in 0..SESSIONS {
        let mut consumer = target.consumer()?;
        consumer.have_enabled(&text)?;
        consumers.push(consumer);
    }
    thread::sleep(Duration::from_secs(3));
    Ok(())
}

fn flusher(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer("crowd", 4096 * 16)?;
    producer.listen()?;
    producer.register(&DataSourceDescriptor {
        name: Some("crowd".to_owned()),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    })?;
    Ok(producer)
}

/// Takes what there is, and says whether anybody is still connected.
fn read_all(streams: &[UnixStream]) -> bool {
    let mut bytes = [0; 64 * 1024];
    let mut is_connected = false;
    for mut stream in streams {
        let read = stream.set_nonblocking(true).and_then(|()| stream.read(&mut bytes));
        is_connected |= match read {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
    }
    thread::sleep(Duration::from_millis(1));
    is_connected
}
