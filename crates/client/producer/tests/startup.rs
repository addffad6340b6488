//! Writers that write before there is a session, or even a service.

mod support;

use std::time::{Duration, Instant};

use ferretto_ipc::address::Address;
use ferretto_ipc::socket::{Listener, Stream};
use ferretto_producer::{
    Connector, ExhaustedPolicy, ProducerClient, ProducerError, ProducerEvent, ProducerOptions,
    SharedMemorySource, StartupEnd, StartupVolume, StartupWriters, TraceWriter,
};

use support::{BUFFER, FakeService, Setup, connected, descriptor, turn};

const LONG: Duration = Duration::from_secs(3600);

/// A client with writers, before its service has heard of it.
fn begun(setup: Setup, timeout: Duration) -> (ProducerClient, FakeService, StartupWriters) {
    let (ours, theirs) = Stream::pair().unwrap();
    let mut options = ProducerOptions::new("test");
    options.connector = Connector::Stream(ours);
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&descriptor());
    let startup = client.start_startup_writers(timeout).unwrap();
    (client, FakeService::new(theirs, setup), startup)
}

fn connect(client: &mut ProducerClient, service: &mut FakeService) {
    for _ in 0..3 {
        turn(client, service);
    }
    assert!(client.is_connected());
}

fn events(client: &mut ProducerClient) -> Vec<ProducerEvent> {
    std::iter::from_fn(|| client.next_event()).collect()
}

/// Packets of this length, each full of its number.
fn write(writer: &mut TraceWriter, numbers: std::ops::Range<u8>, len: usize) {
    for number in numbers {
        writer.new_packet().bytes(2, &vec![number; len]);
    }
}

/// The numbers of a writer's packets, which must be whole.
fn numbers(service: &FakeService, writer: u16, len: usize) -> Vec<u8> {
    let number = |packet: &Vec<u8>| {
        let body = &packet[packet.len() - len..];
        assert!(body.iter().all(|byte| *byte == body[0]));
        body[0]
    };
    service.packets(writer).iter().map(number).collect()
}

/// How many chunks of the client's memory can be had at this moment.
fn free_chunks(client: &ProducerClient) -> usize {
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    let chunk = client.arbiter().unwrap().chunk_capacity();
    let mut taken = 0;
    while taken < 1000 {
        writer.new_packet().bytes(1, &vec![0; chunk - 64]);
        if writer.is_dropping() {
            break;
        }
        taken += 1;
    }
    taken
}

#[test]
fn what_was_written_before_the_session_is_its_own() {
    let modes = [(true, false), (false, false), (false, true)];
    for (direct_patching, emulated) in modes {
        let setup = Setup { direct_patching, emulated, ..Setup::default() };
        let (mut client, mut service, startup) = begun(setup, LONG);
        let mut writer = startup.create_writer();
        // Several chunks, one of them half full.
        write(&mut writer, 0..20, 1000);
        connect(&mut client, &mut service);
        write(&mut writer, 20..30, 1000);
        service.start(1);
        turn(&mut client, &mut service);
        assert_eq!((service.commits, service.writers.len()), (0, 0), "nobody has asked for it yet");
        assert!(startup.is_waiting());

        assert!(startup.adopt(BUFFER));
        assert!(!startup.adopt(BUFFER) && !startup.is_waiting());
        write(&mut writer, 30..40, 1000);
        let id = writer.id();
        drop(writer);
        turn(&mut client, &mut service);
        assert_eq!(numbers(&service, id, 1000), (0..40).collect::<Vec<_>>(), "{setup:?}");
        assert_eq!(service.writers.len(), 0, "the writer has ended");
        // Later ones are as any other.
        let mut later = startup.create_writer();
        write(&mut later, 7..8, 10);
        later.flush();
        turn(&mut client, &mut service);
        assert_eq!(numbers(&service, later.id(), 10), [7]);
    }
}

#[test]
fn sizes_of_messages_that_were_left_behind_are_filled_in() {
    for direct_patching in [true, false] {
        let (mut client, mut service, startup) = begun(Setup { direct_patching, ..Setup::default() }, LONG);
        let (mut whole, mut open) = (startup.create_writer(), startup.create_writer());
        let nested = |writer: &mut TraceWriter| writer.new_packet().nested(2).bytes(3, &[9; 9000]);
        nested(&mut whole);
        let mut packet = open.new_packet();
        let mut message = packet.nested(2);
        message.bytes(3, &[9; 6000]);
        connect(&mut client, &mut service);
        service.start(1);
        turn(&mut client, &mut service);
        assert!(startup.adopt(BUFFER));
        turn(&mut client, &mut service);
        // This one is adopted in the middle of a message whose size is three chunks back.
        message.bytes(3, &[9; 6000]);
        drop(message);
        drop(packet);
        let ids = (whole.id(), open.id());
        drop((whole, open));
        turn(&mut client, &mut service);
        for (id, len) in [(ids.0, 9000), (ids.1, 12000)] {
            let packets = service.packets(id);
            assert_eq!(packets.len(), 1);
            assert!(packets[0].len() > len, "{}", packets[0].len());
        }
    }
}

#[test]
fn writers_that_ended_before_the_session_are_in_it() {
    let (mut client, mut service, startup) = begun(Setup::default(), LONG);
    let ids: Vec<u16> = (0..3)
        .map(|number| {
            let mut writer = startup.create_writer();
            write(&mut writer, number..number + 1, 100);
            writer.id()
        })
        .collect();
    connect(&mut client, &mut service);
    service.start(1);
    turn(&mut client, &mut service);
    // Its id is not that of one whose chunks wait.
    assert!(!ids.contains(&client.create_writer(BUFFER, ExhaustedPolicy::Drop).id()));
    assert!(startup.adopt(BUFFER));
    turn(&mut client, &mut service);
    let found: Vec<Vec<u8>> = ids.iter().map(|id| numbers(&service, *id, 100)).collect();
    assert_eq!(found, [[0], [1], [2]]);
    let calls = |name: &str| service.calls.iter().filter(|call| **call == name).count();
    assert_eq!((calls("RegisterTraceWriter"), calls("UnregisterTraceWriter")), (4, 4));
}

/// How the writers of a group have ended.
fn end(client: &mut ProducerClient) -> Option<(u16, StartupEnd, usize)> {
    events(client).into_iter().find_map(|event| match event {
        ProducerEvent::StartupEnded { id, reason, lost_chunks } => Some((id, reason, lost_chunks)),
        _ => None,
    })
}

#[test]
fn what_nobody_adopts_is_given_up_and_its_memory_is_free_again() {
    let (mut client, mut service, startup) = begun(Setup::default(), Duration::ZERO);
    let mut writer = startup.create_writer();
    write(&mut writer, 0..100, 1000);
    drop(startup.create_writer());
    client.process();
    let (id, reason, lost_chunks) = end(&mut client).expect("its time is over");
    assert_eq!((id, reason), (startup.id(), StartupEnd::TimedOut));
    assert!((20..=48).contains(&lost_chunks), "{lost_chunks}");
    assert!(writer.is_null() && startup.create_writer().is_null());

    connect(&mut client, &mut service);
    service.start(1);
    turn(&mut client, &mut service);
    assert!(!startup.adopt(BUFFER));
    // Hands its last chunk back, and gets no other.
    write(&mut writer, 0..100, 1000);
    assert_eq!(free_chunks(&client), 64, "all of the memory that the service was offered");
    assert_eq!(end(&mut client), None);
}

#[test]
fn what_waits_and_what_is_lost_is_counted() {
    let (mut client, mut service, startup) = begun(Setup::default(), LONG);
    assert!(startup.volume().is_empty());
    let (mut writer, mut ended) = (startup.create_writer(), startup.create_writer());
    // Small ones in one chunk, a large one over several, and what one chunk of a writer that has ended holds.
    write(&mut writer, 0..10, 10);
    write(&mut writer, 10..11, 9000);
    write(&mut ended, 0..3, 100);
    drop(ended);
    // A length of two bytes from 128 on, a tag, and that it is the first of its sequence (three bytes).
    let bytes = 10 * 12 + 3 + 9003 + 3 * 102 + 3;
    let expected = StartupVolume { packets: 14, bytes, dropped_packets: 0 };
    assert_eq!(startup.volume(), expected);
    // Writers of sessions write into the same memory.
    connect(&mut client, &mut service);
    service.start(1);
    turn(&mut client, &mut service);
    let mut other = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    write(&mut other, 0..10, 10);
    assert_eq!((startup.volume(), startup.loss()), (expected, None));
    // Three quarters of 64 pages, which hold one such packet each.
    write(&mut writer, 0..250, 4000);
    assert!(startup.volume().dropped_packets > 180);
    // It has looked for memory once in a while only; now it says how many there were since.
    drop(writer);
    let volume = startup.volume();
    assert!((40..=48 + 14).contains(&volume.packets), "{volume}");
    assert_eq!(volume.packets + volume.dropped_packets, 14 + 250, "{volume}");
    startup.abort();
    let loss = startup.loss().unwrap();
    assert_eq!((loss.reason, loss.volume), (StartupEnd::Closed, volume));
    assert!(startup.volume().is_empty());
}

#[test]
fn writers_without_a_session_leave_memory_to_those_with_one() {
    let (mut client, mut service, startup) = begun(Setup::default(), LONG);
    let mut writer = startup.create_writer();
    write(&mut writer, 0..250, 4000);
    assert!(writer.is_dropping());
    assert_eq!(writer.drop_count(), 1);
    connect(&mut client, &mut service);
    service.start(1);
    turn(&mut client, &mut service);
    assert!((12..=16).contains(&free_chunks(&client)));
    startup.abort();
    turn(&mut client, &mut service);
    assert_eq!(free_chunks(&client), 64);
}

#[test]
fn a_service_that_refuses_the_memory_gets_its_own_and_it_is_said() {
    let (mut client, mut service, startup) = begun(Setup { refuses_memory: true, ..Setup::default() }, LONG);
    let mut writer = startup.create_writer();
    write(&mut writer, 0..10, 1000);
    connect(&mut client, &mut service);
    let (_, reason, lost_chunks) = end(&mut client).expect("it is lost");
    assert_eq!((reason, lost_chunks), (StartupEnd::MemoryRefused, 2));
    assert!(writer.is_null());
    service.start(1);
    turn(&mut client, &mut service);
    assert!(!startup.adopt(BUFFER));
    let mut later = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    write(&mut later, 0..10, 1000);
    later.flush();
    turn(&mut client, &mut service);
    assert_eq!(numbers(&service, later.id(), 1000).len(), 10);
}

#[test]
fn what_waits_ends_with_the_connection_that_has_its_memory() {
    let (mut client, mut service, startup) = begun(Setup::default(), LONG);
    let mut writer = startup.create_writer();
    write(&mut writer, 0..10, 1000);
    connect(&mut client, &mut service);
    service.start(1);
    turn(&mut client, &mut service);
    drop(service);
    client.process();
    assert_eq!(end(&mut client), Some((startup.id(), StartupEnd::Disconnected, 2)));
    assert!(writer.is_null() && !startup.adopt(BUFFER));
}

#[test]
fn what_waits_goes_on_to_the_next_service_if_the_first_had_no_session() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Path(directory.path().join("socket"));
    let listener = Listener::bind(&address).unwrap();
    let mut options = ProducerOptions::new("test");
    options.connector = Connector::Address(address);
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&descriptor());
    let startup = client.start_startup_writers(LONG).unwrap();
    let mut writer = startup.create_writer();
    write(&mut writer, 0..10, 1000);
    client.process();
    let mut first = FakeService::new(listener.accept().unwrap(), Setup::default());
    connect(&mut client, &mut first);
    drop(first);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut second = loop {
        assert!(Instant::now() < deadline, "the client connects again");
        client.wait(Some(Duration::from_millis(10)), &[]).unwrap();
        if let Ok(stream) = listener.accept() {
            break FakeService::new(stream, Setup::default());
        }
    };
    connect(&mut client, &mut second);
    second.start(1);
    turn(&mut client, &mut second);
    assert!(startup.adopt(BUFFER));
    writer.flush();
    turn(&mut client, &mut second);
    assert_eq!(numbers(&second, writer.id(), 1000), (0..10).collect::<Vec<_>>());
}

#[test]
fn it_is_too_late_once_the_service_is_to_allocate() {
    let (mut client, mut service) = connected(Setup::default(), ProducerOptions::new("test"));
    assert!(matches!(client.start_startup_writers(LONG), Err(ProducerError::StartupTooLate)));
    // Memory that a session has brought is as good as any.
    service.start(1);
    turn(&mut client, &mut service);
    let startup = client.start_startup_writers(LONG).unwrap();
    let mut writer = startup.create_writer();
    write(&mut writer, 0..3, 10);
    assert!(startup.adopt(BUFFER));
    writer.flush();
    turn(&mut client, &mut service);
    assert_eq!(numbers(&service, writer.id(), 10), [0, 1, 2]);

    let options =
        ProducerOptions { shared_memory: SharedMemorySource::Producer, ..ProducerOptions::new("test") };
    let (mut client, _service) = connected(Setup::default(), options);
    let all: Vec<_> = (0..64).map(|_| client.start_startup_writers(LONG).unwrap().id()).collect();
    assert_eq!(all, (1..=64).collect::<Vec<_>>());
    assert!(matches!(client.start_startup_writers(LONG), Err(ProducerError::TooManyStartups)));
}

/// Each thread's packets arrive whole and in order, whenever the session comes; or, if it gives up, none does and all memory is free.
#[test]
fn threads_write_while_a_session_adopts_or_gives_up() {
    for round in 0..40 {
        let adopts = round % 4 != 0;
        let (mut client, mut service, startup) = begun(Setup::default(), LONG);
        connect(&mut client, &mut service);
        service.start(1);
        turn(&mut client, &mut service);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let startup = startup.clone();
                std::thread::spawn(move || {
                    let mut writer = startup.create_writer();
                    for number in 0..60 {
                        write(&mut writer, number..number + 1, 300);
                        if number % 16 == 0 {
                            std::thread::yield_now();
                        }
                    }
                    writer.id()
                })
            })
            .collect();
        (0..round * 50).for_each(|_| std::hint::spin_loop());
        if adopts {
            assert!(startup.adopt(BUFFER))
        } else {
            startup.abort()
        }
        let ids: Vec<u16> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        turn(&mut client, &mut service);
        for id in ids.into_iter().filter(|id| *id != 0) {
            let expected: Vec<u8> = if adopts { (0..60).collect() } else { Vec::new() };
            assert_eq!(numbers(&service, id, 300), expected, "round {round}");
        }
        assert_eq!(free_chunks(&client), 64, "round {round}");
    }
}
