//! Prints how fast a second is cut out of a trace of a gigabyte, in MB/s of the whole, and the most memory that it took.
//!
//! The trace is made first: slices of sixteen threads as the SDK writes them, some twenty bytes each, which is the worst case. `FERRETTO_CUT_MB`
//! makes it smaller.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use ferretto_cut::{Moment, Options, UnpackedFile, cut};
use ferretto_protozero::Message;

const THREADS: u64 = 16;
const NAMES: u64 = 64;
/// Where the trace begins, in nanoseconds.
const START: u64 = 1_000_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let megabytes: u64 = std::env::var("FERRETTO_CUT_MB").ok().and_then(|mb| mb.parse().ok()).unwrap_or(1000);
    let path = std::env::temp_dir().join(format!("ferretto-cut-{}.pftrace", std::process::id()));
    let written = make(&path, megabytes * 1_000_000);
    let result = written.and_then(|()| {
        let file = File::open(&path)?;
        let bytes = file.metadata()?.len();
        Ok((UnpackedFile::new(file), bytes))
    });
    // It lives as long as it is open.
    std::fs::remove_file(&path)?;
    let (source, bytes) = result?;
    for (what, options) in [
        ("a second", Options { from: second(1), to: second(2), ..Options::default() }),
        ("all", Options::default()),
    ] {
        let begin = Instant::now();
        let report = cut(&source, "bench", &options, std::io::sink())?;
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{what:<10}{:>8.0} MB/s  {:>10} packets of {}",
            bytes as f64 / 1e6 / seconds,
            report.packets,
            report.read.packets
        );
    }
    println!("memory    {:>8} kB at most", peak_kb().unwrap_or(0));
    Ok(())
}

fn second(number: i64) -> Option<Moment> {
    Some(Moment::FromStart(number * 1_000_000_000))
}

fn make(path: &std::path::Path, bytes: u64) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create_new(path)?);
    let mut head = Vec::new();
    for thread in 0..THREADS {
        packet(&mut head, |packet| begin(packet, thread));
        packet(&mut head, |packet| names(packet, thread));
    }
    out.write_all(&head)?;
    let mut block = Vec::new();
    for step in 0..512 {
        for thread in 0..THREADS {
            packet(&mut block, |packet| event(packet, thread, step));
        }
    }
    for _ in 0..bytes / block.len() as u64 {
        out.write_all(&block)?;
    }
    out.flush()
}

fn packet(out: &mut Vec<u8>, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
    let mut body = Vec::new();
    fill(&mut Message::new(&mut body));
    Message::new(out).bytes(1, &body);
}

/// What a sequence begins with: its defaults, and a clock of differences.
fn begin(packet: &mut Message<'_, Vec<u8>>, thread: u64) {
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

fn names(packet: &mut Message<'_, Vec<u8>>, thread: u64) {
    packet.varint(10, 2 + thread);
    packet.varint(13, 2);
    let mut interned = packet.nested(12);
    for iid in 1..=NAMES {
        let mut name = interned.nested(2);
        name.varint(1, iid);
        name.string(2, &format!("function_{iid}"));
    }
}

fn event(packet: &mut Message<'_, Vec<u8>>, thread: u64, step: u64) {
    packet.varint(8, 1000 + step);
    packet.varint(13, 2);
    packet.varint(10, 2 + thread);
    packet.varint(79, 100);
    let mut event = packet.nested(11);
    match step % 2 {
        0 => {
            event.varint(9, 1);
            event.varint(3, 1);
            event.varint(10, 1 + step % NAMES);
        }
        _ => event.varint(9, 2),
    }
}

/// The most memory that this process had at once.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
