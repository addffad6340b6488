//! Prints how fast two traces become one, in MB of both a second of one core, and the most memory that takes. Each is merged with a copy of
//! itself, so that all numbers of the second collide: as if both were of one machine, where its sequences are numbered anew, and as if they
//! were of two, where its packets get a machine's number, too. The traces are made first, in temporary files, of 200 MB each: those of the
//! program `import`.
//!
//! `merge MEGABYTES` for other sizes; `merge FILE…` for traces that there are. What is written goes nowhere. The time is the processor's, the
//! memory what it adds to that of merging two traces of nearly nothing.

#[path = "import/traces.rs"]
mod traces;

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ferretto_cut::{Machines, UnpackedFile, merge};

const DEFAULT_MB: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let megabytes = args.first().map_or(Ok(DEFAULT_MB), |first| first.parse());
    let folder = std::env::temp_dir().join(format!("ferretto-merge-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let files = match megabytes {
        Ok(megabytes) => made(&folder, megabytes),
        Err(_) => Ok(args.iter().map(PathBuf::from).collect()),
    };
    let measured = files.map_err(Box::from).and_then(|files| measure_all(&folder, &files));
    fs::remove_dir_all(&folder)?;
    measured
}

fn made(folder: &Path, megabytes: usize) -> io::Result<Vec<PathBuf>> {
    let write = |(name, trace): (&str, Vec<u8>)| {
        let path = folder.join(name).with_extension("pftrace");
        fs::write(&path, trace).map(|()| path)
    };
    traces::all(megabytes * 1_000_000).into_iter().map(write).collect()
}

fn measure_all(folder: &Path, files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let empty = folder.join("nothing.pftrace");
    fs::write(&empty, traces::nearly_nothing())?;
    let nothing_kb = measure(&empty, Machines::One)?.peak_kb;
    for file in files {
        for (what, machines) in [("one machine", Machines::One), ("two machines", Machines::Apart)] {
            let Measured { seconds, peak_kb, packets, bytes } = measure(file, machines)?;
            println!(
                "{:12} {what:12} {:6.0} MB/s  peak {:6} kB  {packets} packets, {bytes} bytes",
                file.file_stem().unwrap_or_default().to_string_lossy(),
                2.0 * fs::metadata(file)?.len() as f64 / 1e6 / seconds,
                peak_kb.saturating_sub(nothing_kb),
            );
        }
    }
    Ok(())
}

/// What merging a trace with itself took.
struct Measured {
    seconds: f64,
    peak_kb: u64,
    packets: u64,
    bytes: u64,
}

fn measure(file: &Path, machines: Machines) -> Result<Measured, Box<dyn Error>> {
    let sources = [UnpackedFile::new(File::open(file)?), UnpackedFile::new(File::open(file)?)];
    // The peak begins anew.
    fs::write("/proc/self/clear_refs", "5")?;
    let begun = ran_ns();
    let merged = merge(&sources, machines, io::sink()).map_err(|(_, error)| error)?;
    let seconds = (ran_ns() - begun) as f64 / 1e9;
    Ok(Measured { seconds, peak_kb: peak_kb(), packets: merged.packets, bytes: merged.bytes })
}

/// How long this thread has had a processor: others may use the machine, too.
fn ran_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The most memory that this process had at a time.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
