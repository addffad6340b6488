//! `kill -9` of the service while it writes a trace into a file: every file can be read, and nothing that was in it is gone.
//!
//! Each run has a service, a producer that writes numbered packets all the time, and a session that is written into a file every 100 ms;
//! the service is killed at an instant that looks random. What the file held just before must stand in it afterwards; it must consist of
//! whole packets, with at most one torn packet at the end; and the numbers of each sequence must follow each other, but where a packet
//! says that others before it were lost.
//!
//! `cargo test` kills 24 times. `FERRETTO_KILLS=1000` says how often, `FERRETTO_KILLS_SEED` with which seed, and `FERRETTO_KILLS_KEEP`
//! names a folder that gets all the files with a torn end, to be opened with other programs; with `-- --nocapture` there are figures.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Place, wait_until};
use ferretto_consumer::{Consumer, write_packet};
use ferretto_ipc::address::Address;
use ferretto_producer::{
    Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions, TraceWriter,
};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{DataSourceDescriptor, TracePacket};
use ferretto_protozero::varint;
use flate2::read::ZlibDecoder;
use prost::Message;

const KILLS_ENV: &str = "FERRETTO_KILLS";
const SEED_ENV: &str = "FERRETTO_KILLS_SEED";
const KEEP_ENV: &str = "FERRETTO_KILLS_KEEP";
const DEFAULT_KILLS: usize = 24;
const DEFAULT_SEED: u64 = 1;
/// Services at once: most of a run is waiting.
const RUNS_AT_ONCE: usize = 6;

/// The sequences of the producer.
const WRITERS: usize = 2;
/// The producer writes this often.
const TICK: Duration = Duration::from_millis(2);
/// `Trace.packet`: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;

#[test]
fn what_was_in_the_file_survives_kill_9() {
    let kills = number_from_env(KILLS_ENV).map_or(DEFAULT_KILLS, |kills| kills as usize);
    let seed = number_from_env(SEED_ENV).unwrap_or(DEFAULT_SEED);
    println!("{kills} kills with {SEED_ENV}={seed}");
    let next = AtomicUsize::new(0);
    let mut totals = Totals::default();
    std::thread::scope(|scope| {
        let work = || {
            let mut totals = Totals::default();
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= kills {
                    return totals;
                }
                totals.add(&kill_once(&Plan::new(seed, run)));
            }
        };
        let workers: Vec<_> = (0..RUNS_AT_ONCE).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            totals.merge(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("{totals:?}");
    assert_eq!(totals.runs, kills);
    assert!(totals.numbered > 0, "no file has a packet of the producer: nothing was tested");
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// When the service is killed.
#[derive(Debug, Clone, Copy)]
enum KillAfter {
    /// This long after the session was asked for.
    Start(Duration),
    /// This long after the file was seen to grow for the nth time: in the middle of a write, if it is a long one.
    Growth(u32, Duration),
    /// This long after the file was seen to hold what the service had acknowledged.
    Acknowledgement(Duration),
}

/// What a run is like.
#[derive(Debug)]
struct Plan {
    run: usize,
    kill: KillAfter,
    /// The config's `compression_type: COMPRESSION_TYPE_DEFLATE`.
    is_compressed: bool,
    max_file_bytes: Option<u64>,
    /// A small ring overwrites what comes between two writes.
    ring_kb: u32,
    /// The longest text of a packet.
    text_bytes: u64,
    /// Packets of each sequence in a tick.
    burst: u64,
    /// The service makes the file (`output_path`), instead of the consumer.
    is_made_by_service: bool,
}

impl Plan {
    fn new(seed: u64, run: usize) -> Self {
        let mut numbers = Numbers::of_run(seed, run);
        let (text_bytes, burst) = [(100, 20), (2_000, 5), (60_000, 1)][numbers.below(3) as usize];
        let max_file_bytes = (numbers.below(6) == 0).then(|| 4096 + numbers.below(512 * 1024));
        let kill = match numbers.below(4) {
            0 | 1 => KillAfter::Start(Duration::from_micros(numbers.below(600_000))),
            // A full file grows no more.
            2 if max_file_bytes.is_none() => {
                KillAfter::Acknowledgement(Duration::from_micros(numbers.below(200_000)))
            }
            _ => {
                let nth = if max_file_bytes.is_some() { 1 } else { 1 + numbers.below(3) as u32 };
                KillAfter::Growth(nth, Duration::from_micros(numbers.below(1_000)))
            }
        };
        Self {
            run,
            kill,
            is_compressed: numbers.below(4) == 0,
            max_file_bytes,
            ring_kb: [128, 4096, 16384][numbers.below(3) as usize],
            text_bytes,
            burst,
            is_made_by_service: numbers.below(2) == 0,
        }
    }

    fn config(&self, path: &Path) -> Vec<u8> {
        let mut text = format!(
            "buffers {{ size_kb: {} }} data_sources {{ config {{ name: \"numbers\" }} }} write_into_file: true \
             file_write_period_ms: 100",
            self.ring_kb
        );
        if self.is_compressed {
            text.push_str(" compression_type: COMPRESSION_TYPE_DEFLATE");
        }
        if let Some(bytes) = self.max_file_bytes {
            text.push_str(&format!(" max_file_size_bytes: {bytes}"));
        }
        if self.is_made_by_service {
            text.push_str(&format!(" output_path: \"{}\"", path.display()));
        }
        ferretto_protos::text::parse_trace_config(&text).unwrap()
    }
}

/// Numbers that look random and are the same in each run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn of_run(seed: u64, run: usize) -> Self {
        let mut numbers = Self(((seed << 32) ^ run as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first few resemble those of the neighbours.
        for _ in 0..8 {
            numbers.below(1);
        }
        numbers
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A service that does not outlive its run. Killing it twice does nothing: its process id may be another's by then.
struct Service(Child);

impl Service {
    fn start(place: &Place) -> Self {
        let service = Self(place.ferretto(&["traced"]).stderr(Stdio::null()).spawn().unwrap());
        let socket = place.path("consumer.sock");
        wait_until("the service listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        service
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The counts of acknowledged packets, by sequence.
type Acknowledged = [AtomicU64; WRITERS];

fn kill_once(plan: &Plan) -> Found {
    let place = Place::new();
    let path = place.path("trace");
    let mut service = Service::start(&place);
    let ends = AtomicBool::new(false);
    let acknowledged = Acknowledged::default();
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| produce(address(&place, "producer.sock"), plan, &acknowledged, &ends));
        // However this ends, so does the producer.
        let _end = SetOnDrop(&ends);
        let mut consumer = Consumer::connect(&address(&place, "consumer.sock")).unwrap();
        let file = (!plan.is_made_by_service).then(|| File::create(&path).unwrap().into());
        consumer.enable_tracing(plan.config(&path), file).unwrap();
        wait_for_instant(plan, &path, &acknowledged);
        let before = read_if_there(&path);
        service.kill();
        (before, read_if_there(&path))
    });
    let found = check(&before, &after, plan.max_file_bytes);
    match &found {
        Err(_) => keep(&path, Path::new(env!("CARGO_TARGET_TMPDIR")), plan),
        Ok(found) if found.torn_bytes > 0 => {
            std::env::var_os(KEEP_ENV).iter().for_each(|folder| keep(&path, Path::new(folder), plan));
        }
        Ok(_) => {}
    }
    found.unwrap_or_else(|error| panic!("{error}; {plan:?}"))
}

fn address(place: &Place, socket: &str) -> Address {
    place.path(socket).to_str().unwrap().parse().unwrap()
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The file's bytes. One that the service was to make may not be there yet.
fn read_if_there(path: &Path) -> Vec<u8> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read.unwrap(),
    }
}

fn keep(path: &Path, folder: &Path, plan: &Plan) {
    let kept: PathBuf = folder.join(format!("killed-{}.pftrace", plan.run));
    match std::fs::copy(path, &kept) {
        Ok(_) => println!("kept {}", kept.display()),
        Err(error) => println!("could not keep {}: {error}", kept.display()),
    }
}

fn wait_for_instant(plan: &Plan, path: &Path, acknowledged: &Acknowledged) {
    match plan.kill {
        KillAfter::Start(delay) => std::thread::sleep(delay),
        KillAfter::Growth(nth, delay) => {
            let mut len = 0;
            for _ in 0..nth {
                len = wait_for_growth(path, len);
            }
            let until = Instant::now() + delay;
            // A sleep would be too coarse.
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        KillAfter::Acknowledgement(delay) => {
            let counts = || acknowledged.each_ref().map(|count| count.load(Ordering::Relaxed));
            wait_until("the service acknowledges packets", || !counts().contains(&0));
            let counts = counts();
            wait_until("the file holds what was acknowledged", || {
                let found = check(&[], &read_if_there(path), None).unwrap();
                (0..WRITERS)
                    .all(|writer| found.counts.get(&writer).is_some_and(|count| *count >= counts[writer]))
            });
            std::thread::sleep(delay);
        }
    }
}

fn wait_for_growth(path: &Path, from: u64) -> u64 {
    /// For a loaded machine.
    const PATIENCE: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        if len > from {
            return len;
        }
        assert!(Instant::now() < deadline, "waited in vain until the file grows beyond {from} bytes");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Writes numbered packets, and says which of them the service has acknowledged.
fn produce(address: Address, plan: &Plan, acknowledged: &Acknowledged, ends: &AtomicBool) {
    let mut options = ProducerOptions::new("org.example.numbers");
    options.connector = Connector::Address(address);
    options.shm_size_hint_bytes = 2 * 1024 * 1024;
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&DataSourceDescriptor { name: Some("numbers".into()), ..Default::default() });
    let mut writers: Vec<TraceWriter> = Vec::new();
    let mut counts = [0; WRITERS];
    let mut asked_for = None;
    while !ends.load(Ordering::Relaxed) {
        client.wait(Some(TICK), &[]).unwrap();
        while let Some(event) = client.next_event() {
            match event {
                ProducerEvent::Start { instance, config, .. } => {
                    let target = u16::try_from(config.target_buffer()).unwrap();
                    writers.resize_with(WRITERS, || client.create_writer(target, ExhaustedPolicy::Drop));
                    client.notify_started(instance);
                }
                ProducerEvent::Stop { instance } => {
                    writers.clear();
                    client.notify_stopped(instance);
                }
                ProducerEvent::Flush { request_id, .. } => {
                    writers.iter_mut().for_each(TraceWriter::flush);
                    client.notify_flush_complete(request_id);
                }
                ProducerEvent::Synced => {
                    let synced: [u64; WRITERS] = asked_for.take().unwrap();
                    for (count, synced) in acknowledged.iter().zip(synced) {
                        count.store(synced, Ordering::Relaxed);
                    }
                }
                _ => {}
            }
        }
        for (index, writer) in writers.iter_mut().enumerate() {
            for _ in 0..plan.burst {
                write_numbered(writer, index, counts[index], plan.text_bytes);
                counts[index] += 1;
            }
        }
        if asked_for.is_none() && !writers.is_empty() {
            writers.iter_mut().for_each(TraceWriter::flush);
            asked_for = client.sync().then_some(counts);
        }
    }
}

fn write_numbered(writer: &mut TraceWriter, index: usize, number: u64, text_bytes: u64) {
    let mut packet = writer.new_packet();
    packet.varint(trace_packet::TIMESTAMP, number + 1);
    let mut event = packet.nested(trace_packet::FOR_TESTING);
    event.varint(test_event::SEQ_VALUE, index as u64);
    event.varint(test_event::COUNTER, number);
    let len = Numbers::of_run(index as u64, number as usize).below(text_bytes);
    event.string(test_event::STR, text(number, len as usize));
}

/// The text of a packet: each has another, and not one that compresses well.
fn text(number: u64, len: usize) -> &'static str {
    /// A prime.
    const STARTS: u64 = 9973;
    static LETTERS: LazyLock<String> = LazyLock::new(|| {
        let mut numbers = Numbers::of_run(0, 0);
        (0..80_000).map(|_| char::from(b'0' + numbers.below(64) as u8)).collect()
    });
    let start = (number % STARTS) as usize;
    &LETTERS[start..start + len]
}

/// What is in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    bytes: usize,
    packets: usize,
    /// Those of the producer.
    numbered: usize,
    /// By sequence: one more than the last number.
    counts: BTreeMap<usize, u64>,
    /// Losses that a packet announced.
    gaps: usize,
    /// The part of a packet at the end.
    torn_bytes: usize,
}

#[derive(Debug, Default)]
#[allow(dead_code, reason = "shown")]
struct Totals {
    runs: usize,
    empty_files: usize,
    torn_files: usize,
    bytes: usize,
    packets: usize,
    numbered: usize,
    gaps: usize,
}

impl Totals {
    fn add(&mut self, found: &Found) {
        self.merge(Self {
            runs: 1,
            empty_files: usize::from(found.bytes == 0),
            torn_files: usize::from(found.torn_bytes > 0),
            bytes: found.bytes,
            packets: found.packets,
            numbered: found.numbered,
            gaps: found.gaps,
        });
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.empty_files += other.empty_files;
        self.torn_files += other.torn_files;
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.numbered += other.numbered;
        self.gaps += other.gaps;
    }
}

/// Says what is in the file, or what is wrong with it.
fn check(before: &[u8], after: &[u8], max_bytes: Option<u64>) -> Result<Found, String> {
    if !after.starts_with(before) {
        return Err("what the file held before the kill is not what it holds after it".to_owned());
    }
    if max_bytes.is_some_and(|max| after.len() as u64 > max) {
        return Err(format!("{} bytes, and at most {max_bytes:?} were asked for", after.len()));
    }
    let (packets, torn_bytes) = split(after)?;
    let mut found = Found { bytes: after.len(), packets: packets.len(), torn_bytes, ..Default::default() };
    for packet in packets {
        found.take(&packet)?;
    }
    Ok(found)
}

/// The whole packets at the start, and the bytes of the torn one behind them.
fn split(mut bytes: &[u8]) -> Result<(Vec<TracePacket>, usize), String> {
    let mut packets = Vec::new();
    while let Some((tag, rest)) = bytes.split_first() {
        if *tag != PACKET_TAG {
            return Err(format!("behind {} packets stands a byte {tag:#04x}", packets.len()));
        }
        let Some((len, len_bytes)) = varint::decode(rest) else { break };
        let Some(packet) = rest.get(len_bytes..len_bytes + len as usize) else { break };
        let packet =
            TracePacket::decode(packet).map_err(|error| format!("packet {}: {error}", packets.len()))?;
        packets.push(packet);
        bytes = &rest[len_bytes + len as usize..];
    }
    Ok((packets, bytes.len()))
}

impl Found {
    fn take(&mut self, packet: &TracePacket) -> Result<(), String> {
        match &packet.data {
            Some(Data::CompressedPackets(batch)) => {
                let mut bytes = Vec::new();
                ZlibDecoder::new(batch.as_ref())
                    .read_to_end(&mut bytes)
                    .map_err(|error| format!("a compressed packet: {error}"))?;
                let (packets, torn_bytes) = split(&bytes)?;
                if torn_bytes > 0 {
                    return Err("a packet is torn within a compressed one".to_owned());
                }
                packets.iter().try_for_each(|packet| self.take(packet))
            }
            Some(Data::ForTesting(event)) => {
                let (sequence, number) = (event.seq_value() as usize, event.counter());
                if event.str() != text(number, event.str().len()) {
                    return Err(format!("packet {number} of sequence {sequence} has the text of another"));
                }
                let expected = self.counts.insert(sequence, number + 1).unwrap_or(0);
                let is_announced = packet.previous_packet_dropped() > 0;
                if number < expected || (number > expected && !is_announced) {
                    return Err(format!("sequence {sequence}: packet {number} where {expected} should be"));
                }
                self.gaps += usize::from(number > expected);
                self.numbered += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A file of one sequence with packets of these numbers; those that are not 0 in the second place announce a loss.
fn file_of(numbers: &[(u64, u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, dropped) in numbers {
        let event = ferretto_protos::TestEvent {
            counter: Some(*number),
            str: Some(text(*number, 10).to_owned()),
            ..Default::default()
        };
        let packet = TracePacket {
            previous_packet_dropped: (*dropped > 0).then_some(*dropped),
            data: Some(Data::ForTesting(event)),
            ..Default::default()
        };
        write_packet(&mut file, &packet.encode_to_vec()).unwrap();
    }
    file
}

#[test]
fn a_damaged_file_is_found_out() {
    let good = file_of(&[(0, 0), (1, 0), (4, 1), (5, 0)]);
    let found = check(&good[..50], &good, None).unwrap();
    assert_eq!((found.numbered, found.gaps, found.torn_bytes), (4, 1, 0));
    let packet_bytes = good.len() / 4;
    let found = check(&[], &good[..good.len() - 3], None).unwrap();
    assert!(found.numbered == 3 && found.torn_bytes > 0, "{found:?}");

    let hole = [&good[..packet_bytes + 5], &good[2 * packet_bytes..]].concat();
    let zeros = [&good[..], &[0; 8]].concat();
    let wrong = [
        ("a gap", file_of(&[(0, 0), (2, 0)])),
        ("the first is missing", file_of(&[(1, 0)])),
        ("twice", file_of(&[(0, 0), (1, 0), (1, 1)])),
        ("the wrong order", file_of(&[(1, 1), (0, 1)])),
        ("a hole", hole),
        ("zeros at the end", zeros),
    ];
    for (what, file) in wrong {
        assert!(check(&[], &file, None).is_err(), "{what}");
    }
    assert!(check(&good, &good[..good.len() - 1], None).is_err(), "shorter than before");
    assert!(check(&[], &good, Some(10)).is_err(), "too large");
}
