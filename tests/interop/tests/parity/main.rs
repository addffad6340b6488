//! The corpus of trace configs (tests/interop/parity/*.txtpb), recorded with upstream's command line and the same producers on
//! upstream's service and on ours: what can be the same is the same.
//!
//! Each recording becomes a list of keys and values ([`digest`]): the packets by kind and their order, the fields of the service's own
//! packets, what each sequence holds, what the producers were told. Times and the like are left out. Where the two lists differ,
//! `differences.md` beside the configs must say why; a difference that it does not know fails the test, and so does one that it
//! explains and that is not there.
//!
//! `FERRETTO_PARITY=text` records only the configs with this text in their names, and `FERRETTO_PARITY_PRINT=1` prints all keys.

mod case;
mod differences;
mod digest;
mod producer;
mod script;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use case::Case;
use differences::{Difference, Explanations};
use ferretto_interop::{Maker, Peers, both, need, upstream_client};

/// Recordings at one time. Most of a recording is waiting.
const WORKERS: usize = 6;

/// Only cases with this in their names.
const FILTER_ENV: &str = "FERRETTO_PARITY";
const PRINT_ENV: &str = "FERRETTO_PARITY_PRINT";

#[test]
fn the_corpus_records_the_same_on_both_services() {
    let peers = need!(both());
    let filter = std::env::var(FILTER_ENV).unwrap_or_default();
    let (mut cases, mut is_whole) = (case::all(), filter.is_empty());
    cases.retain(|case| case.name.contains(&filter));
    assert!(!cases.is_empty(), "no config has {filter:?} in its name");
    if let Err(reason) = upstream_client() {
        let before = cases.len();
        cases.retain(|case| !case.needs_client());
        eprintln!("skipped: {} configs: {reason}", before - cases.len());
        is_whole &= before == cases.len();
    }

    let (differences, failures) = compare_all(&peers, &cases);
    let mut explanations = Explanations::read();
    let unexplained: Vec<_> =
        differences.iter().filter(|difference| !explanations.explain(difference)).collect();
    let mut report = failures;
    report.extend(unexplained.iter().map(|difference| format!("not explained: {difference}")));
    if is_whole {
        let idle = explanations.unused();
        report.extend(idle.map(|explanation| format!("explained, but not there: {explanation}")));
    }
    assert!(report.is_empty(), "{} of {} configs\n{}", report.len(), cases.len(), report.join("\n"));
    eprintln!("{} configs, {} explained differences", cases.len(), differences.len());
}

/// Differences, and recordings that did not come to an end.
fn compare_all(peers: &Peers, cases: &[Case]) -> (Vec<Difference>, Vec<String>) {
    let queue = Mutex::new(cases.iter().collect::<VecDeque<_>>());
    let results = Mutex::new((Vec::new(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().pop_front() else { return };
                    let compared = catch_unwind(AssertUnwindSafe(|| compare(peers, case)));
                    let mut results = results.lock().unwrap();
                    match compared {
                        Ok(differences) => results.0.extend(differences),
                        Err(_) => results.1.push(format!("{}: a recording failed, see above", case.name)),
                    }
                }
            });
        }
    });
    results.into_inner().unwrap()
}

fn compare(peers: &Peers, case: &Case) -> Vec<Difference> {
    let [upstream, ours] =
        [Maker::Upstream, Maker::Ferretto].map(|maker| script::perform(case, peers, maker));
    if std::env::var_os(PRINT_ENV).is_some() {
        eprintln!("{}:\n{}", case.name, digest::side_by_side(&upstream, &ours));
    }
    digest::differences(case, &upstream, &ours)
}
