//! A thousand worlds; `cargo run --release -p sim -- --seeds A..B` runs on.

use sim::Report;

const SEEDS: u64 = 1000;
/// Worlds run beside each other.
const THREADS: u64 = 2;

#[test]
fn a_thousand_worlds_keep_the_promises() {
    let total = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || run_every(first))).collect();
        let mut total = Report::default();
        for thread in threads {
            total.add(&thread.join().expect("a seed failed: see above"));
        }
        total
    });
    println!("{total}");
    // Worlds in which nothing happens prove nothing.
    assert_eq!(total.missing(), [""; 0], "what a thousand worlds should have seen and have not");
}

fn run_every(first: u64) -> Report {
    let mut total = Report::default();
    for seed in (first..SEEDS).step_by(THREADS as usize) {
        let report = std::panic::catch_unwind(|| sim::run(seed)).unwrap_or_else(|_| {
            panic!("seed {seed}; replay it with cargo run -p sim -- --seeds {seed}..{} --trace", seed + 1)
        });
        total.add(&report);
    }
    total
}

#[test]
fn a_seed_replays_exactly() {
    assert_eq!(sim::run(7), sim::run(7));
}
