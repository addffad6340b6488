//! The consumer against services that are old, slow, broken or hostile.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_consumer::{Answer, CallError, CallId, ConnectError, Consumer, Event, Observe, ReadError};
use ferretto_ipc::address::Address;
use ferretto_ipc::host::{HostConnection, Reply, Request};
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, ServiceDef};
use ferretto_ipc::socket::Stream;
use ferretto_protos::read_buffers_response::Slice;
use ferretto_protos::tracing_service_state::Producer;
use ferretto_protos::{
    EnableTracingResponse, QueryServiceStateResponse, ReadBuffersResponse, TracingServiceState,
};
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(10);
const SERVICES: &[ServiceDef] = &[CONSUMER_PORT];

/// A service that does what a test says, on the same thread.
struct Fake {
    stream: Option<Stream>,
    host: HostConnection,
}

impl Fake {
    fn connect(services: &'static [ServiceDef]) -> (Consumer, Self) {
        let (ours, theirs) = Stream::pair().unwrap();
        let mut fake = Self { stream: Some(theirs), host: HostConnection::new(services) };
        let mut consumer = Consumer::start(ours);
        consumer.handle_ready();
        fake.turn();
        (consumer, fake)
    }

    fn connected() -> (Consumer, Self) {
        let (mut consumer, fake) = Self::connect(SERVICES);
        assert_eq!(consumer.poll(Some(TIMEOUT)), Some(Event::Connected));
        (consumer, fake)
    }

    /// Receives and sends what there is.
    fn turn(&mut self) {
        let Some(stream) = &self.stream else { return };
        let mut buffer = [0; 4096];
        while let Ok(received) = stream.recv(&mut buffer) {
            if received.len == 0 {
                break;
            }
            self.host.handle_bytes(&buffer[..received.len]).unwrap();
        }
        while let Some(transmit) = self.host.poll_transmit() {
            match stream.send(transmit.bytes, transmit.fd) {
                Ok(sent) => self.host.transmitted(sent),
                Err(_) => break,
            }
        }
    }

    fn request(&mut self) -> Request {
        self.turn();
        self.host.poll_request().expect("a request")
    }

    fn reply(&mut self, request: &Request, reply: Reply, has_more: bool) {
        self.host.reply(request.id, reply, has_more, None).unwrap();
        self.turn();
    }
}

fn answer(consumer: &mut Consumer, call: CallId) -> Result<Answer, CallError> {
    match consumer.poll(Some(TIMEOUT)) {
        Some(Event::Answer { call: id, answer }) if id == call => answer,
        other => panic!("{other:?}"),
    }
}

fn packets(slices: &[(&[u8], bool)]) -> Reply {
    let slices = slices.iter().map(|(data, last)| Slice {
        data: Some(Bytes::copy_from_slice(data)),
        last_slice_for_packet: Some(*last),
    });
    Reply::message(&ReadBuffersResponse { slices: slices.collect() })
}

#[test]
fn where_nobody_listens_the_error_says_what_was_tried_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nobody");
    let error = Consumer::connect(&Address::Path(path.clone())).unwrap_err().to_string();
    for part in [path.to_str().unwrap(), "ferretto traced", "PERFETTO_CONSUMER_SOCK_NAME"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn a_service_without_a_consumer_port_is_told_apart() {
    let (mut consumer, _fake) = Fake::connect(&[PRODUCER_PORT]);
    assert!(matches!(consumer.poll(Some(TIMEOUT)), Some(Event::Disconnected { .. })));
    assert!(consumer.is_disconnected());

    let (ours, theirs) = Stream::pair().unwrap();
    let service = std::thread::spawn(move || {
        let mut fake = Fake { stream: Some(theirs), host: HostConnection::new(&[PRODUCER_PORT]) };
        let start = Instant::now();
        while fake.host.queued_bytes() == 0 && start.elapsed() < Duration::from_millis(200) {
            fake.turn();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(matches!(Consumer::over(ours), Err(ConnectError::Refused)));
    service.join().unwrap();
}

#[test]
fn methods_that_an_old_service_lacks_are_named() {
    const OLD: &[ServiceDef] =
        &[ServiceDef { name: "ConsumerPort", methods: &["EnableTracing", "DisableTracing"] }];
    let (mut consumer, mut fake) = Fake::connect(OLD);
    assert_eq!(consumer.poll(Some(TIMEOUT)), Some(Event::Connected));
    assert_eq!(consumer.begin_stats(), Err(CallError::Unsupported { method: "GetTraceStats".into() }));
    assert_eq!(
        consumer.observe(Observe::CLONE_TRIGGER_HIT),
        Err(CallError::Unsupported { method: "ObserveEvents".into() })
    );
    let call = consumer.begin_disable().unwrap();
    let request = fake.request();
    assert_eq!(request.method_name(), "DisableTracing");
    fake.reply(&request, Reply::Body(Bytes::new()), false);
    assert_eq!(answer(&mut consumer, call), Ok(Answer::Done));
}

#[test]
fn calls_before_the_connection_is_made_fail() {
    let (ours, _theirs) = Stream::pair().unwrap();
    assert!(matches!(Consumer::start(ours).begin_stats(), Err(CallError::NotSent(_))));
}

#[test]
fn the_end_of_tracing_tells_its_error() {
    for (reply, expected) in [
        (Reply::message(&EnableTracingResponse::default()), None),
        (Reply::message(&EnableTracingResponse { error: Some(String::new()), ..Default::default() }), None),
        (
            Reply::message(&EnableTracingResponse { error: Some("no".into()), ..Default::default() }),
            Some("no".to_owned()),
        ),
        (Reply::Rejected, Some("the tracing service rejected the request to trace".to_owned())),
    ] {
        let (mut consumer, mut fake) = Fake::connected();
        consumer.enable_tracing(&b"config"[..], None).unwrap();
        let request = fake.request();
        assert_eq!(&request.args[..], b"\x0a\x06config");
        fake.reply(&request, reply, false);
        assert_eq!(consumer.poll(Some(TIMEOUT)), Some(Event::TracingDisabled { error: expected }));
    }
}

#[test]
fn parts_of_the_service_state_are_merged() {
    let (mut consumer, mut fake) = Fake::connected();
    let call = consumer.begin_query_service_state(false).unwrap();
    let request = fake.request();
    for id in 1..=3 {
        let producer = Producer { id: Some(id), ..Default::default() };
        let state = TracingServiceState {
            producers: vec![producer],
            num_sessions: (id == 1).then_some(7),
            ..Default::default()
        };
        fake.reply(
            &request,
            Reply::message(&QueryServiceStateResponse { service_state: Some(state) }),
            id < 3,
        );
    }
    let Ok(Answer::ServiceState(state)) = answer(&mut consumer, call) else { panic!() };
    assert_eq!(state.producers.iter().map(Producer::id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(state.num_sessions(), 7);
}

/// Each takes a hundred times as much here as on its way.
#[test]
fn a_state_of_tiny_producers_without_end_is_an_error() {
    let (mut consumer, mut fake) = Fake::connected();
    let call = consumer.begin_query_service_state(false).unwrap();
    let request = fake.request();
    let producers = vec![Producer::default(); 10_000];
    let state = TracingServiceState { producers, ..Default::default() };
    let part = QueryServiceStateResponse { service_state: Some(state) };
    for _ in 0..27 {
        fake.reply(&request, Reply::message(&part), true);
        consumer.handle_ready();
        fake.turn();
    }
    let error = answer(&mut consumer, call).unwrap_err().to_string();
    assert!(error.contains("more than 262144 producers"), "{error}");
}

#[test]
fn packets_come_whole_and_are_summed_up() {
    let (mut consumer, mut fake) = Fake::connected();
    let call = consumer.begin_read_buffers().unwrap();
    let request = fake.request();
    fake.reply(&request, packets(&[(b"one", true), (b"tw", false)]), true);
    fake.reply(&request, packets(&[]), true);
    fake.reply(&request, packets(&[(b"o", true), (b"torn", false)]), false);
    let mut received = Vec::new();
    let summary = loop {
        match consumer.poll(Some(TIMEOUT)) {
            Some(Event::Packets { call: id, packets }) if id == call => received.extend(packets),
            Some(Event::Answer { answer: Ok(Answer::Read(summary)), .. }) => break summary,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(received, [&b"one"[..], b"two"]);
    assert_eq!((summary.packets, summary.bytes, summary.torn), (2, 6, true));
}

#[test]
fn a_caller_that_takes_no_packets_is_not_flooded() {
    let (mut consumer, mut fake) = Fake::connected();
    consumer.begin_read_buffers().unwrap();
    let request = fake.request();
    let big = vec![0; 100 * 1024];
    // 20 MB through a consumer that is driven but whose events are not taken.
    let (mut sent, mut taken) = (0, 0);
    for _ in 0..10_000 {
        if sent < 200 && fake.host.queued_bytes() < 1 << 20 {
            fake.reply(&request, packets(&[(&big, true)]), true);
            sent += 1;
        }
        fake.turn();
        consumer.handle_ready();
    }
    assert!(sent < 200, "the service had to wait");
    while let Some(Event::Packets { packets, .. }) = consumer.next_event() {
        taken += packets.len();
    }
    assert!((40..60).contains(&taken), "{taken} packets of 100 KiB were held");
    // And it goes on where it was.
    for _ in 0..100 {
        fake.turn();
        consumer.handle_ready();
    }
    assert!(matches!(consumer.next_event(), Some(Event::Packets { .. })));
}

#[test]
fn a_sink_that_fails_ends_the_reading_with_its_error() {
    let (ours, theirs) = Stream::pair().unwrap();
    let service = std::thread::spawn(move || {
        let mut fake = Fake { stream: Some(theirs), host: HostConnection::new(SERVICES) };
        loop {
            fake.turn();
            if let Some(request) = fake.host.poll_request() {
                fake.reply(&request, packets(&[(b"one", true)]), true);
                fake.reply(&request, packets(&[(b"two", true)]), false);
                return fake;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let mut consumer = Consumer::over(ours).unwrap();
    let error = consumer.read_buffers(|_| Err(io::Error::from(io::ErrorKind::StorageFull)));
    assert!(matches!(error, Err(ReadError::Sink(_))));
    drop(service.join().unwrap());
}

#[test]
fn observing_again_replaces_what_was_observed() {
    let (mut consumer, mut fake) = Fake::connected();
    consumer.observe(Observe::ALL_DATA_SOURCES_STARTED).unwrap();
    let first = fake.request();
    consumer.observe(Observe::DATA_SOURCE_INSTANCES | Observe::CLONE_TRIGGER_HIT).unwrap();
    let second = fake.request();
    assert_eq!(&second.args[..], [0x08, 1, 0x08, 4]);
    fake.reply(&first, Reply::Body(Bytes::new()), true);
    fake.reply(&second, Reply::Body(Bytes::new()), true);
    assert_eq!(consumer.poll(Some(TIMEOUT)), Some(Event::Observed(Default::default())));
    assert_eq!(consumer.poll(Some(Duration::ZERO)), None);
}

#[test]
fn a_service_that_goes_away_answers_everything_that_waits() {
    let (mut consumer, mut fake) = Fake::connected();
    consumer.enable_tracing(&b""[..], None).unwrap();
    let calls = [consumer.begin_stats().unwrap(), consumer.begin_flush(TIMEOUT, 0).unwrap()];
    fake.turn();
    fake.stream = None;
    for call in calls {
        assert!(matches!(answer(&mut consumer, call), Err(CallError::Disconnected { .. })));
    }
    assert!(matches!(consumer.poll(Some(TIMEOUT)), Some(Event::Disconnected { .. })));
    assert_eq!(consumer.poll(None), None, "and it does not wait for ever");
    assert!(matches!(consumer.flush(TIMEOUT, 0), Err(CallError::Disconnected { .. })));
}

#[test]
fn a_service_that_hangs_up_at_any_byte_is_survived() {
    let mut host = HostConnection::new(SERVICES);
    let bind =
        ferretto_ipc::client::ClientConnection::new("ConsumerPort").poll_transmit().unwrap().bytes.to_vec();
    host.handle_bytes(&bind).unwrap();
    let answer = host.poll_transmit().unwrap().bytes.to_vec();
    for end in 0..answer.len() {
        let (ours, theirs) = Stream::pair().unwrap();
        let mut consumer = Consumer::start(ours);
        theirs.send(&answer[..end], None).unwrap();
        drop(theirs);
        assert!(
            matches!(consumer.poll(Some(TIMEOUT)), Some(Event::Disconnected { .. })),
            "after {end} bytes"
        );
    }
}

#[test]
fn an_oversized_frame_ends_the_connection() {
    let (mut consumer, fake) = Fake::connected();
    fake.stream.as_ref().unwrap().send(&[0xff; 64], None).unwrap();
    match consumer.poll(Some(TIMEOUT)) {
        Some(Event::Disconnected { reason }) => {
            assert!(reason.contains("larger than the protocol's limit"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}

fn call_everything(consumer: &mut Consumer) {
    consumer.enable_tracing(&b""[..], None).unwrap();
    consumer.observe(Observe::CLONE_TRIGGER_HIT).unwrap();
    consumer.begin_start().unwrap();
    consumer.begin_disable().unwrap();
    consumer.begin_flush(TIMEOUT, 0).unwrap();
    consumer.begin_read_buffers().unwrap();
    consumer.begin_free().unwrap();
    consumer.begin_stats().unwrap();
    consumer.begin_query_service_state(true).unwrap();
    consumer.begin_query_capabilities().unwrap();
    consumer.begin_detach("key").unwrap();
    consumer.begin_attach("key").unwrap();
    consumer.begin_clone_session(&Default::default(), None).unwrap();
    consumer.begin_change_trace_config(&b""[..]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the service answers, every call gets at most one answer, and the connection goes on.
    #[test]
    fn broken_answers_are_errors(
        replies in proptest::collection::vec((any::<bool>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..24)), 28)
    ) {
        let (mut consumer, mut fake) = Fake::connected();
        call_everything(&mut consumer);
        fake.turn();
        let requests: Vec<Request> = std::iter::from_fn(|| fake.host.poll_request()).collect();
        prop_assert_eq!(requests.len(), 14);
        for (request, (rejected, has_more, body)) in requests.iter().cycle().zip(&replies) {
            let reply = if *rejected { Reply::Rejected } else { Reply::Body(body.clone().into()) };
            fake.reply(request, reply, *has_more);
        }
        let mut answers = std::collections::HashSet::new();
        while let Some(event) = consumer.poll(Some(Duration::ZERO)) {
            if let Event::Answer { call, .. } = event {
                prop_assert!(answers.insert(call));
            }
        }
        prop_assert!(!consumer.is_disconnected());
    }
}
