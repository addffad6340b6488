//! Prints how long the service of each maker leaves others waiting while it clones a session with a full buffer of 256 MiB: the longest
//! time that a consumer, which asks all the while what the service can do, waits for its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_benches::{MAKERS, median};
use ferretto_consumer::Consumer;
use ferretto_interop::{Maker, Peers, World, both, config};
use ferretto_ipc::address::Address;
use ferretto_producer::{Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::{CloneSessionRequest, DataSourceDescriptor};

/// Services of each maker, and clones of each.
const RUNS: usize = 3;
const CLONES: usize = 3;
const PACKET_BYTES: usize = 500;
/// More than the buffer holds.
const WRITTEN_BYTES: u64 = 300 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
    buffers { size_kb: 262144 }
    data_sources { config { name: "much" } }
    unique_session_name: "much"
"#;

fn main() -> Result<(), String> {
    let peers = both()?;
    let mut waits = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for _ in 0..RUNS {
        for (maker, (stalls, clones)) in MAKERS.into_iter().zip(&mut waits) {
            for (stall, clone) in measure(&peers, maker)? {
                stalls.push(stall);
                clones.push(clone);
            }
        }
    }
    println!("{:<10} {:>12} {:>12} {:>12}", "traced", "stall ms", "longest ms", "clone ms");
    let ms = |ns: u64| ns as f64 / 1e6;
    for (maker, (stalls, clones)) in MAKERS.into_iter().zip(waits) {
        println!(
            "{:<10} {:>12.1} {:>12.1} {:>12.1}",
            format!("{maker:?}").to_lowercase(),
            ms(median(stalls.clone())),
            ms(stalls.into_iter().max().unwrap_or_default()),
            ms(median(clones)),
        );
    }
    Ok(())
}

/// For each clone the longest wait of somebody else, and how long it took, in nanoseconds.
fn measure(peers: &Peers, maker: Maker) -> Result<Vec<(u64, u64)>, String> {
    let world = World::with_traced(peers, maker);
    let mut options = ProducerOptions::new("much");
    options.connector = Connector::Address(Address::Path(world.producer_socket()));
    options.shm_size_hint_bytes = 4 * 1024 * 1024;
    let client = ProducerClient::new(options).map_err(|error| error.to_string())?;
    let (written, is_written) = channel();
    thread::spawn(move || produce(client, &written));
    world.wait_for_data_source("much");
    let mut session = world.consumer();
    session.enable_tracing(config(CONFIG), None).map_err(|error| error.to_string())?;
    is_written.recv_timeout(TIMEOUT).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for _ in 0..CLONES {
        let mut other = world.consumer();
        let mut cloner = world.consumer();
        let is_done = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let longest = scope.spawn(|| longest_wait(&mut other, &is_done));
            thread::sleep(Duration::from_millis(50));
            let start = Instant::now();
            let request = CloneSessionRequest {
                selector: Some(Selector::UniqueSessionName("much".to_owned())),
                ..Default::default()
            };
            let cloned = cloner.clone_session(&request, None);
            let took = start.elapsed();
            is_done.store(true, Ordering::Relaxed);
            let longest = longest.join().map_err(|_| "a thread died".to_owned())??;
            let cloned = cloned.map_err(|error| error.to_string())?;
            if !cloned.success() {
                return Err(cloned.error().to_owned());
            }
            Ok((longest.as_nanos() as u64, took.as_nanos() as u64))
        })?;
        found.push(result);
        cloner.free().map_err(|error| error.to_string())?;
    }
    Ok(found)
}

fn longest_wait(consumer: &mut Consumer, is_done: &AtomicBool) -> Result<Duration, String> {
    let mut longest = Duration::ZERO;
    while !is_done.load(Ordering::Relaxed) {
        let start = Instant::now();
        consumer.query_capabilities().map_err(|error| error.to_string())?;
        longest = longest.max(start.elapsed());
        thread::sleep(Duration::from_micros(100));
    }
    Ok(longest)
}

/// Fills the buffer as soon as it is started, tells, and goes on to answer the service.
fn produce(mut client: ProducerClient, written: &Sender<()>) {
    client
        .register_data_source(&DataSourceDescriptor { name: Some("much".to_owned()), ..Default::default() });
    let mut writer = None;
    while client.wait(None, &[]).is_ok() {
        while let Some(event) = client.next_event() {
            match event {
                ProducerEvent::Start { config, .. } => {
                    let mut new = client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Stall);
                    while new.written_bytes() < WRITTEN_BYTES {
                        let mut packet = new.new_packet();
                        packet
                            .nested(trace_packet::FOR_TESTING)
                            .bytes(test_event::STR, &[b'x'; PACKET_BYTES]);
                    }
                    new.flush();
                    writer = Some(new);
                    if written.send(()).is_err() {
                        return;
                    }
                }
                ProducerEvent::Flush { request_id, .. } => client.notify_flush_complete(request_id),
                ProducerEvent::Disconnected { .. } => return drop(writer),
                _ => {}
            }
        }
    }
}
