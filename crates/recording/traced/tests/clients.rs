//! Real sockets on a service in this process: good clients, slow clients, and clients that die at any byte.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_ipc::client::ClientConnection;
use ferretto_ipc::socket::Stream;
use ferretto_protos::{self as protos, commit_data_request as commit};
use ferretto_shm::SharedMemory;
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

fn host() -> Host {
    Host::spawn(HostOptions::default()).unwrap()
}

fn consumer(host: &Host) -> Consumer {
    Consumer::over(host.connect_consumer().unwrap()).unwrap()
}

fn config(duration_ms: u32) -> protos::TraceConfig {
    let source = protos::DataSourceConfig { name: Some("data".to_owned()), ..Default::default() };
    protos::TraceConfig {
        buffers: vec![protos::trace_config::BufferConfig { size_kb: Some(64), ..Default::default() }],
        data_sources: vec![protos::trace_config::DataSource { config: Some(source), ..Default::default() }],
        duration_ms: Some(duration_ms),
        ..Default::default()
    }
}

#[test]
fn a_consumer_is_served() {
    let host = host();
    let state = consumer(&host).query_service_state(false).unwrap();
    assert!(state.tracing_service_version().starts_with("Ferretto v"), "{state:?}");
}

#[test]
fn the_service_ends_with_its_host_and_clients_see_it() {
    let host = host();
    let mut consumer = consumer(&host);
    drop(host);
    assert!(consumer.query_service_state(false).is_err());
}

#[test]
fn a_trace_without_producers_has_the_services_packets() {
    let host = host();
    let mut consumer = consumer(&host);
    consumer.enable_tracing(config(0).encode_to_vec(), None).unwrap();
    consumer.disable().unwrap();
    let mut kinds = Vec::new();
    consumer
        .read_buffers(|packet| {
            let packet = protos::TracePacket::decode(packet).unwrap();
            if let Some(protos::trace_packet::Data::SystemInfo(info)) = &packet.data {
                kinds.push((info.num_cpus(), info.page_size(), info.system_ram_bytes() > 0));
            }
            Ok::<(), std::io::Error>(())
        })
        .unwrap();
    assert_eq!(kinds.len(), 1);
    assert!(kinds[0].0 > 0 && kinds[0].1 >= 4096 && kinds[0].2, "{kinds:?}");
}

/// All bytes that a well-behaved producer sends, up to its commits.
fn conversation() -> Vec<u8> {
    let mut client = ClientConnection::new("ProducerPort");
    let bind = drain(&mut client);
    let bound = ferretto_ipc::host::HostConnection::new(&[ferretto_ipc::methods::PRODUCER_PORT]);
    let mut host = bound;
    host.handle_bytes(&bind).unwrap();
    client.handle_bytes(host.poll_transmit().unwrap().bytes).unwrap();
    let mut bytes = bind;
    let descriptor = protos::DataSourceDescriptor { name: Some("data".to_owned()), ..Default::default() };
    let register =
        protos::RegisterDataSourceRequest { data_source_descriptor: Some(descriptor.encode_to_vec().into()) };
    let mut data = vec![0, 0, 0, 0, 1, 0, 1, 0];
    data.extend_from_slice(&[2, 0x40, 0]);
    let chunk =
        commit::ChunksToMove { target_buffer: Some(1), data: Some(data.into()), ..Default::default() };
    let commit = protos::CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() };
    let init = protos::InitializeConnectionRequest {
        producer_name: Some("dies".to_owned()),
        producer_provided_shmem: Some(true),
        ..Default::default()
    };
    client.invoke("InitializeConnection", &init, None, true).unwrap();
    client.invoke("GetAsyncCommand", &protos::GetAsyncCommandRequest::default(), None, true).unwrap();
    client.invoke("RegisterDataSource", &register, None, true).unwrap();
    for _ in 0..3 {
        client.invoke("CommitData", &commit, None, true).unwrap();
    }
    client.invoke("Sync", &protos::SyncRequest::default(), None, true).unwrap();
    bytes.extend(drain(&mut client));
    bytes
}

fn drain(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(transmit) = client.poll_transmit() {
        let part = transmit.bytes.to_vec();
        client.transmitted(part.len());
        bytes.extend(part);
    }
    bytes
}

fn send_all(stream: &Stream, mut bytes: &[u8], fd: Option<std::os::fd::BorrowedFd<'_>>) {
    let mut fd = fd;
    while !bytes.is_empty() {
        match stream.send(bytes, fd.take()) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => return,
        }
    }
}

/// More than a turn serves, and none of it answered: what comes next is heard all the same.
#[test]
fn a_client_whose_requests_outlast_a_turn_is_heard_on() {
    const CALLS: usize = 3000;
    let host = host();
    let stream = host.connect_producer().unwrap();
    let mut client = ferretto_ipc::link::ClientLink::new(stream, "ProducerPort");
    let heard = |client: &mut ferretto_ipc::link::ClientLink| {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            client.flush().unwrap();
            client.receive().unwrap();
            if client.connection().poll_event().is_some() {
                return;
            }
            assert!(Instant::now() < until, "no answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    heard(&mut client);
    let init =
        protos::InitializeConnectionRequest { producer_name: Some("talks".to_owned()), ..Default::default() };
    client.connection().invoke("InitializeConnection", &init, None, true).unwrap();
    heard(&mut client);
    for _ in 0..3 {
        for _ in 0..CALLS {
            let descriptor =
                protos::DataSourceDescriptor { name: Some("many".to_owned()), ..Default::default() };
            let raw = Some(descriptor.encode_to_vec().into());
            let request = protos::RegisterDataSourceRequest { data_source_descriptor: raw };
            client.connection().invoke("RegisterDataSource", &request, None, false).unwrap();
        }
        while client.wants_write() {
            client.flush().unwrap();
        }
        client.connection().invoke("Sync", &protos::SyncRequest::default(), None, true).unwrap();
        heard(&mut client);
    }
}

/// Sessions that come and go beside a producer that does not read just then.
#[test]
fn a_producer_does_not_lose_its_connection_to_sessions_that_come_and_go() {
    let host = host();
    let stream = host.connect_producer().unwrap();
    let mut client = ferretto_ipc::link::ClientLink::new(stream, "ProducerPort");
    let until = Instant::now() + Duration::from_secs(60);
    let next = |client: &mut ferretto_ipc::link::ClientLink| loop {
        client.flush().unwrap();
        client.receive().unwrap();
        if let Some(event) = client.connection().poll_event() {
            return event;
        }
        assert!(Instant::now() < until, "nothing comes");
        std::thread::sleep(Duration::from_millis(1));
    };
    next(&mut client);
    let init =
        protos::InitializeConnectionRequest { producer_name: Some("p".to_owned()), ..Default::default() };
    client.connection().invoke("InitializeConnection", &init, None, true).unwrap();
    let commands = protos::GetAsyncCommandRequest::default();
    let commands = client.connection().invoke("GetAsyncCommand", &commands, None, true).unwrap();
    let descriptor = protos::DataSourceDescriptor { name: Some("data".to_owned()), ..Default::default() };
    let request =
        protos::RegisterDataSourceRequest { data_source_descriptor: Some(descriptor.encode_to_vec().into()) };
    client.connection().invoke("RegisterDataSource", &request, None, false).unwrap();
    client.flush().unwrap();
    let mut much = config(0);
    much.data_sources[0].config.get_or_insert_default().legacy_config = Some("x".repeat(100_000));
    let mut consumer = consumer(&host);
    while consumer.query_service_state(false).unwrap().data_sources.is_empty() {}
    // Of each it would hear 200 KB: more than is kept for anybody.
    for _ in 0..200 {
        consumer.enable_tracing(much.encode_to_vec(), None).unwrap();
        consumer.query_service_state(true).unwrap();
        consumer.free().unwrap();
    }
    let mut named = config(0);
    named.unique_session_name = Some("the last one".to_owned());
    named.data_sources[0].config.get_or_insert_default().legacy_config = Some("the last one".to_owned());
    consumer.enable_tracing(named.encode_to_vec(), None).unwrap();
    loop {
        let ferretto_ipc::client::Event::Reply { request, body: Some(body), .. } = next(&mut client) else {
            continue;
        };
        let is_it = |command: &protos::get_async_command_response::Cmd| match command {
            protos::get_async_command_response::Cmd::StartDataSource(start) => {
                String::from_utf8_lossy(start.config.as_deref().unwrap_or_default()).contains("the last one")
            }
            _ => false,
        };
        let command = (request == commands)
            .then(|| protos::GetAsyncCommandResponse::decode(body).unwrap().cmd)
            .flatten();
        if command.as_ref().is_some_and(is_it) {
            return;
        }
    }
}

/// What others' sessions want of it may be more than it has time to read at once.
#[test]
fn a_producer_that_many_sessions_want_has_time_to_read_it_all() {
    const SESSIONS: usize = 5;
    const SOURCES: usize = 3;
    let host = host();
    let mut consumers: Vec<Consumer> = (0..SESSIONS).map(|_| consumer(&host)).collect();
    let mut config = config(0);
    let inner = config.data_sources[0].config.get_or_insert_default();
    inner.legacy_config = Some("x".repeat(100_000));
    for consumer in &mut consumers {
        consumer.enable_tracing(config.encode_to_vec(), None).unwrap();
        consumer.query_service_state(true).unwrap();
    }
    let stream = host.connect_producer().unwrap();
    let mut client = ferretto_ipc::link::ClientLink::new(stream, "ProducerPort");
    let until = Instant::now() + Duration::from_secs(20);
    let next = |client: &mut ferretto_ipc::link::ClientLink| loop {
        client.flush().unwrap();
        client.receive().unwrap();
        if let Some(event) = client.connection().poll_event() {
            return event;
        }
        assert!(Instant::now() < until, "nothing comes");
        std::thread::sleep(Duration::from_millis(1));
    };
    next(&mut client);
    let init = protos::InitializeConnectionRequest {
        producer_name: Some("wanted".to_owned()),
        ..Default::default()
    };
    client.connection().invoke("InitializeConnection", &init, None, true).unwrap();
    let commands = protos::GetAsyncCommandRequest::default();
    let commands = client.connection().invoke("GetAsyncCommand", &commands, None, true).unwrap();
    let descriptor = protos::DataSourceDescriptor { name: Some("data".to_owned()), ..Default::default() };
    for _ in 0..SOURCES {
        let raw = Some(descriptor.encode_to_vec().into());
        let request = protos::RegisterDataSourceRequest { data_source_descriptor: raw };
        client.connection().invoke("RegisterDataSource", &request, None, false).unwrap();
    }
    client.flush().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut bytes = 0;
    while bytes < SESSIONS * SOURCES * 2 * 100_000 {
        if let ferretto_ipc::client::Event::Reply { request, body, .. } = next(&mut client)
            && request == commands
        {
            bytes += body.map_or(0, |body| body.len());
        }
    }
    for consumer in &mut consumers {
        consumer.query_service_state(true).unwrap();
    }
}

#[test]
fn two_hundred_producers_that_die_at_any_byte_leave_the_service_serving() {
    let host = host();
    let mut consumer = consumer(&host);
    consumer.enable_tracing(config(0).encode_to_vec(), None).unwrap();
    let bytes = conversation();
    let memory = SharedMemory::create(64 * 4096).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for index in 0..200 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let cut = (seed >> 33) as usize % (bytes.len() + 1);
        let stream = host.connect_producer().unwrap();
        let mut sent = bytes[..cut].to_vec();
        if index % 3 == 0 && cut > 0 {
            // Some die of a wrong byte instead.
            sent[cut / 2] ^= 1 << (index % 8);
        }
        let fd = (index % 2 == 0).then(|| memory.as_fd().unwrap());
        send_all(&stream, &sent, fd);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let state = consumer.query_service_state(false).unwrap();
        if state.producers.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "dead producers stay: {}", state.producers.len());
    }
    consumer.disable().unwrap();
    let mut packets = 0;
    consumer
        .read_buffers(|_| {
            packets += 1;
            Ok::<(), std::io::Error>(())
        })
        .unwrap();
    assert!(packets > 5, "{packets}");
}

#[test]
fn a_consumer_that_asks_without_reading_does_not_hold_up_others() {
    let host = host();
    let mut talker = ClientConnection::new("ConsumerPort");
    let stream = host.connect_consumer().unwrap();
    send_all(&stream, &drain(&mut talker), None);
    std::thread::sleep(Duration::from_millis(50));
    let mut buffer = vec![0; 65_536];
    let received = stream.recv(&mut buffer).unwrap();
    talker.handle_bytes(&buffer[..received.len]).unwrap();
    for _ in 0..20_000 {
        talker.invoke("QueryServiceState", &protos::QueryServiceStateRequest::default(), None, true).unwrap();
    }
    let bytes = drain(&mut talker);
    let mut rest = bytes.as_slice();
    let until = Instant::now() + Duration::from_millis(500);
    while !rest.is_empty() && Instant::now() < until {
        match stream.send(rest, None) {
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => break,
        }
    }
    assert!(consumer(&host).query_service_state(true).is_ok());
}

#[test]
fn a_pipe_that_nobody_reads_holds_up_its_own_session_only() {
    let host = host();
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    let mut stuck = consumer(&host);
    let mut config = config(0);
    config.write_into_file = Some(true);
    config.file_write_period_ms = Some(100);
    // The trace carries its config: one that does not fit into the pipe.
    config.unique_session_name = Some("x".repeat(100_000));
    stuck.enable_tracing(config.encode_to_vec(), Some(writer)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let state = consumer(&host).query_service_state(true).unwrap();
    assert_eq!(state.num_sessions_started(), 1);
    drop(stuck);
}

/// Whether a connection ends before anything comes through it.
fn is_hung_up_on(stream: &Stream) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match stream.recv(&mut [0; 16]) {
            Ok(received) => return received.len == 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return false,
        }
    }
}

#[test]
fn where_only_ones_own_user_may_connect_neighbours_are_hung_up_on() {
    use rustix::process::Uid;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can be somebody else");
    }
    let name = format!("@ferretto-test-{}", std::process::id());
    let address: ferretto_ipc::address::Address = name.parse().unwrap();
    let addresses = vec![address.clone()];
    let options = HostOptions { producer_addresses: addresses, own_user_only: true, ..Default::default() };
    let _host = Host::spawn(options).unwrap();
    let neighbour = {
        let address = address.clone();
        std::thread::spawn(move || {
            let uid = Uid::from_raw(1002);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            is_hung_up_on(&Stream::connect(&address).unwrap())
        })
    };
    assert!(neighbour.join().unwrap(), "a neighbour is let in");
    let mut own = ClientConnection::new("ProducerPort");
    let stream = Stream::connect(&address).unwrap();
    send_all(&stream, &drain(&mut own), None);
    assert!(!is_hung_up_on(&stream), "root is answered");
}
