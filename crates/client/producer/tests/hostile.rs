//! Whatever a service sends, a producer does not panic, and its app goes on.

mod support;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use ferretto_producer::{ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::get_async_command_response::{
    ClearIncrementalState, Cmd, Flush, SetupDataSource, SetupTracing, StartDataSource, StopDataSource,
};
use ferretto_shm::SharedMemory;
use proptest::prelude::*;

use support::{BUFFER, FakeService, Setup, config_bytes, connected, turn};

#[derive(Debug, Clone)]
enum Attack {
    Raw(Vec<u8>),
    /// A frame of these bytes.
    Frame(Vec<u8>),
    SetupTracing {
        page_kib: u32,
        fd: Fd,
    },
    Setup {
        instance: u64,
        config: Config,
    },
    Start {
        instance: u64,
        config: Config,
    },
    Stop(u64),
    Flush {
        id: u64,
        instances: Vec<u64>,
    },
    Clear(Vec<u64>),
    /// Random bytes over the shared memory.
    Scribble(u64),
}

#[derive(Debug, Clone, Copy)]
enum Fd {
    None,
    Good,
    Empty,
    Odd,
    Null,
}

#[derive(Debug, Clone)]
enum Config {
    Good,
    Missing,
    Junk(Vec<u8>),
}

fn config() -> impl Strategy<Value = Config> {
    prop_oneof![
        3 => Just(Config::Good),
        1 => Just(Config::Missing),
        1 => prop::collection::vec(any::<u8>(), 0..50).prop_map(Config::Junk),
    ]
}

fn attack() -> impl Strategy<Value = Attack> {
    let instance = || prop_oneof![3 => 0..4_u64, 1 => any::<u64>()];
    let fd = prop::sample::select(vec![Fd::None, Fd::Good, Fd::Good, Fd::Empty, Fd::Odd, Fd::Null]);
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Attack::Raw),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Attack::Frame),
        3 => (prop_oneof![3 => Just(4_u32), 1 => any::<u32>(), 1 => 0..70_u32], fd)
            .prop_map(|(page_kib, fd)| Attack::SetupTracing { page_kib, fd }),
        2 => (instance(), config()).prop_map(|(instance, config)| Attack::Setup { instance, config }),
        4 => (instance(), config()).prop_map(|(instance, config)| Attack::Start { instance, config }),
        2 => instance().prop_map(Attack::Stop),
        2 => (any::<u64>(), prop::collection::vec(instance(), 0..4)).prop_map(|(id, instances)| Attack::Flush { id, instances }),
        1 => prop::collection::vec(instance(), 0..4).prop_map(Attack::Clear),
        2 => any::<u64>().prop_map(Attack::Scribble),
    ]
}

fn bytes_of(config: &Config) -> Option<Bytes> {
    match config {
        Config::Good => Some(config_bytes()),
        Config::Missing => None,
        Config::Junk(bytes) => Some(bytes.clone().into()),
    }
}

fn open(fd: Fd, memory: &SharedMemory) -> Option<Arc<OwnedFd>> {
    use std::os::fd::AsFd;
    let owned: OwnedFd = match fd {
        Fd::None => return None,
        Fd::Good => memory.as_fd().unwrap().try_clone_to_owned().unwrap(),
        Fd::Null => File::open("/dev/null").unwrap().into(),
        Fd::Empty | Fd::Odd => {
            let file = File::from(rustix::fs::memfd_create("odd", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
            file.set_len(if matches!(fd, Fd::Odd) { 5000 } else { 0 }).unwrap();
            file.as_fd().try_clone_to_owned().unwrap()
        }
    };
    Some(Arc::new(owned))
}

fn scribble(memory: &SharedMemory, mut seed: u64) {
    let file = File::from(memory.as_fd().unwrap().try_clone_to_owned().unwrap());
    for _ in 0..64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let page = (seed >> 33) % (memory.len() as u64 / 4096);
        // Mostly the words that matter: page and chunk headers.
        let offset = page * 4096 + (seed >> 20) % 16;
        let _ = std::os::unix::fs::FileExt::write_at(&file, &seed.to_le_bytes()[..4], offset);
    }
}

fn run(service: &mut FakeService, memory: &SharedMemory, attack: &Attack) {
    let cmd = match attack {
        Attack::Raw(bytes) => return service.send_raw(bytes),
        Attack::Frame(bytes) => {
            service.send_raw(&(bytes.len() as u32).to_le_bytes());
            return service.send_raw(bytes);
        }
        Attack::Scribble(seed) => return scribble(memory, *seed),
        Attack::SetupTracing { page_kib, fd } => {
            let setup = SetupTracing { shared_buffer_page_size_kb: Some(*page_kib), ..Default::default() };
            return service.command_with_fd(Cmd::SetupTracing(setup), open(*fd, memory));
        }
        Attack::Setup { instance, config } => Cmd::SetupDataSource(SetupDataSource {
            new_instance_id: Some(*instance),
            config: bytes_of(config),
        }),
        Attack::Start { instance, config } => Cmd::StartDataSource(StartDataSource {
            new_instance_id: Some(*instance),
            config: bytes_of(config),
        }),
        Attack::Stop(instance) => Cmd::StopDataSource(StopDataSource { instance_id: Some(*instance) }),
        Attack::Flush { id, instances } => {
            Cmd::Flush(Flush { data_source_ids: instances.clone(), request_id: Some(*id), flags: None })
        }
        Attack::Clear(instances) => {
            Cmd::ClearIncrementalState(ClearIncrementalState { data_source_ids: instances.clone() })
        }
    };
    service.command(cmd);
}

/// What an app does, with a writer that is never finished with.
fn use_client(client: &mut ProducerClient, writers: &mut Vec<ferretto_producer::TraceWriter>) {
    client.process();
    while let Some(event) = client.next_event() {
        match event {
            ProducerEvent::Start { instance, .. } => {
                writers.push(client.create_writer(BUFFER, ExhaustedPolicy::Drop));
                client.notify_started(instance);
            }
            ProducerEvent::Stop { instance } => client.notify_stopped(instance),
            ProducerEvent::Flush { request_id, .. } => client.notify_flush_complete(request_id),
            _ => {}
        }
    }
    for writer in writers {
        for size in [10, 5000] {
            writer.new_packet().nested(100).nested(100).bytes(2, &vec![1; size]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_service_can_make_a_producer_panic(attacks in prop::collection::vec(attack(), 0..30)) {
        let (mut client, mut service) = connected(Setup::default(), ProducerOptions::new("test"));
        // The commits of a confused producer are of no interest here.
        service.is_stuck = true;
        let memory = SharedMemory::create(16 * 4096).unwrap();
        let mut writers = Vec::new();
        for attack in &attacks {
            run(&mut service, &memory, attack);
            use_client(&mut client, &mut writers);
            service.pump();
        }
        drop(service);
        use_client(&mut client, &mut writers);
        prop_assert!(!client.is_connected());
    }

    #[test]
    fn a_service_may_hang_up_or_talk_nonsense_at_any_byte(answer in prop::collection::vec(any::<u8>(), 0..300)) {
        let (ours, theirs) = ferretto_ipc::socket::Stream::pair().unwrap();
        let mut options = ProducerOptions::new("test");
        options.connector = ferretto_producer::Connector::Stream(ours);
        let mut client = ProducerClient::new(options).unwrap();
        client.process();
        let _ = theirs.send(&answer, None);
        client.process();
        drop(theirs);
        client.process();
        prop_assert!(!client.is_connected());
    }
}

#[test]
fn a_service_that_asks_for_endless_instances_is_bounded() {
    let (mut client, mut service) = connected(Setup::default(), ProducerOptions::new("test"));
    let mut started = 0;
    for instance in 0..6000 {
        service.command(Cmd::StartDataSource(StartDataSource {
            new_instance_id: Some(instance),
            config: Some(config_bytes()),
        }));
        turn(&mut client, &mut service);
        while let Some(event) = client.next_event() {
            started += usize::from(matches!(event, ProducerEvent::Start { .. }));
        }
    }
    assert_eq!(started, 4096);
}
