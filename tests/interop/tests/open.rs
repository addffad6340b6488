//! `ferretto open`: the Perfetto UI in a real browser gets the trace from it, and shows it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ferretto_interop::{World, browser, ferretto, need, trace_query};

/// A browser on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(240);

#[test]
fn a_page_of_an_unpacked_ui_shows_the_trace() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    let browser = need!(browser());
    let world = World::new();
    let trace = world.path("a trace.pftrace");
    let mut record = peers.ferretto();
    record.args(["record", "--own", "-q", "-o"]).arg(&trace).arg("--");
    let recorded = world.run(
        {
            record.args([env!("CARGO_BIN_EXE_sdk-brief"), "return"]);
            record
        },
        TIMEOUT,
    );
    assert!(recorded.status.success(), "{}", recorded.stderr);

    let mut open = peers.ferretto();
    open.args(["open", "--no-browser", "--offline"]).arg(browser.ui()).arg(&trace).stdout(Stdio::piped());
    let mut open = open.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(open.stdout.take().unwrap()).read_line(&mut address).unwrap();
    assert!(address.contains("/a_trace.pftrace"), "{address}");

    let shown = world.run(browser.open_page(Path::new(address.trim()), &world.path("")), TIMEOUT);
    open.kill().unwrap();
    open.wait().unwrap();
    assert!(shown.status.success(), "{}", shown.stderr);
    let slices = sql.number(&trace, "select count(*) from slice");
    assert!(slices >= 2);
    for line in [format!("slices\t{slices}"), "errors\t0".to_owned(), "troubles\t0".to_owned()] {
        assert!(shown.stdout.lines().any(|said| said == line), "{line}: {}\n{}", shown.stdout, shown.stderr);
    }
}
