//! One trace filter in upstream's service and in ours: the same bytes are left of the same packets.

use std::thread;
use std::time::Duration;

use ferretto_interop::{Maker, World, both, config, need, serve};
use ferretto_ipc::address::Address;
use ferretto_producer::{ExhaustedPolicy, ProducerClient};
use ferretto_protos::fields::{trace, trace_packet};
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::trace_config::trace_filter::{StringFilterChain, StringFilterPolicy, StringFilterRule};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::trace_stats::FilterStats;
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor, SemanticType, TraceConfig, TracePacket};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Fields of the test events, which their schema does not have.
const PLAIN: u32 = 21;
const ATRACE: u32 = 22;
const KEPT: u32 = 23;
const DROPPED: u32 = 24;
const INNER: u32 = 25;

/// What they carry.
const TEXTS: [&str; 9] = [
    "nothing to hide",
    "secret plans",
    "secret",
    "B|12|secret plans",
    "B|12|name=sue age=7 name=bob",
    "B|12|keep secret name=sue",
    "E|12",
    "C|12|battery|50",
    "",
];

fn filter() -> TraceFilter {
    let mut builder = BytecodeBuilder::new();
    let (root, packet, event) = (builder.message(), builder.message(), builder.message());
    builder.nested(root, trace::PACKET, packet);
    builder.keep(packet, trace_packet::TIMESTAMP).nested(packet, trace_packet::FOR_TESTING, event);
    let atrace = SemanticType::Atrace as u32;
    builder
        .string(event, PLAIN, 0)
        .string(event, ATRACE, atrace)
        .keep(event, KEPT)
        .nested(event, INNER, event);
    let built = builder.build().expect("a program");
    let rule =
        |policy: StringFilterPolicy, pattern: &str, prefix: &str, types: &[SemanticType]| StringFilterRule {
            policy: Some(policy as i32),
            regex_pattern: Some(pattern.to_owned()),
            atrace_payload_starts_with: Some(prefix.to_owned()),
            name: Some(pattern.to_owned()),
            semantic_type: types.iter().map(|kind| *kind as i32).collect(),
        };
    let both = [SemanticType::Unspecified, SemanticType::Atrace];
    let rules = vec![
        rule(StringFilterPolicy::SfpAtraceMatchBreak, ".*plans", "secret", &both),
        rule(StringFilterPolicy::SfpMatchRedactGroups, "secret( .*)?", "", &both[..1]),
        rule(StringFilterPolicy::SfpAtraceMatchRedactGroups, r"B\|\d+\|keep (\w+) .*", "keep", &both[1..]),
        rule(StringFilterPolicy::SfpAtraceRepeatedSearchRedactGroups, r"name=(\w+)", "name", &both),
        rule(StringFilterPolicy::SfpMatchBreak, "nothing.*", "", &both),
    ];
    let replaced = StringFilterRule {
        name: Some("nothing.*".to_owned()),
        ..rule(StringFilterPolicy::SfpMatchRedactGroups, "(nothing).*", "", &both)
    };
    TraceFilter {
        bytecode_v2: Some(built.bytecode_v2.into()),
        bytecode_overlay_v54: Some(built.bytecode_overlay_v54.into()),
        string_filter_chain: Some(StringFilterChain { rules }),
        string_filter_chain_v54: Some(StringFilterChain { rules: vec![replaced] }),
        ..Default::default()
    }
}

fn write(client: &ProducerClient, config: &DataSourceConfig) {
    let mut writer = client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Stall);
    for (number, text) in (1..).zip(TEXTS) {
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, number);
        packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
        let mut event = packet.nested(trace_packet::FOR_TESTING);
        [PLAIN, ATRACE, KEPT, DROPPED].into_iter().for_each(|field| event.string(field, text));
        let mut inner = event.nested(INNER);
        [PLAIN, DROPPED].into_iter().for_each(|field| inner.string(field, text));
    }
    // A message that is none: nothing is left of its packet.
    writer.new_packet().bytes(trace_packet::FOR_TESTING, b"\xaa\x01\x09x");
    writer.flush();
}

/// What is left of the producer's packets, and what the filter says of itself.
fn recorded(world: &mut World) -> (Vec<Vec<u8>>, FilterStats) {
    let address = Address::Path(world.producer_socket());
    let source = DataSourceDescriptor { name: Some("texts".to_owned()), ..Default::default() };
    let producer = thread::spawn(move || serve(address, "texts", &source, write));
    world.wait_for_data_source("texts");
    let mut consumer = world.consumer();
    let mut config = config("buffers { size_kb: 256 } data_sources { config { name: \"texts\" } }");
    TraceConfig { trace_filter: Some(filter()), ..Default::default() }.encode(&mut config).expect("memory");
    consumer.enable_tracing(config, None).expect("a session");
    consumer.flush(TIMEOUT, 0).expect("a flush");
    consumer.disable().expect("the end");
    let mut packets = Vec::new();
    let mut read = |packet: &[u8]| {
        let data = TracePacket::decode(packet).expect("a packet").data;
        if matches!(data, Some(Data::ForTesting(_))) {
            packets.push(packet.to_vec());
        }
        Ok(())
    };
    consumer.read_buffers(&mut read).expect("the packets");
    let stats = consumer.stats().expect("statistics").filter_stats.expect("the session has a filter");
    world.kill_service();
    producer.join().expect("the producer ends with the service");
    (packets, stats)
}

#[test]
fn the_same_is_left_of_the_same_packets() {
    let peers = need!(both());
    let [(theirs, their_stats), (ours, our_stats)] =
        [Maker::Upstream, Maker::Ferretto].map(|maker| recorded(&mut World::with_traced(&peers, maker)));
    assert_eq!(ours.len(), TEXTS.len());
    assert_eq!(ours, theirs);
    // In the field that is kept as it is; the others say P60.
    assert_eq!(ours.concat().windows(3).filter(|bytes| bytes == b"bob").count(), 1);
    assert_eq!((our_stats.errors(), their_stats.errors()), (1, 1));
    assert_eq!(our_stats.bytes_discarded_per_buffer.len(), their_stats.bytes_discarded_per_buffer.len());
    assert!(our_stats.time_taken_ns() > 0);
}
