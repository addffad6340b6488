//! Cases that are quick, against a service built as the tests are, on a machine that may be busy: nobody waits for a second. The
//! real bounds are for a release build on an idle machine, `cargo run --release -p ferretto-hostile`.

use std::path::Path;
use std::time::Duration;

use ferretto_hostile::{Bounds, GROWN_KIB, attacker_uid, cases, command, judge};

#[test]
fn the_honest_are_served_and_lose_nothing() {
    let bounds = Bounds { longest_wait: Duration::from_secs(1), grown_kib: GROWN_KIB };
    let mut faults = Vec::new();
    eprintln!("the attacker is the user {:?}, if not the same as the honest", attacker_uid());
    for case in cases::ALL.iter().filter(|case| !case.is_slow) {
        let verdict =
            judge(case, command(env!("CARGO_BIN_EXE_hostile")), Path::new(env!("CARGO_BIN_EXE_hostile")));
        let longest = verdict.fates.as_ref().map(|fates| fates.longest_wait);
        eprintln!("{}: longest wait {longest:?}, {} KiB", case.name, verdict.grown_kib);
        faults.extend(verdict.fault(case, &bounds).map(|fault| format!("{}: {fault}", case.name)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
