//! What fuzz targets of the service have in common: a service with one consumer, a clock that the target moves, and reading what comes back.

use std::sync::Arc;

use ferretto_protos as protos;
use ferretto_protos::trace_config::{BufferConfig, DataSource};
use ferretto_service::{
    ClockReadings, ConsumerCall, ConsumerConn, Environment, FileHandle, Now, Output, Peer, ProducerCall,
    ProducerConn, Service, ServiceOptions, Token,
};
use ferretto_shm::SharedMemory;
use prost::Message;

/// The one consumer.
pub const CONSUMER: ConsumerConn = ConsumerConn(1);
/// The one data source that its session wants.
pub const SOURCE: &str = "fuzz";

/// How the service gets shared memory.
pub type Allocate = fn(usize) -> Result<SharedMemory, ferretto_shm::MemoryError>;

struct Memory(Allocate);

impl Environment for Memory {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        (self.0)(len).map(Arc::new).map_err(|error| error.to_string())
    }

    fn random_u64(&mut self) -> u64 {
        4
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        Err(format!("{path}: there are no files"))
    }
}

/// A service, and who asks it.
pub struct Stage {
    pub service: Service,
    pub now_ns: u64,
    /// What producers were given last.
    pub memory: Option<Arc<SharedMemory>>,
    last: u64,
}

impl Stage {
    pub fn new(allocate: Allocate) -> Self {
        let mut service = Service::new(ServiceOptions::default(), Box::new(Memory(allocate)));
        service.handle_consumer_connected(CONSUMER, Peer { uid: 8, pid: 8, emulated: false });
        Self { service, now_ns: 1_000_000_000, memory: None, last: 0 }
    }

    pub fn now(&self) -> Now {
        let ns = self.now_ns;
        Now { clocks: ClockReadings { boottime: ns, monotonic: ns, realtime: ns, ..Default::default() } }
    }

    /// A number that was not given before.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn token(&mut self) -> Token {
        Token(self.next())
    }

    /// A session with a small buffer that wants [`SOURCE`].
    pub fn enable(&mut self, config: protos::TraceConfig) {
        let source = protos::DataSourceConfig { name: Some(SOURCE.to_owned()), ..Default::default() };
        let config = protos::TraceConfig {
            buffers: vec![BufferConfig { size_kb: Some(16), ..Default::default() }],
            data_sources: vec![DataSource { config: Some(source), ..Default::default() }],
            ..config
        };
        self.consumer(ConsumerCall::EnableTracing(protos::EnableTracingRequest {
            trace_config: Some(config.encode_to_vec().into()),
            ..Default::default()
        }));
        assert_eq!(self.service.session_count(), 1);
    }

    /// A producer that has [`SOURCE`].
    pub fn introduce(&mut self, conn: ProducerConn, hello: protos::InitializeConnectionRequest) {
        let descriptor = protos::DataSourceDescriptor { name: Some(SOURCE.to_owned()), ..Default::default() };
        let register = protos::RegisterDataSourceRequest {
            data_source_descriptor: Some(descriptor.encode_to_vec().into()),
        };
        self.producer(conn, ProducerCall::InitializeConnection(hello));
        self.producer(conn, ProducerCall::GetAsyncCommand(Default::default()));
        self.producer(conn, ProducerCall::RegisterDataSource(register));
    }

    pub fn producer(&mut self, from: ProducerConn, call: ProducerCall) {
        let (token, now) = (self.token(), self.now());
        self.service.handle_producer_call(from, token, call, None, &now);
        self.outputs();
    }

    pub fn consumer(&mut self, call: ConsumerCall) {
        let (token, now) = (self.token(), self.now());
        self.service.handle_consumer_call(CONSUMER, token, call, None, &now);
        self.outputs();
    }

    /// What is due is done.
    pub fn handle_timeout(&mut self) {
        let now = self.now();
        self.service.handle_timeout(&now);
        self.outputs();
    }

    pub fn outputs(&mut self) {
        while let Some(output) = self.service.poll_output() {
            if let Output::ToProducer(_, reply) = output {
                self.memory = reply.memory.or(self.memory.take());
            }
        }
    }

    /// All packets that there are.
    pub fn read(&mut self, mut packet_is: impl FnMut(&[u8])) {
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
                        packet_is(&std::mem::take(&mut packet));
                    }
                }
            }
        }
    }

    /// Whatever was said, the service still serves.
    pub fn end(mut self, mut packet_is: impl FnMut(&[u8])) {
        self.read(&mut packet_is);
        self.consumer(ConsumerCall::DisableTracing(Default::default()));
        self.now_ns += 60_000_000_000;
        self.handle_timeout();
        self.read(&mut packet_is);
        self.consumer(ConsumerCall::FreeBuffers(Default::default()));
        assert_eq!(self.service.session_count(), 0);
    }
}
