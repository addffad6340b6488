//! A producer that says anything through CommitData, over memory in which it writes anything: the service goes on, and what it gives
//! back are packets.
#![no_main]

use std::sync::Arc;

use ferretto_protos as protos;
use ferretto_protos::trace_config::{BufferConfig, DataSource};
use ferretto_service::{
    ClockReadings, ConsumerCall, ConsumerConn, Environment, FileHandle, Now, Output, Peer, ProducerCall,
    ProducerConn, Service, ServiceOptions, Token,
};
use ferretto_shm::SharedMemory;
use libfuzzer_sys::fuzz_target;
use prost::Message;

const PRODUCER: ProducerConn = ProducerConn(1);
const CONSUMER: ConsumerConn = ConsumerConn(1);
const SOURCE: &str = "fuzz";

fuzz_target!(|data: &[u8]| {
    let mut world = World::new();
    let mut rest = data;
    while let [op, len, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min(usize::from(*len)));
        world.apply(*op, bytes);
        rest = after;
    }
    world.read();
    // Whatever was said, the service still serves.
    world.consumer(ConsumerCall::DisableTracing(Default::default()));
    world.now_ns += 60_000_000_000;
    let now = world.now();
    world.service.handle_timeout(&now);
    world.read();
    world.consumer(ConsumerCall::FreeBuffers(Default::default()));
    assert_eq!(world.service.session_count(), 0);
});

struct Memory;

impl Environment for Memory {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        SharedMemory::create(len).map(Arc::new).map_err(|error| error.to_string())
    }

    fn random_u64(&mut self) -> u64 {
        4
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        Err(format!("{path}: there are no files"))
    }
}

struct World {
    service: Service,
    memory: Option<Arc<SharedMemory>>,
    now_ns: u64,
    last_token: u64,
}

impl World {
    fn new() -> Self {
        let service = Service::new(ServiceOptions::default(), Box::new(Memory));
        let mut world = Self { service, memory: None, now_ns: 1_000_000_000, last_token: 0 };
        world.connect();
        world
    }

    fn connect(&mut self) {
        self.service.handle_producer_connected(PRODUCER, Peer { uid: 7, pid: 7, emulated: false });
        self.service.handle_consumer_connected(CONSUMER, Peer { uid: 8, pid: 8, emulated: false });
        let hello = protos::InitializeConnectionRequest {
            shared_memory_size_hint_bytes: Some(32 * 1024),
            shared_memory_page_size_hint_bytes: Some(4096),
            smb_scraping_mode: Some(1),
            ..Default::default()
        };
        self.producer(ProducerCall::InitializeConnection(hello));
        self.producer(ProducerCall::GetAsyncCommand(Default::default()));
        let descriptor = protos::DataSourceDescriptor { name: Some(SOURCE.to_owned()), ..Default::default() };
        let register = protos::RegisterDataSourceRequest {
            data_source_descriptor: Some(descriptor.encode_to_vec().into()),
        };
        self.producer(ProducerCall::RegisterDataSource(register));
        self.consumer(ConsumerCall::EnableTracing(protos::EnableTracingRequest {
            trace_config: Some(config().encode_to_vec().into()),
            ..Default::default()
        }));
        assert!(self.memory.is_some(), "the session starts the producer's data source");
        let register =
            protos::RegisterTraceWriterRequest { trace_writer_id: Some(1), target_buffer: Some(1) };
        self.producer(ProducerCall::RegisterTraceWriter(register));
    }

    fn now(&self) -> Now {
        let ns = self.now_ns;
        Now { clocks: ClockReadings { boottime: ns, monotonic: ns, realtime: ns, ..Default::default() } }
    }

    fn apply(&mut self, op: u8, bytes: &[u8]) {
        self.now_ns += 1_000_000;
        match op % 8 {
            0..3 => {
                if let Ok(call) = ProducerCall::decode("CommitData", bytes.to_vec().into()) {
                    self.producer(call);
                }
            }
            3 => self.write(u64::from(op >> 3) * 4096, bytes),
            4 | 5 => {
                let [low, high, bytes @ ..] = bytes else { return };
                self.write(u64::from(u16::from_le_bytes([*low, *high])) % (32 * 1024), bytes);
            }
            6 => self.consumer(ConsumerCall::Flush(protos::FlushRequest {
                timeout_ms: Some(1),
                ..Default::default()
            })),
            _ => {
                let now = self.now();
                self.service.handle_timeout(&now);
                self.read();
            }
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let Some(memory) = &self.memory else { return };
        let room = (memory.len() as u64).saturating_sub(offset);
        let len = bytes.len().min(usize::try_from(room).unwrap_or(0));
        let _ = rustix::io::pwrite(memory.as_fd().expect("a memfd"), &bytes[..len], offset);
    }

    fn token(&mut self) -> Token {
        self.last_token += 1;
        Token(self.last_token)
    }

    fn producer(&mut self, call: ProducerCall) {
        let (token, now) = (self.token(), self.now());
        self.service.handle_producer_call(PRODUCER, token, call, None, &now);
        self.outputs();
    }

    fn consumer(&mut self, call: ConsumerCall) {
        let (token, now) = (self.token(), self.now());
        self.service.handle_consumer_call(CONSUMER, token, call, None, &now);
        self.outputs();
    }

    fn outputs(&mut self) {
        while let Some(output) = self.service.poll_output() {
            if let Output::ToProducer(_, reply) = output {
                self.memory = reply.memory.or(self.memory.take());
            }
        }
    }

    fn read(&mut self) {
        self.consumer(ConsumerCall::ReadBuffers(Default::default()));
        let now = self.now();
        let mut packet = Vec::new();
        while self.service.is_reading(CONSUMER) {
            for reply in self.service.poll_read(CONSUMER, &now) {
                let body = reply.body.expect("reads are answered");
                let response = protos::ReadBuffersResponse::decode(body).expect("with slices");
                for slice in response.slices {
                    packet.extend_from_slice(slice.data());
                    if slice.last_slice_for_packet() {
                        check_packet(&std::mem::take(&mut packet));
                    }
                }
            }
        }
    }
}

/// A packet has fields, and the service's own come last and are its own.
fn check_packet(packet: &[u8]) {
    let mut sequence = None;
    for field in ferretto_protozero::read::Fields::new(packet) {
        let field = field.expect("packets are well-formed");
        if field.number == protos::fields::trace_packet::TRUSTED_PACKET_SEQUENCE_ID {
            assert_eq!(sequence.replace(field.value), None, "the sequence is set once, by the service");
        }
    }
    assert!(sequence.is_some());
}

fn config() -> protos::TraceConfig {
    let config = protos::DataSourceConfig { name: Some(SOURCE.to_owned()), ..Default::default() };
    protos::TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(16), ..Default::default() }],
        data_sources: vec![DataSource { config: Some(config), ..Default::default() }],
        ..Default::default()
    }
}
