//! A service that keeps what producers commit, made of the plainest parts.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_ipc::host::{HostConnection, Reply, Request, RequestId};
use ferretto_ipc::methods::PRODUCER_PORT;
use ferretto_ipc::socket::Stream;
use ferretto_producer::{Connector, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::get_async_command_response::{
    Cmd, Flush, SetupDataSource, SetupTracing, StartDataSource, StopDataSource,
};
use ferretto_protos::{
    CommitDataRequest, CommitDataResponse, DataSourceConfig, DataSourceDescriptor, GetAsyncCommandResponse,
    InitializeConnectionRequest, InitializeConnectionResponse, RegisterDataSourceRequest,
    RegisterTraceWriterRequest, SyncResponse, UnregisterTraceWriterRequest,
};
use ferretto_protozero::varint;
use ferretto_shm::{ChunkFlags, ChunkHeader, PageSize, ServiceView, SharedMemory};
use prost::Message;

pub const SOURCE: &str = "test.source";
pub const BUFFER: u16 = 5;

/// How a service is set up.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub page_size: u32,
    pub pages: usize,
    pub direct_patching: bool,
    pub emulated: bool,
    /// Memory of producers is not taken, as by upstream's older services.
    pub refuses_memory: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { page_size: 4096, pages: 64, direct_patching: true, emulated: false, refuses_memory: false }
    }
}

/// A chunk as the service holds it.
#[derive(Debug, Clone)]
pub struct Chunk {
    pub header: ChunkHeader,
    pub payload: Vec<u8>,
    pub needs_patching: bool,
}

pub struct FakeService {
    stream: Stream,
    host: HostConnection,
    setup: Setup,
    commands: Option<RequestId>,
    pub memory: Option<Arc<SharedMemory>>,
    view: Option<ServiceView>,
    /// By writer and chunk id.
    pub chunks: BTreeMap<(u16, u32), Chunk>,
    pub writers: BTreeMap<u32, u32>,
    pub sources: Vec<String>,
    pub acknowledged_flush: u64,
    pub commits: usize,
    /// Names of the methods called, in order.
    pub calls: Vec<&'static str>,
    /// Commits are left alone: the shared memory stays full.
    pub is_stuck: bool,
    waiting: Vec<CommitDataRequest>,
}

impl FakeService {
    pub fn new(stream: Stream, setup: Setup) -> Self {
        Self {
            stream,
            host: HostConnection::new(&[PRODUCER_PORT]),
            setup,
            commands: None,
            memory: None,
            view: None,
            chunks: BTreeMap::new(),
            writers: BTreeMap::new(),
            sources: Vec::new(),
            acknowledged_flush: 0,
            commits: 0,
            calls: Vec::new(),
            is_stuck: false,
            waiting: Vec::new(),
        }
    }

    /// Receives and answers all there is.
    pub fn pump(&mut self) {
        let mut buffer = vec![0; 65536];
        while let Ok(received) = self.stream.recv(&mut buffer) {
            if received.len == 0 {
                break;
            }
            if let Some(fd) = received.fd {
                self.host.handle_fd(fd);
            }
            self.host.handle_bytes(&buffer[..received.len]).unwrap();
            while let Some(request) = self.host.poll_request() {
                self.serve(&request);
            }
            self.send();
        }
        if !self.is_stuck {
            for request in std::mem::take(&mut self.waiting) {
                self.commit(request);
            }
        }
        self.send();
    }

    pub fn send(&mut self) {
        while let Some(transmit) = self.host.poll_transmit() {
            match self.stream.send(transmit.bytes, transmit.fd) {
                Ok(sent) => self.host.transmitted(sent),
                Err(_) => break,
            }
        }
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.send(bytes, None);
    }

    pub fn command(&mut self, cmd: Cmd) {
        self.command_with_fd(cmd, None);
    }

    pub fn command_with_fd(&mut self, cmd: Cmd, fd: Option<Arc<std::os::fd::OwnedFd>>) {
        let commands = self.commands.expect("the producer has asked for commands");
        let response = GetAsyncCommandResponse { cmd: Some(cmd) };
        self.host.reply(commands, Reply::message(&response), true, fd).unwrap();
        self.send();
    }

    /// Shares memory and starts an instance.
    pub fn start(&mut self, instance: u64) {
        self.set_up_tracing();
        let config = config_bytes();
        self.command(Cmd::SetupDataSource(SetupDataSource {
            new_instance_id: Some(instance),
            config: Some(config.clone()),
        }));
        self.command(Cmd::StartDataSource(StartDataSource {
            new_instance_id: Some(instance),
            config: Some(config),
        }));
    }

    pub fn set_up_tracing(&mut self) {
        if self.memory.is_some() || self.setup.emulated {
            let setup = SetupTracing::default();
            return self.command(Cmd::SetupTracing(setup));
        }
        let page_size = self.setup.page_size;
        let memory = Arc::new(SharedMemory::create(self.setup.pages * page_size as usize).unwrap());
        let fd = memory.as_fd().unwrap().try_clone_to_owned().unwrap();
        self.adopt(memory);
        let setup = SetupTracing { shared_buffer_page_size_kb: Some(page_size / 1024), ..Default::default() };
        self.command_with_fd(Cmd::SetupTracing(setup), Some(Arc::new(fd)));
    }

    pub fn stop(&mut self, instance: u64) {
        self.command(Cmd::StopDataSource(StopDataSource { instance_id: Some(instance) }));
    }

    pub fn flush(&mut self, request_id: u64, instances: &[u64]) {
        self.command(Cmd::Flush(Flush {
            data_source_ids: instances.to_vec(),
            request_id: Some(request_id),
            flags: Some(0),
        }));
    }

    /// Copies of the chunks that are being written, without their last packet.
    pub fn scrape(&self) -> Vec<Chunk> {
        let mut found = Vec::new();
        if let Some(view) = &self.view {
            view.scrape(
                |_| true,
                |mut header, payload, is_complete| {
                    if !is_complete {
                        header.packet_count -= 1;
                        found.push(Chunk { header, payload: payload.to_vec(), needs_patching: false });
                    }
                },
            );
        }
        found
    }

    fn adopt(&mut self, memory: Arc<SharedMemory>) {
        let page_size = PageSize::new(self.setup.page_size.into()).unwrap();
        self.view = Some(ServiceView::new(Arc::clone(&memory), page_size).unwrap());
        self.memory = Some(memory);
    }

    fn serve(&mut self, request: &Request) {
        self.calls.push(request.method_name());
        let args = request.args.clone();
        let reply = match request.method_name() {
            "InitializeConnection" => self.initialize(&InitializeConnectionRequest::decode(args).unwrap()),
            "GetAsyncCommand" => {
                self.commands = Some(request.id);
                return;
            }
            "RegisterDataSource" => {
                let request = RegisterDataSourceRequest::decode(args).unwrap();
                let descriptor =
                    DataSourceDescriptor::decode(request.data_source_descriptor.unwrap()).unwrap();
                self.sources.push(descriptor.name().to_owned());
                Reply::Body(Bytes::new())
            }
            "RegisterTraceWriter" => {
                let request = RegisterTraceWriterRequest::decode(args).unwrap();
                self.writers.insert(request.trace_writer_id(), request.target_buffer());
                Reply::Body(Bytes::new())
            }
            "UnregisterTraceWriter" => {
                let request = UnregisterTraceWriterRequest::decode(args).unwrap();
                assert!(self.writers.remove(&request.trace_writer_id()).is_some());
                Reply::Body(Bytes::new())
            }
            "CommitData" => {
                self.waiting.push(CommitDataRequest::decode(args).unwrap());
                Reply::message(&CommitDataResponse::default())
            }
            "Sync" => Reply::message(&SyncResponse::default()),
            _ => Reply::Body(Bytes::new()),
        };
        self.host.reply(request.id, reply, false, None).unwrap();
    }

    fn initialize(&mut self, request: &InitializeConnectionRequest) -> Reply {
        let offered = request.producer_provided_shmem().then(|| self.host.take_fd().unwrap());
        let offered = offered.filter(|_| !self.setup.refuses_memory);
        let is_adopted = offered.is_some();
        if let Some(fd) = offered {
            let memory = SharedMemory::from_fd(fd, ferretto_shm::Seals::Required).unwrap();
            self.adopt(Arc::new(memory));
        }
        Reply::message(&InitializeConnectionResponse {
            using_shmem_provided_by_producer: Some(is_adopted),
            direct_smb_patching_supported: Some(self.setup.direct_patching),
            use_shmem_emulation: Some(self.setup.emulated),
        })
    }

    fn commit(&mut self, request: CommitDataRequest) {
        self.commits += 1;
        for moved in request.chunks_to_move {
            assert_eq!(moved.target_buffer, Some(BUFFER.into()));
            let mut payload = Vec::new();
            let header = if self.setup.emulated {
                let data = moved.data.clone().unwrap();
                assert_eq!(
                    (moved.page(), moved.chunk()),
                    (0, 0),
                    "upstream drops pages that it does not have"
                );
                let (header, bytes) = ChunkHeader::split_inline(&data).unwrap();
                payload.extend_from_slice(bytes);
                header
            } else {
                assert_eq!(moved.data, None);
                self.view
                    .as_ref()
                    .unwrap()
                    .read_complete_chunk(moved.page(), moved.chunk(), &mut payload)
                    .unwrap()
            };
            let mut chunk =
                Chunk { header, payload, needs_patching: header.flags.contains(ChunkFlags::NEEDS_PATCHING) };
            if moved.chunk_incomplete() {
                chunk.header.packet_count -= 1;
            }
            let count = chunk.header.packet_count;
            if let Some(before) = self.chunks.insert((header.writer_id, header.chunk_id), chunk) {
                assert!(before.header.packet_count <= count, "a chunk shrinks");
            }
        }
        for patched in request.chunks_to_patch {
            let key = (patched.writer_id() as u16, patched.chunk_id());
            let chunk = self.chunks.get_mut(&key).expect("patches follow their chunk");
            assert!(chunk.needs_patching);
            for patch in &patched.patches {
                let offset = patch.offset() as usize;
                chunk.payload[offset..offset + 4].copy_from_slice(patch.data());
            }
            chunk.needs_patching = patched.has_more_patches();
        }
        self.acknowledged_flush = self.acknowledged_flush.max(request.flush_request_id.unwrap_or_default());
    }

    /// The packets of one writer, as the reader of a trace gets them. Panics if a chunk is not as the ABI wants it.
    pub fn packets(&self, writer: u16) -> Vec<Vec<u8>> {
        let chunks = self.chunks.range((writer, 0)..=(writer, u32::MAX));
        let mut packets = Vec::new();
        let mut partial: Option<Vec<u8>> = None;
        for (expected_id, ((_, id), chunk)) in (0..).zip(chunks) {
            assert_eq!(*id, expected_id, "chunk ids have no gaps");
            assert!(!chunk.needs_patching, "chunk {id} of writer {writer} waits for patches");
            reassemble(chunk, &mut partial, &mut packets);
        }
        assert_eq!(partial, None, "a packet has no end");
        packets
    }
}

/// Appends the packets that end in this chunk.
pub fn reassemble(chunk: &Chunk, partial: &mut Option<Vec<u8>>, packets: &mut Vec<Vec<u8>>) {
    let flags = chunk.header.flags;
    let count = chunk.header.packet_count;
    let mut rest = chunk.payload.as_slice();
    assert!(count <= 1023);
    let continues = flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
    assert_eq!(partial.is_some(), continues && count > 0, "flags of chunk {}", chunk.header.chunk_id);
    for index in 0..count {
        let (size, header) = varint::decode(rest).expect("a fragment has a size");
        rest = &rest[header..];
        if size == 0x0fff_ffff {
            *partial = None;
            return;
        }
        let (fragment, later) = rest.split_at(size as usize);
        rest = later;
        let mut packet = partial.take().unwrap_or_default();
        packet.extend_from_slice(fragment);
        let is_last = index + 1 == count;
        if is_last && flags.contains(ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK) {
            assert!(size > 0, "no fragment of a longer packet is empty");
            *partial = Some(packet);
        } else if !packet.is_empty() {
            packets.push(packet);
        }
    }
}

pub fn config_bytes() -> Bytes {
    let config = DataSourceConfig {
        name: Some(SOURCE.to_owned()),
        target_buffer: Some(BUFFER.into()),
        ..Default::default()
    };
    config.encode_to_vec().into()
}

pub fn descriptor() -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(SOURCE.to_owned()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}

/// A client and its service, connected, with an instance 1 that is started.
pub fn started(setup: Setup, options: ProducerOptions) -> (ProducerClient, FakeService) {
    let (mut client, mut service) = connected(setup, options);
    service.start(1);
    turn(&mut client, &mut service);
    let names: Vec<_> = std::iter::from_fn(|| client.next_event()).collect();
    assert!(
        matches!(
            names.as_slice(),
            [ProducerEvent::Connected, ProducerEvent::Setup { .. }, ProducerEvent::Start { .. }]
        ),
        "{names:?}"
    );
    (client, service)
}

pub fn connected(setup: Setup, mut options: ProducerOptions) -> (ProducerClient, FakeService) {
    let (ours, theirs) = Stream::pair().unwrap();
    options.connector = Connector::Stream(ours);
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&descriptor());
    let mut service = FakeService::new(theirs, setup);
    for _ in 0..3 {
        turn(&mut client, &mut service);
    }
    assert!(client.is_connected());
    (client, service)
}

/// Lets both do what there is to do.
pub fn turn(client: &mut ProducerClient, service: &mut FakeService) {
    for _ in 0..2 {
        client.process();
        service.pump();
    }
    client.process();
}

/// As [`turn`], until the client has nothing more to do soon: commits that follow another at once wait a little.
pub fn settle(client: &mut ProducerClient, service: &mut FakeService) {
    const SOON: Duration = Duration::from_millis(10);
    turn(client, service);
    while client.next_timeout().is_some_and(|at| at < Instant::now() + SOON) {
        std::thread::sleep(Duration::from_micros(100));
        turn(client, service);
    }
}
