//! Trace filters: what a config does not let through is not in the trace, however it is read.

mod world;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::trace_config::trace_filter::{StringFilterChain, StringFilterPolicy, StringFilterRule};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::trace_stats::FilterStats;
use ferretto_protos::{
    self as protos, CloneSessionRequest, TestEvent, TraceConfig, TracePacket, fields::trace_packet as field,
};
use ferretto_service::{ConsumerCall, ConsumerConn, FileContent, FileHandle, ProducerCall, ProducerConn};
use ferretto_trace_filter::{BytecodeBuilder, assemble};
use prost::Message;
use world::{World, config, config_bytes, packet, payloads};

/// Keeps timestamps, and of test events the text and the counter.
fn program() -> Vec<u8> {
    let mut builder = BytecodeBuilder::new();
    let (trace, packet, event) = (builder.message(), builder.message(), builder.message());
    builder.nested(trace, protos::fields::trace::PACKET, packet);
    builder.keep(packet, field::TIMESTAMP).nested(packet, field::FOR_TESTING, event);
    builder.string(event, TEXT, 0).keep(event, COUNTER);
    builder.build().unwrap().bytecode_v2
}

/// Of `Trigger`.
const TRIGGER_NAME: u32 = 1;
const TRIGGERS: usize = 48;

/// Fields of `TestEvent`.
const TEXT: u32 = 1;
const COUNTER: u32 = 3;

fn rule(pattern: &str) -> StringFilterRule {
    StringFilterRule {
        policy: Some(StringFilterPolicy::SfpMatchRedactGroups as i32),
        regex_pattern: Some(pattern.to_owned()),
        ..Default::default()
    }
}

fn filter() -> TraceFilter {
    TraceFilter {
        bytecode_v2: Some(program().into()),
        string_filter_chain: Some(StringFilterChain { rules: vec![rule("secret (.*)")] }),
        ..Default::default()
    }
}

/// A config as text, and a filter beside it.
fn filtered(text: &str, filter: TraceFilter) -> bytes::Bytes {
    let mut config = config_bytes(text).to_vec();
    TraceConfig { trace_filter: Some(filter), ..Default::default() }.encode(&mut config).unwrap();
    config.into()
}

fn tracing(text: &str, file: Option<FileHandle>) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    if let Some(file) = file {
        world.files.insert(file, Default::default());
    }
    world.enable_raw(consumer, filtered(text, filter()), file);
    assert_eq!(world.ended(consumer), None);
    (world, producer, consumer)
}

fn event(event: TestEvent) -> Vec<u8> {
    let data = Some(Data::ForTesting(event));
    TracePacket { timestamp: Some(5), timestamp_clock_id: Some(6), data, ..Default::default() }
        .encode_to_vec()
}

/// A packet with 2000 bytes that the filter drops behind these.
fn large(packet: &[u8]) -> Vec<u8> {
    const FIELD_995: [u8; 4] = [0x9a, 0x3e, 0xd0, 0x0f];
    [packet, &FIELD_995, &[b'x'; 2000]].concat()
}

/// The stats at the end of a trace.
fn stats_in(packets: &[TracePacket]) -> FilterStats {
    let last = packets.last().and_then(|packet| packet.data.clone());
    let Some(Data::TraceStats(stats)) = last else { panic!("no stats at the end: {packets:?}") };
    stats.filter_stats.expect("the session has a filter")
}

#[test]
fn only_what_the_program_names_is_in_the_trace() {
    let (mut world, producer, consumer) = tracing(&config(""), None);
    let full =
        TestEvent { str: Some("x".to_owned()), counter: Some(7), seq_value: Some(8), ..Default::default() };
    world.emit(producer, 1, 0, 1, &[&event(full)]);
    let packets = world.read(consumer);
    let kept = TestEvent { str: Some("x".to_owned()), counter: Some(7), ..Default::default() };
    let expected =
        TracePacket { timestamp: Some(5), data: Some(Data::ForTesting(kept)), ..Default::default() };
    let (stats, others) = packets.split_last().unwrap();
    assert!(others.contains(&expected), "{others:?}");
    for packet in others.iter().filter(|packet| **packet != expected) {
        let timestamp_only = TracePacket { timestamp: packet.timestamp, ..Default::default() };
        assert_eq!(*packet, timestamp_only, "the service's own packets are filtered as well");
    }
    assert!(matches!(stats.data, Some(Data::TraceStats(_))), "but for the stats");
    assert!(stats.optional_trusted_uid.is_some());
}

#[test]
fn rules_overwrite_what_is_secret() {
    let (mut world, producer, consumer) = tracing(&config(""), None);
    world.emit(producer, 1, 0, 1, &[&packet("secret plans"), &packet("plans")]);
    assert_eq!(world.read_payloads(consumer), ["secret P60RE", "plans"]);
}

#[test]
fn a_chain_for_newer_services_replaces_rules_by_name() {
    let named = |name: &str, pattern: &str| StringFilterRule { name: Some(name.to_owned()), ..rule(pattern) };
    let mut filter = filter();
    let chain = |rules| Some(StringFilterChain { rules });
    filter.string_filter_chain = chain(vec![named("a", "a(.*)"), named("b", "b(.*)")]);
    filter.string_filter_chain_v54 = chain(vec![named("a", "(a).*"), rule("c(.*)")]);
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, filtered(&config(""), filter), None);
    world.emit(producer, 1, 0, 1, &[&packet("a-"), &packet("b-"), &packet("c-")]);
    assert_eq!(world.read_payloads(consumer), ["P-", "bP", "cP"]);
}

#[test]
fn the_stats_say_what_the_filter_did() {
    let text = "buffers { size_kb: 64 } buffers { size_kb: 64 } data_sources { config { name: \"data\" } } \
                data_sources { config { name: \"data\" target_buffer: 1 } }";
    let (mut world, producer, consumer) = tracing(text, None);
    let broken = [0xa2, 0x38, 2, 0x0a, 9];
    world.emit(producer, 1, 0, 1, &[&packet("kept")]);
    world.emit(producer, 2, 0, 2, &[&packet("kept, too"), &broken]);
    let packets = world.read(consumer);
    let stats = stats_in(&packets);
    let before_stats = &packets[..packets.len() - 1];
    assert_eq!(stats.input_packets(), before_stats.len() as u64);
    let bytes_out: usize = before_stats.iter().map(Message::encoded_len).sum();
    assert_eq!(stats.output_bytes(), bytes_out as u64);
    assert!(stats.input_bytes() > stats.output_bytes());
    assert_eq!(stats.errors(), 1);
    // Trusted fields: uid, sequence and pid. The broken packet counts as an error, not as discarded.
    let trusted = TracePacket {
        optional_trusted_uid: Some(protos::trace_packet::OptionalTrustedUid::TrustedUid(1000)),
        optional_trusted_packet_sequence_id: Some(
            protos::trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(2),
        ),
        trusted_pid: Some(5001),
        ..Default::default()
    };
    let trusted = trusted.encoded_len() as u64;
    assert_eq!(stats.bytes_discarded_per_buffer, [trusted, trusted]);
    // The packet of the stats itself is counted after it was made.
    let later = world.stats(consumer).filter_stats.unwrap();
    assert_eq!(later.input_packets(), packets.len() as u64);
    let stats_bytes = packets.last().unwrap().encoded_len() as u64;
    assert_eq!(later.input_bytes(), stats.input_bytes() + stats_bytes);
    assert_eq!(later.output_bytes(), stats.output_bytes() + stats_bytes);
}

#[test]
fn every_packet_leaves_one_behind() {
    // A group, which prost passes over and filters do not.
    let broken = [0xa2, 0x38, 2, 0x4b, 0x4c];
    let count = |world: &mut World, producer, consumer| {
        world.emit(producer, 1, 0, 1, &[&packet("x"), &broken, &[0xb8, 0x3e, 1]]);
        world.read(consumer).len()
    };
    let (mut world, producer, consumer) = tracing(&config(""), None);
    let with_filter = count(&mut world, producer, consumer);
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    assert_eq!(with_filter, count(&mut world, producer, consumer));
}

#[test]
fn a_read_of_which_little_is_kept_still_ends_in_parts() {
    let (mut world, producer, consumer) = tracing(&config("").replace("128", "1024"), None);
    for index in 0..200u32 {
        world.emit(producer, 1, index, 1, &[&large(b"")]);
    }
    world.ask(consumer, ConsumerCall::ReadBuffers(Default::default()));
    let replies = world.consumers.get_mut(&consumer).unwrap().replies.remove("ReadBuffers").unwrap();
    assert!(replies.len() > 2, "{} replies for 400 kB", replies.len());
}

/// Rules that are tried on every string, and match none.
fn many_rules() -> TraceFilter {
    let rules = (0..30).map(|index| rule(&format!("(?:a{{40}}|b){{4}}{index}")));
    let rules = rules.chain([rule("secret (.*)")]).collect();
    TraceFilter { string_filter_chain: Some(StringFilterChain { rules }), ..filter() }
}

#[test]
fn a_packet_that_takes_long_to_filter_is_filtered_in_parts() {
    let text = |index: u32| format!("secret {index} {}", "x".repeat(2900));
    let overwritten = |index: u32| format!("secret P60REDACTED{}", "-".repeat(text(index).len() - 18));
    for file in [None, Some(FileHandle(1))] {
        let mode = file.map_or("", |_| "write_into_file: true file_write_period_ms: 100");
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        file.into_iter().for_each(|file| drop(world.files.insert(file, Default::default())));
        world.enable_raw(consumer, filtered(&config(mode), many_rules()), file);
        for index in 0..3 {
            world.emit(producer, 1, index, 1, &[&packet(&text(index))]);
        }
        world.disable(consumer);
        let packets = match file {
            Some(file) => world.file_packets(file),
            None => {
                world.ask(consumer, ConsumerCall::ReadBuffers(Default::default()));
                let replies = &world.consumers[&consumer].replies["ReadBuffers"];
                assert!(replies.len() > 5, "{} replies", replies.len());
                world.read_replies(consumer)
            }
        };
        assert_eq!(payloads(&packets), (0..3).map(overwritten).collect::<Vec<_>>());
        let stats = stats_in(&packets);
        assert_eq!((stats.errors(), stats.input_packets() > 3), (0, true), "{stats:?}");
    }
}

/// However many sessions another has whose filters take long.
#[test]
fn files_of_users_have_equal_time_whatever_their_filters_take() {
    const SLOW: u64 = 4;
    let (mut world, mode) = (World::default(), "write_into_file: true file_write_period_ms: 100");
    let producer = world.producer("p");
    world.register(producer, "data");
    world.files_wait = true;
    for number in 1..=SLOW + 1 {
        let (is_slow, file) = (number <= SLOW, FileHandle(number));
        let consumer = world.consumer(if is_slow { 2000 } else { 1000 });
        world.files.insert(file, Default::default());
        let text = config(mode).replace("128", "8192");
        let config = if is_slow { filtered(&text, many_rules()) } else { config_bytes(&text) };
        world.enable_raw(consumer, config, Some(file));
        assert_eq!(world.ended(consumer), None);
        let buffer = number as u16;
        let (text, count) =
            if is_slow { (format!("secret {}", "x".repeat(2900)), 8) } else { ("x".repeat(3900), 600) };
        (0..count).for_each(|id| world.emit(producer, 1, id, buffer, &[&packet(&text)]));
    }
    world.advance_ms(100);
    world.slow_stopwatch(100_000);
    let (mut of_slow, mut bytes) = (0, 0);
    while bytes < 600 * 3900 {
        let write = world.service.poll_file_write(&world.now).expect("it is not at its end");
        let FileContent::Bytes(content) = &write.content else { panic!("nothing is copied") };
        match write.file == FileHandle(SLOW + 1) {
            true => bytes += content.len(),
            false => of_slow += 1,
        }
        world.service.handle_file_written(write.file, Ok(()), &world.now);
    }
    // By session they would have some forty.
    assert!(of_slow < 8, "{of_slow}");
}

#[test]
fn the_services_own_packets_are_filtered_in_parts_too() {
    let mut builder = BytecodeBuilder::new();
    let (trace, packet, trigger) = (builder.message(), builder.message(), builder.message());
    builder.nested(trace, protos::fields::trace::PACKET, packet);
    builder.nested(packet, field::TRIGGER, trigger).string(trigger, TRIGGER_NAME, 0);
    let filter =
        TraceFilter { bytecode_v2: Some(builder.build().unwrap().bytecode_v2.into()), ..many_rules() };
    let name = format!("secret {}", "x".repeat(500));
    let triggers = format!(
        "trigger_config {{ trigger_mode: STOP_TRACING trigger_timeout_ms: 60000 triggers {{ name: \"{name}\" \
         stop_delay_ms: 50000 }} }}"
    );
    let mut world = World::default();
    let producer = world.producer("p");
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, filtered(&config(&triggers), filter), None);
    assert_eq!(world.ended(consumer), None);
    let request = protos::ActivateTriggersRequest { trigger_names: vec![name.clone(); TRIGGERS] };
    world.call(producer, ProducerCall::ActivateTriggers(request));
    world.ask(consumer, ConsumerCall::ReadBuffers(Default::default()));
    let replies = &world.consumers[&consumer].replies["ReadBuffers"];
    assert!(replies.len() > TRIGGERS / 6, "{} replies", replies.len());
    let packets = world.read_replies(consumer);
    let overwritten = format!("secret P60REDACTED{}", "-".repeat(name.len() - 18));
    let names = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::Trigger(trigger)) => Some(trigger.trigger_name().to_owned()),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), vec![overwritten; TRIGGERS]);
    assert_eq!(stats_in(&packets).errors(), 0);
}

#[test]
fn a_file_is_filtered_and_its_limit_is_for_what_is_kept() {
    let file = FileHandle(1);
    let more = "write_into_file: true file_write_period_ms: 100 max_file_size_bytes: 4000 duration_ms: 1000";
    let (mut world, producer, consumer) = tracing(&config(more), Some(file));
    for index in 0..20u32 {
        world.emit(producer, 1, index, 1, &[&large(&packet("secret x"))]);
    }
    world.advance_ms(1100);
    world.acknowledge_flushes(producer);
    world.advance_ms(10_000);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    let packets = world.file_packets(file);
    assert_eq!(payloads(&packets), vec!["secret P"; 20]);
    assert!(!packets.iter().any(|packet| matches!(packet.data, Some(Data::TraceConfig(_)))));
    assert!(stats_in(&packets).bytes_discarded_per_buffer[0] > 40_000);
}

#[test]
fn filtered_traces_can_be_compressed() {
    let (mut world, producer, consumer) = tracing(&config("compression { deflate {} }"), None);
    world.emit(producer, 1, 0, 1, &[&packet("secret plans")]);
    let mut texts = Vec::new();
    for packet in world.read(consumer) {
        let Some(Data::CompressedPackets(batch)) = packet.data else { continue };
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(batch.as_ref()), &mut bytes).unwrap();
        texts.extend(payloads(&protos::Trace::decode(bytes.as_slice()).unwrap().packet));
    }
    assert_eq!(texts, ["secret P60RE"]);
}

#[test]
fn a_clone_is_filtered_unless_it_says_otherwise() {
    let request = |skip, selector| CloneSessionRequest {
        skip_trace_filter: Some(skip),
        selector: Some(selector),
        ..Default::default()
    };
    let by_name = || Selector::UniqueSessionName("s".to_owned());
    for (request, is_filtered) in [
        (request(false, by_name()), true),
        (request(true, by_name()), false),
        (request(false, Selector::SessionId(u64::MAX)), false),
    ] {
        let text = config("unique_session_name: \"s\" bugreport_score: 1");
        let (mut world, producer, consumer) = tracing(&text, None);
        world.emit(producer, 1, 0, 1, &[&packet("secret plans")]);
        let cloning = world.consumer(1000);
        world.ask(cloning, ConsumerCall::CloneSession(request.clone()));
        world.acknowledge_flushes(producer);
        let packets = world.read(cloning);
        let expected = if is_filtered { "secret P60RE" } else { "secret plans" };
        assert_eq!(payloads(&packets), [expected], "{request:?}");
        assert_eq!(packets.iter().any(|packet| packet.trusted_pid.is_some()), !is_filtered);
        // The session itself goes on being filtered.
        assert_eq!(world.read_payloads(consumer), ["secret P60RE"]);
    }
}

#[test]
fn a_filter_that_cannot_be_is_refused() {
    let with_rule = |rule| TraceFilter {
        string_filter_chain_v54: Some(StringFilterChain { rules: vec![rule] }),
        ..filter()
    };
    let cases = [
        (TraceFilter::default(), "trace_filter.bytecode: the program is empty"),
        (
            TraceFilter { bytecode: Some(b"abc".as_slice().into()), ..Default::default() },
            "trace_filter.bytecode: the program has the checksum",
        ),
        (
            TraceFilter { bytecode_v2: Some(b"\x80".as_slice().into()), ..filter() },
            "trace_filter.bytecode_v2: the program ends within a word",
        ),
        (
            TraceFilter { bytecode_overlay_v54: Some(assemble(&[9, 9, 0]).into()), ..filter() },
            "trace_filter.bytecode_v2: the overlay changes message 9",
        ),
        (
            TraceFilter { bytecode_v2: Some(assemble(&[0]).into()), ..filter() },
            "trace_filter: the program keeps no message in field 1",
        ),
        (with_rule(rule("(")), "trace_filter.string_filter_chain_v54.rules[0]: the pattern \"(\""),
        (
            with_rule(StringFilterRule { policy: Some(9), ..rule("") }),
            "trace_filter.string_filter_chain_v54.rules[0]: policy 9 is unknown",
        ),
        (
            with_rule(StringFilterRule { policy: None, ..rule("") }),
            "trace_filter.string_filter_chain_v54.rules[0]: policy 0 is unknown",
        ),
        (
            with_rule(StringFilterRule { semantic_type: vec![-1], ..rule("") }),
            "trace_filter.string_filter_chain_v54.rules[0]: semantic type 4294967295",
        ),
    ];
    for (filter, expected) in cases {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        world.enable_raw(consumer, filtered(&config(""), filter), None);
        let error = world.ended(consumer).unwrap_or_else(|| panic!("accepted, not: {expected}"));
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_newer_program_counts() {
    let mut filter = filter();
    filter.bytecode = Some(b"not read".as_slice().into());
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, filtered(&config(""), filter), None);
    assert_eq!(world.ended(consumer), None);
}
