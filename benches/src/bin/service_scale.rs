//! Prints what a thousand producers cost the service of each maker: memory, and the time that a consumer waits to be told of their ten
//! thousand data sources. Each producer brings shared memory of its own, of which nobody has written a page.
//!
//! Upstream's service (v56) answers this query with a frame that is longer than the protocol allows: then there is no time to print.

use std::time::{Duration, Instant};

use ferretto_benches::{MAKERS, median, resident_kib};
use ferretto_consumer::Consumer;
use ferretto_interop::{Maker, Peers, World, both};
use ferretto_ipc::address::Address;
use ferretto_producer::{Connector, ProducerClient, ProducerOptions, SharedMemorySource};
use ferretto_protos::DataSourceDescriptor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const PRODUCERS: usize = 1000;
const SOURCES_EACH: usize = 10;
const QUERIES: usize = 21;
const TIMEOUT: Duration = Duration::from_secs(60);
const SETTLE_TIME: Duration = Duration::from_secs(3);

fn main() -> Result<(), String> {
    let peers = both()?;
    // Each connection costs both sides some descriptors. The services inherit the limit.
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(|error| error.to_string())?;
    println!(
        "{:<10} {:>10} {:>14} {:>14} {:>14} {:>10}",
        "traced", "idle KiB", "connected KiB", "anonymous KiB", "KiB a producer", "query ms"
    );
    for maker in MAKERS {
        measure(&peers, maker)?;
    }
    Ok(())
}

fn measure(peers: &Peers, maker: Maker) -> Result<(), String> {
    let mut world = World::with_traced(peers, maker);
    let pid = world.daemons().first().ok_or("no service")?.pid();
    let (idle, _) = resident_kib(pid);
    let clients = connect_all(&world)?;
    let (resident, anonymous) = resident_kib(pid);
    let mut consumer = world.consumer();
    let query = match query_time_ns(&mut consumer) {
        Ok(ns) => format!("{:.2}", ns as f64 / 1e6),
        Err(error) => format!("none: {error}"),
    };
    println!(
        "{:<10} {idle:>10} {resident:>14} {anonymous:>14} {:>14.1} {query:>10}",
        format!("{maker:?}").to_lowercase(),
        resident.saturating_sub(idle) as f64 / PRODUCERS as f64,
    );
    drop(clients);
    Ok(())
}

fn query_time_ns(consumer: &mut Consumer) -> Result<u64, String> {
    let mut waits = Vec::new();
    for _ in 0..QUERIES {
        let start = Instant::now();
        consumer.query_service_state(false).map_err(|error| error.to_string())?;
        waits.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(median(waits))
}

/// Returns when the service knows all producers and all their data sources, or cannot say what it knows.
fn connect_all(world: &World) -> Result<Vec<ProducerClient>, String> {
    let mut clients = Vec::new();
    let start = Instant::now();
    for number in 0..PRODUCERS {
        let mut options = ProducerOptions::new(format!("org.example.producer{number}"));
        options.connector = Connector::Address(Address::Path(world.producer_socket()));
        options.shared_memory = SharedMemorySource::Producer;
        let mut client = ProducerClient::new(options).map_err(|error| error.to_string())?;
        for source in 0..SOURCES_EACH {
            let name = Some(format!("org.example.source{number}.{source}"));
            client.register_data_source(&DataSourceDescriptor { name, ..Default::default() });
        }
        client.process();
        clients.push(client);
    }
    let mut consumer = world.consumer();
    loop {
        for client in &mut clients {
            client.process();
            while client.next_event().is_some() {}
        }
        let Ok(state) = consumer.query_service_state(false) else {
            settle(&mut clients);
            return Ok(clients);
        };
        if state.producers.len() >= PRODUCERS && state.data_sources.len() >= PRODUCERS * SOURCES_EACH {
            return Ok(clients);
        }
        if start.elapsed() > TIMEOUT {
            return Err(format!(
                "only {} producers with {} data sources are connected\n{}",
                state.producers.len(),
                state.data_sources.len(),
                world.logs()
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Gives all that was sent time to arrive.
fn settle(clients: &mut [ProducerClient]) {
    let start = Instant::now();
    while start.elapsed() < SETTLE_TIME {
        for client in clients.iter_mut() {
            client.process();
            while client.next_event().is_some() {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
