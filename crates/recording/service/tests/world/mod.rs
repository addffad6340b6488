//! A service with fake producers, consumers, files and time. What the outputs say is carried out at once; what the fakes saw is kept.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protos::{
    self as protos, DataSourceDescriptor, EnableTracingResponse, TracePacket, commit_data_request as commit,
};
use ferretto_service::{
    Boost, ClockReadings, ConsumerCall, ConsumerConn, Environment, FileContent, FileHandle, Machine, Now,
    Output, Peer, ProducerCall, ProducerConn, RelayCall, Reply, Service, ServiceOptions, Token,
};
use ferretto_shm::{ChunkIndex, ChunkWriter, NewChunk, PageLayout, PageSize, ProducerView, SharedMemory};
use prost::Message;

const MS: u64 = 1_000_000;

/// Where the fake clocks start.
const START_NS: u64 = 1_000_000 * MS;

#[derive(Default)]
pub struct FakeProducer {
    pub commands: VecDeque<Cmd>,
    pub response: Option<protos::InitializeConnectionResponse>,
    pub memory: Option<Arc<SharedMemory>>,
    pub page_size: usize,
    view: Option<ProducerView>,
    stream: Option<Token>,
    pub last_reply: Option<Option<Bytes>>,
}

#[derive(Default)]
pub struct FakeConsumer {
    /// Last replies by method.
    pub replies: BTreeMap<&'static str, Vec<Option<Bytes>>>,
    /// Calls that wait for answers.
    pub open: BTreeMap<Token, &'static str>,
}

#[derive(Default)]
pub struct FakeFile {
    pub bytes: Vec<u8>,
    pub closed: bool,
    /// Writes after which it was to be brought to storage.
    pub syncs: usize,
    /// The next write fails.
    pub breaks: bool,
}

struct FakeEnvironment {
    random: Arc<AtomicU64>,
    machine: Arc<Mutex<FakeMachine>>,
}

/// What the service did to its machine.
#[derive(Default)]
struct FakeMachine {
    scheduling: Option<Boost>,
    refuses_scheduling: bool,
    refuses_memory: bool,
    refuses_files: bool,
    created_files: usize,
    /// Each look at the stopwatch takes so long.
    look_ns: u64,
    stopwatch_ns: u64,
}

/// Files that the service creates have numbers from here.
pub const CREATED_FILE: FileHandle = FileHandle(1000);

impl Environment for FakeEnvironment {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        if self.machine.lock().unwrap().refuses_memory {
            return Err("cannot allocate memory".to_owned());
        }
        SharedMemory::in_process(len).map(Arc::new).map_err(|error| error.to_string())
    }

    fn random_u64(&mut self) -> u64 {
        self.random.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        if path.contains("missing") {
            return Err("no such directory".to_owned());
        }
        self.machine.lock().unwrap().created_files += 1;
        Ok(CREATED_FILE)
    }

    fn check_file(&mut self, _: FileHandle) -> Result<(), String> {
        match self.machine.lock().unwrap().refuses_files {
            true => Err("it is a socket".to_owned()),
            false => Ok(()),
        }
    }

    fn stopwatch_ns(&mut self) -> u64 {
        let mut machine = self.machine.lock().unwrap();
        machine.stopwatch_ns += machine.look_ns;
        machine.stopwatch_ns
    }

    fn set_scheduling(&mut self, boost: Option<Boost>) -> Result<(), String> {
        let mut machine = self.machine.lock().unwrap();
        if machine.refuses_scheduling {
            return Err("Operation not permitted".to_owned());
        }
        machine.scheduling = boost;
        Ok(())
    }
}

/// The user of the service.
pub const SERVICE_UID: u32 = 7;

pub struct World {
    pub service: Service,
    pub now: Now,
    pub producers: BTreeMap<ProducerConn, FakeProducer>,
    pub consumers: BTreeMap<ConsumerConn, FakeConsumer>,
    pub files: BTreeMap<FileHandle, FakeFile>,
    /// The last random number; each is the one before plus 1.
    pub random: Arc<AtomicU64>,
    /// No file takes anything for now.
    pub files_wait: bool,
    /// Commits that take several steps are not gone on with.
    pub commits_wait: bool,
    machine: Arc<Mutex<FakeMachine>>,
    last: u64,
}

impl Default for World {
    fn default() -> Self {
        Self::with_step_cost(None)
    }
}

impl World {
    /// A service that does long work in steps of this cost.
    pub fn with_step_cost(step_cost: Option<NonZeroUsize>) -> Self {
        let options = ServiceOptions {
            uid: SERVICE_UID,
            version: "test".to_owned(),
            machine_name: "Linux".to_owned(),
            system_info: protos::SystemInfo { page_size: Some(4096), ..Default::default() },
            step_cost,
        };
        let random = Arc::new(AtomicU64::new(100));
        let machine: Arc<Mutex<FakeMachine>> = Default::default();
        let environment = FakeEnvironment { random: Arc::clone(&random), machine: Arc::clone(&machine) };
        let mut world = Self {
            service: Service::new(options, Box::new(environment)),
            now: Now::default(),
            producers: BTreeMap::new(),
            consumers: BTreeMap::new(),
            files: BTreeMap::new(),
            random,
            files_wait: false,
            commits_wait: false,
            machine,
            last: 0,
        };
        world.set_time(START_NS);
        world
    }
}

/// How a fake producer introduces itself.
#[derive(Clone)]
pub struct Introduction {
    pub name: String,
    pub uid: u32,
    pub scraping: bool,
    pub size_hint: u32,
    pub page_hint: u32,
    pub provides: Option<usize>,
    pub emulated: bool,
    pub machine: Option<Machine>,
}

pub fn named(name: &str) -> Introduction {
    Introduction {
        name: name.to_owned(),
        uid: 1000,
        scraping: false,
        size_hint: 0,
        page_hint: 0,
        provides: None,
        emulated: false,
        machine: None,
    }
}

impl World {
    pub fn set_time(&mut self, boottime: u64) {
        let wall = 1_700_000_000_000 * MS + boottime;
        self.now.clocks = ClockReadings {
            boottime,
            realtime_coarse: wall,
            monotonic_coarse: boottime,
            realtime: wall,
            monotonic: boottime,
            monotonic_raw: boottime,
            tsc: None,
        };
    }

    /// How the service's thread is scheduled.
    pub fn scheduling(&self) -> Option<Boost> {
        self.machine.lock().unwrap().scheduling
    }

    pub fn refuse_scheduling(&mut self) {
        self.machine.lock().unwrap().refuses_scheduling = true;
    }

    pub fn refuse_memory(&mut self) {
        self.machine.lock().unwrap().refuses_memory = true;
    }

    pub fn refuse_files(&mut self) {
        self.machine.lock().unwrap().refuses_files = true;
    }

    /// Each look at the stopwatch takes so long from now on.
    pub fn slow_stopwatch(&mut self, look_ns: u64) {
        self.machine.lock().unwrap().look_ns = look_ns;
    }

    /// How many files the service has made.
    pub fn created_files(&self) -> usize {
        self.machine.lock().unwrap().created_files
    }

    fn token(&mut self) -> Token {
        self.last += 1;
        Token(self.last)
    }

    // Producers.

    pub fn producer(&mut self, name: &str) -> ProducerConn {
        self.introduce(&named(name))
    }

    /// Connects, and says nothing yet.
    pub fn connect(&mut self, who: &Introduction) -> ProducerConn {
        self.last += 1;
        let conn = ProducerConn(self.last);
        self.producers.insert(conn, FakeProducer::default());
        let pid = self.last as i32 + 5000;
        self.service.handle_producer_connected(conn, Peer { uid: who.uid, pid, emulated: who.emulated });
        if let Some(machine) = &who.machine {
            self.service.handle_producer_machine(conn, machine.clone());
        }
        conn
    }

    /// A call of RelayPort.
    pub fn relay(&mut self, conn: ProducerConn, call: RelayCall) {
        let token = self.token();
        self.service.handle_relay_call(conn, token, call, &self.now);
        self.run();
    }

    /// Connects, introduces itself, and opens the command stream.
    pub fn introduce(&mut self, who: &Introduction) -> ProducerConn {
        let memory = who.provides.map(|len| Arc::new(SharedMemory::in_process(len).unwrap()));
        self.introduce_bringing(who, memory)
    }

    /// A producer that brings this memory.
    pub fn introduce_with_memory(&mut self, memory: Arc<SharedMemory>, page: u32) -> ProducerConn {
        let who =
            Introduction { provides: Some(memory.len()), page_hint: page, scraping: true, ..named("p") };
        self.introduce_bringing(&who, Some(memory))
    }

    fn introduce_bringing(&mut self, who: &Introduction, memory: Option<Arc<SharedMemory>>) -> ProducerConn {
        let conn = self.connect(who);
        let request = protos::InitializeConnectionRequest {
            producer_name: Some(who.name.clone()),
            shared_memory_size_hint_bytes: Some(who.size_hint),
            shared_memory_page_size_hint_bytes: Some(who.page_hint),
            producer_provided_shmem: Some(who.provides.is_some()),
            smb_scraping_mode: who.scraping.then_some(ProducerSmbScrapingMode::SmbScrapingEnabled as i32),
            ..Default::default()
        };
        if let Some(producer) = self.producers.get_mut(&conn) {
            producer.memory = memory.clone();
            producer.page_size = who.page_hint as usize;
        }
        let token = self.token();
        self.service.handle_producer_call(
            conn,
            token,
            ProducerCall::InitializeConnection(request),
            memory,
            &self.now,
        );
        self.run();
        let producer = self.producers.get_mut(&conn).unwrap();
        let reply = producer.last_reply.take().flatten();
        producer.response = reply.map(|body| protos::InitializeConnectionResponse::decode(body).unwrap());
        let token = self.token();
        self.producers.get_mut(&conn).unwrap().stream = Some(token);
        self.call_with(conn, token, ProducerCall::GetAsyncCommand(Default::default()));
        conn
    }

    pub fn call(&mut self, conn: ProducerConn, call: ProducerCall) {
        let token = self.token();
        self.call_with(conn, token, call);
    }

    fn call_with(&mut self, conn: ProducerConn, token: Token, call: ProducerCall) {
        self.service.handle_producer_call(conn, token, call, None, &self.now);
        self.run();
    }

    pub fn register(&mut self, conn: ProducerConn, name: &str) {
        self.register_as(conn, DataSourceDescriptor { name: Some(name.to_owned()), ..Default::default() });
    }

    pub fn register_as(&mut self, conn: ProducerConn, descriptor: DataSourceDescriptor) {
        let raw = descriptor.encode_to_vec().into();
        let request = protos::RegisterDataSourceRequest { data_source_descriptor: Some(raw) };
        self.call(conn, ProducerCall::RegisterDataSource(request));
    }

    pub fn disconnect(&mut self, conn: ProducerConn) {
        self.service.handle_producer_disconnected(conn, &self.now);
        self.run();
    }

    pub fn commands(&mut self, conn: ProducerConn) -> Vec<Cmd> {
        self.producers.get_mut(&conn).unwrap().commands.drain(..).collect()
    }

    /// The names of the commands since the last look.
    pub fn command_names(&mut self, conn: ProducerConn) -> Vec<&'static str> {
        self.commands(conn).iter().map(command_name).collect()
    }

    pub fn view(&mut self, conn: ProducerConn) -> &ProducerView {
        let producer = self.producers.get_mut(&conn).unwrap();
        let page = PageSize::new(producer.page_size as u64).unwrap();
        let memory = producer.memory.clone().expect("the producer has no memory yet");
        producer.view.get_or_insert_with(|| ProducerView::new(memory, page).unwrap())
    }

    /// Writes packets into a new chunk and leaves it in the writer's hands.
    pub fn write(
        &mut self,
        conn: ProducerConn,
        writer_id: u16,
        chunk_id: u32,
        packets: &[&[u8]],
    ) -> ChunkWriter {
        let view = self.view(conn);
        let mut chunk = view.try_acquire(PageLayout::Div1, NewChunk { chunk_id, writer_id }).unwrap();
        let mut offset = 0;
        for packet in packets {
            let fragment = fragment(packet);
            chunk.write_at(offset, &fragment);
            chunk.increment_packet_count();
            offset += fragment.len();
        }
        chunk
    }

    pub fn move_request(index: ChunkIndex, buffer: u16) -> commit::ChunksToMove {
        commit::ChunksToMove {
            page: Some(index.page),
            chunk: Some(index.chunk),
            target_buffer: Some(buffer.into()),
            ..Default::default()
        }
    }

    pub fn commit(&mut self, conn: ProducerConn, request: protos::CommitDataRequest) {
        self.call(conn, ProducerCall::CommitData(request));
    }

    pub fn commit_chunk(&mut self, conn: ProducerConn, chunk: commit::ChunksToMove) {
        self.commit(conn, protos::CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() });
    }

    /// Writes packets and commits them.
    pub fn emit(&mut self, conn: ProducerConn, writer: u16, chunk_id: u32, buffer: u16, packets: &[&[u8]]) {
        let index = self.write(conn, writer, chunk_id, packets).complete().unwrap();
        self.commit_chunk(conn, Self::move_request(index, buffer));
    }

    /// Commits a packet by value.
    pub fn emit_inline(&mut self, conn: ProducerConn, writer: u16, buffer: u16, packet: &[u8]) {
        let mut data = vec![0, 0, 0, 0];
        data.extend_from_slice(&writer.to_le_bytes());
        data.extend_from_slice(&[1, 0]);
        data.extend_from_slice(&fragment(packet));
        let data = Some(data.into());
        self.commit_chunk(
            conn,
            commit::ChunksToMove { target_buffer: Some(buffer.into()), data, ..Default::default() },
        );
    }

    /// Commits a packet that one chunk has no room for by value, in chunks that go on in each other.
    pub fn emit_in_pieces(&mut self, conn: ProducerConn, writer: u16, buffer: u16, packet: &[u8]) {
        let count = packet.chunks(50_000).count();
        for (id, piece) in (0u32..).zip(packet.chunks(50_000)) {
            let (is_first, is_last) = (id == 0, id as usize + 1 == count);
            let flags = u16::from(!is_first) | u16::from(!is_last) << 1;
            let mut data = id.to_le_bytes().to_vec();
            data.extend_from_slice(&writer.to_le_bytes());
            data.extend_from_slice(&(1 | flags << 10).to_le_bytes());
            data.extend_from_slice(&fragment(piece));
            let move_it = commit::ChunksToMove {
                target_buffer: Some(buffer.into()),
                data: Some(data.into()),
                ..Default::default()
            };
            self.commit_chunk(conn, move_it);
        }
    }

    pub fn acknowledge_flush(&mut self, conn: ProducerConn, request_id: u64) {
        self.commit(
            conn,
            protos::CommitDataRequest { flush_request_id: Some(request_id), ..Default::default() },
        );
    }

    /// Answers all flushes that wait in the command queue.
    pub fn acknowledge_flushes(&mut self, conn: ProducerConn) -> usize {
        let commands = self.commands(conn);
        let flushes: Vec<u64> = commands
            .iter()
            .filter_map(|command| match command {
                Cmd::Flush(flush) => Some(flush.request_id()),
                _ => None,
            })
            .collect();
        for id in &flushes {
            self.acknowledge_flush(conn, *id);
        }
        flushes.len()
    }

    // Consumers.

    pub fn consumer(&mut self, uid: u32) -> ConsumerConn {
        self.last += 1;
        let conn = ConsumerConn(self.last);
        self.consumers.insert(conn, FakeConsumer::default());
        self.service.handle_consumer_connected(conn, Peer { uid, pid: 1, ..Default::default() });
        conn
    }

    pub fn ask(&mut self, conn: ConsumerConn, call: ConsumerCall) {
        self.ask_with(conn, call, None);
    }

    pub fn ask_with(&mut self, conn: ConsumerConn, call: ConsumerCall, file: Option<FileHandle>) {
        let token = self.token();
        self.consumers.get_mut(&conn).unwrap().open.insert(token, call.method());
        self.service.handle_consumer_call(conn, token, call, file, &self.now);
        self.run();
    }

    pub fn enable(&mut self, conn: ConsumerConn, config: &str) {
        self.enable_raw(conn, config_bytes(config), None);
    }

    /// Enables a session that writes into this file.
    pub fn enable_into(&mut self, conn: ConsumerConn, config: &str, file: FileHandle) {
        self.files.insert(file, FakeFile::default());
        self.enable_raw(conn, config_bytes(config), Some(file));
    }

    pub fn enable_raw(&mut self, conn: ConsumerConn, config: Bytes, file: Option<FileHandle>) {
        let request = protos::EnableTracingRequest { trace_config: Some(config), ..Default::default() };
        self.ask_with(conn, ConsumerCall::EnableTracing(request), file);
    }

    /// The answer to EnableTracing, if tracing has ended: its error, empty for none.
    pub fn ended(&mut self, conn: ConsumerConn) -> Option<String> {
        let replies = self.consumers.get_mut(&conn).unwrap().replies.remove("EnableTracing")?;
        let body = replies.last().unwrap().clone().expect("EnableTracing was rejected");
        Some(EnableTracingResponse::decode(body).unwrap().error().to_owned())
    }

    pub fn disable(&mut self, conn: ConsumerConn) {
        self.ask(conn, ConsumerCall::DisableTracing(Default::default()));
    }

    pub fn free(&mut self, conn: ConsumerConn) {
        self.ask(conn, ConsumerCall::FreeBuffers(Default::default()));
    }

    pub fn flush(&mut self, conn: ConsumerConn, timeout_ms: u32) {
        let request = protos::FlushRequest { timeout_ms: Some(timeout_ms), ..Default::default() };
        self.ask(conn, ConsumerCall::Flush(request));
    }

    /// The last reply to a method: the outer `None` if there is none yet, the inner one if it was a rejection.
    pub fn reply(&mut self, conn: ConsumerConn, method: &str) -> Option<Option<Bytes>> {
        self.consumers.get_mut(&conn).unwrap().replies.remove(method)?.pop()
    }

    /// The reply to a method that must have answered.
    pub fn answer<M: Message + Default>(&mut self, conn: ConsumerConn, method: &str) -> M {
        let body = self.reply(conn, method).expect("no reply").expect("rejected");
        M::decode(body).unwrap()
    }

    pub fn hang_up(&mut self, conn: ConsumerConn) {
        self.service.handle_consumer_disconnected(conn, &self.now);
        self.consumers.remove(&conn);
        self.run();
    }

    /// Reads all buffers back.
    pub fn read(&mut self, conn: ConsumerConn) -> Vec<TracePacket> {
        self.ask(conn, ConsumerCall::ReadBuffers(Default::default()));
        self.read_replies(conn)
    }

    /// The packets of what came as answers to ReadBuffers.
    pub fn read_replies(&mut self, conn: ConsumerConn) -> Vec<TracePacket> {
        let mut packets = Vec::new();
        let mut packet = Vec::new();
        for body in self.consumers.get_mut(&conn).unwrap().replies.remove("ReadBuffers").unwrap_or_default() {
            let response =
                protos::ReadBuffersResponse::decode(body.expect("ReadBuffers was rejected")).unwrap();
            for slice in response.slices {
                packet.extend_from_slice(slice.data());
                if slice.last_slice_for_packet() {
                    packets.push(TracePacket::decode(packet.as_slice()).unwrap());
                    packet.clear();
                }
            }
        }
        assert!(packet.is_empty(), "a packet without end");
        packets
    }

    /// Reads back what producers wrote: the payloads of `for_testing` packets.
    pub fn read_payloads(&mut self, conn: ConsumerConn) -> Vec<String> {
        payloads(&self.read(conn))
    }

    pub fn stats(&mut self, conn: ConsumerConn) -> protos::TraceStats {
        self.ask(conn, ConsumerCall::GetTraceStats(Default::default()));
        self.answer::<protos::GetTraceStatsResponse>(conn, "GetTraceStats").trace_stats.unwrap()
    }

    pub fn query(&mut self, conn: ConsumerConn) -> protos::TracingServiceState {
        self.ask(conn, ConsumerCall::QueryServiceState(Default::default()));
        self.answer::<protos::QueryServiceStateResponse>(conn, "QueryServiceState").service_state.unwrap()
    }

    pub fn file_packets(&self, file: FileHandle) -> Vec<TracePacket> {
        protos::Trace::decode(self.files[&file].bytes.as_slice()).unwrap().packet
    }

    // Time.

    /// Lets time pass, from timer to timer.
    pub fn advance_ms(&mut self, ms: u64) {
        let end = self.now.clocks.boottime + ms * MS;
        loop {
            let next = self.service.next_timeout_ns(&self.now).map(|ns| self.now.clocks.boottime + ns);
            match next {
                Some(next) if next <= end => {
                    self.set_time(next);
                    self.service.handle_timeout(&self.now);
                    self.run();
                }
                _ => break,
            }
        }
        self.set_time(end);
    }

    /// Does what the outputs say until there are none.
    pub fn run(&mut self) {
        loop {
            while let Some(output) = self.service.poll_output() {
                self.carry_out(output);
            }
            if let Some(write) = (!self.files_wait).then(|| self.service.poll_file_write(&self.now)).flatten()
            {
                let bytes = match write.content {
                    FileContent::Bytes(bytes) => bytes,
                    FileContent::Copy { from, offset, len } => {
                        let source = &self.files[&from];
                        assert!(!source.closed, "a copy of a file that is closed");
                        Bytes::copy_from_slice(&source.bytes[offset as usize..][..len])
                    }
                };
                let file = self.files.entry(write.file).or_default();
                let result = if file.breaks { Err("No space left on device".to_owned()) } else { Ok(()) };
                if result.is_ok() {
                    assert!(!file.closed, "a write after the end");
                    file.bytes.extend_from_slice(&bytes);
                    file.syncs += usize::from(write.sync);
                }
                self.service.handle_file_written(write.file, result, &self.now);
                continue;
            }
            let consumers: Vec<ConsumerConn> = self.consumers.keys().copied().collect();
            let mut has_read = false;
            for conn in self.producers.keys().copied().filter(|_| !self.commits_wait) {
                has_read |= self.service.is_committing(conn);
                self.service.continue_commit(conn, &self.now);
            }
            for conn in consumers {
                for reply in self.service.poll_read(conn, &self.now) {
                    has_read = true;
                    self.carry_out(Output::ToConsumer(conn, reply));
                }
            }
            if !has_read {
                break;
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::CloseFile(file) => self.files.entry(file).or_default().closed = true,
            Output::ToConsumer(conn, reply) => {
                let Some(consumer) = self.consumers.get_mut(&conn) else { return };
                let method = *consumer.open.get(&reply.token).expect("a reply after the last one");
                if !reply.has_more {
                    consumer.open.remove(&reply.token);
                }
                check_frame_size(&reply);
                consumer.replies.entry(method).or_default().push(reply.body);
            }
            Output::ToProducer(conn, reply) => {
                let Some(producer) = self.producers.get_mut(&conn) else { return };
                if Some(reply.token) != producer.stream {
                    producer.last_reply = Some(reply.body);
                    return;
                }
                let Some(body) = reply.body else { return };
                let command = protos::GetAsyncCommandResponse::decode(body).unwrap().cmd.unwrap();
                if let (Cmd::SetupTracing(setup), Some(memory)) = (&command, reply.memory) {
                    producer.memory = Some(memory);
                    producer.page_size = setup.shared_buffer_page_size_kb() as usize * 1024;
                    producer.view = None;
                }
                producer.commands.push_back(command);
            }
        }
    }
}

fn check_frame_size(reply: &Reply) {
    const FRAME: usize = 128 * 1024 - 64;
    let size = reply.body.as_ref().map_or(0, Bytes::len);
    assert!(size <= FRAME, "a reply of {size} bytes does not fit into a frame");
}

pub fn command_name(command: &Cmd) -> &'static str {
    match command {
        Cmd::SetupTracing(_) => "setup_tracing",
        Cmd::SetupDataSource(_) => "setup",
        Cmd::StartDataSource(_) => "start",
        Cmd::StopDataSource(_) => "stop",
        Cmd::Flush(_) => "flush",
        Cmd::ClearIncrementalState(_) => "clear",
    }
}

/// A config from text: `DS` stands for a data source of this name in the first buffer.
pub fn config_bytes(text: &str) -> Bytes {
    protos::text::parse_trace_config(text).unwrap_or_else(|error| panic!("{error}: {text}")).into()
}

/// One buffer, one data source named `data`, and what else the test needs.
pub fn config(more: &str) -> String {
    format!("buffers {{ size_kb: 128 }} data_sources {{ config {{ name: \"data\" }} }} {more}")
}

/// A packet that carries this text.
pub fn packet(text: &str) -> Vec<u8> {
    let event = protos::TestEvent { str: Some(text.to_owned()), ..Default::default() };
    let data = Some(protos::trace_packet::Data::ForTesting(event));
    TracePacket { data, ..Default::default() }.encode_to_vec()
}

pub fn payloads(packets: &[TracePacket]) -> Vec<String> {
    packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(protos::trace_packet::Data::ForTesting(event)) => Some(event.str().to_owned()),
            _ => None,
        })
        .collect()
}

/// A packet with its size before it, as it stands in a chunk.
pub fn fragment(packet: &[u8]) -> Vec<u8> {
    let mut fragment = Vec::new();
    prost::encoding::encode_varint(packet.len() as u64, &mut fragment);
    fragment.extend_from_slice(packet);
    fragment
}

/// The config that a setup or start command carries.
pub fn instance(command: &Cmd) -> (u64, protos::DataSourceConfig) {
    let (id, config) = match command {
        Cmd::SetupDataSource(setup) => (setup.new_instance_id(), setup.config.clone()),
        Cmd::StartDataSource(start) => (start.new_instance_id(), start.config.clone()),
        other => panic!("{} has no config", command_name(other)),
    };
    (id, protos::DataSourceConfig::decode(config.unwrap()).unwrap())
}

/// The config of the only instance that was set up.
pub fn only_setup(commands: &[Cmd]) -> (u64, protos::DataSourceConfig) {
    let setups: Vec<&Cmd> =
        commands.iter().filter(|command| matches!(command, Cmd::SetupDataSource(_))).collect();
    assert_eq!(setups.len(), 1, "{commands:?}");
    instance(setups[0])
}
