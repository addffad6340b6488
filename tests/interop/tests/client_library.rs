//! Upstream's client library (tests/upstream-client) on a service of either maker.

use std::time::Duration;

use ferretto_interop::{
    Maker, Peers, Program, World, ferretto, need, trace_query, upstream, upstream_client,
};

const TIMEOUT: Duration = Duration::from_secs(60);
const ROUNDS: i64 = 500;

/// The service's own command line records, so that only one maker's programs are needed.
fn check(peers: &Peers, maker: Maker) {
    let sql = need!(trace_query());
    let mut client = need!(upstream_client());
    let world = World::with_traced(peers, maker);
    client.args([ROUNDS.to_string().as_str(), "1"]);
    let mut client = world.spawn(client, "upstream-client");
    world.wait_for_data_source("track_event");

    let mut consumer = world.consumer();
    let config = ferretto_interop::config(
        r#"
        buffers { size_kb: 4096 }
        data_sources { config { name: "track_event" track_event_config {
          enabled_categories: "upstream.client" disabled_categories: "*" } } }
        "#,
    );
    consumer.enable_tracing(config, None).unwrap();
    let status = client.wait(TIMEOUT).unwrap_or_else(|| panic!("the client hangs: {}", client.log()));
    assert!(status.success(), "{}", client.log());
    consumer.disable().unwrap();
    while !matches!(
        consumer.poll(Some(TIMEOUT)),
        Some(ferretto_consumer::Event::TracingDisabled { error: None })
    ) {}
    let path = world.path("trace.pftrace");
    let mut file = std::fs::File::create(&path).unwrap();
    consumer.read_buffers(|packet| ferretto_consumer::write_packet(&mut file, packet)).unwrap();

    let count = |name: &str| {
        sql.number(
            &path,
            &format!("select count(*) from slice where name = '{name}' and category = 'upstream.client'"),
        )
    };
    assert_eq!((count("upstream slice"), count("upstream instant")), (ROUNDS, ROUNDS));
    let counters = "select count(*) from counter join counter_track t on counter.track_id = t.id where t.name = 'upstream counter'";
    assert_eq!(sql.number(&path, counters), ROUNDS);
    assert_eq!(sql.losses(&path), Vec::<String>::new());
}

#[test]
fn it_loses_nothing_on_our_service() {
    check(&need!(ferretto()), Maker::Ferretto);
}

#[test]
fn it_loses_nothing_on_upstreams_service() {
    check(&need!(upstream()), Maker::Upstream);
}

#[test]
fn our_service_stops_when_asked_to_and_removes_its_sockets() {
    let peers = need!(ferretto());
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let world = World::new();
        let mut service = world.spawn(peers.command(Maker::Ferretto, Program::Traced), "traced");
        world.wait_for_sockets();
        service.signal(signal);
        let status = service.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", service.log()));
        assert!(status.success(), "{status}: {}", service.log());
        assert!(!world.producer_socket().exists() && !world.consumer_socket().exists());
    }
}
