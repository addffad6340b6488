//! What `ferretto info` costs: megabytes a second of one core, and the most memory that it takes, for traces that this program makes in
//! a temporary file. Without arguments all of them, of 500 MB each:
//!
//! - `sched`: scheduling switches in columns, as `ferretto record` has them by default
//! - `events`: `sched_switch` and `sched_waking` one by one
//! - `spans`: spans of a program with the SDK, four threads, without arguments
//! - `args`: the same with two arguments each
//! - `tracks`: asynchronous slices, each on a track of its own
//!
//! `info NAME MEGABYTES` for one; `info FILE` for a trace that there is. The time is the processor's, of reading the file
//! and looking at it; callgrind can be pointed at `Info::push`.
//!
//! The peak is of the process, which keeps nothing but the reader's own: traces are written through a buffer of a few megabytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ferretto_protozero::Message;
use ferretto_trace_info::{Info, Report};
use ferretto_trace_read::Reader;
use ferretto_trace_read::container::unpacked;

const NAMES: [&str; 5] = ["sched", "events", "spans", "args", "tracks"];
const DEFAULT_MB: u64 = 500;
/// What a thread writes before another's turn comes: a chunk of shared memory.
const EVENTS_A_CHUNK: u64 = 150;
const THREADS: u64 = 4;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let megabytes = args.get(1).and_then(|megabytes| megabytes.parse().ok()).unwrap_or(DEFAULT_MB);
    match args.first() {
        Some(name) if NAMES.contains(&name.as_str()) => measure_made(name, megabytes),
        Some(file) => measure(file, Path::new(file)),
        None => NAMES.iter().try_for_each(|name| measure_made(name, megabytes)),
    }
}

fn measure_made(name: &str, megabytes: u64) -> std::io::Result<()> {
    let path: PathBuf = std::env::temp_dir().join(format!("ferretto-info-{name}-{}", std::process::id()));
    let made = make(name, megabytes * 1_000_000, &path);
    let measured = made.and_then(|()| measure(name, &path));
    std::fs::remove_file(&path)?;
    measured
}

fn measure(name: &str, path: &Path) -> std::io::Result<()> {
    let begun = ran_ns();
    let report = read(path)?;
    let seconds = (ran_ns() - begun) as f64 / 1e9;
    let bytes = report.unpacked_bytes as f64;
    println!(
        "{name:8} {:6.0} MB  {:6.0} MB/s  {:5.1} ns a packet  peak {} kB  {} packets, {} slices, {} kernel events",
        bytes / 1e6,
        bytes / 1e6 / seconds,
        seconds * 1e9 / report.tally.packets.max(1) as f64,
        peak_kb(),
        report.tally.packets,
        report.events.rows.iter().map(|row| row.more.slices).sum::<u64>(),
        report.kernel.total().count,
    );
    Ok(())
}

fn read(path: &Path) -> std::io::Result<Report> {
    let mut info = Info::default();
    let end = Reader::new(unpacked(File::open(path)?)?).for_each(|packet, place| info.push(packet, place))?;
    Ok(info.finish(end))
}

/// How long this thread has had a processor: others may use the machine, too.
fn ran_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The most memory that this process had at a time.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn make(name: &str, bytes: u64, path: &Path) -> std::io::Result<()> {
    let mut file = Trace { out: BufWriter::with_capacity(1 << 20, File::create(path)?), len: 0 };
    file.snapshot(1, &[(6, 1_000_000_000), (3, 900_000_000), (1, 1_700_000_000_000_000_000)])?;
    match name {
        "sched" => columns(&mut file, bytes)?,
        "events" => events(&mut file, bytes)?,
        _ => program(&mut file, bytes, name)?,
    }
    file.out.flush()
}

struct Trace {
    out: BufWriter<File>,
    len: u64,
}

impl Trace {
    fn packet(
        &mut self,
        sequence: u64,
        write: impl FnOnce(&mut Message<'_, Vec<u8>>),
    ) -> std::io::Result<()> {
        let mut packet = Vec::new();
        let mut message = Message::new(&mut packet);
        write(&mut message);
        // As the service adds it: user, sequence, process.
        message.varint(3, 1000);
        message.varint(10, sequence);
        message.varint(79, 4000);
        drop(message);
        let mut framed = Vec::new();
        Message::new(&mut framed).bytes(1, &packet);
        self.len += framed.len() as u64;
        self.out.write_all(&framed)
    }

    fn snapshot(&mut self, sequence: u64, clocks: &[(u64, u64)]) -> std::io::Result<()> {
        self.packet(sequence, |packet| {
            let mut snapshot = packet.nested(6);
            for (id, value) in clocks {
                let mut clock = snapshot.nested(1);
                clock.varint(1, *id);
                clock.varint(2, *value);
                clock.bool(3, *id == 64);
            }
        })
    }
}

/// Bundles of 500 switches and 250 wake-ups in columns, on four CPUs in turn.
fn columns(trace: &mut Trace, bytes: u64) -> std::io::Result<()> {
    let (mut now, mut cpu) = (2_000_000_000u64, 0);
    while trace.len < bytes {
        let begin = now;
        trace.packet(2, |packet| {
            let mut bundle = packet.nested(1);
            bundle.varint(1, cpu);
            let mut compact = bundle.nested(4);
            for thread in 0..40 {
                compact.string(5, &format!("thread-{thread}"));
            }
            let times = |count| (0..count).map(move |at| if at == 0 { begin } else { 2000 + at % 700 });
            compact.packed_varints(1, times(500));
            compact.packed_varints(2, (0..500).map(|at| at % 3));
            compact.packed_varints(3, (0..500).map(|at| if at % 2 == 0 { 0 } else { 4000 + at % 40 }));
            compact.packed_varints(4, (0..500).map(|_| 120));
            compact.packed_varints(6, (0..500).map(|at| at % 40));
            compact.packed_varints(7, times(250));
            compact.packed_varints(8, (0..250).map(|at| 4000 + at % 40));
            compact.packed_varints(9, (0..250).map(|at| at % 4));
            compact.packed_varints(10, (0..250).map(|_| 120));
            compact.packed_varints(11, (0..250).map(|at| at % 40));
        })?;
        cpu = (cpu + 1) % 4;
        now += 300_000;
    }
    Ok(())
}

/// Bundles of 100 events, two switches and a wake-up in turn.
fn events(trace: &mut Trace, bytes: u64) -> std::io::Result<()> {
    let (mut now, mut cpu) = (2_000_000_000u64, 0);
    while trace.len < bytes {
        trace.packet(2, |packet| {
            let mut bundle = packet.nested(1);
            bundle.varint(1, cpu);
            for at in 0..100u64 {
                let mut event = bundle.nested(2);
                event.varint(1, now + at * 1000);
                event.varint(2, 4000 + at % 40);
                match at % 3 {
                    2 => {
                        let mut waking = event.nested(20);
                        waking.string(1, "worker");
                        waking.varint(2, 4000 + (at + 1) % 40);
                        waking.varint(3, 120);
                        waking.varint(5, cpu);
                    }
                    _ => {
                        let mut switch = event.nested(4);
                        switch.string(1, "worker");
                        switch.varint(2, 4000 + at % 40);
                        switch.varint(3, 120);
                        switch.varint(4, 1);
                        switch.string(5, "another");
                        switch.varint(6, 4000 + (at + 1) % 40);
                        switch.varint(7, 120);
                    }
                }
            }
        })?;
        cpu = (cpu + 1) % 4;
        now += 120_000;
    }
    Ok(())
}

/// Threads of a program, each with its names, its clock of differences and its track.
fn program(trace: &mut Trace, bytes: u64, name: &str) -> std::io::Result<()> {
    for thread in 0..THREADS {
        trace.packet(10 + thread, |packet| begin_sequence(packet, thread))?;
        trace.snapshot(10 + thread, &[(6, 1_000_000_000), (64, 1_000_000_000)])?;
        trace.packet(10 + thread, |packet| {
            let mut track = packet.nested(60);
            track.varint(1, 77 + thread);
            let mut about = track.nested(4);
            about.varint(1, 4000);
            about.varint(2, 4000 + thread);
            about.string(5, &format!("worker-{thread}"));
        })?;
    }
    let mut number = 0u64;
    while trace.len < bytes {
        for thread in 0..THREADS {
            for at in 0..EVENTS_A_CHUNK {
                let is_begin = at % 2 == 0;
                number += u64::from(is_begin);
                trace.packet(10 + thread, |packet| {
                    packet.varint(8, 300 + at % 50);
                    packet.varint(13, 2);
                    let mut event = packet.nested(11);
                    event.varint(9, if is_begin { 1 } else { 2 });
                    if is_begin {
                        event.varint(3, 1);
                        event.varint(10, 1 + number % 20);
                    }
                    if name == "tracks" {
                        event.varint(11, 1_000_000 + number);
                    }
                    if is_begin && name == "args" {
                        for value in [number, at] {
                            let mut argument = event.nested(4);
                            argument.varint(1, 1 + value % 2);
                            argument.varint(4, value);
                        }
                    }
                })?;
            }
        }
    }
    Ok(())
}

fn begin_sequence(packet: &mut Message<'_, Vec<u8>>, thread: u64) {
    packet.varint(13, 1);
    packet.bool(87, true);
    let mut defaults = packet.nested(59);
    defaults.varint(58, 64);
    defaults.nested(11).varint(11, 77 + thread);
    drop(defaults);
    let mut interned = packet.nested(12);
    let mut category = interned.nested(1);
    category.varint(1, 1);
    category.string(2, "net");
    drop(category);
    for number in 1..=20 {
        let mut name = interned.nested(2);
        name.varint(1, number);
        name.string(2, &format!("event {number}"));
    }
}
