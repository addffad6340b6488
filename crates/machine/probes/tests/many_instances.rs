//! What many instances leave for others: the one thread that serves all of them never waits for itself.

#[path = "../../../client/producer/tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_ipc::socket::Stream;
use ferretto_probes::{Error, ProbesOptions};
use ferretto_producer::Connector;
use ferretto_protos::get_async_command_response::{Cmd, SetupDataSource, StartDataSource};
use ferretto_protos::{DataSourceConfig, SysStatsConfig, TracePacket};
use prost::Message;
use support::{BUFFER, FakeService, Setup};

/// What the daemon asks for: 64 chunks.
const SETUP: Setup =
    Setup { page_size: 32 << 10, pages: 64, direct_patching: true, emulated: false, refuses_memory: false };
const A_SESSION: usize = 16;

struct World {
    service: FakeService,
    probes: Option<JoinHandle<Result<(), Error>>>,
    stop: Option<UnixStream>,
}

impl World {
    fn new(stop_on_signals: bool) -> Self {
        let (ours, theirs) = Stream::pair().unwrap();
        let (stop, stopping) = UnixStream::pair().unwrap();
        let options = ProbesOptions {
            connector: Connector::Stream(ours),
            stop: Some(OwnedFd::from(stopping)),
            stop_on_signals,
            ..ProbesOptions::default()
        };
        let probes = std::thread::spawn(|| ferretto_probes::run(options));
        let service = FakeService::new(theirs, SETUP);
        let mut world = Self { service, probes: Some(probes), stop: Some(stop) };
        world.pump_until("it registers", |service| service.sources.len() == 8);
        world.service.set_up_tracing();
        world
    }

    fn pump_until(&mut self, what: &str, is_done: impl Fn(&FakeService) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_done(&self.service) {
            self.service.pump();
            std::thread::sleep(Duration::from_millis(1));
            assert!(Instant::now() < deadline, "{what}");
        }
    }

    fn count(service: &FakeService, method: &str) -> usize {
        service.calls.iter().filter(|call| **call == method).count()
    }

    /// Counters every 10 ms, in this session; waits until it is said that they have started.
    fn start_counters(&mut self, session: u64, instances: std::ops::Range<u64>) {
        let config = DataSourceConfig {
            name: Some("linux.sys_stats".to_owned()),
            target_buffer: Some(BUFFER.into()),
            tracing_session_id: Some(session),
            sys_stats_config: Some(SysStatsConfig { meminfo_period_ms: Some(10), ..Default::default() }),
            ..Default::default()
        };
        let config = Some(bytes::Bytes::from(config.encode_to_vec()));
        let started = Self::count(&self.service, "NotifyDataSourceStarted") + instances.clone().count();
        for id in instances {
            let new_instance_id = Some(id);
            let setup = SetupDataSource { new_instance_id, config: config.clone() };
            self.service.command(Cmd::SetupDataSource(setup));
            let start = StartDataSource { new_instance_id, config: config.clone() };
            self.service.command(Cmd::StartDataSource(start));
        }
        self.pump_until("all start", |service| Self::count(service, "NotifyDataSourceStarted") >= started);
    }

    /// So many sequences have come.
    fn sequences(service: &FakeService) -> usize {
        let mut writers: Vec<u16> = service.chunks.keys().map(|(writer, _)| *writer).collect();
        writers.dedup();
        writers.len()
    }

    fn end(mut self) {
        drop(self.stop.take());
        let probes = self.probes.take().unwrap();
        self.pump_until("it ends", |_| probes.is_finished());
        probes.join().unwrap().unwrap();
    }
}

#[test]
fn more_instances_than_there_are_chunks_all_record() {
    let mut world = World::new(false);
    (0..5).for_each(|session| {
        let first = session * A_SESSION as u64;
        world.start_counters(session, first..first + A_SESSION as u64);
    });
    world.pump_until("each writes", |service| World::sequences(service) == 5 * A_SESSION);
    // Nobody flushes: what idle ones have written comes by itself, and most of the memory is free.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        world.service.pump();
        assert!(world.service.scrape().len() <= 9);
    }
    // A neighbour's flush is answered in good time.
    world.service.flush(7, &[3]);
    let began = Instant::now();
    world.pump_until("it flushes", |service| service.acknowledged_flush == 7);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    world.end();
}

#[test]
fn a_session_has_so_many_instances_and_others_have_theirs() {
    let mut world = World::new(false);
    world.start_counters(1, 0..100);
    world.start_counters(2, 100..110);
    // One more says what is refused, and is gone.
    world.pump_until("each writes", |service| World::sequences(service) == A_SESSION + 10 + 1);
    assert_eq!(world.service.writers.len(), A_SESSION + 10, "the others have no writers");
    let writers: BTreeSet<u16> = world.service.chunks.keys().map(|(writer, _)| *writer).collect();
    let packets = writers.into_iter().flat_map(|writer| world.service.packets(writer));
    let packets = packets.map(|packet| TracePacket::decode(packet.as_slice()).unwrap());
    let refused: Vec<_> = packets.filter_map(|packet| packet.not_recorded).collect();
    assert_eq!(refused.len(), 1, "it is said once");
    assert_eq!(refused[0].data_source_name(), "linux.sys_stats");
    assert!(refused[0].reason().contains("16"), "{refused:?}");
    world.service.stop(50);
    world.service.stop(0);
    world.pump_until("they stop", |service| World::count(service, "NotifyDataSourceStopped") == 2);
    world.start_counters(1, 200..202);
    assert_eq!(world.service.writers.len(), A_SESSION + 10, "one has its place");
    world.end();
}

#[test]
fn few_instances_fill_their_chunks() {
    let mut world = World::new(false);
    world.start_counters(1, 0..8);
    std::thread::sleep(Duration::from_millis(50));
    world.service.pump();
    assert_eq!(world.service.commits, 0);
    world.end();
}

#[test]
fn a_signal_ends_it_while_the_service_is_stuck() {
    let mut world = World::new(true);
    world.start_counters(1, 0..A_SESSION as u64);
    world.pump_until("each writes", |service| World::sequences(service) == A_SESSION);
    world.service.is_stuck = true;
    // The memory is full after a while, as nobody takes anything: 1600 times a second a chunk.
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        world.service.pump();
        std::thread::sleep(Duration::from_millis(1));
    }
    let commits = world.service.commits;
    assert!(!world.probes.as_ref().unwrap().is_finished());
    let began = Instant::now();
    signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
    let probes = world.probes.take().unwrap();
    // The service does nothing at all now.
    while !probes.is_finished() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    probes.join().unwrap().unwrap();
    assert_eq!(world.service.commits, commits);
}
