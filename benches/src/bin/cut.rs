//! Prints how fast a hundredth is cut out of a trace, near its start, in its middle and near its end, in MB/s of the whole, and the most
//! memory that each took. The traces are made first, in a temporary file, of 1,000 MB each:
//!
//! - `spans`: slices of sixteen threads, some twenty bytes an event, which is the worst case
//! - `args`: the same with two arguments, by the threads' chunks, as the SDK writes them
//! - `sched`: switches and wake-ups in columns, as `ferretto record` has them by default
//! - `events`: the same one by one
//! - `mixed`: all of them in turn
//!
//! `cut NAME MEGABYTES` for one; `cut FILE` for a trace that there is. `taskset -c 0` shows what one core does.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ferretto_cut::{Moment, Options, UnpackedFile, cut};
use ferretto_protozero::Message;

const NAMES_OF_TRACES: [&str; 5] = ["spans", "args", "sched", "events", "mixed"];
const DEFAULT_MB: u64 = 1000;
const THREADS: u64 = 16;
const CPUS: u64 = 4;
const NAMES: u64 = 64;
/// Where the trace begins, in nanoseconds.
const START: u64 = 1_000_000_000_000;

type Packet<'a> = Message<'a, Vec<u8>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let megabytes = args.get(1).and_then(|megabytes| megabytes.parse().ok()).unwrap_or(DEFAULT_MB);
    match args.first() {
        Some(name) if NAMES_OF_TRACES.contains(&name.as_str()) => made(name, megabytes, args.get(2)),
        Some(file) => measure(file, File::open(file)?),
        None => NAMES_OF_TRACES.iter().try_for_each(|name| made(name, megabytes, None)),
    }
}

/// Makes a trace and measures it; with a file it is kept there, and not measured.
fn made(name: &str, megabytes: u64, keep: Option<&String>) -> Result<(), Box<dyn std::error::Error>> {
    let temporary =
        || std::env::temp_dir().join(format!("ferretto-cut-{name}-{}.pftrace", std::process::id()));
    let path = keep.map_or_else(temporary, PathBuf::from);
    let made = make(name, &path, megabytes * 1_000_000);
    if keep.is_some() {
        return Ok(made?);
    }
    let opened = made.and_then(|()| File::open(&path));
    // It lives as long as it is open.
    std::fs::remove_file(&path)?;
    measure(name, opened?)
}

fn measure(name: &str, file: File) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = file.metadata()?.len();
    let source = UnpackedFile::new(file);
    let (begin, end) = cut(&source, "bench", &Options::default(), std::io::sink())?.span;
    let hundredth = (end - begin) / 100;
    for (what, at) in [("start", 2), ("middle", 50), ("end", 98)] {
        let from = begin + at * hundredth;
        let options = Options {
            from: Some(Moment::FromStart(from - begin)),
            to: Some(Moment::FromStart(from - begin + hundredth)),
            ..Options::default()
        };
        // The peak begins anew.
        std::fs::write("/proc/self/clear_refs", "5")?;
        let started = Instant::now();
        let report = cut(&source, "bench", &options, std::io::sink())?;
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{name:8} {what:8} {:6.0} MB/s  peak {:6} kB  {} packets of {}, {} bytes",
            bytes as f64 / 1e6 / seconds,
            peak_kb().unwrap_or(0),
            report.packets,
            report.read.packets,
            report.bytes,
        );
    }
    Ok(())
}

fn make(name: &str, path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut block = Vec::new();
    for thread in 0..THREADS {
        packet(&mut block, |packet| begin(packet, thread));
        packet(&mut block, |packet| names(packet, thread));
    }
    let mut written = 0;
    let mut now = START;
    while written < bytes {
        match name {
            "spans" => (0..512).for_each(|step| all_threads(&mut block, step)),
            "args" => chunks(&mut block),
            "sched" => bundles(&mut block, now, columns),
            "events" => bundles(&mut block, now, events),
            _ => {
                chunks(&mut block);
                bundles(&mut block, now, columns);
                bundles(&mut block, now, events);
            }
        }
        now += if name == "spans" { 770_000 } else { 1_000_000 };
        out.write_all(&block)?;
        written += block.len() as u64;
        block.clear();
    }
    out.flush()
}

fn packet(out: &mut Vec<u8>, fill: impl FnOnce(&mut Packet<'_>)) {
    let mut body = Vec::new();
    fill(&mut Message::new(&mut body));
    Message::new(out).bytes(1, &body);
}

/// What a sequence begins with: its defaults, and a clock of differences.
fn begin(packet: &mut Packet<'_>, thread: u64) {
    packet.varint(8, START);
    packet.varint(58, 6);
    packet.varint(10, 2 + thread);
    packet.varint(13, 1);
    let mut defaults = packet.nested(59);
    defaults.varint(58, 64);
    defaults.nested(11).varint(11, 1000 + thread);
    drop(defaults);
    let mut snapshot = packet.nested(6);
    for (clock_id, is_incremental) in [(6, false), (64, true)] {
        let mut clock = snapshot.nested(1);
        clock.varint(1, clock_id);
        clock.varint(2, START);
        clock.bool(3, is_incremental);
    }
}

fn names(packet: &mut Packet<'_>, thread: u64) {
    packet.varint(10, 2 + thread);
    packet.varint(13, 2);
    let mut interned = packet.nested(12);
    for iid in 1..=NAMES {
        let mut name = interned.nested(2);
        name.varint(1, iid);
        name.string(2, &format!("function_{iid}"));
    }
    for iid in 1..=2 {
        let mut name = interned.nested(3);
        name.varint(1, iid);
        name.string(2, &format!("argument_{iid}"));
    }
}

/// An event of each thread.
fn all_threads(block: &mut Vec<u8>, step: u64) {
    for thread in 0..THREADS {
        packet(block, |packet| {
            event(packet, thread, 1000 + step, step, false);
        });
    }
}

/// A chunk of each thread: 100 events within a millisecond.
fn chunks(block: &mut Vec<u8>) {
    for thread in 0..THREADS {
        for step in 0..100 {
            packet(block, |packet| event(packet, thread, 10_000, step, true));
        }
    }
}

fn event(packet: &mut Packet<'_>, thread: u64, difference: u64, step: u64, with_args: bool) {
    packet.varint(8, difference);
    packet.varint(13, 2);
    packet.varint(10, 2 + thread);
    packet.varint(79, 100);
    let mut event = packet.nested(11);
    if step % 2 == 1 {
        event.varint(9, 2);
        return;
    }
    event.varint(9, 1);
    event.varint(3, 1);
    event.varint(10, 1 + step % NAMES);
    for value in [step, 1_000_000 + step].into_iter().filter(|_| with_args) {
        let mut argument = event.nested(4);
        argument.varint(1, 1 + value % 2);
        argument.varint(4, value);
    }
}

/// A millisecond of the kernel's events on each CPU.
fn bundles(block: &mut Vec<u8>, now: u64, fill: fn(&mut Packet<'_>, u64, u64)) {
    for cpu in 0..CPUS {
        packet(block, |packet| {
            packet.varint(10, 1);
            let mut bundle = packet.nested(1);
            bundle.varint(1, cpu);
            fill(&mut bundle, now, cpu);
        });
    }
}

/// Each CPU has threads of its own, and goes from one to the next.
fn thread_of(cpu: u64, at: u64) -> u64 {
    if at.is_multiple_of(2) { 0 } else { 4000 + 100 * cpu + at % 40 }
}

/// 400 switches and 200 wake-ups in columns.
fn columns(bundle: &mut Packet<'_>, now: u64, cpu: u64) {
    let mut compact = bundle.nested(4);
    (0..40).for_each(|thread| compact.string(5, &format!("thread-{thread}")));
    let times = |count: u64, step: u64| (0..count).map(move |at| if at == 0 { now } else { step });
    compact.packed_varints(1, times(400, 2400));
    compact.packed_varints(2, (0..400).map(|at| at % 3));
    compact.packed_varints(3, (1..=400).map(|at| thread_of(cpu, at)));
    compact.packed_varints(4, (0..400).map(|_| 120));
    compact.packed_varints(6, (1..=400).map(|at| at % 40));
    compact.packed_varints(7, times(200, 4700));
    compact.packed_varints(8, (0..200).map(|at| 4000 + 100 * cpu + at % 40));
    compact.packed_varints(9, (0..200).map(|_| cpu));
    compact.packed_varints(10, (0..200).map(|_| 120));
    compact.packed_varints(11, (0..200).map(|at| at % 40));
}

/// 100 events, two switches and a wake-up in turn. Who leaves is who came last, also from one bundle to the next.
fn events(bundle: &mut Packet<'_>, now: u64, cpu: u64) {
    for at in 0..100 {
        let switches = at - at / 3;
        let mut event = bundle.nested(2);
        event.varint(1, now + at * 9_000);
        event.varint(2, thread_of(cpu, switches));
        if at % 3 == 2 || at == 99 {
            let mut waking = event.nested(20);
            waking.string(1, "worker");
            waking.varint(2, thread_of(cpu, at | 1));
            waking.varint(3, 120);
            waking.varint(5, cpu);
        } else {
            let mut switch = event.nested(4);
            switch.string(1, "worker");
            switch.varint(2, thread_of(cpu, switches));
            switch.varint(3, 120);
            switch.varint(4, 1);
            switch.string(5, "another");
            switch.varint(6, thread_of(cpu, switches + 1));
            switch.varint(7, 120);
        }
    }
}

/// The most memory that this process had at once.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
