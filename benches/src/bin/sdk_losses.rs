//! Prints what programs lose that have our client library and configure nothing, recorded by `ferretto record -- PROGRAM`; beside them
//! programs with upstream's library, recorded into a file by upstream's service with the same buffers.
//!
//! The program is the example `flood` of our library; upstream's is `upstream-client` (`tests/upstream-client`, built with `--release`),
//! without which there are only our figures.
//!
//! ```sh
//! cargo build --release -p ferretto-cli && cargo build --release -p ferretto --example flood
//! FERRETTO_UPSTREAM_CLIENT=…/release/upstream-client cargo run --release -p ferretto-benches --bin sdk_losses -- 10
//! ```

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferretto_benches::example;
use ferretto_interop::{Maker, Peers, World, both, config, ferretto, upstream_client, wait_for_end};
use ferretto_protos::fields::{trace, trace_packet};
use ferretto_protozero::read::Fields;

/// Runs of each case, unless the first argument says otherwise; the second one picks a case.
const RUNS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(100);

/// What `record` asks for, as far as programs are concerned.
const CONFIG: &str = r#"
    buffers { size_kb: 65536 }
    data_sources { config { name: "track_event" track_event_config { enabled_categories: "*" } } }
    write_into_file: true
    file_write_period_ms: 1000
    flush_period_ms: 5000
"#;

struct Case {
    name: &'static str,
    /// Of the example `flood`.
    ours: &'static str,
    /// Of `upstream-client`: events of a thread, seconds, events at once, threads.
    upstream: &'static str,
}

const CASES: [Case; 3] = [
    Case { name: "burst", ours: "--events 2000000", upstream: "2000000 0 1000 1" },
    Case { name: "two", ours: "--threads 2 --rate 3000000 --seconds 10", upstream: "30000000 10 3000 2" },
    Case { name: "fifty", ours: "--threads 50 --rate 8000 --seconds 22", upstream: "176000 22 8 50" },
];

/// Events of one run.
struct Outcome {
    written: u64,
    found: u64,
    /// What `record` said of it.
    words: String,
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let runs = args.next().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let only = args.next();
    let upstream = upstream_client().and_then(|_| both());
    if let Err(reason) = &upstream {
        println!("only our figures: {reason}");
    }
    for case in CASES.iter().filter(|case| only.as_ref().is_none_or(|only| only == case.name)) {
        for _ in 0..runs {
            print("ferretto", case, &through_record(&ferretto()?, case)?);
            if let Ok(peers) = &upstream {
                print("upstream", case, &through_upstream(peers, case)?);
            }
        }
    }
    Ok(())
}

fn print(maker: &str, case: &Case, outcome: &Outcome) {
    let lost = outcome.written.saturating_sub(outcome.found);
    let percent = lost as f64 * 100.0 / outcome.written.max(1) as f64;
    println!(
        "{:<6} {maker:<9} written {:>9} found {:>9} lost {lost:>8} ({percent:.2} %)  {}",
        case.name, outcome.written, outcome.found, outcome.words
    );
}

fn through_record(peers: &Peers, case: &Case) -> Result<Outcome, String> {
    let world = World::new();
    let mut command = peers.ferretto();
    let trace = world.path("trace");
    command.args(["record", "-o"]).arg(&trace).arg("--").arg(example("flood"));
    let finished = world.run(arguments(command, case.ours), TIMEOUT);
    if !finished.status.success() {
        return Err(finished.stderr);
    }
    let said = format!("{}{}", finished.stdout, finished.stderr);
    let words = said.lines().skip_while(|line| !line.starts_with("Lost")).collect::<Vec<_>>().join(" ");
    Ok(Outcome { written: written(&finished.stdout)?, found: events_in(&trace)?, words })
}

fn through_upstream(peers: &Peers, case: &Case) -> Result<Outcome, String> {
    let world = World::with_traced(peers, Maker::Upstream);
    let trace = world.path("trace");
    let mut client = world.spawn(arguments(upstream_client()?, case.upstream), "client");
    world.wait_for_data_source("track_event");
    let mut consumer = world.consumer();
    let file = File::create(&trace).map_err(|error| error.to_string())?;
    consumer.enable_tracing(config(CONFIG), Some(file.into())).map_err(|error| error.to_string())?;
    let status = client.wait(TIMEOUT).ok_or("the client hangs")?;
    if !status.success() {
        return Err(client.log());
    }
    consumer.disable().map_err(|error| error.to_string())?;
    if let Some(error) = wait_for_end(&mut consumer) {
        return Err(error);
    }
    Ok(Outcome { written: written(&client.log())?, found: events_in(&trace)?, words: String::new() })
}

fn arguments(mut command: Command, text: &str) -> Command {
    command.args(text.split_whitespace());
    command
}

/// The number after `events` in what a program printed.
fn written(printed: &str) -> Result<u64, String> {
    let line = printed.lines().find_map(|line| line.strip_prefix("events "));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("the program does not say what it wrote: {printed}"))
}

/// The track events of a trace, which may be larger than memory.
fn events_in(trace: &Path) -> Result<u64, String> {
    let file = File::open(trace).map_err(|error| error.to_string())?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut packet, mut events) = (Vec::new(), 0);
    while let Some(tag) = varint(&mut reader) {
        if tag != u64::from(trace::PACKET << 3 | 2) {
            return Err("the file is no trace".to_owned());
        }
        let len = varint(&mut reader).ok_or("the file ends within a packet")?;
        packet.resize(usize::try_from(len).map_err(|error| error.to_string())?, 0);
        reader.read_exact(&mut packet).map_err(|error| error.to_string())?;
        let is_event = Fields::new(&packet).flatten().any(|field| field.number == trace_packet::TRACK_EVENT);
        events += u64::from(is_event);
    }
    Ok(events)
}

fn varint(reader: &mut impl Read) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        reader.read_exact(&mut byte).ok()?;
        let [byte] = byte;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
