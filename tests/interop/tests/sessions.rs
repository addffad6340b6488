//! A program records itself by sessions from code (src/bin/sdk-session.rs), through each service.

use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Maker, Peers, World, need, through_each_service, trace_query};

const TIMEOUT: Duration = Duration::from_secs(120);
/// They fit into the memory that the program shares with the service, so that none is lost.
const EVENTS: i64 = 1000;

through_each_service!(check);

fn check(peers: &Peers, maker: Maker) {
    let sql = need!(trace_query());
    let world = World::with_traced(peers, maker);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdk-session"));
    command.arg(EVENTS.to_string()).arg(world.path(""));
    let mut program = world.spawn(command, "session");
    let status = program.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", program.log()));
    assert!(status.success(), "{}", program.log());
    assert!(program.log().contains("refused"), "{}", program.log());
    let queries = [
        "select count(*) from slice where name = 'own event' and category = 'ferretto.session'",
        "select count(distinct display_value) from slice join args using (arg_set_id) where key = 'debug.number'",
    ];
    // All are there: Trace Processor takes seconds a look, and need not be asked for losses, too.
    for (file, numbers) in
        [("blocking", EVENTS / 2), ("awaited", EVENTS), ("copy", EVENTS), ("by-service", EVENTS)]
    {
        let trace = world.path(file);
        // `blocking` counts twice to half.
        assert_eq!(sql.numbers(&trace, &queries), [EVENTS, numbers], "{file}");
    }
}
