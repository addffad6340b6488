//! Prints the processor time that the service of each maker spends on a trace from upstream's own client: taking it in, and reading
//! it back over a socket or writing it into a file, in turn; and how many of the client's events are not in that trace. Needs
//! `FERRETTO_UPSTREAM_CLIENT`, but no root.

use std::fs::File;
use std::time::Duration;

use ferretto_benches::{MAKERS, cpu_ns, median};
use ferretto_consumer::{Consumer, Event};
use ferretto_interop::{Maker, Peers, World, both, config, upstream_client};
use ferretto_protos::fields::{trace, trace_packet};
use ferretto_protozero::read::Fields;

/// Runs of each, unless the first argument says otherwise.
const RUNS: usize = 5;
const EVENTS: u64 = 2_000_000;
/// The client does not pause.
const SECONDS: &str = "0";
const BURST: &str = "1000";
const TIMEOUT: Duration = Duration::from_secs(60);

const SOCKET: &str = r#"
    buffers { size_kb: 262144 fill_policy: DISCARD }
    data_sources { config { name: "track_event" track_event_config {
        enabled_categories: "upstream.client" disabled_categories: "*"
    } } }
"#;

const FILE: &str = r#"
    buffers { size_kb: 65536 }
    data_sources { config { name: "track_event" track_event_config {
        enabled_categories: "upstream.client" disabled_categories: "*"
    } } }
    write_into_file: true
    file_write_period_ms: 500
"#;

/// What one recording cost, and how much of it there was.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    taking_in_ns: u64,
    reading_ns: u64,
    bytes: u64,
    packets: u64,
    /// What the client wrote and the trace does not hold.
    lost: u64,
}

impl Cost {
    /// Another packet of the trace.
    fn add(&mut self, packet: &[u8]) {
        self.packets += 1;
        let is_event = |field: &u32| *field == trace_packet::TRACK_EVENT;
        self.lost -= u64::from(Fields::new(packet).flatten().any(|field| is_event(&field.number)));
    }

    fn total_ns(&self) -> u64 {
        self.taking_in_ns + self.reading_ns
    }

    /// Nanoseconds a byte are seconds a GB.
    fn seconds_a_gb(&self) -> f64 {
        self.total_ns() as f64 / self.bytes.max(1) as f64
    }
}

fn main() -> Result<(), String> {
    let peers = both()?;
    upstream_client()?;
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    for (name, text) in [("socket", SOCKET), ("file", FILE)] {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            for (maker, costs) in MAKERS.into_iter().zip(&mut costs) {
                costs.push(run(&peers, maker, text)?);
            }
        }
        print_table(name, &costs);
    }
    Ok(())
}

fn print_table(name: &str, costs: &[Vec<Cost>; 2]) {
    println!(
        "{name:<10} {:>8} {:>10} {:>12} {:>12} {:>12} {:>8} {:>8}  lost % of each run",
        "MB", "packets", "take in ms", "read ms", "ns a packet", "s a GB", "lost %"
    );
    let mut ratios = Vec::new();
    for (maker, costs) in MAKERS.into_iter().zip(costs) {
        let middle = |value: fn(&Cost) -> u64| median(costs.iter().map(value).collect());
        let total = middle(Cost::total_ns);
        let cost = Cost {
            taking_in_ns: middle(|cost| cost.taking_in_ns),
            reading_ns: middle(|cost| cost.reading_ns),
            bytes: middle(|cost| cost.bytes),
            packets: middle(|cost| cost.packets),
            lost: middle(|cost| cost.lost),
        };
        let percent = |lost: u64| lost as f64 * 100.0 / EVENTS as f64;
        let each: Vec<String> = costs.iter().map(|cost| format!("{:.1}", percent(cost.lost))).collect();
        let a_gb = median(costs.iter().map(|cost| (cost.seconds_a_gb() * 1e6) as u64).collect()) as f64 / 1e6;
        println!(
            "{:<10} {:>8.1} {:>10} {:>12.1} {:>12.1} {:>12} {:>8.2} {:>8.2}  {}",
            format!("{maker:?}").to_lowercase(),
            cost.bytes as f64 / 1e6,
            cost.packets,
            cost.taking_in_ns as f64 / 1e6,
            cost.reading_ns as f64 / 1e6,
            total / cost.packets.max(1),
            a_gb,
            percent(cost.lost),
            each.join(" "),
        );
        ratios.push(a_gb);
    }
    println!(
        "ratio {:.2} (processor time a GB, ours to upstream's, medians of {})\n",
        ratios[0] / ratios[1],
        costs[0].len()
    );
}

/// One recording with a service of its own.
fn run(peers: &Peers, maker: Maker, text: &str) -> Result<Cost, String> {
    let mut world = World::with_traced(peers, maker);
    let mut command = upstream_client()?;
    command.args([&EVENTS.to_string(), SECONDS, BURST]);
    let mut client = world.spawn(command, "client");
    world.wait_for_data_source("track_event");
    let pid = world.daemons().first().ok_or("no service")?.pid();
    let trace = world.path("trace");
    let file = (text == FILE).then(|| File::create(&trace)).transpose().map_err(|error| error.to_string())?;
    let mut consumer = world.consumer();

    let start = cpu_ns(pid);
    consumer.enable_tracing(config(text), file.map(Into::into)).map_err(|error| error.to_string())?;
    let status = client.wait(TIMEOUT).ok_or("the client hangs")?;
    if !status.success() {
        return Err(client.log());
    }
    stop(&mut consumer)?;
    let taken_in = cpu_ns(pid);
    let mut cost = Cost { taking_in_ns: taken_in - start, lost: EVENTS, ..Cost::default() };
    if text == FILE {
        let bytes = std::fs::read(trace).map_err(|error| error.to_string())?;
        cost.bytes = bytes.len() as u64;
        let packets = Fields::new(&bytes).flatten().filter(|field| field.number == trace::PACKET);
        packets.filter_map(|field| field.value.as_bytes()).for_each(|packet| cost.add(packet));
        return Ok(cost);
    }
    let read = |packet: &[u8]| {
        cost.bytes += packet.len() as u64;
        cost.add(packet);
        Ok(())
    };
    consumer.read_buffers(read).map_err(|error| error.to_string())?;
    cost.reading_ns = cpu_ns(pid) - taken_in;
    Ok(cost)
}

fn stop(consumer: &mut Consumer) -> Result<(), String> {
    consumer.flush(TIMEOUT, 0).map_err(|error| error.to_string())?;
    consumer.disable().map_err(|error| error.to_string())?;
    loop {
        match consumer.poll(Some(TIMEOUT)) {
            Some(Event::TracingDisabled { error: None }) => return Ok(()),
            Some(Event::TracingDisabled { error: Some(error) }) => return Err(error),
            Some(_) => {}
            None => return Err("the session does not end".to_owned()),
        }
    }
}
