//! Clients that come by TCP: nobody vouches for them, and some of them are no clients at all.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_ipc::address::{Address, parse_list};
use ferretto_ipc::client::{ClientConnection, Event};
use ferretto_ipc::identity::machine_id;
use ferretto_ipc::link::ClientLink;
use ferretto_ipc::socket::Stream;
use ferretto_producer::{Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::ipc_frame::SetPeerIdentity;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, DataSourceDescriptor, InitializeConnectionRequest};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

const TIMEOUT: Duration = Duration::from_secs(30);

fn host(relays: bool) -> Host {
    let producer_addresses = parse_list("127.0.0.1:0").unwrap();
    Host::spawn(HostOptions { producer_addresses, relays, ..HostOptions::default() }).unwrap()
}

fn address(host: &Host) -> &Address {
    &host.producer_addresses()[0]
}

fn consumer(host: &Host) -> Consumer {
    Consumer::over(host.connect_consumer().unwrap()).unwrap()
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Exchanges bytes until the service has answered something.
fn event(link: &mut ClientLink) -> Event {
    let start = Instant::now();
    loop {
        link.flush().unwrap();
        let _ = link.receive().unwrap();
        if let Some(event) = link.connection().poll_event() {
            return event;
        }
        assert!(start.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn identity(pid: i32, uid: i32, hint: &str, name: &str) -> SetPeerIdentity {
    SetPeerIdentity {
        pid: Some(pid),
        uid: Some(uid),
        machine_id_hint: Some(hint.to_owned()),
        machine_name: Some(name.to_owned()),
    }
}

#[test]
fn a_producer_traces_by_value_over_tcp() {
    let host = host(false);
    let mut consumer = consumer(&host);
    let config = protos::text::parse_trace_config(
        "buffers { size_kb: 4096 } data_sources { config { name: \"data\" } } trace_all_machines: true",
    );
    consumer.enable_tracing(config.unwrap(), None).unwrap();
    let connector = Connector::Address(address(&host).clone());
    let mut producer =
        ProducerClient::new(ProducerOptions { connector, ..ProducerOptions::new("far") }).unwrap();
    producer
        .register_data_source(&DataSourceDescriptor { name: Some("data".to_owned()), ..Default::default() });
    let mut writer = None;
    let start = Instant::now();
    while writer.is_none() {
        assert!(start.elapsed() < TIMEOUT);
        producer.wait(Some(Duration::from_millis(50)), &[]).unwrap();
        while let Some(event) = producer.next_event() {
            if let ProducerEvent::Start { config, .. } = event {
                let buffer = u16::try_from(config.target_buffer()).unwrap();
                writer = Some(producer.create_writer(buffer, ExhaustedPolicy::Stall));
            }
        }
    }
    let mut writer = writer.unwrap();
    for value in 0..5000 {
        writer.new_packet().nested(trace_packet::FOR_TESTING).varint(test_event::SEQ_VALUE, value);
    }
    // The writer lives on: its last chunk is there only if the producer scrapes itself at the flush.
    let flush = consumer.begin_flush(TIMEOUT, 0).unwrap();
    let start = Instant::now();
    let mut is_flushed = false;
    while !is_flushed {
        assert!(start.elapsed() < TIMEOUT);
        producer.wait(Some(Duration::from_millis(5)), &[]).unwrap();
        while let Some(event) = producer.next_event() {
            if let ProducerEvent::Flush { request_id, .. } = event {
                producer.notify_flush_complete(request_id);
            }
        }
        is_flushed = consumer_has_answer(&mut consumer, flush);
    }
    let mut values = Vec::new();
    consumer
        .read_buffers(|packet| {
            if let Some(Data::ForTesting(event)) = protos::TracePacket::decode(packet).unwrap().data {
                values.push(u64::from(event.seq_value()));
            }
            Ok::<(), std::io::Error>(())
        })
        .unwrap();
    // Not by `assert_eq`, which would print them all.
    assert!(
        values == (0..5000).collect::<Vec<_>>(),
        "{} packets, the last {:?}",
        values.len(),
        values.last()
    );
}

fn consumer_has_answer(consumer: &mut Consumer, call: ferretto_consumer::CallId) -> bool {
    let mut found = false;
    while let Some(event) = consumer.poll(Some(Duration::ZERO)) {
        found |= matches!(event, ferretto_consumer::Event::Answer { call: answered, answer: Ok(_) } if answered == call);
    }
    found
}

#[test]
fn the_first_word_on_who_a_peer_is_counts() {
    let host = host(true);
    let mut link = ClientLink::new(Stream::connect(address(&host)).unwrap(), "ProducerPort");
    link.connection().set_peer_identity(identity(11, 12, "boot id", "guest")).unwrap();
    link.connection().set_peer_identity(identity(21, 0, "", "host")).unwrap();
    assert!(matches!(event(&mut link), Event::Bound));
    let request = InitializeConnectionRequest { producer_name: Some("p".to_owned()), ..Default::default() };
    link.connection().invoke("InitializeConnection", &request, None, true).unwrap();
    assert!(matches!(event(&mut link), Event::Reply { body: Some(_), .. }));
    link.connection().set_peer_identity(identity(31, 0, "third", "host")).unwrap();
    link.flush().unwrap();
    let state = consumer(&host).query_service_state(false).unwrap();
    let seen = &state.producers[0];
    assert_eq!((seen.pid(), seen.uid(), seen.machine_name()), (11, 12, "guest"));
    assert_eq!(seen.machine_id(), machine_id("boot id", ""));
}

#[test]
fn nobody_is_believed_where_no_relays_were_asked_for() {
    let host = host(false);
    let mut link = ClientLink::new(Stream::connect(address(&host)).unwrap(), "ProducerPort");
    link.connection().set_peer_identity(identity(11, 0, "boot id", "guest")).unwrap();
    assert!(matches!(event(&mut link), Event::Bound));
    link.connection()
        .invoke("InitializeConnection", &InitializeConnectionRequest::default(), None, true)
        .unwrap();
    assert!(matches!(event(&mut link), Event::Reply { body: Some(_), .. }));
    let state = consumer(&host).query_service_state(false).unwrap();
    let seen = &state.producers[0];
    assert_eq!((seen.pid(), seen.uid(), seen.machine_name(), seen.machine_id), (0, -1, "", None));
}

#[test]
fn a_peer_on_a_unix_socket_cannot_claim_to_be_another() {
    let dir = tempfile::tempdir().unwrap();
    let producer_addresses = vec![Address::Path(dir.path().join("p"))];
    let host =
        Host::spawn(HostOptions { producer_addresses, relays: true, ..HostOptions::default() }).unwrap();
    for port in ["ProducerPort", "RelayPort"] {
        let mut link = ClientLink::new(Stream::connect(address(&host)).unwrap(), port);
        link.connection().set_peer_identity(identity(11, 12, "boot id", "guest")).unwrap();
        assert!(matches!(event(&mut link), Event::Bound));
        if port == "RelayPort" {
            link.connection().invoke("InitRelay", &protos::InitRelayRequest::default(), None, true).unwrap();
            assert!(matches!(event(&mut link), Event::Reply { body: None, .. }), "it is on no other machine");
            continue;
        }
        link.connection()
            .invoke("InitializeConnection", &InitializeConnectionRequest::default(), None, true)
            .unwrap();
        assert!(matches!(event(&mut link), Event::Reply { body: Some(_), .. }));
        let state = consumer(&host).query_service_state(false).unwrap();
        assert_eq!(state.producers[0].pid(), i32::try_from(std::process::id()).unwrap());
        assert_eq!(state.producers[0].machine_id, None);
    }
}

#[test]
fn relays_are_served_only_where_they_were_asked_for() {
    for relays in [false, true] {
        let host = host(relays);
        let mut link = ClientLink::new(Stream::connect(address(&host)).unwrap(), "RelayPort");
        assert_eq!(event(&mut link), if relays { Event::Bound } else { Event::BindFailed });
        let pair = ClientLink::new(host.connect_producer().unwrap(), "RelayPort");
        let mut pair = pair;
        assert_eq!(event(&mut pair), Event::BindFailed);
    }
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let host = host(true);
    let Address::Tcp { host: name, port } = address(&host).clone() else { panic!("TCP") };
    let bind = {
        let client = ClientConnection::new("ProducerPort");
        client.poll_transmit().unwrap().bytes.to_vec()
    };
    let http = b"GET / HTTP/1.1\r\nHost: service\r\n\r\n".to_vec();
    let huge = [&u32::MAX.to_le_bytes()[..], &[0; 100]].concat();
    let mixed = [bind.as_slice(), &[0xff; 300]].concat();
    for (what, bytes, ends) in [
        ("HTTP", http, true),
        ("a huge frame", huge, true),
        ("garbage after a bind", mixed, true),
        ("half a frame", bind[..3].to_vec(), false),
    ] {
        let mut stream = TcpStream::connect((name.as_str(), port)).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.set_read_timeout(Some(if ends { TIMEOUT } else { Duration::from_millis(100) })).unwrap();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => assert!(ends, "{what}"),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => assert!(ends, "{what}"),
            Err(_) => assert!(!ends, "{what}"),
        }
    }
    // Many at once, at random.
    let mut seed = 1_u64;
    for _ in 0..100 {
        let mut stream = TcpStream::connect((name.as_str(), port)).unwrap();
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .take(2000)
        .collect();
        // It may have been hung up on already.
        let _ = stream.write_all(&bytes);
    }
    let mut consumer = consumer(&host);
    wait_until("only the service is left", || {
        consumer.query_service_state(false).unwrap().producers.is_empty()
    });
}

#[test]
fn a_relay_that_floods_with_clocks_does_not_hold_up_others() {
    let host = host(true);
    let mut link = ClientLink::new(Stream::connect(address(&host)).unwrap(), "RelayPort");
    link.connection().set_peer_identity(identity(1, 1, "boot id", "liar")).unwrap();
    assert!(matches!(event(&mut link), Event::Bound));
    let clock = protos::sync_clock_request::Clock { clock_id: Some(6), timestamp: Some(u64::MAX) };
    let request = protos::SyncClockRequest { phase: Some(2), clocks: vec![clock; 1000] };
    let mut consumer = consumer(&host);
    for _ in 0..20 {
        for _ in 0..20 {
            // Without wanting answers: whoever wants them and does not read is hung up on anyway.
            if link.connection().invoke("SyncClock", &request, None, false).is_err() || link.flush().is_err()
            {
                break;
            }
        }
        assert!(consumer.query_service_state(true).is_ok());
    }
}

/// Half of the largest frame but a little, from a program that a relay says to be this user's.
fn half_a_frame(host: &Host, uid: i32) -> TcpStream {
    let Address::Tcp { host: name, port } = address(host) else { panic!("TCP") };
    let mut client = ClientConnection::new("ProducerPort");
    client.set_peer_identity(identity(1, uid, "boot id", "guest")).unwrap();
    let said = client.poll_transmit().unwrap().bytes.to_vec();
    let half = [&120_000_u32.to_le_bytes()[..], &[0; 110_000]].concat();
    let mut stream = TcpStream::connect((name.as_str(), *port)).unwrap();
    stream.write_all(&[said, half].concat()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

fn is_hung_up_on(stream: &TcpStream) -> bool {
    let mut bytes = [0; 256];
    loop {
        match (&mut &*stream).read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn a_user_of_another_machine_who_fills_the_memory_throws_no_other_out() {
    const USERS_BYTES: usize = 32 << 20;
    let host = host(true);
    let (honest, hostile) = (5001, 5002);
    let first = half_a_frame(&host, honest);
    let mut crowd: Vec<TcpStream> =
        (0..USERS_BYTES / 110_000).map(|_| half_a_frame(&host, hostile)).collect();
    let lost = |crowd: &[TcpStream]| crowd.iter().filter(|stream| is_hung_up_on(stream)).count();
    wait_until("all that there may be is held", || {
        crowd.push(half_a_frame(&host, hostile));
        lost(&crowd) > 0
    });
    let before = lost(&crowd);
    // Whoever comes now makes it too much.
    let second = half_a_frame(&host, honest);
    wait_until("the one that holds the most has lost something again", || {
        lost(&crowd) > before || is_hung_up_on(&second)
    });
    assert!(!is_hung_up_on(&first) && !is_hung_up_on(&second), "{} of {}", lost(&crowd), crowd.len());
    assert!(lost(&crowd) < crowd.len() / 4, "no more than has to go: {} of {}", lost(&crowd), crowd.len());
}
