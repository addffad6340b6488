//! Clients that break the protocol or die in the middle of it: our service goes on serving everybody else.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ferretto_interop::{Maker, World, config, ferretto, need, wait_for_end};
use ferretto_ipc::frame;
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, ServiceDef};
use ferretto_protos::commit_data_request::chunk_to_patch::Patch;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_protos::ipc_frame::{BindService, InvokeMethod, Msg};
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, EnableTracingRequest, GetAsyncCommandRequest,
    InitializeConnectionRequest, IpcFrame, ReadBuffersRequest, RegisterDataSourceRequest,
    RegisterTraceWriterRequest,
};
use prost::Message;

const CLIENTS: u64 = 200;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Numbers that look random and are the same in each run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }
}

/// Everything that a client would say, with ids as our service gives them.
struct Conversation {
    service: &'static ServiceDef,
    requests: u64,
    bytes: Vec<u8>,
}

impl Conversation {
    fn with(service: &'static ServiceDef) -> Self {
        let mut conversation = Self { service, requests: 0, bytes: Vec::new() };
        conversation.say(Msg::MsgBindService(BindService { service_name: Some(service.name.to_owned()) }));
        conversation
    }

    fn say(&mut self, msg: Msg) {
        self.requests += 1;
        let frame = IpcFrame { request_id: Some(self.requests), msg: Some(msg), ..Default::default() };
        self.bytes.extend(frame::encode(&frame).unwrap());
    }

    fn call(&mut self, method: &str, args: &impl Message) {
        let index = self.service.method_index(method).unwrap();
        self.say(Msg::MsgInvokeMethod(InvokeMethod {
            service_id: Some(1),
            method_id: Some(u32::try_from(index).unwrap() + 1),
            args_proto: Some(args.encode_to_vec().into()),
            ..Default::default()
        }));
    }
}

fn producer(name: &str) -> Vec<u8> {
    let mut conversation = Conversation::with(&PRODUCER_PORT);
    conversation.call(
        "InitializeConnection",
        &InitializeConnectionRequest {
            producer_name: Some(name.to_owned()),
            shared_memory_size_hint_bytes: Some(128 * 1024),
            shared_memory_page_size_hint_bytes: Some(4096),
            ..Default::default()
        },
    );
    conversation.call("GetAsyncCommand", &GetAsyncCommandRequest::default());
    let descriptor = DataSourceDescriptor { name: Some("hostile".to_owned()), ..Default::default() };
    conversation.call(
        "RegisterDataSource",
        &RegisterDataSourceRequest { data_source_descriptor: Some(descriptor.encode_to_vec().into()) },
    );
    conversation.call(
        "RegisterTraceWriter",
        &RegisterTraceWriterRequest { trace_writer_id: Some(1), target_buffer: Some(1) },
    );
    for (page, chunk, target_buffer) in [(0, 0, 1), (31, 13, 1), (32, 0, 1), (u32::MAX, u32::MAX, u32::MAX)] {
        let chunks_to_move = ChunksToMove {
            page: Some(page),
            chunk: Some(chunk),
            target_buffer: Some(target_buffer),
            ..Default::default()
        };
        let patch = |offset, size| Patch { offset: Some(offset), data: Some(vec![0xff; size].into()) };
        let chunks_to_patch = ChunkToPatch {
            target_buffer: Some(target_buffer),
            writer_id: Some(page),
            chunk_id: Some(chunk),
            patches: vec![patch(0, 4), patch(u32::MAX, 4), patch(3, 0), patch(5, 100)],
            ..Default::default()
        };
        conversation.call(
            "CommitData",
            &CommitDataRequest {
                chunks_to_move: vec![chunks_to_move; 3],
                chunks_to_patch: vec![chunks_to_patch; 3],
                flush_request_id: Some(u64::MAX),
            },
        );
    }
    conversation.bytes
}

fn consumer() -> Vec<u8> {
    let mut conversation = Conversation::with(&CONSUMER_PORT);
    conversation.call(
        "EnableTracing",
        &EnableTracingRequest {
            trace_config: Some(
                config("buffers { size_kb: 64 } data_sources { config { name: 'hostile' } }").into(),
            ),
            ..Default::default()
        },
    );
    conversation.call("ReadBuffers", &ReadBuffersRequest::default());
    conversation.bytes
}

/// Says the beginning of something and goes away, having read a part of the answers or none.
fn say_and_die(socket: &Path, bytes: &[u8], listen: bool) {
    let Ok(mut stream) = UnixStream::connect(socket) else { return };
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    // The service may hang up before all is said.
    let _ = stream.write_all(bytes);
    if listen {
        let _ = stream.read(&mut [0; 100]);
    }
}

/// A recording works, and nobody but this test is connected.
fn check_serving(world: &mut World) {
    let mut consumer = world.consumer();
    world.wait_until("the end of the clients", || {
        let state = consumer.query_service_state(false).unwrap();
        state.producers.len() <= 1 && state.num_sessions() == 0
    });
    consumer.enable_tracing(config("buffers { size_kb: 64 } duration_ms: 50"), None).unwrap();
    assert_eq!(wait_for_end(&mut consumer), None);
    assert!(consumer.read_buffers(|_| Ok(())).unwrap().packets > 0);
    assert!(world.daemons()[0].is_running());
}

#[test]
fn clients_that_die_at_any_byte_leave_the_service_serving() {
    let mut world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    let mut numbers = Numbers(0x5eed);
    let mut session = world.consumer();
    session
        .enable_tracing(config("buffers { size_kb: 64 } data_sources { config { name: 'hostile' } }"), None)
        .unwrap();
    for client in 0..CLIENTS {
        let said = producer(&format!("dies {client}"));
        let end = numbers.below(said.len() + 1);
        say_and_die(&world.producer_socket(), &said[..end], client % 2 == 0);
        let said = consumer();
        let end = numbers.below(said.len() + 1);
        say_and_die(&world.consumer_socket(), &said[..end], client % 2 == 1);
    }
    drop(session);
    check_serving(&mut world);
}

#[test]
fn clients_whose_bytes_are_damaged_leave_the_service_serving() {
    let mut world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    let mut numbers = Numbers(0xdead);
    for client in 0..CLIENTS {
        for (mut said, socket) in [
            (producer(&format!("damaged {client}")), world.producer_socket()),
            (consumer(), world.consumer_socket()),
        ] {
            for _ in 0..=numbers.below(4) {
                let at = numbers.below(said.len());
                said[at] ^= 1 << numbers.below(8);
            }
            say_and_die(&socket, &said, client % 2 == 0);
        }
    }
    check_serving(&mut world);
}

#[test]
fn noise_and_frames_that_are_too_large_leave_the_service_serving() {
    let mut world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    let mut numbers = Numbers(0xbeef);
    for _ in 0..CLIENTS {
        let noise: Vec<u8> = (0..numbers.below(300)).map(|_| numbers.below(256) as u8).collect();
        let mut framed = (noise.len() as u32).to_le_bytes().to_vec();
        framed.extend_from_slice(&noise);
        let too_large = [&u32::MAX.to_le_bytes()[..], &noise].concat();
        for said in [&noise, &framed, &too_large] {
            say_and_die(&world.producer_socket(), said, false);
            say_and_die(&world.consumer_socket(), said, true);
        }
    }
    check_serving(&mut world);
}

/// Kilobytes of memory that a process holds.
fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_client_that_never_reads_costs_little_memory_and_the_service_serves() {
    let mut world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    let before_kb = resident_kb(world.daemons()[0].pid());
    for (service, socket) in
        [(&CONSUMER_PORT, world.consumer_socket()), (&PRODUCER_PORT, world.producer_socket())]
    {
        let flood = Conversation::with(service).bytes.repeat(10_000);
        let mut deaf = UnixStream::connect(socket).unwrap();
        deaf.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // The service hangs up, or takes no more from it until it reads.
        let ended = std::iter::repeat_with(|| deaf.write_all(&flood)).take(200).any(|result| result.is_err());
        assert!(ended, "{} took 90 MB of requests from a client that reads no answer", service.name);
        let grown_kb = resident_kb(world.daemons()[0].pid()).saturating_sub(before_kb);
        assert!(grown_kb < 32 * 1024, "{}: {grown_kb} KiB", service.name);
    }
    check_serving(&mut world);
}
