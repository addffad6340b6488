//! Prints what the heap profiler costs a program: nanoseconds of a block that is allocated and given back, by itself, with the library that has nobody to tell,
//! with one that waits for a session of `ferretto heap`, and with one that profiles; on one thread and on two. The same for a program in Rust that has the SDK's allocator (`heap_cost_rust`) and no library.
//! And what Python takes for a program that allocates much.
//!
//! `heap_cost [RUNS]`, with `libferretto_preload.so` beside the release build of `ferretto`: cargo build --release -p ferretto-cli -p ferretto-preload.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ferretto_benches::pairs;
use ferretto_interop::{Peers, ferretto};
use ferretto_shm::heap::SOCKET_ENV;

const RUNS: usize = 7;
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
    Waiting,
    Profiler(&'static str),
    /// The program that has the SDK's allocator, and a profiler.
    Sdk(Option<&'static str>),
    SdkWaiting,
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
    let mut daemon = peers.ferretto();
    daemon.arg("heap").env(SOCKET_ENV, socket()).stderr(Stdio::null());
    let mut daemon = daemon.spawn().map_err(|error| error.to_string())?;
    std::thread::sleep(Duration::from_secs(1));
    let result = run(&peers, runs);
    daemon.kill().and_then(|()| daemon.wait()).map_err(|error| error.to_string())?;
    result
}

fn run(peers: &Peers, runs: usize) -> Result<(), String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?.display().to_string();
    println!("nanoseconds of a block of 48 to 111 bytes allocated and given back, the least of {runs} runs");
    for threads in ["1", "2"] {
        let command = [itself.as_str(), "pairs", threads];
        let cases = [
            With::Nothing,
            With::Library,
            With::Waiting,
            With::Profiler(SELDOM),
            With::Profiler("512k"),
            With::Profiler("32k"),
        ];
        print(peers, runs, &format!("threads {threads}"), &command, &cases)?;
    }
    let with_sdk = format!("{itself}_rust");
    for threads in ["1", "2"] {
        let cases = [
            With::Nothing,
            With::Sdk(None),
            With::SdkWaiting,
            With::Sdk(Some(SELDOM)),
            With::Sdk(Some("512k")),
            With::Sdk(Some("32k")),
        ];
        print(peers, runs, &format!("SDK, {threads}"), &[&itself, "pairs", threads, &with_sdk], &cases)?;
    }
    println!("seconds of a processor that Python takes to allocate");
    let cases =
        [With::Nothing, With::Library, With::Profiler("512k"), With::Profiler("32k"), With::Profiler("4k")];
    print(peers, runs, "python3", &["python3", "-c", PYTHON], &cases)
}

/// Where the daemon is.
fn socket() -> String {
    format!("@ferretto-heap-cost-{}", std::process::id())
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
    let profile = |mut by: Command, interval: &str, what: &str| {
        by.args(["profile", "--heap", "--own", "-q", "--interval", interval, "-o"]);
        by.arg(folder.path().join("t")).arg("--").arg(what);
        by
    };
    // Behind the program and its arguments there may be another one with the same.
    let (command, with_sdk) = command.split_at(command.len().min(3));
    let with_sdk = with_sdk.first().copied().unwrap_or_default();
    let mut run = match with {
        With::Nothing | With::Library | With::Waiting => Command::new(command[0]),
        With::Profiler(interval) => profile(peers.ferretto(), interval, command[0]),
        With::Sdk(None) | With::SdkWaiting => Command::new(with_sdk),
        With::Sdk(Some(interval)) => {
            // It has no library beside it.
            let alone = folder.path().join("ferretto");
            std::fs::copy(&program, &alone).map_err(|error| error.to_string())?;
            profile(Command::new(alone), interval, with_sdk)
        }
    };
    if matches!(with, With::Library | With::Waiting) {
        run.env("LD_PRELOAD", library);
    }
    match with {
        With::Waiting | With::SdkWaiting => _ = run.env(SOCKET_ENV, socket()),
        // Whoever else's daemon is here.
        With::Library | With::Sdk(None) => _ = run.env(SOCKET_ENV, "@ferretto-heap-cost-nobody"),
        _ => {}
    }
    let output = run.args(&command[1..]).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().map_err(|_| format!("{run:?}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}
