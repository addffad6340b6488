//! The tracing service over a transport of one's own: channels between two threads here, elsewhere the IPC system of a larger program.
//! What passes are calls and replies, each a protobuf message. `cargo run -p ferretto-traced --example own_transport`

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::{self as protos, TracePacket, get_async_command_response::Cmd, trace_packet::Data};
use ferretto_service::{ConsumerCall, Peer, ProducerCall, Reply, Token};
use ferretto_traced::own_driver::Driver;
use prost::Message;

const TEXT: &str = "written over channels";
const CONFIG: &str = r#"buffers { size_kb: 64 } data_sources { config { name: "org.example" } }"#;
// The sender of a call chooses its token, and replies bear it.
const COMMANDS: Token = Token(1);
const SESSION: Token = Token(2);
const TRACE: Token = Token(3);

enum Call {
    Producer(Token, ProducerCall),
    Consumer(Token, ConsumerCall),
}

/// The service's thread.
fn serve(calls: &Receiver<Call>, commands: Sender<Reply>, answers: Sender<Reply>) {
    let mut driver = Driver::new();
    // Whom the transport vouches for. It passes no memory, so that producers send their chunks.
    let peer = Peer { uid: 1000, pid: 1234, emulated: true };
    // Who has hung up needs no reply.
    let producer = driver.connect_producer(peer, move |reply| drop(commands.send(reply)));
    let consumer = driver.connect_consumer(peer, move |reply| drop(answers.send(reply)));
    loop {
        match calls.recv_timeout(driver.timeout()) {
            Ok(Call::Producer(token, call)) => driver.producer_call(producer, token, call, None),
            Ok(Call::Consumer(token, call)) => driver.consumer_call(consumer, token, call),
            Err(RecvTimeoutError::Timeout) => driver.handle_timeout(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn main() {
    let ((calls, inbox), (commander, commands), (answerer, answers)) = (channel(), channel(), channel());
    std::thread::spawn(move || serve(&inbox, commander, answerer));
    let produce = |token, call| calls.send(Call::Producer(token, call)).expect("it runs");
    let consume = |token, call| calls.send(Call::Consumer(token, call)).expect("it runs");
    let answer = |to| answers.iter().find(|reply: &Reply| reply.token == to).expect("it runs");

    // The producer tells who it is and what it offers, and wants commands.
    let source = protos::DataSourceDescriptor { name: Some("org.example".to_owned()), ..Default::default() };
    let source = Some(source.encode_to_vec().into());
    let offer = protos::RegisterDataSourceRequest { data_source_descriptor: source };
    produce(Token(0), ProducerCall::InitializeConnection(Default::default()));
    produce(Token(0), ProducerCall::RegisterDataSource(offer));
    produce(COMMANDS, ProducerCall::GetAsyncCommand(Default::default()));

    // The consumer starts a session, the producer is told, and writes.
    let trace_config = protos::text::parse_trace_config(CONFIG).expect("a config").into();
    let enable = protos::EnableTracingRequest { trace_config: Some(trace_config), ..Default::default() };
    consume(SESSION, ConsumerCall::EnableTracing(enable));
    let start = commands.iter().filter(|reply| reply.token == COMMANDS).find_map(|reply| {
        let command: protos::GetAsyncCommandResponse = reply.message()?;
        if let Cmd::StartDataSource(start) = command.cmd? { Some(start) } else { None }
    });
    let config = protos::DataSourceConfig::decode(start.expect("it runs").config()).expect("a config");
    let chunk =
        ChunksToMove { data: Some(chunk()), target_buffer: config.target_buffer, ..Default::default() };
    let commit = protos::CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() };
    produce(Token(0), ProducerCall::CommitData(commit));

    // The consumer stops the session, whose end answers the call that started it, and reads.
    consume(Token(0), ConsumerCall::DisableTracing(Default::default()));
    answer(SESSION);
    consume(TRACE, ConsumerCall::ReadBuffers(Default::default()));
    let (mut slices, mut has_more) = (Vec::new(), true);
    while has_more {
        let reply = answer(TRACE);
        has_more = reply.has_more;
        slices.extend(reply.message().map_or(Vec::new(), |part: protos::ReadBuffersResponse| part.slices));
    }
    // A large packet would be in several slices.
    let written = slices.iter().filter_map(|slice| TracePacket::decode(slice.data()).ok()?.data);
    let written: Vec<Data> = written.collect();
    println!("{written:#?}");
    assert!(written.iter().any(|data| matches!(data, Data::ForTesting(event) if event.str() == TEXT)));
}

/// The first chunk of this producer's first writer, with one packet in it.
fn chunk() -> bytes::Bytes {
    let event = protos::TestEvent { str: Some(TEXT.to_owned()), ..Default::default() };
    let packet = TracePacket { data: Some(Data::ForTesting(event)), ..Default::default() };
    let header = [0, 0, 0, 0, /* writer */ 1, 0, /* packets */ 1, 0];
    [header.as_slice(), &packet.encode_length_delimited_to_vec()].concat().into()
}

#[test]
fn what_was_written_is_in_the_trace() {
    main();
}
