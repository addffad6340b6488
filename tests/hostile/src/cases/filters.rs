//! Rules for strings that are as slow as expressions can be, and strings that are as bad for them.

use std::io;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::trace_config::trace_filter::{StringFilterChain, StringFilterPolicy, StringFilterRule};
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest, TestEvent, TraceConfig, TracePacket, fields,
    trace_packet,
};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "filters",
    tells: "a trace filter with as many rules as there can be, each of which sees ninety states at a byte",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const BUFFERS: std::ops::Range<u32> = 2..4;
const PACKETS: u32 = 16;
const STRING_BYTES: usize = 8192;
/// No automaton of a size that anybody has knows how long ago each `a` was.
const PATTERN: &str = "[ab]*a[ab]{90}c";
/// So many that the service refuses them, and half of that again and again until it takes them.
const MOST_RULES: usize = 512;
/// Of `TestEvent`.
const TEXT: u32 = 1;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("filtered", 4096 * 16)?;
    producer.listen()?;
    let name = Some("filtered".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let (mut rules, mut tried, mut refusal) = (MOST_RULES, 0, None);
    while rules > 0 && target.goes_on() {
        let mut consumer = target.consumer()?;
        match consumer.try_to_enable(&filtered(rules))? {
            Some(why) => refusal = Some(why),
            None => tried += 1,
        }
        for number in 0..PACKETS {
            for buffer in BUFFERS {
                producer.commit(&commit(number, buffer))?;
            }
        }
        consumer.settle()?;
        consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
        rules /= 2;
    }
    Refused::unless(tried > 0, &format!("no filter was taken: {}", refusal.unwrap_or_default()))
}

fn filtered(rules: usize) -> Vec<u8> {
    let text = "buffers { size_kb: 16384 } data_sources { config { name: 'filtered' } }";
    let rule = StringFilterRule {
        policy: Some(StringFilterPolicy::SfpMatchRedactGroups as i32),
        regex_pattern: Some(PATTERN.to_owned()),
        ..Default::default()
    };
    let chain = StringFilterChain { rules: vec![rule; rules] };
    let filter = TraceFilter {
        bytecode_v2: Some(program().into()),
        string_filter_chain: Some(chain),
        ..Default::default()
    };
    let mut bytes = config(text);
    bytes.extend(TraceConfig { trace_filter: Some(filter), ..Default::default() }.encode_to_vec());
    bytes
}

/// Strings of test events are what the rules are for.
fn program() -> Vec<u8> {
    let mut builder = BytecodeBuilder::new();
    let (trace, packet, event) = (builder.message(), builder.message(), builder.message());
    builder.nested(trace, fields::trace::PACKET, packet);
    builder.nested(packet, fields::trace_packet::FOR_TESTING, event).string(event, TEXT, 0);
    builder.build().map(|built| built.bytecode_v2).unwrap_or_default()
}

/// A packet in a chunk of its own.
fn commit(number: u32, buffer: u32) -> CommitDataRequest {
    let letter = |index: usize| if index.wrapping_mul(2_654_435_761) >> 13 & 1 == 0 { 'a' } else { 'b' };
    let event = TestEvent { str: Some((0..STRING_BYTES).map(letter).collect()), ..Default::default() };
    let packet = TracePacket { data: Some(trace_packet::Data::ForTesting(event)), ..Default::default() }
        .encode_to_vec();
    let mut data = number.to_le_bytes().to_vec();
    data.extend([1, 0, 1, 0]);
    prost::encoding::encode_varint(packet.len() as u64, &mut data);
    data.extend(packet);
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
