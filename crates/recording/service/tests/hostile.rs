//! Whatever producers send, in whatever order, the service goes on and serves the others.

mod world;

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT};
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch};
use ferretto_protos::{self as protos, CommitDataRequest, clone_session_request::Selector};
use ferretto_service::{ConsumerCall, ConsumerConn, Peer, ProducerCall, ProducerConn, Token, limits};
use ferretto_shm::SharedMemory;
use proptest::prelude::*;
use world::{Introduction, World, config, named, packet};

const MEMORY_BYTES: usize = 16 * 4096;

/// One thing that a hostile client, or time, does.
#[derive(Debug, Clone)]
enum Act {
    /// Writes anything anywhere in the shared memory.
    Scribble {
        offset: usize,
        bytes: Vec<u8>,
    },
    /// Sets the state word of a page, and so the states of its chunks.
    SetPage {
        page: usize,
        word: u32,
    },
    Commit(CommitDataRequest),
    Call(&'static str, Vec<u8>),
    Ask(&'static str, Vec<u8>),
    Enable(usize),
    Clone(u64),
    Wait(u64),
    Reconnect,
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..20u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..max)
}

fn chunk_to_move() -> impl Strategy<Value = ChunksToMove> {
    let data = proptest::option::weighted(0.3, bytes(64));
    (small(), small(), small(), data, any::<bool>()).prop_map(|(page, chunk, buffer, data, incomplete)| {
        ChunksToMove {
            page: Some(page),
            chunk: Some(chunk),
            target_buffer: Some(buffer % 5),
            data: data.map(Into::into),
            chunk_incomplete: Some(incomplete),
        }
    })
}

fn chunk_to_patch() -> impl Strategy<Value = ChunkToPatch> {
    let patch = (small(), bytes(6))
        .prop_map(|(offset, data)| chunk_to_patch::Patch { offset: Some(offset), data: Some(data.into()) });
    (small(), small(), small(), proptest::collection::vec(patch, 0..4), any::<bool>()).prop_map(
        |(buffer, writer, chunk, patches, more)| ChunkToPatch {
            target_buffer: Some(buffer),
            writer_id: Some(writer),
            chunk_id: Some(chunk),
            patches,
            has_more_patches: Some(more),
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let commit = (
        proptest::collection::vec(chunk_to_move(), 0..4),
        proptest::collection::vec(chunk_to_patch(), 0..3),
        proptest::option::of(any::<u64>()),
    )
        .prop_map(|(chunks_to_move, chunks_to_patch, flush_request_id)| {
            Act::Commit(CommitDataRequest { chunks_to_move, chunks_to_patch, flush_request_id })
        });
    let producer_methods = proptest::sample::select(PRODUCER_PORT.methods);
    let consumer_methods = proptest::sample::select(CONSUMER_PORT.methods);
    prop_oneof![
        4 => (0..MEMORY_BYTES - 64, bytes(64)).prop_map(|(offset, bytes)| Act::Scribble { offset, bytes }),
        4 => (0..16usize, prop_oneof![any::<u32>(), (1..6u32, any::<u32>()).prop_map(|(layout, states)| layout << 28 | states >> 4)])
            .prop_map(|(page, word)| Act::SetPage { page, word }),
        8 => commit,
        3 => (producer_methods, bytes(12)).prop_map(|(method, args)| Act::Call(method, args)),
        3 => (consumer_methods, bytes(12)).prop_map(|(method, args)| Act::Ask(method, args)),
        2 => (0..CONFIGS.len()).prop_map(Act::Enable),
        1 => (0..5u64).prop_map(Act::Clone),
        2 => (0..20_000u64).prop_map(Act::Wait),
        1 => Just(Act::Reconnect),
    ]
}

const CONFIGS: &[&str] = &[
    "buffers { size_kb: 4 } data_sources { config { name: \"data\" } }",
    "buffers { size_kb: 4 fill_policy: DISCARD } data_sources { config { name: \"data\" } } duration_ms: 5000",
    "buffers { size_kb: 64 } data_sources { config { name: \"data\" } } write_into_file: true output_path: \"x\" flush_period_ms: 1",
    "buffers { size_kb: 64 transfer_on_clone: true } data_sources { config { name: \"data\" } } incremental_state_config { clear_period_ms: 1 }",
];

struct Hostile {
    world: World,
    memory: std::fs::File,
    producer: ProducerConn,
    consumer: ConsumerConn,
}

impl Hostile {
    fn new() -> Self {
        let memory = Arc::new(SharedMemory::create(MEMORY_BYTES).unwrap());
        let file = memory.as_fd().unwrap().as_fd().try_clone_to_owned().unwrap().into();
        let mut world = World::default();
        let consumer = world.consumer(1000);
        let producer = world.introduce_with_memory(memory, 4096);
        world.register(producer, "data");
        Self { world, memory: file, producer, consumer }
    }

    fn act(&mut self, act: &Act) {
        let world = &mut self.world;
        match act {
            Act::Scribble { offset, bytes } => self.memory.write_all_at(bytes, *offset as u64).unwrap(),
            Act::SetPage { page, word } => {
                self.memory.write_all_at(&word.to_le_bytes(), *page as u64 * 4096).unwrap();
            }
            Act::Commit(request) => world.commit(self.producer, request.clone()),
            Act::Call(method, args) => {
                if let Ok(call) = ProducerCall::decode(method, args.clone().into()) {
                    world.call(self.producer, call);
                }
            }
            Act::Ask(method, args) => {
                if let Ok(call) = ConsumerCall::decode(method, args.clone().into()) {
                    world.ask(self.consumer, call);
                }
            }
            Act::Enable(index) => world.enable(self.consumer, CONFIGS[*index]),
            Act::Clone(id) => {
                let selector = Some(Selector::SessionId(*id));
                let request = protos::CloneSessionRequest { selector, ..Default::default() };
                world.ask(self.consumer, ConsumerCall::CloneSession(request));
            }
            Act::Wait(ms) => world.advance_ms(*ms),
            Act::Reconnect => {
                world.disconnect(self.producer);
                self.producer = world.producer("again");
                world.register(self.producer, "data");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn the_service_outlives_any_client(acts in proptest::collection::vec(act(), 1..60)) {
        let mut hostile = Hostile::new();
        hostile.act(&Act::Enable(0));
        for act in &acts {
            hostile.act(act);
        }
        // Others are served as if nothing had happened.
        let world = &mut hostile.world;
        let producer = world.producer("good");
        world.register(producer, "good");
        let consumer = world.consumer(2000);
        world.enable(consumer, "buffers { size_kb: 64 } data_sources { config { name: \"good\" } }");
        prop_assert_eq!(world.ended(consumer), None);
        let (_, config) = world::only_setup(&world.commands(producer));
        world.emit(producer, 1, 0, config.target_buffer() as u16, &[&packet("good")]);
        prop_assert_eq!(world.read_payloads(consumer), ["good"]);
    }
}

#[test]
fn registries_of_a_producer_are_bounded() {
    let mut world = World::default();
    let producer = world.producer("p");
    let descriptor = vec![0x0a, 1, b'x']
        .into_iter()
        .chain([0x32, 0x80, 0x80, 0x06])
        .chain(std::iter::repeat_n(0, 98_304))
        .collect::<Vec<u8>>();
    for _ in 0..2000 {
        let request =
            protos::RegisterDataSourceRequest { data_source_descriptor: Some(descriptor.clone().into()) };
        world.call(producer, ProducerCall::RegisterDataSource(request));
    }
    for writer in 0..70_000 {
        let request =
            protos::RegisterTraceWriterRequest { trace_writer_id: Some(writer), target_buffer: Some(1) };
        world.call(producer, ProducerCall::RegisterTraceWriter(request));
    }
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let registered = world.stats(consumer).data_sources_registered();
    assert!(registered <= 43, "{registered} descriptors of 96 KiB");
}

#[test]
fn a_user_has_a_bounded_number_of_producers() {
    let mut world = World::default();
    for index in 0..limits::MAX_PRODUCERS_PER_UID + 1 {
        let conn = ProducerConn(1_000_000 + index as u64);
        world.service.handle_producer_connected(conn, Peer { uid: 5, ..Default::default() });
        let call = ProducerCall::InitializeConnection(Default::default());
        world.service.handle_producer_call(conn, Token(1), call, None, &world.now);
    }
    world.run();
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let connected = world.stats(consumer).producers_connected() as usize;
    assert_eq!(connected, limits::MAX_PRODUCERS_PER_UID);
    let other = world.producer("of another user");
    assert!(world.producers[&other].response.is_some());
}

#[test]
fn expressions_are_bounded_and_named() {
    let mut world = World::default();
    let huge = "(?:a|aa|aaa|aaaa)*{40}{40}b";
    let source = |filters: &str| {
        format!("buffers {{ size_kb: 64 }} data_sources {{ {filters} config {{ name: 'data' }} }}")
    };
    let filter = |pattern: &str| format!("producer_name_regex_filter: '{pattern}' ");
    let trigger = format!(
        "{} trigger_config {{ trigger_mode: START_TRACING trigger_timeout_ms: 1000
            triggers {{ name: 't' producer_name_regex: '{huge}' }} }}",
        source("")
    );
    let cases = [
        (source(&filter(huge)), "data source \"data\": the producer filter"),
        (source(&filter(&"a".repeat(5000))), "longer than 4096 bytes"),
        (source(&filter("a").repeat(17)), "producer_name_regex_filter"),
        (trigger, "trigger \"t\": producer_name_regex"),
    ];
    for (config, expected) in cases {
        let consumer = world.consumer(1000);
        world.enable(consumer, &config);
        let error = world.ended(consumer).expect("it is refused");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn configs_are_counted_before_they_are_decoded() {
    let mut world = World::default();
    // The field's tag and a length of 0: two or three bytes each on the wire.
    let cases: [(&[u8], usize, &str); 3] = [
        (&[0x12, 0], limits::MAX_DATA_SOURCES_PER_CONFIG, "data_sources"),
        (&[0x32, 0], limits::MAX_PRODUCER_CONFIGS, "producers"),
        (&[0xba, 0x02, 0], limits::MAX_SEMAPHORES, "session_semaphores"),
    ];
    let buffer = world::config_bytes("buffers { size_kb: 4 }");
    for (field, max, name) in cases {
        for (count, is_refused) in [(max, false), (max + 1, true)] {
            let consumer = world.consumer(1000);
            world.enable_raw(consumer, [&buffer[..], &field.repeat(count)].concat().into(), None);
            let error = world.ended(consumer);
            let expected = format!("the config has {count} {name}; a session has at most {max}");
            assert_eq!(error, is_refused.then_some(expected));
            world.free(consumer);
        }
    }
}

#[test]
fn filters_are_widened_within_bounds_and_wholly_or_not_at_all() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    let source = |filters: &str| format!("data_sources {{ {filters} config {{ name: 'data' }} }}");
    let both =
        |first: &str, second: &str| format!("buffers {{ size_kb: 64 }} {} {}", source(first), source(second));
    world.enable(consumer, &both("producer_name_filter: 'a'", "producer_name_filter: 'a'"));
    let widen = |world: &mut World, first: &str, second: &str| {
        let request = protos::ChangeTraceConfigRequest {
            trace_config: Some(world::config_bytes(&both(first, second))),
        };
        world.ask(consumer, ConsumerCall::ChangeTraceConfig(request));
    };
    let long = |letter: &str| {
        format!("producer_name_filter: '{}'", letter.repeat(limits::MAX_FILTER_NAME_BYTES / 3))
    };
    let names: String =
        (0..limits::MAX_FILTER_NAMES).map(|name| format!("producer_name_filter: '{name}' ")).collect();
    let expressions: String =
        (0..=limits::MAX_REGEXES).map(|n| format!("producer_name_regex_filter: 'x{n}' ")).collect();
    widen(&mut world, &long("x"), &long("y"));
    for too_much in [&long("z"), &names, &expressions, "producer_name_regex_filter: '('"] {
        widen(&mut world, "producer_name_filter: 'late'", too_much);
    }
    let instances = |world: &mut World, name: &str| {
        let producer = world.producer(name);
        world.register(producer, "data");
        world.command_names(producer).iter().filter(|name| **name == "setup").count()
    };
    assert_eq!((instances(&mut world, "a"), instances(&mut world, "late")), (2, 0));
    widen(&mut world, "producer_name_filter: 'later'", "producer_name_regex_filter: 'la.*'");
    assert_eq!((instances(&mut world, "later"), instances(&mut world, "late")), (2, 1));
}

#[test]
fn a_session_has_a_bounded_number_of_instances_of_one_data_source() {
    let mut world = World::default();
    let (early, late) = (world.producer("early"), world.producer("late"));
    world.register(early, "data");
    let consumer = world.consumer(1000);
    let max = limits::MAX_INSTANCES_PER_SOURCE;
    let wanted = "data_sources { config { name: 'data' } }".repeat(max + 1);
    world.enable(consumer, &format!("buffers {{ size_kb: 64 }} {wanted}"));
    world.advance_ms(0);
    world.register(late, "data");
    world.advance_ms(0);
    for producer in [early, late] {
        let commands = world.command_names(producer);
        assert_eq!(commands.iter().filter(|name| **name == "setup").count(), max);
    }
}

#[test]
fn the_sessions_of_a_user_have_a_bounded_number_of_instances_in_sum() {
    let mut world = World::default();
    let sources = limits::MAX_INSTANCES_PER_SESSION / limits::MAX_INSTANCES_PER_SOURCE;
    let producers = [1000, 1001].map(|uid| world.introduce(&Introduction { uid, ..named("p") }));
    producers.iter().for_each(|producer| (0..sources).for_each(|_| world.register(*producer, "data")));
    let wanted = "data_sources { config { name: 'data' } }".repeat(limits::MAX_INSTANCES_PER_SOURCE);
    let wanted = format!("buffers {{ size_kb: 64 }} {wanted}");
    let mut set_up = |uid: u32| {
        let consumer = world.consumer(uid);
        world.enable(consumer, &wanted);
        (0..1000).for_each(|_| world.advance_ms(0));
        let own = producers[usize::from(uid == 1001)];
        world.command_names(own).iter().filter(|name| **name == "setup").count()
    };
    let most = limits::MAX_INSTANCES_PER_SESSION;
    let strangers = sources * limits::MAX_INSTANCES_FOR_A_STRANGER;
    // Those of a stranger's program are part of it.
    assert_eq!([1000, 1000, 1000].map(&mut set_up), [most - strangers, most, 0]);
    // What the other one's sessions wanted of this one's is heard, too.
    assert_eq!(set_up(1001), most - strangers + strangers);
}

#[test]
fn writers_are_bounded_for_all_buffers_of_a_session() {
    const BUFFERS: u16 = 10;
    let mut world = World::default();
    let [producer, other] = ["p", "q"].map(|name| world.producer(name));
    [producer, other].into_iter().for_each(|producer| world.register(producer, "data"));
    let consumer = world.consumer(1000);
    let mut text = config("");
    for buffer in 1..BUFFERS {
        text += &format!(
            "buffers {{ size_kb: 2048 }} data_sources {{ config {{ name: 'data' target_buffer: {buffer} }} }}"
        );
    }
    world.enable(consumer, &text.replace("size_kb: 128", "size_kb: 2048"));
    let chunk = |writer: u16, number: u32, buffer: u16| {
        let mut data = number.to_le_bytes().to_vec();
        data.extend(writer.to_le_bytes());
        // A packet with a time of 1.
        data.extend([1, 0, 2, 0x40, 0x01]);
        ChunksToMove { target_buffer: Some(buffer.into()), data: Some(data.into()), ..Default::default() }
    };
    for buffer in 1..=BUFFERS {
        let chunks_to_move = (1..=limits::MAX_WRITER_ID).map(|writer| chunk(writer, 0, buffer)).collect();
        world.commit(producer, CommitDataRequest { chunks_to_move, ..Default::default() });
    }
    let stored = |world: &mut World| {
        let stats = world.stats(consumer).buffer_stats;
        let sum = |count: fn(&protos::trace_stats::BufferStats) -> u64| stats.iter().map(count).sum::<u64>();
        (sum(|stats| stats.chunks_written()), sum(|stats| stats.abi_violations()))
    };
    let all = u64::from(BUFFERS) * u64::from(limits::MAX_WRITER_ID);
    let most = limits::MAX_SEQUENCES_PER_SESSION as u64;
    assert_eq!(stored(&mut world), (most, all - most));
    // Who is known writes on, and who is not does when others of the same buffer have been read and forgotten. What is remembered of a
    // buffer's writers goes to other ones of that buffer only.
    world.commit_chunk(producer, chunk(1, 1, 1));
    world.commit_chunk(other, chunk(1, 0, 1));
    assert_eq!(stored(&mut world).0, most + 1);
    world.read(consumer);
    for (buffer, is_stored) in [(1, true), (BUFFERS, false), (2, true)] {
        let before = stored(&mut world).0;
        world.commit_chunk(other, chunk(1, 0, buffer));
        assert_eq!(stored(&mut world).0 - before, u64::from(is_stored), "{buffer}");
    }
}

#[test]
fn writers_of_one_user_do_not_take_all_places_of_anothers_session() {
    let mut world = World::default();
    let most = limits::MAX_SEQUENCES_OF_ONES_IN_A_SESSION as u64;
    let programs = most / u64::from(limits::MAX_WRITER_ID) + 2;
    let mut introduce = |uid: u32| {
        let program = world.introduce(&Introduction { uid, ..named("p") });
        world.register(program, "data");
        program
    };
    let many: Vec<ProducerConn> = (0..programs).map(|_| introduce(54_321)).collect();
    let [own, others] = [1000, 1001].map(&mut introduce);
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("").replace("size_kb: 128", "size_kb: 16384"));
    let chunk = |writer: u16| {
        let mut data = 0u32.to_le_bytes().to_vec();
        data.extend(writer.to_le_bytes());
        data.extend([1, 0, 2, 0x40, 0x01]);
        ChunksToMove { target_buffer: Some(1), data: Some(data.into()), ..Default::default() }
    };
    let commit = |world: &mut World, producer: ProducerConn, writers: u16| {
        let chunks_to_move = (1..=writers).map(chunk).collect();
        world.commit(producer, CommitDataRequest { chunks_to_move, ..Default::default() });
        (0..100).for_each(|_| world.advance_ms(0));
        world.stats(consumer).buffer_stats.iter().map(|stats| stats.chunks_written()).sum::<u64>()
    };
    let written = many.iter().map(|id| commit(&mut world, *id, limits::MAX_WRITER_ID)).max();
    assert_eq!(written, Some(most));
    // Everybody else has a place, and whose session it is has all that are left.
    assert_eq!(commit(&mut world, others, 1), most + 1);
    assert_eq!(commit(&mut world, own, limits::MAX_WRITER_ID), most + 1 + u64::from(limits::MAX_WRITER_ID));
    // When what was there has been read and forgotten, so do the user's.
    world.read(consumer);
    let before = commit(&mut world, many[0], 0);
    assert_eq!(commit(&mut world, many[programs as usize - 1], 1), before + 1);
}

#[test]
fn programs_of_one_user_do_not_take_all_places_of_anothers_session() {
    let mut world = World::default();
    let most = limits::MAX_INSTANCES_OF_ONES_IN_A_SESSION;
    let programs = most / limits::MAX_DATA_SOURCES_PER_PRODUCER + 2;
    for _ in 0..programs {
        let program = world.introduce(&Introduction { uid: 54_321, ..named("many") });
        (0..limits::MAX_DATA_SOURCES_PER_PRODUCER).for_each(|_| world.register(program, "data"));
    }
    let consumer = world.consumer(0);
    world.enable(consumer, "buffers { size_kb: 64 } data_sources { config { name: 'data' } }");
    (0..1000).for_each(|_| world.advance_ms(0));
    let stats = world.stats(consumer);
    let left_out = programs * limits::MAX_DATA_SOURCES_PER_PRODUCER - most;
    assert_eq!(stats.losses.unwrap_or_default().sources_left_out(), left_out as u64);
    for (uid, name) in [(1000, "another"), (0, "roots")] {
        let late = world.introduce(&Introduction { uid, ..named(name) });
        world.register(late, "data");
        world.advance_ms(0);
        assert_eq!(world.command_names(late), ["setup_tracing", "setup", "start"]);
    }
}

#[test]
fn who_has_not_read_is_told_when_it_has_and_of_what_is_over_nothing() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    world.service.hold_commands(producer);
    let [first, second] = [1000, 1001].map(|uid| {
        let consumer = world.consumer(uid);
        world.enable(consumer, "buffers { size_kb: 64 } data_sources { config { name: 'data' } }");
        consumer
    });
    world.advance_ms(0);
    assert_eq!(world.command_names(producer), ["setup_tracing"]);
    world.free(first);
    let bytes = world.service.release_commands(producer, 1);
    world.run();
    assert_eq!(world.command_names(producer), ["setup"]);
    assert!(bytes > 1, "one at a time");
    assert!(world.service.release_commands(producer, usize::MAX) > 0);
    world.run();
    assert_eq!(world.command_names(producer), ["start"]);
    // Nothing waits any more.
    world.free(second);
    assert_eq!(world.command_names(producer), ["stop"]);
}
