//! Tasks as spans (src/bin/sdk-tasks.rs), of our client library and of the crate `tracing`, through each service, as Trace Processor finds
//! them.

use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Maker, Peers, World, config, end_into_file, need, through_each_service, trace_query};

const TIMEOUT: Duration = Duration::from_secs(60);
const REQUESTS: i64 = 40;

const CONFIG: &str = r#"
    buffers { size_kb: 4096 }
    data_sources { config { name: "track_event" track_event_config {
        enabled_categories: "ferretto.tasks" enabled_categories: "logged" disabled_categories: "*"
    } } }
"#;

through_each_service!(check);

fn check(peers: &Peers, maker: Maker) {
    let sql = need!(trace_query());
    let world = World::with_traced(peers, maker);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdk-tasks"));
    command.arg(REQUESTS.to_string());
    let mut program = world.spawn(command, "tasks");
    world.wait_for_data_source("track_event");
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(CONFIG), None).unwrap();
    let status = program.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", program.log()));
    assert!(status.success(), "{}", program.log());
    let trace = world.path("trace.pftrace");
    end_into_file(&mut consumer, &trace);
    assert_eq!(sql.losses(&trace), Vec::<String>::new());

    let below = |parent: &str, child: &str| {
        format!(
            "select count(*) from slice c join slice p on c.parent_id = p.id \
             where c.name = '{child}' and p.name = '{parent}' and c.dur > 0 and p.dur > c.dur \
             and extract_arg(c.arg_set_id, 'debug.id') = extract_arg(p.arg_set_id, 'debug.id')"
        )
    };
    let queries = [
        below("request", "query"),
        below("logged request", "logged query"),
        "select count(distinct extract_arg(arg_set_id, 'debug.id')) from slice \
         where name = 'accepted' and category = 'logged'"
            .to_owned(),
        "select count(*) from slice where dur < 0".to_owned(),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    assert_eq!(sql.numbers(&trace, &queries), [REQUESTS, REQUESTS, REQUESTS, 0]);
    // A request takes four pauses, and another begins after each.
    let overlaps = "select count(*) from slice a join slice b on a.name = b.name and a.id != b.id \
                    and b.ts > a.ts and b.ts < a.ts + a.dur where a.name in ('request', 'logged request')";
    assert!(sql.numbers(&trace, &[overlaps])[0] > REQUESTS);
}
