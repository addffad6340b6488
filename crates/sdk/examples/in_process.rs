//! A program that records itself: the tracing service runs on a thread of this process, and nobody else is needed.
//!
//!     cargo run -p ferretto --example in_process [FILE]

use std::error::Error;
use std::fs::File;
use std::time::Duration;

use ferretto::Connector;
use ferretto_consumer::{Consumer, Event, write_packet};
use ferretto_protos::text::parse_trace_config;
use ferretto_traced::in_process::{Host, HostOptions};

ferretto::categories! {
    static CATEGORIES = { WORK = "example.work", "What this example does"; }
}

const CONFIG: &str = r#"
    buffers { size_kb: 1024 }
    data_sources { config { name: "track_event" } }
"#;
/// Far more than it takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "in_process.pftrace".to_owned());
    let packets = record(&file)?;
    println!("wrote {packets} packets into {file}: open it in https://ui.perfetto.dev");
    Ok(())
}

/// Records some work into a file, and says how many packets that gave.
fn record(file: &str) -> Result<u64, Box<dyn Error>> {
    // No sockets: producer and consumer are connected to the service directly.
    let host = Host::spawn(HostOptions::default())?;
    let connector = Connector::Stream(host.connect_producer()?);
    ferretto::builder("org.example.in-process").categories(CATEGORIES).connector(connector).init()?;
    let mut consumer = Consumer::over(host.connect_consumer()?)?;

    consumer.enable_tracing(parse_trace_config(CONFIG)?, None)?;
    // Another thread is told that it may trace now.
    while !WORK.is_enabled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    work();
    ferretto::flush(TIMEOUT);

    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    let mut out = File::create(file)?;
    let mut packets = 0;
    consumer.read_buffers(|packet| {
        packets += 1;
        write_packet(&mut out, packet)
    })?;
    Ok(packets)
}

fn work() {
    for round in 0..3 {
        ferretto::slice!(WORK, "round", round = round);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::Trace;
    use prost::Message;

    #[test]
    fn its_work_is_in_the_trace() {
        let file = std::env::temp_dir().join(format!("ferretto-in-process-{}.pftrace", std::process::id()));
        super::record(file.to_str().unwrap()).unwrap();
        let trace = Trace::decode(&*std::fs::read(&file).unwrap()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let events = trace
            .packet
            .iter()
            .filter(|packet| packet.encode_to_vec().windows(5).any(|name| name == b"round"));
        assert!(events.count() > 0, "{} packets", trace.packet.len());
    }
}
