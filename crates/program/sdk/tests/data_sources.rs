//! Custom data sources, from registration to the packets in the trace.

#[path = "support/host.rs"]
mod own_host;
mod session;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use ferretto::protos::data_source_config::BufferExhaustedPolicy;
use ferretto::protos::trace_packet::Data;
use ferretto::protos::{
    DataSourceConfig, DataSourceDescriptor, InterceptorConfig, TestEvent, TracePacket, fields,
};
use ferretto::{
    Ack, DataSource, DataSourceHandle, ExhaustedPolicy, FlushFlags, FlushInitiator, FlushReason,
    RegisterError, SetupArgs, TraceContext,
};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::Host;
use own_host::{host_with, turn};
use session::{Session, TIMEOUT, clearing, config, texts, wait_until};

fn host() -> &'static Host {
    host_with(0)
}

fn consumer() -> Consumer {
    Consumer::over(host().connect_consumer().unwrap()).unwrap()
}

fn named(name: &str) -> DataSourceDescriptor {
    DataSourceDescriptor { name: Some(name.to_owned()), ..Default::default() }
}

fn say<T: DataSource>(ctx: &mut TraceContext<'_, T>, text: &str) {
    let now = ctx.now();
    let mut packet = ctx.new_packet();
    packet.varint(fields::trace_packet::TIMESTAMP, now);
    packet.nested(fields::trace_packet::FOR_TESTING).string(fields::test_event::STR, text);
}

#[test]
fn callbacks_come_in_order_and_packets_of_every_kind_arrive() {
    let _turn = turn();
    static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn note(call: String) {
        CALLS.lock().unwrap().push(call);
    }
    #[derive(Default)]
    struct Plain {
        instance_index: usize,
    }
    impl DataSource for Plain {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_setup(&mut self, args: &SetupArgs<'_>) {
            assert!(!args.config.raw().is_empty());
            self.instance_index = args.instance_index;
            note(format!("setup {:?} {}", args.config.name(), args.config.decode().unwrap().legacy_config()));
        }
        fn on_start(&mut self, _ack: Ack) {
            note("start".to_owned());
            PLAIN.trace(|ctx| say(ctx, "in on_start"));
        }
        fn on_stop(&mut self, _ack: Ack) {
            note("stop".to_owned());
            PLAIN.trace(|ctx| {
                assert!(ctx.instance().is_none(), "a callback has its own object");
                say(ctx, "in on_stop");
            });
        }
        fn on_flush(&mut self, flags: FlushFlags, _ack: Ack) {
            if flags.reason() == FlushReason::Explicit {
                assert_eq!(flags.initiator(), FlushInitiator::Consumer);
                note("flush".to_owned());
            }
        }
    }
    static PLAIN: DataSourceHandle<Plain> = DataSourceHandle::new();

    PLAIN.trace(|_| panic!("nobody records it"));
    host();
    PLAIN.register(named("test.plain")).unwrap();
    let mut wanted = config(&["test.plain"]);
    wanted.data_sources[0].config.as_mut().unwrap().legacy_config = Some("of the session".to_owned());
    let mut session = Session::start(consumer(), &wanted);
    assert!(PLAIN.is_enabled());
    let before = ferretto::now();
    PLAIN.trace(|ctx| {
        assert_eq!(ctx.instance().unwrap().instance_index, ctx.instance_index());
        say(ctx, "in place");
        let event = TestEvent { str: Some("a whole packet".into()), ..Default::default() };
        let data = Some(Data::ForTesting(event));
        ctx.new_packet().prost(&TracePacket { timestamp: Some(ferretto::now()), data, ..Default::default() });
        let event = TestEvent { str: Some("a field".into()), ..Default::default() };
        ctx.new_packet().prost_field(fields::trace_packet::FOR_TESTING, &event);
        assert!(ctx.written_bytes() > 30);
        assert_eq!(ctx.drop_count(), 0);
    });
    thread::spawn(|| PLAIN.trace(|ctx| say(ctx, "on another thread"))).join().unwrap();
    session.flush();
    let packets = session.stop();
    let mut said = texts(&packets);
    said.sort_unstable();
    let all = ["a field", "a whole packet", "in on_start", "in on_stop", "in place", "on another thread"];
    assert_eq!(said, all);
    let stamped = packets.iter().find(|packet| texts(std::slice::from_ref(packet)) == ["in place"]).unwrap();
    assert!((before..before + 10_000_000_000).contains(&stamped.timestamp()), "{before} {stamped:?}");
    let calls = CALLS.lock().unwrap().clone();
    assert_eq!(calls, ["setup \"test.plain\" of the session", "start", "flush", "stop"]);
    assert!(!PLAIN.is_enabled());
}

#[test]
fn instances_at_the_same_time_each_have_an_object_and_packets() {
    let _turn = turn();
    struct Many(u32);
    impl DataSource for Many {
        type IncrementalState = ();
        type ThreadState = u32;
    }
    static MANY: DataSourceHandle<Many> = DataSourceHandle::new();
    static MADE: AtomicU32 = AtomicU32::new(0);
    host();
    MANY.register_with(named("test.many"), || Many(MADE.fetch_add(1, Ordering::Relaxed))).unwrap();
    // A session that names a source several times has so many instances. The last finds no place, but is served like the others.
    let session = Session::start(consumer(), &config(&["test.many"; 32]));
    for round in 0..2 {
        let mut indexes = Vec::new();
        MANY.trace(|ctx| {
            indexes.push(ctx.instance_index());
            let number = ctx.instance().unwrap().0;
            *ctx.thread_state() += 1;
            assert_eq!(*ctx.thread_state(), round + 1);
            say(ctx, &format!("{number} {round}"));
        });
        assert!(indexes.iter().copied().eq(0..31), "{indexes:?}");
    }
    let packets = session.stop();
    let mut said = texts(&packets);
    said.sort_unstable();
    let mut all: Vec<String> =
        (0..31).flat_map(|number| [0, 1].map(|round| format!("{number} {round}"))).collect();
    all.sort_unstable();
    assert_eq!(said, all);
    // Their places are free again, and the writers of the ended ones are gone.
    let session = Session::start(consumer(), &config(&["test.many"]));
    MANY.trace(|ctx| {
        assert_eq!((*ctx.thread_state(), ctx.written_bytes()), (0, 0));
        say(ctx, "again");
    });
    assert_eq!(texts(&session.stop()), ["again"]);
}

#[test]
fn a_source_can_be_for_one_session_at_a_time() {
    let _turn = turn();
    #[derive(Default)]
    struct Single;
    impl DataSource for Single {
        type IncrementalState = ();
        type ThreadState = ();
        const MULTIPLE_INSTANCES: bool = false;
    }
    static SINGLE: DataSourceHandle<Single> = DataSourceHandle::new();
    host();
    SINGLE.register(named("test.single")).unwrap();
    let first = Session::start(consumer(), &config(&["test.single"]));
    let second = Session::start(consumer(), &config(&["test.single"]));
    SINGLE.trace(|ctx| say(ctx, "mine"));
    let second = second.stop();
    assert_eq!(texts(&second), [""; 0]);
    assert_left_out(&second, "test.single");
    let first = first.stop();
    assert_eq!(texts(&first), ["mine"]);
    assert!(first.iter().all(|packet| packet.not_recorded.is_none()));
}

/// The session is told that it does not get this source, and why.
#[track_caller]
fn assert_left_out(packets: &[TracePacket], source: &str) {
    let left_out: Vec<_> = packets.iter().filter(|packet| packet.not_recorded.is_some()).collect();
    let [.., last] = left_out.as_slice() else { panic!("nothing is said") };
    let note = last.not_recorded.as_ref().unwrap();
    assert_eq!(note.data_source_name(), source);
    assert_eq!(note.reason(), "too many other sessions record it already");
    assert_ne!(last.previous_packet_dropped(), 0);
}

#[test]
fn there_are_places_for_31_sessions_and_one_more_is_told_that_there_is_none() {
    const PLACES: usize = 31;
    let _turn = turn();
    #[derive(Default)]
    struct Wanted;
    impl DataSource for Wanted {
        type IncrementalState = ();
        type ThreadState = usize;
    }
    static WANTED: DataSourceHandle<Wanted> = DataSourceHandle::new();
    static CATEGORY: ferretto::Category = ferretto::Category::new("wanted");
    host();
    WANTED.register(named("test.wanted")).unwrap();
    let crowd = [["test.wanted"; PLACES], ["track_event"; PLACES]].concat();
    let crowd = Session::start(consumer(), &config(&crowd));
    let mut late = Session::start(consumer(), &config(&["test.wanted", "track_event"]));
    late.flush();
    for number in 0..3_u32 {
        WANTED.trace(|ctx| {
            assert_eq!(*ctx.thread_state(), number as usize, "of each session its own");
            *ctx.thread_state() += 1;
            let text = format!("{}", ctx.instance_index());
            say(ctx, &text);
        });
        ferretto::instant!(CATEGORY, "event", number = number);
        let _slice = ferretto::slice!(CATEGORY, "slice");
    }
    let packets = late.stop();
    assert_eq!(texts(&packets), [""; 0]);
    let of_source = |name: &str| {
        let is_of = |packet: &&TracePacket| {
            packet.not_recorded.as_ref().is_some_and(|note| note.data_source_name() == name)
        };
        packets.iter().filter(is_of).cloned().collect::<Vec<_>>()
    };
    for source in ["test.wanted", "track_event"] {
        let said = of_source(source);
        assert_left_out(&said, source);
        assert!(said.len() >= 2, "said again at a flush");
    }
    let packets = crowd.stop();
    assert!(packets.iter().all(|packet| packet.not_recorded.is_none()));
    let events = packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_)))).count();
    assert_eq!(events, 9 * PLACES);
    let mut places: Vec<usize> = texts(&packets).iter().map(|text| text.parse().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, (0..PLACES).flat_map(|place| [place; 3]).collect::<Vec<_>>());
    // They are free again.
    let again = Session::start(consumer(), &config(&["test.wanted"]));
    WANTED.trace(|ctx| say(ctx, "again"));
    assert_eq!(texts(&again.stop()), ["again"]);
}

#[test]
fn what_is_traced_before_a_late_answer_to_stop_counts() {
    let _turn = turn();
    static ACKS: Mutex<Option<Sender<Ack>>> = Mutex::new(None);
    #[derive(Default)]
    struct Late;
    impl DataSource for Late {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_stop(&mut self, ack: Ack) {
            ACKS.lock().unwrap().as_ref().unwrap().send(ack).unwrap();
        }
    }
    static LATE: DataSourceHandle<Late> = DataSourceHandle::new();
    let (sender, acks) = channel();
    *ACKS.lock().unwrap() = Some(sender);
    host();
    LATE.register(named("test.late")).unwrap();
    let mut session = Session::start(consumer(), &config(&["test.late"]));
    session.consumer.disable().unwrap();
    let ack = acks.recv_timeout(TIMEOUT).unwrap();
    assert!(session.consumer.poll(Some(Duration::from_millis(50))).is_none(), "the session waits");
    LATE.trace(|ctx| say(ctx, "after on_stop"));
    ack.done();
    assert_eq!(texts(&session.read_ended()), ["after on_stop"]);
    LATE.trace(|_| panic!("it has stopped"));
}

#[test]
fn a_flush_waits_for_late_answers() {
    let _turn = turn();
    static ACKS: Mutex<Vec<Ack>> = Mutex::new(Vec::new());
    #[derive(Default)]
    struct Slow;
    impl DataSource for Slow {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_flush(&mut self, flags: FlushFlags, ack: Ack) {
            if flags.reason() == FlushReason::Explicit {
                ACKS.lock().unwrap().push(ack);
            }
        }
    }
    static SLOW: DataSourceHandle<Slow> = DataSourceHandle::new();
    host();
    SLOW.register(named("test.slow")).unwrap();
    // Two sessions: the answer to a later flush must not stand for an earlier one that is not answered.
    let flushed = AtomicUsize::new(0);
    let sessions = [0, 1].map(|_| Session::start(consumer(), &config(&["test.slow"])));
    thread::scope(|scope| {
        let flushing = sessions.map(|mut session| {
            let before = ACKS.lock().unwrap().len();
            let flushed = &flushed;
            let flushing = scope.spawn(move || {
                session.flush();
                flushed.fetch_add(1, Ordering::SeqCst);
                session
            });
            wait_until("the flush", || ACKS.lock().unwrap().len() > before);
            flushing
        });
        let second = ACKS.lock().unwrap().pop();
        drop(second);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(flushed.load(Ordering::SeqCst), 0, "the first one is not answered");
        SLOW.trace(|ctx| say(ctx, "before the answer"));
        ACKS.lock().unwrap().clear();
        for session in flushing {
            assert_eq!(texts(&session.join().unwrap().stop()), ["before the answer"]);
        }
    });
    assert_eq!(flushed.load(Ordering::SeqCst), 2);
}

#[test]
fn incremental_state_is_cleared_unless_the_source_objects() {
    let _turn = turn();
    struct Stateful<const KEEPS: bool>;
    impl<const KEEPS: bool> DataSource for Stateful<KEEPS> {
        type IncrementalState = Vec<u32>;
        type ThreadState = ();
        fn will_clear_incremental_state(&mut self) -> bool {
            ASKED.fetch_add(1, Ordering::SeqCst);
            !KEEPS
        }
    }
    static ASKED: AtomicU32 = AtomicU32::new(0);
    static CLEARING: DataSourceHandle<Stateful<false>> = DataSourceHandle::new();
    static KEEPING: DataSourceHandle<Stateful<true>> = DataSourceHandle::new();
    host();
    CLEARING.register_with(named("test.clearing"), || Stateful).unwrap();
    KEEPING.register_with(named("test.keeping"), || Stateful).unwrap();
    let session = Session::start(consumer(), &clearing(&["test.clearing", "test.keeping"], 20));
    for handle in [true, false] {
        let first = |state: &mut Vec<u32>| {
            assert!(state.is_empty());
            state.push(1);
        };
        match handle {
            true => CLEARING.trace(|ctx| first(ctx.parts().incremental_state)),
            false => KEEPING.trace(|ctx| first(ctx.incremental_state())),
        }
    }
    let mut is_cleared = false;
    wait_until("the clear", || {
        CLEARING.trace(|ctx| is_cleared = ctx.incremental_state().is_empty());
        is_cleared && ASKED.load(Ordering::SeqCst) > 3
    });
    KEEPING.trace(|ctx| assert_eq!(*ctx.incremental_state(), [1]));
    session.stop();
}

#[test]
fn a_loss_clears_the_incremental_state_and_the_policy_can_come_from_the_config() {
    let _turn = turn();
    struct Flood<const FROM_CONFIG: bool>;
    impl<const FROM_CONFIG: bool> DataSource for Flood<FROM_CONFIG> {
        type IncrementalState = u32;
        type ThreadState = ();
        const EXHAUSTED_POLICY: ExhaustedPolicy = ExhaustedPolicy::Drop;
        const POLICY_FROM_CONFIG: bool = FROM_CONFIG;
    }
    static DROPS: DataSourceHandle<Flood<false>> = DataSourceHandle::new();
    static WAITS: DataSourceHandle<Flood<true>> = DataSourceHandle::new();
    host();
    DROPS.register_with(named("test.drops"), || Flood).unwrap();
    WAITS.register_with(named("test.waits"), || Flood).unwrap();
    let mut wanted = config(&["test.drops", "test.waits"]);
    for source in &mut wanted.data_sources {
        let policy = BufferExhaustedPolicy::BufferExhaustedStallThenDrop;
        source.config.as_mut().unwrap().buffer_exhausted_policy = Some(policy.into());
    }
    let session = Session::start(consumer(), &wanted);
    // A packet larger than the shared memory is lost, unless the service takes its beginning away while the rest is written.
    let large = vec![b'x'; 600_000];
    let mut attempts = 0;
    let mut is_lost = false;
    while !is_lost {
        attempts += 1;
        assert!(attempts <= 1_000, "the service is never behind");
        DROPS.trace(|ctx| {
            let state = std::mem::replace(ctx.incremental_state(), attempts);
            assert_eq!(state, attempts - 1, "kept as long as nothing is lost");
            ctx.new_packet().bytes(fields::trace_packet::FOR_TESTING, &large);
            is_lost = ctx.drop_count() > 0;
            let expected = if is_lost { 0 } else { attempts };
            assert_eq!(*ctx.incremental_state(), expected, "made anew after a loss");
        });
    }
    for _ in 0..8 {
        WAITS.trace(|ctx| {
            ctx.new_packet().bytes(900_000, &large[..100_000]);
            assert_eq!(ctx.drop_count(), 0, "it waits for the service");
        });
    }
    session.stop();
}

#[test]
fn a_session_that_wants_an_interceptor_gets_nothing() {
    let _turn = turn();
    struct Intercepted;
    impl DataSource for Intercepted {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_setup(&mut self, _: &SetupArgs<'_>) {
            panic!("not for interceptors");
        }
    }
    static INTERCEPTED: DataSourceHandle<Intercepted> = DataSourceHandle::new();
    host();
    INTERCEPTED.register_with(named("test.intercepted"), || Intercepted).unwrap();
    let mut wanted = config(&["test.intercepted", "track_event"]);
    for source in &mut wanted.data_sources {
        let console = InterceptorConfig { name: Some("console".to_owned()), ..Default::default() };
        source.config.as_mut().unwrap().interceptor_config = Some(console);
    }
    // It starts and stops as any other.
    let session = Session::start(consumer(), &wanted);
    assert!(!INTERCEPTED.is_enabled() && !ferretto::enabled!("test.intercepted"));
    ferretto::instant!("test.intercepted", "not for the trace");
    let packets = session.stop();
    assert!(!packets.iter().any(|packet| matches!(packet.data, Some(Data::TrackEvent(_)))));
}

#[test]
fn within_a_trace_point_others_do_nothing() {
    let _turn = turn();
    #[derive(Default)]
    struct Outer;
    impl DataSource for Outer {
        type IncrementalState = ();
        type ThreadState = ();
    }
    static OUTER: DataSourceHandle<Outer> = DataSourceHandle::new();
    host();
    OUTER.register(named("test.outer")).unwrap();
    let session = Session::start(consumer(), &config(&["test.outer", "track_event"]));
    OUTER.trace(|ctx| {
        say(ctx, "outer");
        OUTER.trace(|_| panic!("not within itself"));
        ferretto::instant!("test.nested", "not within another");
        assert!(ferretto::now() > 0);
    });
    ferretto::instant!("test.nested", "after it");
    let packets = session.stop();
    assert_eq!(texts(&packets), ["outer"]);
    let events = packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_))));
    assert_eq!(events.count(), 1);
}

#[test]
fn a_flush_of_a_thread_calls_back_when_the_service_has_it() {
    let _turn = turn();
    #[derive(Default)]
    struct Hurried;
    impl DataSource for Hurried {
        type IncrementalState = ();
        type ThreadState = ();
        const NO_FLUSH: bool = true;
        fn on_flush(&mut self, _: FlushFlags, _: Ack) {
            panic!("it wants no flushes");
        }
    }
    static HURRIED: DataSourceHandle<Hurried> = DataSourceHandle::new();
    host();
    HURRIED.register(named("test.hurried")).unwrap();
    let session = Session::start(consumer(), &config(&["test.hurried"]));
    let (done, is_done) = channel();
    HURRIED.trace(|ctx| {
        say(ctx, "urgent");
        let done = done.clone();
        ctx.flush(move |is_done| done.send((is_done, thread::current().name().map(str::to_owned))).unwrap());
    });
    assert_eq!(is_done.recv_timeout(TIMEOUT).unwrap(), (true, Some("ferretto".to_owned())));
    assert_eq!(texts(&session.stop()), ["urgent"]);
}

#[test]
fn a_callback_that_panics_does_not_end_tracing() {
    let _turn = turn();
    #[derive(Default)]
    struct Panicking;
    impl DataSource for Panicking {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_start(&mut self, _: Ack) {
            panic!("expected by the test");
        }
    }
    static PANICKING: DataSourceHandle<Panicking> = DataSourceHandle::new();
    host();
    PANICKING.register(named("test.panicking")).unwrap();
    let session = Session::start(consumer(), &config(&["test.panicking"]));
    PANICKING.trace(|ctx| {
        assert!(ctx.instance().is_some());
        say(ctx, "all the same");
    });
    assert_eq!(texts(&session.stop()), ["all the same"]);
}

#[test]
fn what_cannot_be_registered_says_why() {
    let _turn = turn();
    #[derive(Default)]
    struct Named;
    impl DataSource for Named {
        type IncrementalState = ();
        type ThreadState = ();
    }
    static ONE: DataSourceHandle<Named> = DataSourceHandle::new();
    static OTHER: DataSourceHandle<Named> = DataSourceHandle::new();
    assert_eq!(ONE.register(DataSourceDescriptor::default()), Err(RegisterError::WithoutName));
    assert!(!ONE.update(named("test.named")));
    ONE.register(named("test.named")).unwrap();
    let again = ONE.register(named("test.other name"));
    assert_eq!(again, Err(RegisterError::AlreadyRegistered { name: "test.named".to_owned() }));
    let taken = |name: &str| Err(RegisterError::NameTaken { name: name.to_owned() });
    assert_eq!(OTHER.register(named("test.named")), taken("test.named"));
    assert_eq!(OTHER.register(named("track_event")), taken("track_event"));
}

#[test]
fn what_is_said_about_a_source_can_change() {
    let _turn = turn();
    #[derive(Default)]
    struct Described;
    impl DataSource for Described {
        type IncrementalState = ();
        type ThreadState = ();
        const CLEARS_INCREMENTAL_STATE: bool = false;
    }
    static DESCRIBED: DataSourceHandle<Described> = DataSourceHandle::new();
    let mut consumer = consumer();
    DESCRIBED.register(named("test.described")).unwrap();
    session::wait_for_source(&mut consumer, "test.described");
    let categories = ferretto::protos::TrackEventDescriptor {
        available_categories: vec![ferretto::protos::TrackEventCategory {
            name: Some("of mine".into()),
            ..Default::default()
        }],
    };
    assert!(
        DESCRIBED
            .update(DataSourceDescriptor { track_event_descriptor: Some(categories), ..named("ignored") })
    );
    wait_until("the update", || {
        let state = consumer.query_service_state(false).unwrap();
        state.data_sources.iter().any(|source| {
            let bytes = source.ds_descriptor.clone().unwrap_or_default();
            let descriptor = <DataSourceDescriptor as prost::Message>::decode(bytes).unwrap();
            descriptor.name() == "test.described"
                && !descriptor.handles_incremental_state_clear()
                && descriptor.track_event_descriptor.is_some()
        })
    });
}

/// A config with what this build does not know arrives whole.
#[test]
fn the_config_arrives_as_it_was_written() {
    let _turn = turn();
    static RAW: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    #[derive(Default)]
    struct Raw;
    impl DataSource for Raw {
        type IncrementalState = ();
        type ThreadState = ();
        fn on_setup(&mut self, args: &SetupArgs<'_>) {
            *RAW.lock().unwrap() = args.config.raw().to_vec();
        }
    }
    static SOURCE: DataSourceHandle<Raw> = DataSourceHandle::new();
    host();
    SOURCE.register(named("test.raw")).unwrap();
    let mut consumer = consumer();
    session::wait_for_source(&mut consumer, "test.raw");
    // Field 5000 of the data source's config.
    let unknown = [0xc2, 0xb8, 0x02, 3, b'a', b'b', b'c'];
    let mut source = prost::Message::encode_to_vec(&DataSourceConfig {
        name: Some("test.raw".to_owned()),
        ..Default::default()
    });
    source.extend(unknown);
    let mut config = prost::Message::encode_to_vec(&config(&[]));
    let mut message = ferretto::protozero::Message::new(&mut config);
    message
        .nested(fields::trace_config::DATA_SOURCES)
        .bytes(fields::trace_config::data_source::CONFIG, &source);
    drop(message);
    consumer.enable_tracing(config, None).unwrap();
    wait_until("the setup", || RAW.lock().unwrap().windows(unknown.len()).any(|window| window == unknown));
    consumer.disable().unwrap();
}
