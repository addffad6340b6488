//! Inputs that upstream's code checks with an abort, or takes at its word, on both services. What happens to upstream's is said aloud
//! and fails nothing (v56 dies of chunks of no and of 65,536 bytes in a message, and often of states that change); ours goes on: the
//! next client is served, nobody else loses anything, and what the offender lost is counted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_interop::{Maker, Peers, World, config, ferretto, need, serve, upstream, wait_for_end};
use ferretto_ipc::address::Address;
use ferretto_ipc::client::Event as Heard;
use ferretto_ipc::link::ClientLink;
use ferretto_ipc::socket::Stream;
use ferretto_producer::ExhaustedPolicy;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch::Patch};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, InitializeConnectionRequest, RegisterDataSourceRequest,
    SyncRequest, TracePacket, TraceStats,
};
use prost::Message;
use rustix::fs::{MemfdFlags, SealFlags};

const TIMEOUT: Duration = Duration::from_secs(20);
const PAGE_BYTES: usize = 4096;
const PAGES: usize = 32;
/// Packets of somebody who does nothing wrong.
const GOOD_PACKETS: usize = 500;
/// Buffer ids are given from 1.
const BUFFER: u32 = 1;

/// What an offender does; then it stays connected.
type Attack = fn(&mut Offender);

/// What somebody sends, and whether some of its data is surely lost, and so counted.
const ATTACKS: [(&str, bool, Attack); 13] = [
    ("a chunk of no bytes in a message", true, |offender| offender.send_chunk(&[])),
    ("a chunk without a whole header in a message", true, |offender| offender.send_chunk(&[0; 7])),
    ("a chunk of 65,536 bytes in a message", true, |offender| offender.send_chunk(&[0; 65_536])),
    ("a chunk of 70,000 bytes in a message", true, |offender| offender.send_chunk(&[0; 70_000])),
    ("a chunk that says it has 1,023 packets and has none", true, |offender| {
        offender.send_chunk(&[0, 0, 0, 0, 1, 0, 0xff, 0x03]);
    }),
    ("a packet whose size has no end", true, |offender| {
        offender.send_chunk(&[&[0, 0, 0, 0, 1, 0, 1, 0][..], &[0xff; 64]].concat());
    }),
    ("a packet larger than its chunk", true, |offender| {
        offender.send_chunk(&[0, 0, 0, 0, 1, 0, 1, 0, 0xff, 0x7f, 1, 2, 3]);
    }),
    ("pages of layouts that do not exist", true, |offender| {
        for (page, layout) in [(0, 6), (1, 7)] {
            offender.set_page(page, layout << 28 | 0x0fff_ffff);
            offender.commit_page(page as u32, 0);
        }
    }),
    ("chunks that their page does not have", true, |offender| {
        offender.set_page(0, 1 << 28 | 0x0fff_ffff);
        [1, 13, 14, 255, u32::MAX].iter().for_each(|chunk| offender.commit_page(0, *chunk));
        offender.commit_page(u32::MAX, 0);
    }),
    ("patches beyond their chunk, and of odd sizes", true, |offender| {
        offender.send_chunk(&[0, 0, 0, 0, 1, 0, 1, 0, 2, 0x08, 0x01]);
        for (offset, size) in [(u32::MAX, 4), (65_535, 4), (0, 0), (0, 5), (0, 70_000)] {
            offender.patch(offset, size);
        }
    }),
    ("memory full of ones, all of it committed", true, |offender| {
        offender.memory.write_all_at(&[0xff; PAGE_BYTES * PAGES], 0).unwrap();
        (0..PAGES as u32).for_each(|page| offender.commit_page(page, 0));
    }),
    ("states of chunks that change while the service reads them", false, Offender::flip_states),
    ("an answer to a flush that nobody asked for", false, |offender| {
        offender.commit(CommitDataRequest { flush_request_id: Some(u64::MAX), ..Default::default() });
    }),
];

/// Speaks the protocol and abuses it.
struct Offender {
    link: ClientLink,
    /// Its shared memory, as a file.
    memory: File,
}

impl Offender {
    fn connect(world: &World) -> Self {
        let stream = Stream::connect(&Address::Path(world.producer_socket())).unwrap();
        let fd =
            rustix::fs::memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, (PAGE_BYTES * PAGES) as u64).unwrap();
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
        let memory = File::from(fd.try_clone().unwrap());
        let mut offender = Self { link: ClientLink::new(stream, "ProducerPort"), memory };
        offender.hear(|heard| matches!(heard, Heard::Bound)).expect("the service accepts a producer");
        let request = InitializeConnectionRequest {
            producer_name: Some("offender".to_owned()),
            shared_memory_size_hint_bytes: Some((PAGE_BYTES * PAGES) as u32),
            shared_memory_page_size_hint_bytes: Some(PAGE_BYTES as u32),
            producer_provided_shmem: Some(true),
            ..Default::default()
        };
        let connection = offender.link.connection();
        connection.invoke("InitializeConnection", &request, Some(Arc::new(fd)), true).unwrap();
        offender.hear(|heard| matches!(heard, Heard::Reply { .. })).expect("an answer");
        // Nobody waits for its flushes.
        let descriptor = DataSourceDescriptor {
            name: Some("hostile".to_owned()),
            no_flush: Some(true),
            ..Default::default()
        };
        let request =
            RegisterDataSourceRequest { data_source_descriptor: Some(descriptor.encode_to_vec().into()) };
        offender.call("RegisterDataSource", &request);
        offender
    }

    /// Sends what waits and receives until something is heard; `None` if the service hangs up first.
    fn hear(&mut self, is_wanted: impl Fn(&Heard) -> bool) -> Option<()> {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            self.link.flush().ok()?;
            let received = self.link.receive().ok()?;
            while let Some(heard) = self.link.connection().poll_event() {
                if is_wanted(&heard) {
                    return Some(());
                }
            }
            if !received {
                thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("the service does not answer");
    }

    fn call(&mut self, method: &str, args: &impl Message) {
        // The service may have hung up, or may be gone.
        if self.link.connection().invoke(method, args, None, false).is_ok() {
            let start = Instant::now();
            while self.link.wants_write() && start.elapsed() < TIMEOUT && self.link.flush().is_ok() {
                let _ = self.link.receive();
            }
        }
    }

    /// Waits until the service has seen everything; `false` if it has hung up.
    fn sync(&mut self) -> bool {
        let Ok(wanted) = self.link.connection().invoke("Sync", &SyncRequest::default(), None, true) else {
            return false;
        };
        self.hear(|heard| matches!(heard, Heard::Reply { request, body: Some(_), .. } if *request == wanted))
            .is_some()
    }

    fn commit(&mut self, request: CommitDataRequest) {
        self.call("CommitData", &request);
    }

    /// A chunk in the message itself, as producers without shared memory send it.
    fn send_chunk(&mut self, data: &[u8]) {
        let chunk = ChunksToMove {
            page: Some(0),
            chunk: Some(0),
            target_buffer: Some(BUFFER),
            data: Some(data.to_vec().into()),
            ..Default::default()
        };
        self.commit(CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() });
    }

    fn commit_page(&mut self, page: u32, chunk: u32) {
        let chunk = ChunksToMove {
            page: Some(page),
            chunk: Some(chunk),
            target_buffer: Some(BUFFER),
            ..Default::default()
        };
        self.commit(CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() });
    }

    fn patch(&mut self, offset: u32, size: usize) {
        let patch = Patch { offset: Some(offset), data: Some(vec![0xff; size].into()) };
        let chunk = ChunkToPatch {
            target_buffer: Some(BUFFER),
            writer_id: Some(1),
            chunk_id: Some(0),
            patches: vec![patch],
            ..Default::default()
        };
        self.commit(CommitDataRequest { chunks_to_patch: vec![chunk], ..Default::default() });
    }

    /// Sets the layout of a page and the states of its chunks.
    fn set_page(&self, page: usize, word: u32) {
        self.memory.write_all_at(&word.to_le_bytes(), (page * PAGE_BYTES) as u64).unwrap();
    }

    /// Commits a page again and again while another thread changes what it is.
    fn flip_states(&mut self) {
        const COMMITS: u32 = 3000;
        let memory = self.memory.try_clone().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let flipping = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                for word in [1 << 28 | 3, 5 << 28 | 0x0fff_ffff, 2 << 28 | 1, 7 << 28 | 3, 0, 1 << 28 | 2] {
                    memory.write_all_at(&u32::to_le_bytes(word), 0).unwrap();
                }
            }
        });
        (0..COMMITS).for_each(|number| self.commit_page(0, number % 2));
        self.sync();
        is_over.store(true, Ordering::Relaxed);
        flipping.join().unwrap();
    }
}

/// Comes after the offender, writes [`GOOD_PACKETS`] and answers flushes; ends with the service's connection.
fn good_producer(socket: Address) {
    // It has started for the service when it is told to, so that a flush waits for it from then on.
    let source = DataSourceDescriptor { name: Some("good".to_owned()), ..Default::default() };
    serve(socket, "good", &source, |client, config| {
        let mut writer = client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Stall);
        for _ in 0..GOOD_PACKETS {
            let mut packet = writer.new_packet();
            packet.nested(trace_packet::FOR_TESTING).string(test_event::STR, "good");
        }
    });
}

/// A service with a session that runs and an offender that takes part.
fn attacked(peers: &Peers, maker: Maker, attack: Attack) -> (World, Consumer, Offender) {
    let world = World::with_traced(peers, maker);
    let mut offender = Offender::connect(&world);
    world.wait_for_data_source("hostile");
    let mut consumer = world.consumer();
    let text = "buffers { size_kb: 1024 experimental_mode: TRACE_BUFFER_V2 } data_sources { config { name: 'hostile' } } \
                data_sources { config { name: 'good' } }";
    consumer.enable_tracing(config(text), None).unwrap();
    consumer.query_service_state(false).unwrap();
    attack(&mut offender);
    offender.sync();
    (world, consumer, offender)
}

/// All that a service can have counted for an offender.
fn count(stats: &TraceStats) -> u64 {
    let of_buffer = |buffer: &ferretto_protos::trace_stats::BufferStats| {
        buffer.abi_violations() + buffer.chunks_discarded() + buffer.patches_failed()
    };
    stats.chunks_discarded()
        + stats.patches_discarded()
        + stats.invalid_packets()
        + stats.buffer_stats.iter().map(of_buffer).sum::<u64>()
}

#[test]
fn our_service_serves_on_and_counts() {
    let peers = need!(ferretto());
    for (what, is_counted, attack) in ATTACKS {
        let (mut world, mut consumer, _offender) = attacked(&peers, Maker::Ferretto, attack);
        let socket = Address::Path(world.producer_socket());
        let good = thread::spawn(move || good_producer(socket));
        world.wait_for_data_source("good");
        // It has written everything before it answers.
        consumer.flush(TIMEOUT, 0).unwrap_or_else(|error| panic!("{what}: {error}"));
        let stats = consumer.stats().unwrap();
        assert!(count(&stats) > 0 || !is_counted, "{what}: {stats:?}");
        consumer.disable().unwrap();
        assert_eq!(wait_for_end(&mut consumer), None, "{what}");
        let mut good_packets = 0;
        let read = consumer.read_buffers(|packet| {
            // The offender's may be anything.
            let data = TracePacket::decode(packet).ok().and_then(|packet| packet.data);
            good_packets += usize::from(matches!(data, Some(Data::ForTesting(_))));
            Ok(())
        });
        assert!(read.is_ok_and(|summary| !summary.torn), "{what}");
        assert!(good_packets == GOOD_PACKETS, "{what}: {good_packets} packets of somebody else");
        assert!(world.daemons()[0].is_running(), "{what}");
        world.kill_service();
        good.join().unwrap();
    }
}

#[test]
fn what_upstreams_service_does_is_said() {
    let peers = need!(upstream());
    for (what, _, attack) in ATTACKS {
        let (mut world, _consumer, _offender) = attacked(&peers, Maker::Upstream, attack);
        // Whoever dies of it does so before it answers the offender; the kernel takes a moment to clear away.
        match world.daemons()[0].wait(Duration::from_millis(500)) {
            Some(status) => eprintln!("upstream's service dies of {what}: {status}"),
            None => eprintln!("upstream's service survives {what}"),
        }
    }
}

/// Not from a producer: configs.
#[test]
fn a_config_with_a_wrong_expression_is_refused_and_others_are_served() {
    let peers = need!(ferretto());
    for text in [
        "data_sources { producer_name_regex_filter: '(' config { name: 'x' } }",
        "data_sources { producer_name_regex_filter: '[[:nothing:]]' config { name: 'x' } }",
        "data_sources { producer_name_regex_filter: '*' config { name: 'x' } }",
        "data_sources { producer_name_regex_filter: 'a{1000}{1000}{1000}' config { name: 'x' } }",
    ] {
        let mut world = World::with_traced(&peers, Maker::Ferretto);
        let mut consumer = world.consumer();
        consumer.enable_tracing(config(&format!("buffers {{ size_kb: 64 }} {text}")), None).unwrap();
        assert!(wait_for_end(&mut consumer).is_some_and(|error| error.contains("expression")), "{text}");
        let config = config("buffers { size_kb: 64 } duration_ms: 50");
        consumer.enable_tracing(config, None).unwrap();
        assert_eq!(wait_for_end(&mut consumer), None);
        assert!(world.daemons()[0].is_running());
    }
}
