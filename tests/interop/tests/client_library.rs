//! Client libraries on services: upstream's (tests/upstream-client) and ours (src/bin/sdk-client.rs), each on each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{
    Maker, Peers, Program, TraceQuery, World, config, end_into_file, ferretto, need, trace_query, upstream,
    upstream_client,
};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(60);
const ROUNDS: i64 = 500;

/// A program that writes [`ROUNDS`] slices, instants and counters named after it.
struct Client {
    command: Command,
    name: &'static str,
}

fn upstreams_library() -> Result<Client, String> {
    Ok(Client { command: upstream_client()?, name: "upstream" })
}

fn our_library() -> Result<Client, String> {
    Ok(Client { command: Command::new(env!("CARGO_BIN_EXE_sdk-client")), name: "ferretto" })
}

/// Each library on each service.
macro_rules! on_each_service {
    ($($name:ident: $client:ident on $service:ident ($maker:ident);)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn nothing_is_lost() {
                check_events(need!($client()), &need!($service()), Maker::$maker, &need!(trace_query()), false);
            }

            #[test]
            fn a_service_that_appears_later_is_found() {
                check_events(need!($client()), &need!($service()), Maker::$maker, &need!(trace_query()), true);
            }
        })*
    };
}

on_each_service! {
    upstreams_library_on_our_service: upstreams_library on ferretto (Ferretto);
    upstreams_library_on_upstreams_service: upstreams_library on upstream (Upstream);
    our_library_on_our_service: our_library on ferretto (Ferretto);
    our_library_on_upstreams_service: our_library on upstream (Upstream);
}

fn check_events(mut client: Client, service: &Peers, maker: Maker, sql: &TraceQuery, client_first: bool) {
    let mut world = if client_first { World::new() } else { World::with_traced(service, maker) };
    client.command.args([ROUNDS.to_string().as_str(), "1"]);
    let mut running = world.spawn(client.command, "client");
    if client_first {
        std::thread::sleep(Duration::from_millis(300));
        world.start(service.command(maker, Program::Traced), "traced");
        world.wait_for_sockets();
    }
    world.wait_for_data_source("track_event");

    let trace = record(&world, client.name, || {
        let status = running.wait(TIMEOUT).unwrap_or_else(|| panic!("the client hangs: {}", running.log()));
        assert!(status.success(), "{}", running.log());
    });
    check_trace(&trace, client.name, sql);
}

fn check_trace(trace: &Path, name: &str, sql: &TraceQuery) {
    let queries = [
        format!(
            "select count(*) from slice where name = '{name} slice' and category = '{name}.client' and dur >= 0"
        ),
        format!(
            "select count(*) from slice where name = '{name} instant' and category = '{name}.client' and dur = 0"
        ),
        format!(
            "select count(*) from counter c join counter_track t on c.track_id = t.id where t.name = '{name} counter'"
        ),
        format!(
            "select count(distinct display_value) from slice join args using (arg_set_id) \
             where name = '{name} slice' and key = 'debug.round'"
        ),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    assert_eq!(sql.numbers(trace, &queries), [ROUNDS; 4]);
    assert_eq!(sql.losses(trace), Vec::<String>::new());
}

#[test]
fn what_our_library_records_of_its_startup_is_in_a_session_of_our_service() {
    check_startup(&need!(ferretto()), Maker::Ferretto, &need!(trace_query()));
}

#[test]
fn what_our_library_records_of_its_startup_is_in_a_session_of_upstreams_service() {
    check_startup(&need!(upstream()), Maker::Upstream, &need!(trace_query()));
}

/// The program runs for a while before the service, and that for a while before the session, which has all of it.
fn check_startup(service: &Peers, maker: Maker, sql: &TraceQuery) {
    let mut client = our_library().unwrap();
    let mut world = World::new();
    client.command.args([ROUNDS.to_string().as_str(), "2", "startup"]);
    let mut running = world.spawn(client.command, "client");
    std::thread::sleep(Duration::from_millis(300));
    world.start(service.command(maker, Program::Traced), "traced");
    world.wait_for_sockets();
    world.wait_for_data_source("track_event");
    std::thread::sleep(Duration::from_millis(300));
    let trace = record(&world, client.name, || {
        let status = running.wait(TIMEOUT).unwrap_or_else(|| panic!("the client hangs: {}", running.log()));
        assert!(status.success(), "{}", running.log());
    });
    check_trace(&trace, client.name, sql);
    // They lie where they were, at least half a second before the session's first own word.
    let early = "select count(*) from slice where name = 'ferretto instant' and ts < \
                 (select int_value from metadata where name = 'tracing_started_ns') - 500000000";
    let early = sql.numbers(&trace, &[early])[0];
    assert!((1..ROUNDS).contains(&early), "{early}");
    let named = "select count(*) from thread join process using (upid) where process.name like '%sdk-client'";
    assert!(sql.numbers(&trace, &[named])[0] >= 1);
}

/// Records while something happens, with our own consumer: whose it is makes no difference, as other tests show.
fn record(world: &World, name: &str, happening: impl FnOnce()) -> PathBuf {
    let mut consumer = world.consumer();
    let text = format!(
        r#"
        buffers {{ size_kb: 4096 }}
        data_sources {{ config {{ name: "track_event" track_event_config {{
          enabled_categories: "{name}.client" disabled_categories: "*" }} }} }}
        "#
    );
    consumer.enable_tracing(config(&text), None).unwrap();
    happening();
    let path = world.path("trace.pftrace");
    end_into_file(&mut consumer, &path);
    path
}

#[test]
fn our_service_stops_when_asked_to_and_removes_its_sockets() {
    let peers = need!(ferretto());
    for signal in [Signal::TERM, Signal::INT] {
        let world = World::new();
        let mut service = world.spawn(peers.command(Maker::Ferretto, Program::Traced), "traced");
        world.wait_for_sockets();
        service.signal(signal);
        let status = service.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", service.log()));
        assert!(status.success(), "{status}: {}", service.log());
        assert!(!world.producer_socket().exists() && !world.consumer_socket().exists());
    }
}
