//! Writes events as fast as it can through the system's tracing service, and records them into a file.
//!
//!     ferretto traced &
//!     cargo run --release -p ferretto --example flood -- --threads 1 --seconds 10 --out flood.pftrace
//!
//!     ferretto record -- flood --events 2000000
//!     ferretto record -- flood --threads 2 --rate 3000000 --seconds 10
//!
//! Prints `events COUNT seconds ELAPSED`. In the first form threads wait for the service when the shared memory is full, as the session's config asks for,
//! so none is lost. `--check` reads the file again, counts, and prints `bytes N`: what an event takes in it, before the service adds whose it
//! is. With `--events` (of each thread, without a pause) or `--rate` (a second and thread) somebody else records, and how much of it is
//! recorded is for `benches/src/bin/sdk_losses.rs` to say.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ferretto_consumer::{Consumer, Event};
use ferretto_protos::fields::{trace, trace_packet};
use ferretto_protos::text::parse_trace_config;
use ferretto_protozero::read::Fields;

ferretto::categories! {
    static CATEGORIES = { FLOOD = "flood", "As many as possible"; }
}

/// The service empties its buffer into the file by itself, but events come faster than they can be written: the buffer takes the others.
const CONFIG: &str = r#"
    buffers { size_kb: 2097152 }
    write_into_file: true
    file_write_period_ms: 100
    data_sources {
        config {
            name: "track_event"
            buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
            track_event_config { enabled_categories: "flood" disabled_categories: "*" }
        }
    }
"#;
const SHARED_MEMORY_BYTES: u32 = 4 * 1024 * 1024;
/// Events between two looks at the clock.
const BATCH: u64 = 1000;
/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at what a rate asks for.
const TICK: Duration = Duration::from_millis(1);
const USAGE: &str = "usage: flood [--threads N] [--seconds S] [--events N | --rate N | --out FILE [--check]]";

struct Options {
    threads: usize,
    seconds: f64,
    out: String,
    check: bool,
    load: Load,
}

/// What each thread writes.
#[derive(Clone, Copy)]
enum Load {
    /// As much as it can.
    Flood,
    /// So many events, as fast as it can.
    Events(u64),
    /// So many a second.
    Rate(u64),
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    if !matches!(options.load, Load::Flood) {
        return write_for_others(&options);
    }
    ferretto::builder("org.example.flood")
        .categories(CATEGORIES)
        .shared_memory_size(SHARED_MEMORY_BYTES)
        .init()?;
    let mut consumer = start(&options.out)?;
    let (events, elapsed) = write(&options);
    ferretto::flush(TIMEOUT);
    consumer.disable()?;
    while !matches!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { .. }) | None) {}
    println!("events {events} seconds {elapsed:.3}");
    if options.check {
        let found = Found::in_file(&options.out)?;
        if found.events != events {
            return Err(format!("the file holds {} of {events} events", found.events).into());
        }
        println!("bytes {:.2}", found.bytes as f64 / events.max(1) as f64);
    }
    Ok(())
}

/// Nothing is configured here: as programs are.
fn write_for_others(options: &Options) -> Result<(), Box<dyn Error>> {
    ferretto::builder("org.example.flood").categories(CATEGORIES).init()?;
    wait_for_session()?;
    let (events, elapsed) = write(options);
    ferretto::flush(TIMEOUT);
    println!("events {events} seconds {elapsed:.3}");
    Ok(())
}

/// Events and seconds.
fn write(options: &Options) -> (u64, f64) {
    let start = Instant::now();
    let until = start + Duration::from_secs_f64(options.seconds);
    let load = options.load;
    let run = move || match load {
        Load::Flood => flood(until),
        Load::Events(events) => emit(events),
        Load::Rate(rate) => keep_up(rate, start, until),
    };
    let threads: Vec<_> = (0..options.threads).map(|_| std::thread::spawn(run)).collect();
    let events = threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
    (events, start.elapsed().as_secs_f64())
}

fn options() -> Result<Options, Box<dyn Error>> {
    let out = "flood.pftrace".to_owned();
    let mut options = Options { threads: 1, seconds: 10.0, out, check: false, load: Load::Flood };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(USAGE);
        match arg.as_str() {
            "--threads" => options.threads = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--out" => options.out = value()?,
            "--events" => options.load = Load::Events(value()?.parse()?),
            "--rate" => options.load = Load::Rate(value()?.parse()?),
            "--check" => options.check = true,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

fn start(out: &str) -> Result<Consumer, Box<dyn Error>> {
    let mut consumer = Consumer::connect_default()?;
    // The service refuses a file that holds something.
    let file = OwnedFd::from(File::create(out)?);
    consumer.enable_tracing(parse_trace_config(CONFIG)?, Some(file))?;
    wait_for_session()?;
    Ok(consumer)
}

fn wait_for_session() -> Result<(), Box<dyn Error>> {
    let until = Instant::now() + TIMEOUT;
    while !FLOOD.is_enabled() {
        if Instant::now() > until {
            return Err("the service has not started the session".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn flood(until: Instant) -> u64 {
    let mut events = 0;
    while Instant::now() < until {
        events += emit(BATCH);
    }
    events
}

#[inline(always)]
fn emit(events: u64) -> u64 {
    for _ in 0..events {
        ferretto::instant!(FLOOD, "drop");
    }
    events
}

/// Whoever is late, as the machine had other things to do, catches up.
fn keep_up(rate: u64, start: Instant, until: Instant) -> u64 {
    let mut events = 0;
    loop {
        let now = Instant::now().min(until);
        let due = (now.duration_since(start).as_secs_f64() * rate as f64) as u64;
        events += emit(due.saturating_sub(events));
        if now == until {
            return events;
        }
        std::thread::sleep(TICK);
    }
}

/// The track events of a trace.
#[derive(Default)]
struct Found {
    events: u64,
    /// Of their packets, with the bytes before each that say how long it is, without what the service added.
    bytes: usize,
}

/// Whose an event is: what the service adds to each packet.
const TRUSTED_FIELDS: [u32; 3] =
    [trace_packet::TRUSTED_UID, trace_packet::TRUSTED_PACKET_SEQUENCE_ID, trace_packet::TRUSTED_PID];
/// The tag before a packet, and a length below 128.
const PREAMBLE_LEN: usize = 2;

impl Found {
    /// Looks for them without having all of the file in memory.
    fn in_file(file: &str) -> Result<Self, Box<dyn Error>> {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(file)?);
        let (mut packet, mut found) = (Vec::new(), Self::default());
        while let Some(tag) = varint(&mut reader)? {
            if tag != u64::from(trace::PACKET << 3 | 2) {
                return Err("the file is no trace".into());
            }
            let len = varint(&mut reader)?.ok_or("the file ends within a packet")?;
            packet.resize(usize::try_from(len)?, 0);
            reader.read_exact(&mut packet)?;
            found.add(&packet);
        }
        Ok(found)
    }

    fn add(&mut self, packet: &[u8]) {
        let fields = || Fields::new(packet).flatten();
        if fields().any(|field| field.number == trace_packet::TRACK_EVENT) {
            self.events += 1;
            let own = fields().filter(|field| !TRUSTED_FIELDS.contains(&field.number));
            self.bytes += PREAMBLE_LEN + own.map(|field| field.raw.len()).sum::<usize>();
        }
    }
}

fn varint(reader: &mut impl Read) -> Result<Option<u64>, Box<dyn Error>> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if reader.read(&mut byte)? == 0 {
            return Ok(None);
        }
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok(Some(value));
        }
    }
    Err("the file is no trace".into())
}
