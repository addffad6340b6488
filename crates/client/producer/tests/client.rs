//! What a client promises about its connection, its instances and its writers.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Listener;
use ferretto_producer::{
    Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions, SharedMemorySource,
    TraceWriter, Waits,
};

use rustix::event::{PollFd, Timespec, poll};
use support::{BUFFER, FakeService, Setup, connected, descriptor, started, turn};

fn options() -> ProducerOptions {
    ProducerOptions::new("test")
}

fn events(client: &mut ProducerClient) -> Vec<ProducerEvent> {
    std::iter::from_fn(|| client.next_event()).collect()
}

#[test]
fn a_producer_introduces_itself_before_it_registers() {
    let (_, service) = connected(Setup::default(), options());
    assert_eq!(service.calls, ["InitializeConnection", "GetAsyncCommand", "RegisterDataSource"]);
    assert_eq!(service.sources, [support::SOURCE]);
}

#[test]
fn a_second_registration_is_an_update() {
    let (mut client, mut service) = connected(Setup::default(), options());
    service.calls.clear();
    client.register_data_source(&descriptor());
    client.unregister_data_source(support::SOURCE);
    client.unregister_data_source("unknown");
    turn(&mut client, &mut service);
    assert_eq!(service.calls, ["UpdateDataSource", "UnregisterDataSource"]);
}

#[test]
fn starts_and_stops_are_acknowledged_after_the_data() {
    let (mut client, mut service) = started(Setup::default(), options());
    service.calls.clear();
    client.notify_started(1);
    client.create_writer(BUFFER, ExhaustedPolicy::Drop).new_packet().varint(1, 1);
    service.stop(1);
    client.process();
    assert!(matches!(events(&mut client).as_slice(), [ProducerEvent::Stop { instance: 1 }]));
    client.notify_stopped(1);
    client.notify_stopped(1);
    service.pump();
    assert_eq!(
        service.calls,
        [
            "NotifyDataSourceStarted",
            "RegisterTraceWriter",
            "CommitData",
            "UnregisterTraceWriter",
            "NotifyDataSourceStopped"
        ]
    );
}

#[test]
fn a_flush_is_acknowledged_after_its_data() {
    for emulated in [false, true] {
        let (mut client, mut service) = started(Setup { emulated, ..Setup::default() }, options());
        let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
        writer.new_packet().varint(1, 1);
        service.flush(7, &[1]);
        client.process();
        let events = events(&mut client);
        assert!(matches!(events.as_slice(), [ProducerEvent::Flush { request_id: 7, .. }]), "{events:?}");
        writer.flush();
        client.notify_flush_complete(7);
        service.pump();
        assert_eq!(service.acknowledged_flush, 7);
        assert_eq!(service.packets(writer.id()).len(), 1);
    }
}

#[test]
fn an_emulated_producer_copies_unfinished_chunks_at_a_flush() {
    let (mut client, mut service) = started(Setup { emulated: true, ..Setup::default() }, options());
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    for _ in 0..3 {
        writer.new_packet().varint(1, 1);
    }
    client.notify_flush_complete(1);
    service.pump();
    assert_eq!(service.packets(writer.id()).len(), 3);
    // The writer goes on in the same chunk, which arrives again.
    writer.new_packet().varint(1, 1);
    let id = writer.id();
    drop(writer);
    turn(&mut client, &mut service);
    assert_eq!(service.packets(id).len(), 4);
}

#[test]
fn an_emulated_producer_waits_for_a_service_that_does_not_read() {
    let (mut client, mut service) = started(Setup { emulated: true, ..Setup::default() }, options());
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    for _ in 0..4000 {
        writer.new_packet().bytes(2, &[0; 1000]);
        client.process();
    }
    // All bounds are reached: what is in the socket, what is queued for it, what is in memory.
    assert!(writer.is_dropping());
    client.process();
    assert_eq!(client.next_timeout(), None, "it would turn for nothing");
    let id = writer.id();
    drop(writer);
    for _ in 0..20 {
        turn(&mut client, &mut service);
    }
    let packets = service.packets(id).len();
    assert!((1500..4000).contains(&packets), "{packets}");
}

#[test]
fn a_flush_that_concerns_nobody_is_acknowledged_at_once() {
    let (mut client, mut service) = started(Setup::default(), options());
    service.flush(3, &[99]);
    turn(&mut client, &mut service);
    assert_eq!(service.acknowledged_flush, 3);
    assert!(events(&mut client).is_empty());
}

#[test]
fn a_producer_can_bring_its_own_memory() {
    let mut options = options();
    options.shared_memory = SharedMemorySource::Producer;
    options.shm_size_hint_bytes = 8 * 4096;
    let (mut client, mut service) = started(Setup::default(), options);
    assert_eq!(service.memory.as_ref().unwrap().len(), 8 * 4096);
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    let id = writer.id();
    writer.new_packet().varint(1, 1);
    drop(writer);
    turn(&mut client, &mut service);
    assert_eq!(service.packets(id).len(), 1);
}

#[test]
fn writers_into_a_stuck_service_drop_count_and_recover() {
    let setup = Setup { pages: 2, ..Setup::default() };
    let (mut client, mut service) = started(setup, options());
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    service.is_stuck = true;
    for _ in 0..5 {
        for _ in 0..100 {
            writer.new_packet().bytes(2, &[0; 100]);
        }
        turn(&mut client, &mut service);
    }
    assert!(writer.is_dropping());
    assert_eq!(writer.drop_count(), 1);
    service.is_stuck = false;
    turn(&mut client, &mut service);
    for _ in 0..20 {
        writer.new_packet().bytes(2, &[0; 100]);
    }
    assert!(!writer.is_dropping());
    assert_eq!(writer.drop_count(), 1);
}

#[test]
fn stalling_on_the_clients_own_thread_does_not_deadlock() {
    let setup = Setup { pages: 2, ..Setup::default() };
    for policy in [ExhaustedPolicy::Stall, ExhaustedPolicy::StallThenDrop] {
        let (client, mut service) = started(setup, options());
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let reader = std::thread::spawn(move || {
            while is_done.recv_timeout(Duration::from_millis(1))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                service.pump();
            }
            service.pump();
            service
        });
        let mut writer = client.create_writer(BUFFER, policy);
        let id = writer.id();
        for _ in 0..200 {
            writer.new_packet().bytes(2, &[0; 3000]);
        }
        assert_eq!(writer.drop_count(), 0);
        drop(writer);
        // Its last chunk goes out with it.
        drop(client);
        done.send(()).unwrap();
        assert_eq!(reader.join().unwrap().packets(id).len(), 200);
    }
}

#[test]
fn batched_commits_wait_unless_half_of_the_memory_is_used() {
    let mut options = options();
    options.batch_commits_duration = Duration::from_secs(3600);
    let setup = Setup { pages: 16, ..Setup::default() };
    let (mut client, mut service) = started(setup, options);
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    let mut write_page = || writer.new_packet().bytes(2, &[0; 4000]);
    write_page();
    write_page();
    service.calls.clear();
    turn(&mut client, &mut service);
    assert_eq!(service.commits, 0);
    let at = client.next_timeout().unwrap();
    assert!(at > Instant::now() + Duration::from_secs(3500));
    for _ in 0..8 {
        write_page();
    }
    turn(&mut client, &mut service);
    assert_eq!(service.commits, 1);
}

#[test]
fn commits_that_follow_at_once_wait_for_one_another_without_waking_the_client() {
    let (mut client, mut service) = started(Setup { pages: 64, ..Setup::default() }, options());
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    turn(&mut client, &mut service);
    let mut write_pages = |count| (0..count).for_each(|_| writer.new_packet().bytes(2, &[0; 4000]));
    write_pages(2);
    assert!(is_woken(&client), "the first is sent at once");
    turn(&mut client, &mut service);
    let commits = service.commits;
    assert!(commits > 0);

    write_pages(1);
    assert!(!is_woken(&client));
    assert!(
        client.next_timeout().unwrap() < Instant::now() + Duration::from_millis(10),
        "it comes by itself"
    );
    std::thread::sleep(Duration::from_millis(2));
    turn(&mut client, &mut service);
    assert_eq!(service.commits, commits + 1);

    write_pages(9);
    assert!(is_woken(&client), "an eighth of the memory does not wait");
    turn(&mut client, &mut service);
    assert_eq!(service.commits, commits + 2);

    std::thread::sleep(Duration::from_millis(2));
    turn(&mut client, &mut service);
    assert_eq!(client.next_timeout(), None, "it has nothing more to do");
    write_pages(1);
    assert!(is_woken(&client));
}

/// Whether the client's thread would wake.
fn is_woken(client: &ProducerClient) -> bool {
    let (waker, flags) = client.poll_fds().next().unwrap();
    let mut fds = [PollFd::from_borrowed_fd(waker, flags)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn after_a_disconnect_instances_are_stopped_and_writers_do_nothing() {
    let (mut client, service) = started(Setup::default(), options());
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Stall);
    writer.new_packet().varint(1, 1);
    drop(service);
    client.process();
    let events = events(&mut client);
    assert!(
        matches!(
            events.as_slice(),
            [ProducerEvent::Stop { instance: 1 }, ProducerEvent::Disconnected { .. }]
        ),
        "{events:?}"
    );
    assert!(writer.is_null());
    for _ in 0..1000 {
        writer.new_packet().bytes(2, &[0; 1000]);
    }
    drop(writer);
    assert!(client.create_writer(BUFFER, ExhaustedPolicy::Stall).is_null());
    client.notify_stopped(1);
    client.notify_flush_complete(1);
    assert!(!client.sync());
    assert!(!client.drain(Duration::from_secs(1)));
    assert!(!client.activate_triggers(&["x"]));
    // A given connection cannot be made again.
    assert_eq!(client.next_timeout(), None);
}

#[test]
fn a_wait_ends_with_the_session_that_asked_for_it() {
    let (client, mut service) = started(Setup { pages: 2, ..Setup::default() }, options());
    service.is_stuck = true;
    let waits = Waits::default();
    let arbiter = client.arbiter().unwrap();
    let mut writer = arbiter.create_writer_that_waits(BUFFER, ExhaustedPolicy::Stall, waits.clone());
    let waiting = std::thread::spawn(move || {
        (0..4).for_each(|_| {
            writer.new_packet().bytes(2, &[0; 3000]);
        });
        writer
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!waiting.is_finished(), "nobody gives memory back");
    let ended = Instant::now();
    waits.end();
    let mut writer = waiting.join().unwrap();
    assert!(writer.is_dropping());
    writer.new_packet().bytes(2, &[0; 3000]);
    assert!(ended.elapsed() < Duration::from_secs(5), "it goes on at once: {:?}", ended.elapsed());
}

/// The client's thread itself waits, so that nobody else sees that the service has gone.
#[test]
fn a_wait_ends_with_the_connection() {
    let (client, mut service) = started(Setup { pages: 2, ..Setup::default() }, options());
    service.is_stuck = true;
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(service);
        Instant::now()
    });
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Stall);
    (0..4).for_each(|_| {
        writer.new_packet().bytes(2, &[0; 3000]);
    });
    let ended = Instant::now();
    assert!(writer.is_dropping());
    let took = ended.saturating_duration_since(ending.join().unwrap());
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// A writer for each page, each of which holds its page, and one more.
fn one_writer_too_many(client: &ProducerClient) -> (Vec<TraceWriter>, TraceWriter) {
    let writer = || client.create_writer(BUFFER, ExhaustedPolicy::Stall);
    let mut holders: Vec<_> = (0..4).map(|_| writer()).collect();
    holders.iter_mut().for_each(|holder| holder.new_packet().bytes(2, &[0; 100]));
    (holders, writer())
}

#[test]
fn a_thread_does_not_wait_for_what_only_it_could_give_back() {
    let (mut client, mut service) = started(Setup { pages: 4, ..Setup::default() }, options());
    let (mut holders, mut writer) = one_writer_too_many(&client);
    let began = Instant::now();
    writer.new_packet().bytes(2, &[0; 100]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(writer.is_dropping() && writer.drop_count() == 1);

    // As soon as one has let go of its chunk it is the service that is waited for.
    holders[0].flush();
    let serving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        service.pump();
        service
    });
    let mut late = client.create_writer(BUFFER, ExhaustedPolicy::Stall);
    late.new_packet().bytes(2, &[0; 100]);
    assert!(!late.is_dropping());
    let mut service = serving.join().unwrap();
    turn(&mut client, &mut service);
    drop(holders);
}

#[test]
fn threads_that_write_are_waited_for_and_idle_ones_are_not() {
    let (client, service) = started(Setup { pages: 4, ..Setup::default() }, options());
    let (mut holders, mut writer) = one_writer_too_many(&client);
    let arbiter = client.arbiter().unwrap();
    // The threads of all but one are idle.
    let waiting = std::thread::spawn(move || {
        let began = Instant::now();
        writer.new_packet().bytes(2, &[0; 100]);
        (writer, began.elapsed())
    });
    let (writer, waited) = waiting.join().unwrap();
    assert!(writer.is_dropping() && waited < Duration::from_secs(10), "{waited:?}");
    drop(writer);

    // One of them writes on, and there are three chunks for two: one each, and one to go on in.
    holders.truncate(2);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut service = service;
    let serving = spawn_until(&is_over, move || service.pump());
    let mut busy = holders.pop().unwrap();
    let mut write = move || busy.new_packet().bytes(2, &[0; 1000]);
    (0..10).for_each(|_| write());
    let writing = spawn_until(&is_over, write);
    let mut writer = arbiter.create_writer(BUFFER, ExhaustedPolicy::Stall);
    (0..20).for_each(|_| {
        writer.new_packet().bytes(2, &[0; 1000]);
    });
    assert!(!writer.is_dropping() && writer.drop_count() == 0);
    is_over.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    serving.join().unwrap();
}

/// A thread that does this again and again.
fn spawn_until(is_over: &Arc<AtomicBool>, mut act: impl FnMut() + Send + 'static) -> JoinHandle<()> {
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            act();
        }
    })
}

#[test]
fn a_wait_ends_with_what_a_signal_sets() {
    let (client, mut service) = started(Setup { pages: 2, ..Setup::default() }, options());
    service.is_stuck = true;
    let is_over = Arc::new(AtomicBool::new(false));
    let waits = Waits::until(Arc::clone(&is_over));
    let mut writer =
        client.arbiter().unwrap().create_writer_that_waits(BUFFER, ExhaustedPolicy::Stall, waits);
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        is_over.store(true, Ordering::Relaxed);
    });
    let began = Instant::now();
    (0..4).for_each(|_| {
        writer.new_packet().bytes(2, &[0; 3000]);
    });
    assert!(writer.is_dropping() && began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    ending.join().unwrap();
}

#[test]
fn drain_waits_until_the_service_has_everything() {
    let (mut client, mut service) = started(Setup::default(), options());
    let mut writer = client.create_writer(BUFFER, ExhaustedPolicy::Drop);
    let id = writer.id();
    writer.new_packet().varint(1, 1);
    writer.flush();
    let pumping = std::thread::spawn(move || {
        while service.packets(id).is_empty() || service.calls.last() != Some(&"Sync") {
            service.pump();
            std::thread::sleep(Duration::from_millis(1));
        }
        service
    });
    assert!(client.drain(Duration::from_secs(10)));
    pumping.join().unwrap();
}

#[test]
fn a_service_that_appears_or_comes_back_is_found() {
    let folder = std::env::temp_dir().join(format!("ferretto-producer-{}", std::process::id()));
    let address = Address::Path(folder.join("run").join("producer.sock"));
    let mut options = options();
    options.connector = Connector::Address(address.clone());
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&descriptor());

    // Long enough for the pauses to grow to several seconds if only they counted.
    let until = Instant::now() + Duration::from_millis(1600);
    while Instant::now() < until {
        client.wait(Some(Duration::from_millis(50)), &[]).unwrap();
    }
    assert!(!client.is_connected());
    std::fs::create_dir_all(folder.join("run")).unwrap();
    client.wait(Some(Duration::from_millis(50)), &[]).unwrap();
    for _ in 0..2 {
        let listener = Listener::bind(&address).unwrap();
        let appeared = Instant::now();
        let mut service = accept(&mut client, &listener);
        assert!(appeared.elapsed() < Duration::from_millis(700), "{:?}", appeared.elapsed());
        assert_eq!(service.sources, [support::SOURCE]);
        service.start(1);
        turn(&mut client, &mut service);
        assert!(matches!(
            events(&mut client).as_slice(),
            [ProducerEvent::Connected, ProducerEvent::Setup { .. }, ProducerEvent::Start { .. }]
        ));
        drop((service, listener));
        client.process();
        assert_eq!(events(&mut client).len(), 2);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn accept(client: &mut ProducerClient, listener: &Listener) -> FakeService {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        client.wait(Some(Duration::from_millis(10)), &[]).unwrap();
        if let Ok(stream) = listener.accept() {
            let mut service = FakeService::new(stream, Setup::default());
            for _ in 0..3 {
                turn(client, &mut service);
            }
            return service;
        }
    }
    panic!("the client did not connect");
}
