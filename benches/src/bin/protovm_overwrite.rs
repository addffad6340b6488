//! Prints what it costs the service to overwrite packets, with and without a ProtoVM that folds them into a state.
//!
//! Two sessions get the same chunks by turns, each into a ring that is full. The first two rows are the writing workloads of the
//! trace buffer's own bench. The program is what upstream's compiler makes of a short
//! description: it merges the elements of a map, and sets a text. Needs no peers.

#[allow(dead_code, reason = "its measuring half is for buffers without a service")]
#[path = "../../../crates/recording/trace-buffer/examples/throughput/workloads.rs"]
mod workloads;

use std::sync::Arc;

use ferretto_benches::median;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::test_event::proto_vm_message::ProtoVmSubmessage;
use ferretto_protos::test_event::{ProtoVmMessage, ProtoVmPatch};
use ferretto_protos::{self as protos, CompileConfig, TestEvent, TracePacket, text};
use ferretto_service::{
    ConsumerCall, ConsumerConn, Environment, FileHandle, Now, Peer, ProducerCall, ProducerConn, Service,
    ServiceOptions, Token,
};
use ferretto_shm::SharedMemory;
use prost::Message;
use rustix::time::{ClockId, clock_gettime};

const RING_KB: u32 = 1024;
const CHUNK_BYTES: usize = 4096;
const ROUNDS: usize = 41;
const LAPS_PER_ROUND: usize = 4;
/// Elements of the state.
const KEYS: u32 = 500;

const DESCRIPTION: &str = r#"
root_message: "perfetto.protos.TracePacket"
commands {
  enter_scope {
    src: "for_testing" src: "protovm_patch" dst: "for_testing" dst: "protovm_incremental_state"
    commands {
      set { src: "string_to_merge" dst: "string_merged" }
      abort_level: SKIP_CURRENT_COMMAND
    }
    commands {
      merge { src: "messages" dst: "messages" key_field: "id" recursive: true }
      abort_level: SKIP_CURRENT_COMMAND
    }
  }
}"#;

fn program() -> Vec<u8> {
    let description = text::parse("perfetto.protos.CompileConfig", DESCRIPTION).expect("a description");
    let config = CompileConfig::decode(description.as_slice()).expect("a CompileConfig");
    let program = ferretto_protovm::compile::compile(&config, text::descriptor_pool());
    program.expect("a program").encode_to_vec()
}

struct NoFiles;

impl Environment for NoFiles {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        SharedMemory::in_process(len).map(Arc::new).map_err(|error| error.to_string())
    }

    fn random_u64(&mut self) -> u64 {
        1
    }

    fn create_output(&mut self, _path: &str) -> Result<FileHandle, String> {
        Err("no files here".to_owned())
    }
}

/// A service with one producer, which sends its chunks by value, and one session.
struct World {
    service: Service,
    token: u64,
    next_chunk: u32,
}

const PRODUCER: ProducerConn = ProducerConn(1);
const CONSUMER: ConsumerConn = ConsumerConn(1);

impl World {
    fn new(with_vm: bool) -> Self {
        let options = ServiceOptions {
            uid: 0,
            version: String::new(),
            machine_name: String::new(),
            system_info: protos::SystemInfo::default(),
            step_cost: None,
        };
        let mut world = Self { service: Service::new(options, Box::new(NoFiles)), token: 0, next_chunk: 0 };
        world.service.handle_producer_connected(PRODUCER, Peer { emulated: true, ..Peer::default() });
        world.call(ProducerCall::InitializeConnection(protos::InitializeConnectionRequest::default()));
        let descriptor = protos::DataSourceDescriptor {
            name: Some("data".to_owned()),
            protovm_program: Some(program().into()),
            ..protos::DataSourceDescriptor::default()
        };
        world.call(ProducerCall::RegisterDataSource(protos::RegisterDataSourceRequest {
            data_source_descriptor: Some(descriptor.encode_to_vec().into()),
        }));
        world.enable(if with_vm { "protovm_config { memory_limit_kb: 4096 }" } else { "" });
        world
    }

    fn enable(&mut self, vm: &str) {
        let config =
            format!("buffers {{ size_kb: {RING_KB} }} data_sources {{ config {{ name: \"data\" {vm} }} }}");
        let config = text::parse_trace_config(&config).expect("a config");
        let request = protos::EnableTracingRequest {
            trace_config: Some(config.into()),
            ..protos::EnableTracingRequest::default()
        };
        self.service.handle_consumer_connected(CONSUMER, Peer::default());
        let call = ConsumerCall::EnableTracing(request);
        self.service.handle_consumer_call(CONSUMER, Token(1), call, None, &Now::default());
    }

    fn call(&mut self, call: ProducerCall) {
        self.token += 1;
        self.service.handle_producer_call(PRODUCER, Token(self.token), call, None, &Now::default());
        while self.service.poll_output().is_some() {}
    }

    /// Fills the ring so many times, and gives the nanoseconds that each packet takes.
    fn fill(&mut self, laps: usize, chunks: &[Chunk], writers: u32) -> f64 {
        let count = laps * RING_KB as usize * 1024 / CHUNK_BYTES;
        let ready: Vec<ChunksToMove> =
            (0..count).map(|index| self.commit(&chunks[index % chunks.len()], writers)).collect();
        let packets: usize = (0..count).map(|index| chunks[index % chunks.len()].packets).sum();
        let requests = ready.into_iter().map(|chunk| protos::CommitDataRequest {
            chunks_to_move: vec![chunk],
            ..protos::CommitDataRequest::default()
        });
        let requests: Vec<_> = requests.collect();
        let start_ns = thread_cpu_ns();
        for request in requests {
            self.call(ProducerCall::CommitData(request));
        }
        (thread_cpu_ns() - start_ns) as f64 / packets as f64
    }

    /// The next chunk of so many writers in turn.
    fn commit(&mut self, chunk: &Chunk, writers: u32) -> ChunksToMove {
        let mut data = (self.next_chunk / writers).to_le_bytes().to_vec();
        let writer = 1 + self.next_chunk % writers;
        self.next_chunk += 1;
        data.extend((writer as u16).to_le_bytes());
        data.extend((chunk.packets as u16).to_le_bytes());
        data.extend(&chunk.payload);
        ChunksToMove { target_buffer: Some(1), data: Some(data.into()), ..ChunksToMove::default() }
    }

    /// The bytes overwritten, and the size of the state if there is one.
    fn outcome(mut self) -> (u64, usize) {
        let now = Now::default();
        self.service.handle_consumer_call(
            CONSUMER,
            Token(2),
            ConsumerCall::GetTraceStats(protos::GetTraceStatsRequest::default()),
            None,
            &now,
        );
        let mut overwritten = 0;
        while let Some(output) = self.service.poll_output() {
            if let ferretto_service::Output::ToConsumer(_, reply) = output
                && let Some(Ok(stats)) = reply.body.map(protos::GetTraceStatsResponse::decode)
                && let Some(stats) = stats.trace_stats
            {
                overwritten = stats.buffer_stats[0].bytes_overwritten();
            }
        }
        self.service.handle_consumer_call(
            CONSUMER,
            Token(3),
            ConsumerCall::ReadBuffers(protos::ReadBuffersRequest::default()),
            None,
            &now,
        );
        let mut first = Vec::new();
        for reply in self.service.poll_read(CONSUMER, &now) {
            let response =
                protos::ReadBuffersResponse::decode(reply.body.unwrap_or_default()).expect("a response");
            for slice in response.slices {
                if let Ok(TracePacket { data: Some(protos::trace_packet::Data::Protovms(vms)), .. }) =
                    TracePacket::decode(slice.data().to_vec().as_slice())
                {
                    first = vms.instance[0].state.as_ref().expect("a state").to_vec();
                }
            }
        }
        (overwritten, first.len())
    }
}

/// Processor time: other load does not count.
fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A chunk's payload.
struct Chunk {
    payload: Vec<u8>,
    packets: usize,
}

/// What the packets hold.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Nothing that the program looks for, in 50 to 500 bytes, from so many writers in turn.
    Workload { writers: u32 },
    /// Each changes an element, and sets a text of so many bytes, if any.
    Patches { text_bytes: usize },
    /// Something that the program does not look for, of so many bytes.
    Others { bytes: usize },
}

impl Kind {
    /// Chunks full of packets.
    fn chunks(self) -> Vec<Chunk> {
        match self {
            Self::Workload { .. } => workload(),
            Self::Patches { text_bytes } => filled(|number| patch(number, text_bytes)),
            Self::Others { bytes } => filled(|_| other(bytes)),
        }
    }

    fn writers(self) -> u32 {
        match self {
            Self::Workload { writers } => writers,
            Self::Patches { .. } | Self::Others { .. } => 1,
        }
    }
}

fn workload() -> Vec<Chunk> {
    let templates = workloads::make_templates().into_iter();
    templates
        .map(|template| Chunk { payload: template.payload, packets: template.num_fragments.into() })
        .collect()
}

fn filled(mut packet: impl FnMut(u32) -> Vec<u8>) -> Vec<Chunk> {
    let mut number = 0;
    let chunks = (0..64).map(|_| {
        let mut chunk = Chunk { payload: Vec::new(), packets: 0 };
        loop {
            let packet = packet(number);
            if chunk.payload.len() + packet.len() + 2 > CHUNK_BYTES - 24 {
                return chunk;
            }
            prost::encoding::encode_varint(packet.len() as u64, &mut chunk.payload);
            chunk.payload.extend(&packet);
            chunk.packets += 1;
            number += 1;
        }
    });
    chunks.collect()
}

/// Bytes a packet, about.
fn mean_size(chunks: &[Chunk]) -> usize {
    let bytes: usize = chunks.iter().map(|chunk| chunk.payload.len()).sum();
    bytes / chunks.iter().map(|chunk| chunk.packets).sum::<usize>()
}

fn patch(number: u32, text_bytes: usize) -> Vec<u8> {
    let element = ProtoVmMessage {
        id: Some(number * 7 % KEYS),
        submessage: Some(ProtoVmSubmessage { single_int: Some(1000 + number % 1000) }),
    };
    let patch = ProtoVmPatch {
        string_to_merge: (text_bytes > 0).then(|| "x".repeat(text_bytes)),
        messages: vec![element],
        ..ProtoVmPatch::default()
    };
    let event = TestEvent { protovm_patch: Some(patch), ..TestEvent::default() };
    let data = Some(protos::trace_packet::Data::ForTesting(event));
    TracePacket { timestamp: Some(1_000_000_000_000), data, ..TracePacket::default() }.encode_to_vec()
}

/// A packet with track event data, as most of a source's packets may be.
fn other(bytes: usize) -> Vec<u8> {
    let event = protos::TrackEvent { categories: vec!["x".repeat(bytes)], ..protos::TrackEvent::default() };
    let data = Some(protos::trace_packet::Data::TrackEvent(event));
    TracePacket { timestamp: Some(1_000_000_000_000), data, ..TracePacket::default() }.encode_to_vec()
}

fn main() {
    println!("{:<14} {:>12} {:>14} {:>14} {:>8}", "packets", "bytes", "without ns", "with ns", "ratio");
    let kinds = [
        ("write_single", Kind::Workload { writers: 1 }),
        ("write_1000", Kind::Workload { writers: 1000 }),
        ("not looked for", Kind::Others { bytes: 250 }),
        ("not looked for", Kind::Others { bytes: 1000 }),
        ("merged", Kind::Patches { text_bytes: 0 }),
        ("merged", Kind::Patches { text_bytes: 100 }),
        ("merged", Kind::Patches { text_bytes: 500 }),
        ("merged", Kind::Patches { text_bytes: 3000 }),
    ];
    for (name, kind) in kinds {
        let chunks = kind.chunks();
        let size = mean_size(&chunks);
        let mut worlds = [World::new(false), World::new(true)];
        worlds.iter_mut().for_each(|world| {
            world.fill(2, &chunks, kind.writers());
        });
        let mut times: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (world, times) in worlds.iter_mut().zip(&mut times) {
                times.push((world.fill(LAPS_PER_ROUND, &chunks, kind.writers()) * 100.0) as u64);
            }
        }
        let [without, with] = times.map(|times| median(times) as f64 / 100.0);
        println!("{name:<14} {size:>12} {without:>14.1} {with:>14.1} {:>8.2}", with / without);
        let [(overwritten, none), (also_overwritten, state)] = worlds.map(World::outcome);
        assert!(overwritten == also_overwritten && none == 0, "{overwritten} and {also_overwritten}");
        assert_eq!(state > KEYS as usize, matches!(kind, Kind::Patches { .. }), "a state of {state} bytes");
    }
}
