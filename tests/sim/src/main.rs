//! Runs worlds: `cargo run --release -p sim -- --seeds A..B [--jobs N] [--trace]`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::Report;

const USAGE: &str = "usage: sim --seeds A..B [--jobs N] [--trace]
  runs the worlds A to B, without B, N at a time; one seed replays exactly. --trace prints what happens in them.";

/// Seeds between two lines of progress.
const SEEDS_PER_LINE: u64 = 1000;
/// After so many failures it is time to look at them.
const MAX_FAILURES: usize = 20;

struct Options {
    seeds: Range<u64>,
    jobs: u64,
    is_told: bool,
}

/// What all jobs have found.
#[derive(Default)]
struct Found {
    total: Report,
    done: u64,
    failed: BTreeSet<u64>,
}

fn main() -> ExitCode {
    let Some(options) = parse(&mut std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let next = AtomicU64::new(options.seeds.start);
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| work(&options, &next, &found));
        }
    });
    let Ok(found) = found.into_inner() else { return ExitCode::FAILURE };
    println!("{}", found.total);
    let missing = found.total.missing();
    if !missing.is_empty() {
        println!("did not occur: {}", missing.join(", "));
    }
    println!(
        "seeds {}..{}: {} run, {} failed",
        options.seeds.start,
        options.seeds.end,
        found.done,
        found.failed.len()
    );
    if found.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(options: &Options, next: &AtomicU64, found: &Mutex<Found>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= options.seeds.end {
            return;
        }
        let run = if options.is_told { sim::tell } else { sim::run };
        let report = std::panic::catch_unwind(|| run(seed));
        let Ok(mut found) = found.lock() else { return };
        found.done += 1;
        match report {
            Ok(report) => found.total.add(&report),
            Err(_) => {
                eprintln!(
                    "seed {seed} failed; replay it with: cargo run -p sim -- --seeds {seed}..{} --trace",
                    seed + 1
                );
                found.failed.insert(seed);
            }
        }
        if found.done.is_multiple_of(SEEDS_PER_LINE) {
            println!("{} seeds run, {} failed", found.done, found.failed.len());
        }
        if found.failed.len() >= MAX_FAILURES {
            return;
        }
    }
}

fn parse(args: &mut impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { seeds: 0..0, jobs: 1, is_told: false };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seeds" => options.seeds = parse_range(&args.next()?)?,
            "--jobs" => options.jobs = args.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            "--trace" => options.is_told = true,
            _ => return None,
        }
    }
    (!options.seeds.is_empty()).then_some(options)
}

fn parse_range(range: &str) -> Option<Range<u64>> {
    let (start, end) = range.split_once("..")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}
