//! Promises about producers on other machines, and about relays, which may lie.

mod world;

use ferretto_protos::sync_clock_request::{Clock, Phase};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{
    BuiltinClock, CloneSessionRequest, InitRelayRequest, RemoteClockSync, SyncClockRequest, SystemInfo,
    TracePacket,
};
use ferretto_service::{ConsumerCall, Machine, ProducerConn, RelayCall};
use prost::Message;
use world::{Introduction, World, named};

const GUEST: u32 = 0xabcd;

fn guest() -> Introduction {
    on(GUEST, "guest")
}

fn on(id: u32, name: &str) -> Introduction {
    let machine = Some(Machine { id, name: name.to_owned() });
    Introduction { emulated: true, machine, ..named("p") }
}

fn config(extra: &str, of_source: &str) -> String {
    format!("buffers {{ size_kb: 64 }} data_sources {{ config {{ name: \"data\" }} {of_source} }} {extra}")
}

fn clock(clock: BuiltinClock, timestamp: u64) -> Clock {
    Clock { clock_id: Some(clock as u32), timestamp: Some(timestamp) }
}

fn sync(world: &mut World, relay: ProducerConn, phase: Phase, clocks: Vec<Clock>) {
    world.relay(relay, RelayCall::SyncClock(SyncClockRequest { phase: Some(phase as i32), clocks }));
}

/// A whole round whose boot clock shows `at` and `at + 100`.
fn sync_round(world: &mut World, relay: ProducerConn, at: u64) {
    sync(world, relay, Phase::Ping, vec![clock(BuiltinClock::Boottime, at)]);
    sync(world, relay, Phase::Update, vec![clock(BuiltinClock::Boottime, at + 100)]);
}

fn init(world: &mut World, relay: ProducerConn, cpus: u32) {
    let info = SystemInfo { num_cpus: Some(cpus), ..Default::default() }.encode_to_vec();
    world.relay(relay, RelayCall::InitRelay(InitRelayRequest { system_info: Some(info.into()) }));
}

fn syncs(packets: &[TracePacket]) -> Vec<(u32, RemoteClockSync)> {
    let sync = |packet: &TracePacket| match &packet.data {
        Some(Data::RemoteClockSync(sync)) => Some((packet.machine_id(), sync.clone())),
        _ => None,
    };
    packets.iter().filter_map(sync).collect()
}

/// What the boot clocks of the machines showed.
fn synced_times(packets: &[TracePacket]) -> Vec<u64> {
    let boottime = |synced: &ferretto_protos::remote_clock_sync::SyncedClocks| {
        synced.client_clocks.as_ref().unwrap().clocks[0].timestamp()
    };
    syncs(packets).iter().flat_map(|(_, sync)| sync.synced_clocks.iter().map(boottime)).collect()
}

/// `(machine, CPUs)` of the packets that say what a machine is.
fn system_infos(packets: &[TracePacket]) -> Vec<(Option<u32>, u32)> {
    let info = |packet: &TracePacket| match &packet.data {
        Some(Data::SystemInfo(info)) => Some((packet.machine_id, info.num_cpus())),
        _ => None,
    };
    packets.iter().filter_map(info).collect()
}

/// A session with a producer on another machine, and that machine's relay.
fn tracing(world: &mut World) -> (ferretto_service::ConsumerConn, ProducerConn) {
    let producer = world.introduce(&guest());
    world.register(producer, "data");
    let relay = world.connect(&guest());
    let consumer = world.consumer(0);
    world.enable(consumer, &config("trace_all_machines: true", ""));
    (consumer, relay)
}

#[test]
fn machines_are_chosen_by_name_and_others_only_if_asked_for() {
    let cases = [
        ("", "", vec!["host"]),
        ("trace_all_machines: true", "", vec!["host", "guest", "Linux"]),
        ("", "machine_name_filter: \"host\"", vec!["host"]),
        ("", "machine_name_filter: \"guest\"", vec!["guest"]),
        ("", "machine_name_filter: \"Linux\"", vec!["host", "Linux"]),
        ("trace_all_machines: true", "machine_name_filter: \"guest\"", vec!["guest"]),
        ("", "machine_name_filter: \"host\" machine_name_filter: \"guest\"", vec!["host", "guest"]),
        ("", "machine_name_filter: \"none\"", vec![]),
    ];
    for (extra, of_source, expected) in cases {
        let mut world = World::default();
        // The world's service runs on a machine named Linux, too; a machine may call itself host.
        let all = [("host", named("p")), ("guest", guest()), ("Linux", on(7, "Linux"))];
        let producers: Vec<_> = all.iter().map(|(name, who)| (*name, world.introduce(who))).collect();
        let pretender = world.introduce(&on(8, "host"));
        for conn in producers.iter().map(|(_, conn)| *conn) {
            world.register(conn, "data");
        }
        let consumer = world.consumer(0);
        world.enable(consumer, &config(extra, of_source));
        let chosen = |(_, conn): &&(&str, ProducerConn)| !world.producers[conn].commands.is_empty();
        let chosen: Vec<&str> = producers.iter().filter(chosen).map(|(name, _)| *name).collect();
        assert_eq!(chosen, expected, "{extra} {of_source}");
        assert!(world.producers[&pretender].commands.is_empty());
    }
}

#[test]
fn a_producer_that_shares_no_memory_sets_tracing_up_once_with_its_page_size() {
    use ferretto_protos::get_async_command_response::Cmd;
    let mut world = World::default();
    let producer = world.introduce(&Introduction { page_hint: 8192, ..guest() });
    world.register(producer, "data");
    let mut setups = Vec::new();
    for _ in 0..2 {
        let consumer = world.consumer(0);
        world.enable(consumer, &config("trace_all_machines: true", ""));
        setups.extend(world.commands(producer).into_iter().filter_map(|command| match command {
            Cmd::SetupTracing(setup) => setup.shared_buffer_page_size_kb,
            _ => None,
        }));
        world.free(consumer);
    }
    assert_eq!(setups, [8]);
}

#[test]
fn packets_and_the_state_say_which_machine() {
    let mut world = World::default();
    let (consumer, _) = tracing(&mut world);
    let producer = *world.producers.keys().next().unwrap();
    world.emit_inline(producer, 1, 1, &world::packet("there"));
    let state = world.query(consumer);
    let machines: Vec<_> =
        state.producers.iter().map(|p| (p.machine_id, p.machine_name.as_deref())).collect();
    assert_eq!(machines, [(Some(GUEST), Some("guest"))]);
    world.disable(consumer);
    let packets = world.read(consumer);
    let of_guest = packets.iter().filter(|packet| packet.machine_id == Some(GUEST));
    assert_eq!(of_guest.filter(|packet| packet.trusted_pid.is_some()).count(), 1);
}

#[test]
fn a_session_tells_of_its_machines_once_and_of_their_clocks_as_they_go() {
    let mut world = World::default();
    let (consumer, relay) = tracing(&mut world);
    init(&mut world, relay, 12);
    sync_round(&mut world, relay, 1000);
    let packets = world.read(consumer);
    let host_cpus = system_infos(&packets)[0];
    assert_eq!(system_infos(&packets), [(None, host_cpus.1), (Some(GUEST), 12)]);
    let told = syncs(&packets);
    let [(GUEST, sync)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(synced_times(&packets), [1000, 1100]);
    let host = sync.synced_clocks[0].host_clocks.as_ref().unwrap();
    assert_eq!(host.clocks[0].timestamp(), world.now.clocks.boottime);

    assert!(syncs(&world.read(consumer)).is_empty());
    init(&mut world, relay, 13);
    for at in [2000, 3000, 4000, 5000] {
        sync_round(&mut world, relay, at);
    }
    let packets = world.read(consumer);
    assert!(system_infos(&packets).is_empty());
    assert_eq!(synced_times(&packets), [3000, 3100, 4000, 4100, 5000, 5100], "the last three rounds");
}

#[test]
fn what_is_no_description_of_a_machine_is_left_out() {
    let mut world = World::default();
    let (consumer, relay) = tracing(&mut world);
    for garbage in [&b"\xff"[..], b"\x07", b"\x0a\x7f", b"\x0a\x02\x0a\x09"] {
        let info = Some(garbage.to_vec().into());
        world.relay(relay, RelayCall::InitRelay(InitRelayRequest { system_info: info }));
    }
    init(&mut world, relay, 12);
    assert_eq!(system_infos(&world.read(consumer))[1..], [(Some(GUEST), 12)]);
}

#[test]
fn a_relay_may_be_there_before_the_session_and_be_gone_before_it_is_read() {
    let mut world = World::default();
    let relay = world.connect(&guest());
    init(&mut world, relay, 12);
    sync_round(&mut world, relay, 1000);
    let producer = world.introduce(&guest());
    world.register(producer, "data");
    let (with, without) = (world.consumer(0), world.consumer(0));
    world.enable(with, &config("trace_all_machines: true", ""));
    world.enable(without, &config("", ""));
    world.disconnect(relay);
    world.disconnect(producer);
    let packets = world.read(with);
    assert_eq!(synced_times(&packets), [1000, 1100]);
    assert_eq!(system_infos(&packets).len(), 2);
    let packets = world.read(without);
    assert!(syncs(&packets).is_empty() && system_infos(&packets).len() == 1, "no data source runs there");

    let later = world.consumer(0);
    world.enable(later, &config("trace_all_machines: true", ""));
    assert!(syncs(&world.read(later)).is_empty(), "the relay is forgotten");
}

#[test]
fn a_copy_of_a_session_tells_all_of_it_again() {
    let mut world = World::default();
    let (consumer, relay) = tracing(&mut world);
    init(&mut world, relay, 12);
    sync_round(&mut world, relay, 1000);
    world.read(consumer);
    let other = world.consumer(0);
    let selector = Some(ferretto_protos::clone_session_request::Selector::SessionId(1));
    world.ask(other, ConsumerCall::CloneSession(CloneSessionRequest { selector, ..Default::default() }));
    let producer = *world.producers.keys().next().unwrap();
    world.acknowledge_flushes(producer);
    let packets = world.read(other);
    assert_eq!((synced_times(&packets), system_infos(&packets).len()), (vec![1000, 1100], 2));
}

#[test]
fn builtin_sources_can_be_switched_off_for_other_machines_too() {
    let mut world = World::default();
    let (_, relay) = tracing(&mut world);
    let consumer = world.consumer(0);
    let off = "builtin_data_sources { disable_system_info: true disable_clock_snapshotting: true }";
    world.enable(consumer, &config(&format!("trace_all_machines: true {off}"), ""));
    init(&mut world, relay, 12);
    sync_round(&mut world, relay, 1000);
    let packets = world.read(consumer);
    assert!(syncs(&packets).is_empty() && system_infos(&packets).is_empty());
}

#[test]
fn only_the_first_relay_of_a_machine_is_believed() {
    let mut world = World::default();
    let (consumer, relay) = tracing(&mut world);
    sync_round(&mut world, relay, 1000);
    let liar = world.connect(&guest());
    init(&mut world, liar, 666);
    sync_round(&mut world, liar, 77);
    let packets = world.read(consumer);
    assert_eq!((synced_times(&packets), system_infos(&packets).len()), (vec![1000, 1100], 1));
    world.disconnect(relay);
    sync_round(&mut world, liar, 99);
    assert_eq!(synced_times(&world.read(consumer)), [99, 199], "the first has gone");
}

#[test]
fn clocks_that_cannot_be_are_dropped() {
    use BuiltinClock::{Boottime, Monotonic};
    let boot = |at| clock(Boottime, at);
    let number = |id| Clock { clock_id: Some(id), timestamp: Some(5) };
    let cases = [
        ("no clocks", vec![], vec![boot(1)], 0),
        ("no boot clock", vec![clock(Monotonic, 1)], vec![clock(Monotonic, 2)], 0),
        ("zero", vec![boot(0)], vec![boot(1)], 0),
        ("overflow", vec![boot(1)], vec![boot(u64::MAX)], 0),
        ("backwards", vec![boot(1000)], vec![boot(999)], 0),
        ("a minute between", vec![boot(1)], vec![boot(60_000_000_001)], 0),
        ("unknown clocks", vec![number(0), number(64), boot(1)], vec![number(u32::MAX), boot(2)], 1),
        ("twice", vec![boot(1), boot(9)], vec![boot(2), boot(1)], 1),
        ("after many", (1..64).map(number).chain([boot(1)]).collect(), vec![boot(6)], 1),
    ];
    for (what, ping, update, expected) in cases {
        let mut world = World::default();
        let (consumer, relay) = tracing(&mut world);
        sync(&mut world, relay, Phase::Ping, ping);
        sync(&mut world, relay, Phase::Update, update);
        let packets = world.read(consumer);
        let syncs = syncs(&packets);
        assert_eq!(syncs.len(), expected, "{what}");
        for (_, sync) in syncs {
            for synced in sync.synced_clocks {
                let mut ids: Vec<u32> =
                    synced.client_clocks.unwrap().clocks.iter().map(|clock| clock.clock_id()).collect();
                let len = ids.len();
                ids.sort_unstable();
                ids.dedup();
                assert!(ids.len() == len && ids.iter().all(|id| (1..64).contains(id)), "{what}: {ids:?}");
            }
        }
    }
}

#[test]
fn halves_of_rounds_are_not_taken_for_rounds() {
    use BuiltinClock::Boottime;
    let mut world = World::default();
    let (consumer, relay) = tracing(&mut world);
    for (phase, at) in
        [(Phase::Update, 1), (Phase::Ping, 2), (Phase::Ping, 3), (Phase::Update, 4), (Phase::Update, 5)]
    {
        sync(&mut world, relay, phase, vec![clock(Boottime, at)]);
    }
    assert_eq!(synced_times(&world.read(consumer)), [3, 4]);
}

#[test]
fn a_flood_of_clocks_is_as_small_as_a_few() {
    let mut world = World::default();
    let (consumer, relay) = tracing(&mut world);
    for at in 0..20_000 {
        sync_round(&mut world, relay, 1000 + at);
    }
    assert_eq!(synced_times(&world.read(consumer)).len(), 6);
}

#[test]
fn relays_that_are_too_many_too_large_or_nowhere_are_refused() {
    let mut world = World::default();
    let local = world.connect(&named("p"));
    init(&mut world, local, 1);
    assert_eq!(world.producers[&local].last_reply, Some(None), "a relay on the service's own machine");

    let (consumer, relay) = tracing(&mut world);
    let huge = Some(vec![0; 16 * 1024 + 1].into());
    world.relay(relay, RelayCall::InitRelay(InitRelayRequest { system_info: huge }));
    assert_eq!(system_infos(&world.read(consumer)).len(), 1);

    let mut refused = 0;
    for id in 1..=300 {
        let relay = world.connect(&on(id, ""));
        init(&mut world, relay, 1);
        refused += usize::from(world.producers[&relay].last_reply == Some(None));
    }
    assert_eq!(refused, 300 - 255);
}

#[test]
fn producers_of_many_machines_leave_a_session_small() {
    let mut world = World::default();
    let consumer = world.consumer(0);
    world.enable(consumer, &config("trace_all_machines: true", ""));
    for id in 1..=300 {
        let producer = world.introduce(&on(id, ""));
        world.register(producer, "data");
        let relay = world.connect(&on(id, ""));
        sync_round(&mut world, relay, 1000);
        world.disconnect(relay);
    }
    assert_eq!(syncs(&world.read(consumer)).len(), 256);
}

#[test]
fn lock_down_lets_nobody_in_who_only_says_who_it_is() {
    let mut world = World::default();
    let consumer = world.consumer(0);
    world.enable(consumer, &config("lockdown_mode: LOCKDOWN_SET", ""));
    // The world's service runs as user 7.
    for (emulated, admitted) in [(false, true), (true, false)] {
        let producer = world.introduce(&Introduction { uid: 7, emulated, ..named("p") });
        assert_eq!(world.producers[&producer].response.is_some(), admitted, "emulated: {emulated}");
    }
}
