//! Client libraries that share no memory with the service: over TCP, and behind a relay.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use Maker::{Ferretto, Upstream};
use ferretto_interop::{
    Maker, Program, World, both, config, end_into_file, need, trace_query, upstream_client,
};
use ferretto_ipc::address::{CONSUMER_SOCKET_ENV, PRODUCER_SOCKET_ENV};

const TIMEOUT: Duration = Duration::from_secs(60);
const ROUNDS: i64 = 500;
/// A round takes more than 60 bytes, a chunk less than 4096.
const ROUNDS_IN_A_CHUNK: i64 = 4096 / 60;

/// How a program reaches the service.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Tcp,
    Relay,
}

macro_rules! ways {
    ($($name:ident: $client:ident by $way:ident to $service:ident;)*) => {
        $(#[test] fn $name() {
            let (client, name) = need!($client());
            check(&client, name, Way::$way, $service);
        })*
    };
}

ways! {
    our_library_by_tcp_to_our_service: ours by Tcp to Ferretto;
    our_library_by_tcp_to_upstreams_service: ours by Tcp to Upstream;
    our_library_by_a_relay_to_our_service: ours by Relay to Ferretto;
    our_library_by_a_relay_to_upstreams_service: ours by Relay to Upstream;
    upstreams_library_by_tcp_to_our_service: upstreams by Tcp to Ferretto;
    upstreams_library_by_a_relay_to_our_service: upstreams by Relay to Ferretto;
    upstreams_library_by_a_relay_to_upstreams_service: upstreams by Relay to Upstream;
}

/// A program that writes [`ROUNDS`] slices, and what it is called in their names.
fn upstreams() -> Result<(Command, &'static str), String> {
    Ok((upstream_client()?, "upstream"))
}

fn ours() -> Result<(Command, &'static str), String> {
    Ok((Command::new(env!("CARGO_BIN_EXE_sdk-client")), "ferretto"))
}

/// The world sets its sockets for every program: what is said here counts more.
fn with(variables: &[(&str, &str)], command: &Command) -> Command {
    let mut with = Command::new("env");
    with.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
    with.arg(command.get_program()).args(command.get_args());
    with
}

/// An address on which nobody listens yet.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

fn check(client: &Command, name: &str, way: Way, maker: Maker) {
    let (peers, sql) = (need!(both()), need!(trace_query()));
    let mut world = World::new();
    let address = free_address();
    let path = |path: std::path::PathBuf| path.to_str().expect("a path").to_owned();
    let listen = format!("{},{address}", path(world.producer_socket()));
    let consumers = path(world.consumer_socket());
    let mut traced = peers.command(maker, Program::Traced);
    traced.arg("--enable-relay-endpoint");
    world
        .start(with(&[(PRODUCER_SOCKET_ENV, &listen), (CONSUMER_SOCKET_ENV, &consumers)], &traced), "traced");
    world.wait_for_sockets();
    let reach = match way {
        Way::Tcp => address,
        Way::Relay => {
            let socket = path(world.path("relay"));
            let mut relay = peers.ferretto();
            relay.arg("relay");
            let variables = [(PRODUCER_SOCKET_ENV, socket.as_str()), ("PERFETTO_RELAY_SOCK_NAME", &address)];
            world.start(with(&variables, &relay), "relay");
            world.wait_until("the relay listens", || std::path::Path::new(&socket).exists());
            socket
        }
    };
    let mut client = with(&[(PRODUCER_SOCKET_ENV, &reach)], client);
    client.args([ROUNDS.to_string().as_str(), "1"]);
    let mut running = world.spawn(client, "client");
    world.wait_for_data_source("track_event");

    let trace = record(&world, || {
        let status = running.wait(TIMEOUT).unwrap_or_else(|| panic!("the client hangs: {}", running.log()));
        assert!(status.success(), "{}", running.log());
        // Upstream's service would let the flush wait for a client whose end it has not seen yet.
        world.wait_for_no_data_source("track_event");
    });
    let slices = format!("select count(*) from slice where name = '{name} slice' and dur >= 0");
    let errors = "select count(*) from stats where severity != 'info' and value > 0";
    let numbers = sql.numbers(&trace, &[&slices, errors]);
    // Upstream's library does not flush when its process ends, and nobody else sees its last chunk.
    let least = if name == "upstream" { ROUNDS - ROUNDS_IN_A_CHUNK } else { ROUNDS };
    assert!((least..=ROUNDS).contains(&numbers[0]) && numbers[1] == 0, "{numbers:?}\n{}", world.logs());
}

/// A trace of all machines while this happens.
fn record(world: &World, meanwhile: impl FnOnce()) -> std::path::PathBuf {
    let config = config(
        "buffers { size_kb: 16384 } trace_all_machines: true data_sources { config {
            name: \"track_event\" track_event_config { enabled_categories: \"*\" }
        } }",
    );
    let mut consumer = world.consumer();
    consumer.enable_tracing(config, None).expect("the service takes the config");
    meanwhile();
    consumer.flush(TIMEOUT, 0).expect("a flush");
    let path = world.path("trace.pftrace");
    end_into_file(&mut consumer, &path);
    path
}
