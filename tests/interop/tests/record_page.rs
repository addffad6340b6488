//! The Perfetto UI records this machine: its "Record new trace" page in a real browser, `ferretto bridge`, and the daemons behind it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use ferretto_interop::{Maker, Reason, World, browser, ferretto, need, trace_query, tracefs};

/// The page finds the bridge there, and the bridge takes pages from there; neither can be chosen.
const BRIDGE_PORT: u16 = 8037;
const UI_PORT: u16 = 10000;
/// A browser on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(240);

fn free(port: u16) -> Result<(), Reason> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    bound.map(drop).map_err(|error| format!("needs port {port} of localhost: {error}"))
}

#[test]
fn the_page_records_and_opens_a_trace() {
    need!(tracefs());
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    let browser = need!(browser());
    need!(free(BRIDGE_PORT).and(free(UI_PORT)));
    let mut world = World::with_traced(&peers, Maker::Ferretto);
    world.start_probes(&peers, Maker::Ferretto);
    let mut bridge = peers.ferretto();
    bridge.arg("bridge");
    world.start(bridge, "bridge");
    world.wait_until("the bridge", || TcpStream::connect((Ipv4Addr::LOCALHOST, BRIDGE_PORT)).is_ok());

    let done = world.run(browser.record_page(&world.path("")), TIMEOUT);
    assert!(done.status.success(), "{}\n{}", done.stderr, world.logs());
    assert!(done.stdout.contains("Ferretto v"), "the page talked to our service: {}", done.stdout);
    // What the UI's own Trace Processor found.
    for table in ["sched", "process"] {
        let line = done.stdout.lines().find_map(|line| line.strip_prefix(table));
        let rows = line.and_then(|rows| rows.trim().parse::<u64>().ok());
        assert!(rows.is_some_and(|rows| rows > 0), "{table}: {}", done.stdout);
    }
    // The bytes that came through the bridge.
    let trace = world.path("ui.pftrace");
    let queries = [
        "select count(*) from sched where dur > 0",
        "select count(*) from process where cmdline is not null",
    ];
    for (query, number) in queries.iter().zip(sql.numbers(&trace, &queries)) {
        assert!(number > 0, "{query}");
    }
}
