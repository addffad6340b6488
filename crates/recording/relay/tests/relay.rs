//! A relay between real sockets: a service in this process or a peer that the test plays, and producers.

use std::fs::Permissions;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_ipc::address::{Address, parse_list};
use ferretto_ipc::frame::Decoder;
use ferretto_ipc::identity::{machine_id, peer_identity};
use ferretto_producer::{Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::ipc_frame::bind_service_reply::MethodInfo;
use ferretto_protos::ipc_frame::{
    BindService, BindServiceReply, InvokeMethod, InvokeMethodReply, Msg, SetPeerIdentity,
};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{DataSourceDescriptor, IpcFrame, SystemInfo, TracePacket};
use ferretto_relay::{Error, Relay, RelayOptions};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Uid;

/// For everything that happens soon, on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A relay on a thread; it stops when this is dropped.
struct Running {
    dir: tempfile::TempDir,
    stop: UnixStream,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    fn to(service: Address) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = RelayOptions {
            producer_addresses: vec![Address::Path(dir.path().join("producers"))],
            service_address: service,
            socket_permissions: None,
            system_info: SystemInfo { num_cpus: Some(77), ..Default::default() },
        };
        let (stop, stopped) = UnixStream::pair().unwrap();
        let relay = Relay::new(options).unwrap();
        let thread = Some(std::thread::spawn(move || relay.run(stopped)));
        Self { dir, stop, thread }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("producers")
    }

    fn producer(&self, name: &str) -> ProducerClient {
        let connector = Connector::Address(Address::Path(self.socket()));
        let mut producer =
            ProducerClient::new(ProducerOptions { connector, ..ProducerOptions::new(name) }).unwrap();
        let descriptor = DataSourceDescriptor { name: Some("data".to_owned()), ..Default::default() };
        producer.register_data_source(&descriptor);
        producer
    }

    fn end(&mut self) {
        // It may have ended by itself, in error.
        let _ = self.stop.write_all(b"x");
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn service_at(address: &str) -> Host {
    let producer_addresses = parse_list(address).unwrap();
    Host::spawn(HostOptions { producer_addresses, relays: true, ..HostOptions::default() }).unwrap()
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Serves the producer until this happens.
fn until(producer: &mut ProducerClient, wanted: impl Fn(&ProducerEvent) -> bool) -> ProducerEvent {
    let start = Instant::now();
    loop {
        while let Some(event) = producer.next_event() {
            if wanted(&event) {
                return event;
            }
        }
        assert!(start.elapsed() < TIMEOUT, "waited in vain for an event");
        producer.wait(Some(Duration::from_millis(50)), &[]).unwrap();
    }
}

fn enable(host: &Host) -> Consumer {
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let config = ferretto_protos::text::parse_trace_config(
        "buffers { size_kb: 32768 } data_sources { config { name: \"data\" } } trace_all_machines: true",
    );
    consumer.enable_tracing(config.unwrap(), None).unwrap();
    consumer
}

fn read(consumer: &mut Consumer) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    consumer
        .read_buffers(|packet| {
            packets.push(TracePacket::decode(packet).unwrap());
            Ok::<(), std::io::Error>(())
        })
        .unwrap();
    packets
}

/// This machine as others see it.
fn this_machine() -> u32 {
    machine_id(peer_identity(0, 0).machine_id_hint(), "")
}

#[test]
fn a_producer_is_known_by_its_process_and_its_machine() {
    let host = service_at("127.0.0.1:0");
    let relay = Running::to(host.producer_addresses()[0].clone());
    let mut producer = relay.producer("behind");
    until(&mut producer, |event| matches!(event, ProducerEvent::Connected));
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let state = consumer.query_service_state(false).unwrap();
    let [seen] = state.producers.as_slice() else { panic!("{state:?}") };
    let pid = i32::try_from(std::process::id()).unwrap();
    let uid = rustix::process::geteuid().as_raw().cast_signed();
    assert_eq!((seen.name(), seen.pid(), seen.uid()), ("behind", pid, uid));
    assert_eq!((seen.machine_id(), seen.machine_name()), (this_machine(), "Linux"));
}

#[test]
fn a_trace_has_all_that_a_producer_wrote_and_says_where() {
    const PACKETS: u32 = 20_000;
    let host = service_at("127.0.0.1:0");
    let relay = Running::to(host.producer_addresses()[0].clone());
    let mut consumer = enable(&host);
    let mut producer = relay.producer("behind");
    let start = until(&mut producer, |event| matches!(event, ProducerEvent::Start { .. }));
    let ProducerEvent::Start { config, .. } = start else { panic!("{start:?}") };
    let buffer = u16::try_from(config.target_buffer()).unwrap();
    let mut writer = producer.create_writer(buffer, ExhaustedPolicy::Stall);
    for value in 0..PACKETS {
        let mut packet = writer.new_packet();
        let mut event = packet.nested(trace_packet::FOR_TESTING);
        event.varint(test_event::SEQ_VALUE, value.into());
        event.string(test_event::STR, "some bytes to make it more than the relay and the sockets hold");
    }
    drop(writer);
    // It is gone before all has arrived.
    producer.commit();
    assert!(producer.drain(TIMEOUT));
    drop(producer);
    consumer.disable().unwrap();
    let packets = read(&mut consumer);
    let values: Vec<u32> = packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::ForTesting(event)) => Some(event.seq_value()),
            _ => None,
        })
        .collect();
    assert!(
        values == (0..PACKETS).collect::<Vec<_>>(),
        "{} packets, the last {:?}",
        values.len(),
        values.last()
    );
    let foreign = packets.iter().filter(|packet| packet.machine_id.is_some());
    let machines: std::collections::BTreeSet<u32> = foreign.map(TracePacket::machine_id).collect();
    assert_eq!(machines.into_iter().collect::<Vec<_>>(), [this_machine()]);
}

#[test]
fn the_relay_tells_of_its_machine_and_its_clocks() {
    let host = service_at("[::1]:0");
    let relay = Running::to(host.producer_addresses()[0].clone());
    let mut consumer = enable(&host);
    let mut producer = relay.producer("behind");
    until(&mut producer, |event| matches!(event, ProducerEvent::Start { .. }));
    let (mut infos, mut syncs) = (Vec::new(), Vec::new());
    wait_until("facts and clocks", || {
        for packet in read(&mut consumer) {
            match packet.data {
                Some(Data::SystemInfo(info)) if packet.machine_id.is_some() => infos.push(info.num_cpus()),
                Some(Data::RemoteClockSync(sync)) => syncs.push(sync),
                _ => {}
            }
        }
        !infos.is_empty() && !syncs.is_empty()
    });
    assert_eq!(infos, [77]);
    for synced in &syncs[0].synced_clocks {
        let (here, there) = (synced.client_clocks.as_ref().unwrap(), synced.host_clocks.as_ref().unwrap());
        assert_eq!((here.clocks.len(), there.clocks.len()), (6, 6));
        for (here, there) in here.clocks.iter().zip(&there.clocks) {
            assert_eq!(here.clock_id(), there.clock_id());
            // They are the same clocks: the service read them after the relay.
            let later = there.timestamp().checked_sub(here.timestamp());
            assert!(later.is_some_and(|later| later < TIMEOUT.as_nanos() as u64), "{here:?} {there:?}");
        }
    }
}

#[test]
fn a_service_that_comes_back_is_found() {
    let host = service_at("127.0.0.1:0");
    let address = host.producer_addresses()[0].clone();
    let relay = Running::to(address.clone());
    let mut producer = relay.producer("behind");
    until(&mut producer, |event| matches!(event, ProducerEvent::Connected));
    drop(host);
    until(&mut producer, |event| matches!(event, ProducerEvent::Disconnected { .. }));
    let host = service_at(&address.to_string());
    until(&mut producer, |event| matches!(event, ProducerEvent::Connected));
    let mut consumer = enable(&host);
    until(&mut producer, |event| matches!(event, ProducerEvent::Start { .. }));
    wait_until("clocks", || {
        read(&mut consumer).iter().any(|packet| matches!(packet.data, Some(Data::RemoteClockSync(_))))
    });
}

#[test]
fn a_relay_that_stops_leaves_nothing_behind() {
    let host = service_at("127.0.0.1:0");
    let mut relay = Running::to(host.producer_addresses()[0].clone());
    let mut producer = relay.producer("behind");
    until(&mut producer, |event| matches!(event, ProducerEvent::Connected));
    relay.end();
    assert!(!relay.socket().exists());
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    wait_until("the producer is gone", || consumer.query_service_state(false).unwrap().producers.is_empty());
}

/// A service of which the test plays the part: the relay's own connection is told by what it binds.
struct Listening(TcpListener);

impl Listening {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> Address {
        self.0.local_addr().unwrap().to_string().parse().unwrap()
    }

    /// The next connection, and what the peer says it is.
    fn accept(&self) -> (TcpStream, SetPeerIdentity) {
        let (mut stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut decoder = Decoder::new();
        loop {
            if let Some(frame) = decoder.next().unwrap() {
                let Some(Msg::SetPeerIdentity(identity)) = frame.msg else { continue };
                return (stream, identity);
            }
            // Byte by byte, to leave what comes after it.
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            decoder.push(&byte);
        }
    }
}

/// So many frames of 16 KiB with bytes that are easy to tell from others.
fn noise(frames: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let mut frame = || {
        let noise: Vec<u8> = (0..16 * 1024 - 16).map(|_| next()).collect();
        let args = Some(noise.into());
        let call = InvokeMethod { args_proto: args, ..Default::default() };
        frame_of(Msg::MsgInvokeMethod(call))
    };
    (0..frames).flat_map(|_| frame()).collect()
}

fn frame_of(msg: Msg) -> Vec<u8> {
    let body = IpcFrame { request_id: Some(1), msg: Some(msg), ..Default::default() }.encode_to_vec();
    [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat()
}

fn bind(service: &str) -> Vec<u8> {
    frame_of(Msg::MsgBindService(BindService { service_name: Some(service.to_owned()) }))
}

/// A producer that has bound its service, and the connection to that.
fn bound(relay: &Running, listening: &Listening) -> (UnixStream, TcpStream, SetPeerIdentity) {
    let mut producer = UnixStream::connect(relay.socket()).unwrap();
    let bind = bind("ProducerPort");
    producer.write_all(&bind).unwrap();
    let (mut service, identity) = listening.accept();
    let mut come = vec![0; bind.len()];
    service.read_exact(&mut come).unwrap();
    assert_eq!(come, bind);
    (producer, service, identity)
}

#[test]
fn bytes_pass_as_they_are_however_slow_the_other_side_is() {
    let listening = Listening::new();
    let relay = Running::to(listening.address());
    let (own, _) = listening.accept();
    let (mut producer, mut service, identity) = bound(&relay, &listening);
    assert_eq!(identity.pid(), i32::try_from(std::process::id()).unwrap());

    let bytes = noise(1024);
    for to_service in [true, false] {
        let (from, to): (Box<dyn Write + Send>, Box<dyn Read>) = if to_service {
            (Box::new(producer.try_clone().unwrap()), Box::new(service.try_clone().unwrap()))
        } else {
            (Box::new(service.try_clone().unwrap()), Box::new(producer.try_clone().unwrap()))
        };
        let (mut from, mut to) = (from, to);
        let sent = bytes.clone();
        let sending = std::thread::spawn(move || from.write_all(&sent).unwrap());
        // Nobody reads until everything between the ends is full: the sender has to wait.
        std::thread::sleep(Duration::from_millis(200));
        assert!(!sending.is_finished(), "{} bytes fit nowhere", bytes.len());
        let mut received = vec![0; bytes.len()];
        to.read_exact(&mut received).unwrap();
        sending.join().unwrap();
        assert!(received == bytes, "to_service: {to_service}");
    }

    // The producer hangs up while the service has not read yet.
    producer.write_all(&bytes[..100_000]).unwrap();
    drop(producer);
    let mut rest = Vec::new();
    service.read_to_end(&mut rest).unwrap();
    assert!(rest == bytes[..100_000]);
    drop(own);
}

#[test]
fn a_side_that_hangs_up_takes_the_other_along_after_what_it_sent() {
    let listening = Listening::new();
    let relay = Running::to(listening.address());
    let (_own, _) = listening.accept();
    let (mut producer, mut service, _) = bound(&relay, &listening);
    service.write_all(b"farewell").unwrap();
    service.shutdown(Shutdown::Both).unwrap();
    let mut rest = Vec::new();
    producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    producer.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"farewell");
}

#[test]
fn without_a_service_producers_are_hung_up_on() {
    let listening = Listening::new();
    let address = listening.address();
    drop(listening);
    let relay = Running::to(address);
    let mut producer = UnixStream::connect(relay.socket()).unwrap();
    producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    producer.write_all(&bind("ProducerPort")).unwrap();
    match producer.read(&mut [0]) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn sockets_that_make_no_sense_are_refused() {
    let options = |producers: &str, service: &str| RelayOptions {
        producer_addresses: parse_list(producers).unwrap(),
        service_address: service.parse().unwrap(),
        socket_permissions: None,
        system_info: SystemInfo::default(),
    };
    assert!(matches!(Relay::new(options("@p", "/tmp/service")), Err(Error::ServiceIsLocal(_))));
    assert!(matches!(Relay::new(options("127.0.0.1:0", "127.0.0.1:1")), Err(Error::ProducersAreRemote(_))));
}

/// The near end of a connection whose far end reads nothing, which lingers for an hour.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&near, Some(Duration::from_secs(3600))).unwrap();
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[0; 64 * 1024]).is_ok() {}
    near.set_nonblocking(false).unwrap();
    (near.into(), far)
}

/// Passes two of these and closes them here, so that they are the other side's to close.
fn pass(to: &UnixStream) -> std::io::Result<[TcpStream; 2]> {
    let ((first, first_far), (second, second_far)) = (lingering(), lingering());
    let fds = [first.as_fd(), second.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(to, &[IoSlice::new(b"x")], &mut control, SendFlags::DONTWAIT)?;
    Ok([first_far, second_far])
}

#[test]
fn descriptors_whose_closing_blocks_hold_up_nobody() {
    let listening = Listening::new();
    let relay = Running::to(listening.address());
    let (_own, _) = listening.accept();
    let (mut honest, mut service, _) = bound(&relay, &listening);
    service.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut speak = |what: &str| {
        honest.write_all(&[0; 4]).unwrap();
        service.read_exact(&mut [0; 4]).unwrap_or_else(|error| panic!("{what}: {error}"));
    };

    let (hostile, _hostile_service, _) = bound(&relay, &listening);
    let read = pass(&hostile).unwrap();
    speak("some were received");

    // This one's are still on their way when its socket is closed, behind others that the service has not taken.
    let (hostile, mut hostile_service, _) = bound(&relay, &listening);
    hostile.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    while (&hostile).write(&[0; 64 * 1024]).is_ok() {}
    let passed = loop {
        hostile_service.read_exact(&mut [0; 64 * 1024]).unwrap();
        if let Ok(far) = pass(&hostile) {
            break far;
        }
    };
    drop(hostile_service);
    wait_until("it is hung up on", || {
        (&hostile).write(b"x").is_err_and(|e| e.kind() == ErrorKind::BrokenPipe)
    });
    speak("some were on their way");
    drop((read, passed));
}

/// Connects so often as this user.
fn connect_as(uid: u32, socket: PathBuf, count: usize) -> Vec<UnixStream> {
    let connect = move || {
        let uid = Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        (0..count).map(|_| UnixStream::connect(&socket).unwrap()).collect()
    };
    std::thread::spawn(connect).join().unwrap()
}

#[test]
fn no_user_takes_all_places_and_root_has_some_in_reserve() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may be several users");
    }
    let host = service_at("127.0.0.1:0");
    let relay = Running::to(host.producer_addresses()[0].clone());
    for path in [relay.dir.path(), &relay.socket()] {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let is_hung_up_on = |stream: &&UnixStream| {
        stream.set_nonblocking(true).unwrap();
        matches!((&mut &**stream).read(&mut [0]), Ok(0))
    };
    let strangers = [4711, 4712].map(|uid| connect_as(uid, relay.socket(), 600));
    let refused = |streams: &Vec<UnixStream>| streams.iter().filter(is_hung_up_on).count();
    wait_until("a sixteenth is left", || strangers.iter().map(refused).sum::<usize>() == 1200 - 960);
    assert_eq!(strangers.each_ref().map(refused), [120, 120]);
    let root: Vec<UnixStream> = (0..70).map(|_| UnixStream::connect(relay.socket()).unwrap()).collect();
    wait_until("all are taken", || refused(&root) == 70 - 64);
}

#[test]
fn halves_of_frames_are_bounded_for_a_user() {
    const USERS_BYTES: usize = 16 << 20;
    const HALF: usize = 100_000;
    const MORE: usize = 20;
    let host = service_at("127.0.0.1:0");
    let relay = Running::to(host.producer_addresses()[0].clone());
    let mut producer = relay.producer("p");
    until(&mut producer, |event| matches!(event, ProducerEvent::Connected));
    let half = [&120_000_u32.to_le_bytes()[..], &b"\x10\x7f".repeat(HALF / 2)].concat();
    let halves = (0..USERS_BYTES / half.len() + MORE).map(|_| {
        let mut stream = UnixStream::connect(relay.socket()).unwrap();
        // It may be hung up on already.
        let _ = stream.write_all(&half);
        stream.set_nonblocking(true).unwrap();
        stream
    });
    let halves: Vec<UnixStream> = halves.collect();
    let is_hung_up_on = |stream: &&UnixStream| matches!((&mut &**stream).read(&mut [0; 64]), Ok(0));
    let refused = || halves.iter().filter(is_hung_up_on).count();
    wait_until("what is too much is hung up on", || refused() >= MORE);
    assert!(refused() < 2 * MORE, "{} of {}", refused(), halves.len());
    // Whose frames are whole goes on, and those who have gone left room.
    let mut consumer = enable(&host);
    drop(halves);
    let mut again = UnixStream::connect(relay.socket()).unwrap();
    again.write_all(&half).unwrap();
    again.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(again.read(&mut [0; 64]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    until(&mut producer, |event| matches!(event, ProducerEvent::Start { .. }));
    drop(read(&mut consumer));
}

/// Hung up on, whether or not what it said was read.
fn is_hung_up_on(stream: &mut UnixStream) -> bool {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn nobody_behind_a_relay_is_one_or_anything_but_a_producer() {
    let listening = Listening::new();
    let relay = Running::to(listening.address());
    let (_own, _) = listening.accept();
    for service in ["RelayPort", "ConsumerPort"] {
        let mut hostile = UnixStream::connect(relay.socket()).unwrap();
        hostile.write_all(&bind(service)).unwrap();
        assert!(is_hung_up_on(&mut hostile), "{service} at once");
        let (mut hostile, mut seen, _) = bound(&relay, &listening);
        hostile
            .write_all(&[frame_of(Msg::MsgInvokeMethod(InvokeMethod::default())), bind(service)].concat())
            .unwrap();
        assert!(is_hung_up_on(&mut hostile), "{service} later");
        let mut rest = Vec::new();
        seen.read_to_end(&mut rest).unwrap();
        assert!(!String::from_utf8_lossy(&rest).contains(service));
    }
    // The first of these has not even come as far as to a connection.
    let (_producer, _service, _) = bound(&relay, &listening);
}

#[test]
fn who_says_nothing_costs_no_connection() {
    let listening = Listening::new();
    let relay = Running::to(listening.address());
    let (_own, _) = listening.accept();
    let silent: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(relay.socket()).unwrap()).collect();
    // It is the next that the service sees.
    let (_producer, _service, _) = bound(&relay, &listening);
    listening.0.set_nonblocking(true).unwrap();
    assert_eq!(listening.0.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(silent);
}

#[test]
fn a_user_who_comes_and_goes_without_end_is_connected_some_times_a_second() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may be several users");
    }
    const AT_ONCE: usize = 480;
    const A_SECOND: usize = 50;
    let listening = Listening::new();
    let relay = Running::to(listening.address());
    for path in [relay.dir.path(), &relay.socket()] {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let start = Instant::now();
    // Answers each one, and counts.
    let counting = std::thread::spawn(move || {
        let mut seen = 0;
        while let Ok((mut stream, _)) = listening.0.accept() {
            seen += 1;
            let mut last = [0; 4096];
            let len = stream.read(&mut last).unwrap_or(0);
            let _ = stream.write_all(b"answer");
            if String::from_utf8_lossy(&last[..len]).contains("the end") {
                return seen;
            }
        }
        seen
    });
    let come_and_go = |uid: u32, socket: PathBuf, time: Duration| {
        std::thread::spawn(move || {
            let uid = Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            let start = Instant::now();
            let mut longest = Duration::ZERO;
            while start.elapsed() < time {
                let begun = Instant::now();
                let mut stream = UnixStream::connect(&socket).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(&bind("ProducerPort")).unwrap();
                stream.read_exact(&mut [0; 6]).unwrap();
                longest = longest.max(begun.elapsed());
            }
            longest
        })
    };
    let hostile: Vec<_> = (0..4).map(|_| come_and_go(4711, relay.socket(), Duration::from_secs(3))).collect();
    std::thread::sleep(Duration::from_secs(2));
    // A newcomer does not wait meanwhile, and the hostile do.
    let longest = come_and_go(4712, relay.socket(), Duration::from_millis(50)).join().unwrap();
    let waited = hostile.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
    let took = start.elapsed();
    let mut last = UnixStream::connect(relay.socket()).unwrap();
    let end = Some("the end".into());
    last.write_all(&frame_of(Msg::MsgInvokeMethod(InvokeMethod { args_proto: end, ..Default::default() })))
        .unwrap();
    let seen = counting.join().unwrap();
    println!("{seen} in {took:?}; a newcomer waited {longest:?}, the hostile {waited:?}");
    // The relay's own, the last one, and the newcomer's first ones.
    let most = AT_ONCE + A_SECOND * (took.as_secs() as usize + 1) + 2 + 32;
    let newcomers = 480;
    assert!(seen <= most + newcomers, "{seen} in {took:?}");
    assert!(waited >= Duration::from_millis(10), "{waited:?}");
}

/// The next connection, of which this is read and nothing behind it.
fn accept_of(listening: &Listening, wanted: &str) -> TcpStream {
    let (mut stream, _) = listening.0.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut come = Vec::new();
    while !String::from_utf8_lossy(&come).contains(wanted) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        come.extend(byte);
    }
    stream
}

#[test]
fn a_relay_that_is_refused_asks_ever_more_seldom() {
    let listening = Listening::new();
    let _relay = Running::to(listening.address());
    let start = Instant::now();
    let methods = [(1, "InitRelay"), (2, "SyncClock")];
    let methods = methods.map(|(id, name)| MethodInfo { id: Some(id), name: Some(name.to_owned()) });
    let bound = BindServiceReply { success: Some(true), service_id: Some(1), methods: methods.into() };
    let bound = frame_of(Msg::MsgBindServiceReply(bound));
    for _ in 0..4 {
        let mut stream = accept_of(&listening, "RelayPort");
        stream.write_all(&bound).unwrap();
        let mut decoder = Decoder::new();
        let asked = loop {
            match decoder.next().unwrap() {
                Some(frame) if matches!(frame.msg, Some(Msg::MsgInvokeMethod(_))) => break frame.request_id,
                Some(_) => {}
                None => {
                    let mut come = [0];
                    stream.read_exact(&mut come).unwrap();
                    decoder.push(&come);
                }
            }
        };
        let refused =
            Msg::MsgInvokeMethodReply(InvokeMethodReply { success: Some(false), ..Default::default() });
        let refused =
            IpcFrame { request_id: asked, msg: Some(refused), ..Default::default() }.encode_to_vec();
        let header = u32::try_from(refused.len()).unwrap().to_le_bytes();
        stream.write_all(&[&header[..], &refused].concat()).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    let took = start.elapsed();
    assert!((Duration::from_millis(700)..Duration::from_secs(10)).contains(&took), "{took:?}");
}

#[test]
fn of_a_machine_the_relay_is_there_first_when_the_service_comes_back() {
    let listening = Listening::new();
    let address = listening.address();
    drop(listening);
    let relay = Running::to(address.clone());
    // By now it waits for more than a second.
    std::thread::sleep(Duration::from_millis(100 + 200 + 400 + 800 + 500));
    let listening = Listening(TcpListener::bind(address.to_string()).unwrap());
    let start = Instant::now();
    let mut producer = UnixStream::connect(relay.socket()).unwrap();
    producer.write_all(&bind("ProducerPort")).unwrap();
    let (_own, _its) = (accept_of(&listening, "RelayPort"), accept_of(&listening, "ProducerPort"));
    assert!(start.elapsed() < Duration::from_secs(1), "it came by itself");
}
