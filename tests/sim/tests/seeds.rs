//! A thousand worlds; `cargo run --release -p sim -- --seeds A..B` runs on.

#[test]
fn a_thousand_worlds_keep_the_promises() {
    let mut total = sim::Report::default();
    for seed in 0..1000 {
        let report = std::panic::catch_unwind(|| sim::run(seed)).unwrap_or_else(|_| {
            panic!("seed {seed}; replay it with cargo run -p sim -- --seeds {seed}..{}", seed + 1)
        });
        total.sessions += report.sessions;
        total.packets += report.packets;
        total.gaps += report.gaps;
        total.complete_streams += report.complete_streams;
    }
    // Worlds in which nothing happens prove nothing.
    assert!(
        total.sessions > 300 && total.packets > 20_000 && total.gaps > 50 && total.complete_streams > 100,
        "{total:?}"
    );
}

#[test]
fn a_seed_replays_exactly() {
    assert_eq!(sim::run(7), sim::run(7));
}
