//! Prints what the heap profiler costs a program: nanoseconds of a block that is allocated and given back, by itself, with the library that has nobody to tell,
//! and with one that profiles; on one thread and on two. And what Python takes for a program that allocates much.
//!
//! `heap_cost [RUNS]`, with `libferretto_preload.so` beside the release build of `ferretto`: cargo build --release -p ferretto-cli -p ferretto-preload.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;

use ferretto_interop::{Peers, ferretto};
use rustix::time::{ClockId, clock_gettime};

const RUNS: usize = 7;
/// Blocks that live at a time: an allocator that is asked for one and has it back at once has it at hand.
const BATCH: usize = 64;
const BATCHES: usize = 200_000;
/// So that a block that is sampled is as rare as none.
const SELDOM: &str = "1gb";
const PYTHON: &str = "
import time
began = time.process_time()
kept = []
for round in range(3000):
    rows = [{'id': i, 'name': 'x' * (i % 50), 'data': bytes(200 + i % 900)} for i in range(400)]
    kept = (kept + rows)[-4000:]
print(time.process_time() - began)
";

/// How a program is run.
#[derive(Clone, Copy, Debug)]
enum With {
    Nothing,
    Library,
    Profiler(&'static str),
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, threads] = args.as_slice()
        && what == "pairs"
    {
        return pairs(threads.parse().map_err(|error| format!("{error}"))?);
    }
    let runs = args.first().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let peers = ferretto()?;
    let itself = std::env::current_exe().map_err(|error| error.to_string())?.display().to_string();
    println!("nanoseconds of a block of 48 to 111 bytes allocated and given back, the least of {runs} runs");
    for threads in ["1", "2"] {
        let command = [itself.as_str(), "pairs", threads];
        let cases = [
            With::Nothing,
            With::Library,
            With::Profiler(SELDOM),
            With::Profiler("512k"),
            With::Profiler("32k"),
        ];
        print(&peers, runs, &format!("threads {threads}"), &command, &cases)?;
    }
    println!("seconds of a processor that Python takes to allocate");
    let cases =
        [With::Nothing, With::Library, With::Profiler("512k"), With::Profiler("32k"), With::Profiler("4k")];
    print(&peers, runs, "python3", &["python3", "-c", PYTHON], &cases)
}

/// In turn, so that what else the machine does is in all of them.
fn print(peers: &Peers, runs: usize, title: &str, command: &[&str], cases: &[With]) -> Result<(), String> {
    let mut found = vec![Vec::new(); cases.len()];
    for _ in 0..runs {
        for (case, found) in cases.iter().zip(&mut found) {
            found.push(measure(peers, *case, command)?);
        }
    }
    // Of a processor's time others on the machine only add to it.
    let mut least = found.into_iter().map(|values| values.into_iter().fold(f64::MAX, f64::min));
    let alone = least.next().unwrap_or(0.0);
    println!("{title:12} alone {alone:.3}");
    for (case, time) in cases.iter().skip(1).zip(least) {
        println!(
            "{title:12} {case:?} {time:.3}, {:+.3}, {:+.1} %",
            time - alone,
            100.0 * (time / alone - 1.0)
        );
    }
    Ok(())
}

fn measure(peers: &Peers, with: With, command: &[&str]) -> Result<f64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = PathBuf::from(peers.ferretto().get_program());
    let library = program.parent().map(|folder| folder.join("libferretto_preload.so")).unwrap_or_default();
    let mut run = match with {
        With::Nothing | With::Library => Command::new(command[0]),
        With::Profiler(interval) => {
            let mut profile = peers.ferretto();
            profile.args(["profile", "--heap", "--own", "-q", "--interval", interval, "-o"]);
            profile.arg(folder.path().join("t")).arg("--").arg(command[0]);
            profile
        }
    };
    if matches!(with, With::Library) {
        run.env("LD_PRELOAD", library);
    }
    let output = run.args(&command[1..]).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().map_err(|_| format!("{run:?}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The program: nanoseconds of a pair, of the fastest of some rounds.
fn pairs(threads: usize) -> Result<(), String> {
    let threads: Vec<_> = (0..threads)
        .map(|_| std::thread::spawn(|| (0..5).map(|_| round()).fold(f64::MAX, f64::min)))
        .collect();
    let mut sum = 0.0;
    let count = threads.len() as f64;
    for thread in threads {
        sum += thread.join().map_err(|_| "a thread has failed".to_owned())?;
    }
    println!("{}", sum / count);
    Ok(())
}

fn round() -> f64 {
    let mut blocks: Vec<Vec<u8>> = (0..BATCH).map(|_| Vec::new()).collect();
    let began_ns = used_ns();
    for batch in 0..BATCHES / 5 {
        for (number, block) in blocks.iter_mut().enumerate() {
            *block = black_box(Vec::with_capacity(48 + (batch + number) % 64));
        }
        blocks.iter_mut().for_each(|block| drop(std::mem::take(black_box(block))));
    }
    (used_ns() - began_ns) as f64 / (BATCHES / 5 * BATCH) as f64
}

/// Of a processor's time, by this thread.
fn used_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
