//! Rules for strings that are as slow as expressions can be, and strings that are as bad for them.
//!
//! There are two ways: as many rules as there may be, none of which is sure before the last byte, and one rule that looks at the rest of
//! the string for each letter. That takes ten seconds for a string of 8 KB, so a shorter one does.

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
    asks_for_kib: 16 * 1024,
    is_slow: true,
    run: |target| run(target, &MANY_RULES),
};

pub(crate) const REPEATED: Case = Case {
    name: "filters_repeated",
    tells: "a trace filter with one rule whose search is repeated for each letter, and goes to the end of the string",
    run: |target| run(target, &REPEATED_SEARCH),
    ..CASE
};

pub(crate) const COMPILED: Case = Case {
    name: "filters_compiled",
    tells: "trace filters with as many rules as there can be, asked for again and again",
    run: |target| run(target, &MUCH_TO_COMPILE),
    ..CASE
};

/// One of the ways.
struct Way {
    policy: StringFilterPolicy,
    pattern: &'static str,
    /// So many rules that the service refuses them, or one; and half of that again and again until it takes them.
    rules: usize,
    string_bytes: usize,
    packets: u32,
}

/// No automaton of a size that anybody has knows how long ago each `a` was.
const MANY_RULES: Way = Way {
    policy: StringFilterPolicy::SfpMatchRedactGroups,
    pattern: "[ab]*a[ab]{90}c",
    rules: 512,
    string_bytes: 8192,
    packets: 2,
};

const REPEATED_SEARCH: Way = Way {
    policy: StringFilterPolicy::SfpAtraceRepeatedSearchRedactGroups,
    pattern: "[ab]*a[ab]{12}[cd]|([ab])",
    rules: 1,
    string_bytes: 1500,
    packets: 4,
};

const MUCH_TO_COMPILE: Way = Way {
    policy: StringFilterPolicy::SfpMatchRedactGroups,
    pattern: "(?:[ab]*a[ab]{20}|[ab]*b[ab]{21}|[ab]*a[ab]{22}|[ab]*b[ab]{23})c",
    rules: 512,
    string_bytes: 100,
    packets: 1,
};

const BUFFERS: std::ops::Range<u32> = 2..4;
/// Of `TestEvent`.
const TEXT: u32 = 1;

fn run(target: &Target, way: &Way) -> io::Result<()> {
    let mut producer = target.producer("filtered", 4096 * 16)?;
    producer.listen()?;
    let name = Some("filtered".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let (mut rules, mut tried, mut refusal) = (way.rules, 0, None);
    while tried == 0 && rules > 0 && target.goes_on() {
        let mut consumer = target.consumer()?;
        match consumer.try_to_enable(&filtered(way, rules))? {
            Some(why) => {
                refusal = Some(why);
                rules /= 2;
                continue;
            }
            None => tried += 1,
        }
        for number in 0..way.packets {
            for buffer in BUFFERS {
                producer.commit(&commit(way, number, buffer))?;
            }
        }
        producer.sync()?;
        let answer = consumer.ask("ReadBuffers", &ReadBuffersRequest::default())?;
        let bytes = way.packets as usize * way.string_bytes;
        Refused::unless(answer.bytes > bytes, "the strings were not read back")?;
    }
    Refused::unless(tried > 0, &format!("no filter was taken: {}", refusal.unwrap_or_default()))
}

fn filtered(way: &Way, rules: usize) -> Vec<u8> {
    let text = "buffers { size_kb: 16384 } data_sources { config { name: 'filtered' } }";
    let rule = StringFilterRule {
        policy: Some(way.policy as i32),
        regex_pattern: Some(way.pattern.to_owned()),
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
fn commit(way: &Way, number: u32, buffer: u32) -> CommitDataRequest {
    let mut state = number.wrapping_add(7);
    let letter = |_| {
        // The low bits of such a generator go round soon.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    };
    let payload: String = (0..way.string_bytes).map(letter).collect();
    // Of the kind that atrace writes: for the rules that want it.
    let text = match way.policy {
        StringFilterPolicy::SfpAtraceRepeatedSearchRedactGroups => format!("B|1|{payload}"),
        _ => payload,
    };
    let event = TestEvent { str: Some(text), ..Default::default() };
    let packet = TracePacket { data: Some(trace_packet::Data::ForTesting(event)), ..Default::default() }
        .encode_to_vec();
    let mut data = number.to_le_bytes().to_vec();
    data.extend([1, 0, 1, 0]);
    prost::encoding::encode_varint(packet.len() as u64, &mut data);
    data.extend(packet);
    let chunk = ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
    CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() }
}
