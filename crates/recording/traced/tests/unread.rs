//! What clients have not read and the kernel keeps: who has ended and left some keeps its place, and where the kernel lets no more descriptors
//! be on their way those that are to be sent wait.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_ipc::client::ClientConnection;
use ferretto_ipc::link::ClientLink;
use ferretto_ipc::socket::Stream;
use ferretto_protos as protos;
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Uid, geteuid, getrlimit, setrlimit};

/// So few that one test can take all places, and another one send as many as can be on their way.
const DESCRIPTORS: u64 = 1024;

/// A client has three of them.
const PLACES: usize = DESCRIPTORS as usize / 3;

const TIMEOUT: Duration = Duration::from_secs(20);

fn host() -> Host {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(DESCRIPTORS), ..limit }).unwrap();
    Host::spawn(HostOptions::default()).unwrap()
}

/// Waits until the service has sent something, or hung up.
fn wait_for(stream: &Stream, what: PollFlags) {
    let timeout = Timespec { tv_sec: TIMEOUT.as_secs() as _, tv_nsec: 0 };
    let mut fds = [PollFd::new(stream, what)];
    assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1, "nothing comes");
}

/// A client that has been answered and has not read that.
fn asks(host: &Host) -> Stream {
    let stream = host.connect_consumer().unwrap();
    let client = ClientConnection::new("ConsumerPort");
    // One that is hung up on already sees it below.
    let _ = stream.send(client.poll_transmit().unwrap().bytes, None);
    wait_for(&stream, PollFlags::IN);
    stream
}

/// Another client, if there is a place for it.
fn comes_in(host: &Host) -> Option<Stream> {
    let stream = asks(host);
    let answered = stream.recv(&mut [0; 4096]).is_ok_and(|received| received.len > 0);
    answered.then_some(stream)
}

/// One that has said what is no frame, and has been hung up on.
fn is_hung_up_on(host: &Host) -> Stream {
    let stream = asks(host);
    stream.send(&[0xff; 64], None).unwrap();
    wait_for(&stream, PollFlags::HUP);
    stream
}

#[test]
fn who_is_hung_up_on_keeps_its_place_until_it_has_read_or_is_gone() {
    let host = host();
    let [reads, goes] = [(); 2].map(|()| is_hung_up_on(&host));
    let mut others: Vec<Stream> = std::iter::from_fn(|| comes_in(&host)).collect();
    assert_eq!(others.len(), PLACES - 2);
    while reads.recv(&mut [0; 4096]).unwrap().len > 0 {}
    others.extend(comes_in(&host));
    assert_eq!(others.len(), PLACES - 1);
    drop(goes);
    others.extend(comes_in(&host));
    assert_eq!(others.len(), PLACES);
    assert!(comes_in(&host).is_none());
    // Neither one that goes of itself keeps its place, read or not, nor one that has read all.
    drop(others.pop());
    others.push(comes_in_soon(&host));
    let has_read = others.remove(0);
    has_read.send(&[0xff; 64], None).unwrap();
    others.push(comes_in_soon(&host));
    assert_eq!(has_read.recv(&mut [0; 16]).unwrap().len, 0);
}

fn comes_in_soon(host: &Host) -> Stream {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(stream) = comes_in(host) {
            return stream;
        }
        assert!(Instant::now() < until, "the place is not given back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A producer that has a data source of this name, to which its service sends memory when a session wants it.
fn producer(host: &Host, source: &str) -> ClientLink {
    let mut client = ClientLink::new(host.connect_producer().unwrap(), "ProducerPort");
    let until = Instant::now() + TIMEOUT;
    while client.connection().poll_event().is_none() {
        client.flush().unwrap();
        client.receive().unwrap();
        assert!(Instant::now() < until, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    }
    let descriptor = protos::DataSourceDescriptor { name: Some(source.to_owned()), ..Default::default() };
    let register =
        protos::RegisterDataSourceRequest { data_source_descriptor: Some(descriptor.encode_to_vec().into()) };
    let init =
        protos::InitializeConnectionRequest { producer_name: Some("waits".to_owned()), ..Default::default() };
    let calls = client.connection();
    calls.invoke("InitializeConnection", &init, None, true).unwrap();
    calls.invoke("GetAsyncCommand", &protos::GetAsyncCommandRequest::default(), None, true).unwrap();
    calls.invoke("RegisterDataSource", &register, None, true).unwrap();
    client
}

/// As many descriptors as the kernel lets be on their way.
fn descriptors_on_their_way() -> Vec<(Stream, Stream)> {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut pairs = Vec::new();
    loop {
        let pair = Stream::pair().unwrap();
        let error = loop {
            if let Err(error) = pair.0.send(b"x", Some(null.as_fd())) {
                break error;
            }
        };
        pairs.push(pair);
        if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) {
            return pairs;
        }
    }
}

/// As a user for whom the kernel has bounds; it is those of a thread.
fn as_a_user(test: impl FnOnce() + Send + 'static) {
    let in_a_thread = move || {
        if geteuid().is_root() {
            let uid = Uid::from_raw(1003);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        }
        test();
    };
    std::thread::spawn(in_a_thread).join().unwrap();
}

#[test]
fn a_producer_waits_for_its_memory_while_no_more_descriptors_may_be_on_their_way() {
    as_a_user(|| {
        let host = host();
        let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
        let source = protos::DataSourceConfig { name: Some("waits".to_owned()), ..Default::default() };
        let config = protos::TraceConfig {
            buffers: vec![protos::trace_config::BufferConfig { size_kb: Some(64), ..Default::default() }],
            data_sources: vec![protos::trace_config::DataSource {
                config: Some(source),
                ..Default::default()
            }],
            ..Default::default()
        };
        consumer.enable_tracing(config.encode_to_vec(), None).unwrap();
        consumer.query_service_state(true).unwrap();
        let on_their_way = descriptors_on_their_way();
        let mut producer = producer(&host, "waits");
        let mut has_memory_within = |patience| {
            let until = Instant::now() + patience;
            while Instant::now() < until {
                producer.flush().unwrap();
                producer.receive().unwrap();
                while producer.connection().poll_event().is_some() {}
                if producer.connection().take_fd().is_some() {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            false
        };
        assert!(!has_memory_within(Duration::from_millis(400)), "there is room for a descriptor");
        drop(on_their_way);
        assert!(has_memory_within(TIMEOUT));
    });
}
