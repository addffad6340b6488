//! Runs worlds: `cargo run -p sim -- --seeds A..B`.

use std::ops::Range;
use std::process::ExitCode;

const USAGE: &str = "usage: sim --seeds A..B   (runs the worlds A to B, without B; one seed replays exactly)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [flag, range] = args.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let Some(seeds) = parse(range).filter(|_| flag == "--seeds") else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let mut total = sim::Report::default();
    for seed in seeds.clone() {
        let Ok(report) = std::panic::catch_unwind(|| sim::run(seed)) else {
            eprintln!("seed {seed} failed; replay it with --seeds {seed}..{}", seed + 1);
            return ExitCode::FAILURE;
        };
        total.sessions += report.sessions;
        total.packets += report.packets;
        total.gaps += report.gaps;
        total.complete_streams += report.complete_streams;
    }
    println!("seeds {}..{}: {total:?}", seeds.start, seeds.end);
    ExitCode::SUCCESS
}

fn parse(range: &str) -> Option<Range<u64>> {
    let (start, end) = range.split_once("..")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}
