//! What a trace point costs, beside upstream's client library (the crate `perfetto-sdk`).
//!
//! Runs two programs in turn, which measure in the same way: the example `cost` of our library and `upstream-client cost`
//! (`tests/upstream-client`, built with `--release`). Prints medians of the pairs, and medians of the ratios within pairs.
//!
//! ```sh
//! cargo build --release -p ferretto --example cost
//! FERRETTO_UPSTREAM_CLIENT=…/release/upstream-client cargo run --release -p ferretto-benches --bin sdk_cost
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferretto_benches::example;

const PAIRS: usize = 5;
/// What the programs print, in this order, and what we promise: `off` in nanoseconds, the others as parts of upstream's.
const PROMISES: [(&str, &str); 4] =
    [("off", "0.6 ns"), ("instant", "1/8"), ("span", "1/7"), ("args2", "1/7")];

fn main() {
    let ours = example("cost");
    let upstream = std::env::var_os("FERRETTO_UPSTREAM_CLIENT").map(PathBuf::from);
    let Some(upstream) = upstream else {
        println!("FERRETTO_UPSTREAM_CLIENT names no program: only our figures");
        for (name, ns) in figures(&ours, &[]) {
            println!("{name} {ns}");
        }
        return;
    };
    let pairs: Vec<_> = (0..PAIRS).map(|_| (figures(&ours, &[]), figures(&upstream, &["cost"]))).collect();
    println!("| nanoseconds | ferretto | perfetto-sdk | ratio | promise |\n|---|---|---|---|---|");
    for (name, promise) in PROMISES {
        let column = |value: &dyn Fn(f64, f64) -> f64| {
            median(pairs.iter().map(|(ours, upstream)| value(ours[name], upstream[name])).collect())
        };
        let (ours, upstream) = (column(&|ours, _| ours), column(&|_, upstream| upstream));
        let ratio = column(&|ours, upstream| upstream / ours);
        println!("| {name} | {ours:.1} | {upstream:.1} | 1/{ratio:.1} | {promise} |");
    }
}

/// The lines `NAME NANOSECONDS` of a program.
fn figures(program: &Path, args: &[&str]) -> BTreeMap<String, f64> {
    let output = Command::new(program).args(args).output().expect("the program can be started");
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let figure = |line: &str| {
        let (name, ns) = line.split_once(' ')?;
        Some((name.to_owned(), ns.parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
