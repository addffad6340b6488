//! The service's own packets, with long names that a slow rule is tried on.

use std::io;

use ferretto_interop::config;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::trace_config::trace_filter::{StringFilterChain, StringFilterPolicy, StringFilterRule};
use ferretto_protos::{ActivateTriggersRequest, ReadBuffersRequest, TraceConfig, fields};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "own_packets",
    tells: "triggers that a session has received, with the longest names, which go through a filter",
    needs_many: true,
    asks_for_kib: 64,
    is_slow: true,
    run,
};

const NAME_BYTES: usize = 512;
/// Every byte is in a group, and there are many ways to it.
const PATTERN: &str = "((?:[A-Z]*[A-M][A-Z]{20}|[A-Z]*[D-T][A-Z]{20}|[A-Z]*[B-Z][A-Z]{18}))([A-Z])";
const TRIGGERS: usize = 1000;
/// Of their names as many as fit into a request.
const AT_ONCE: usize = 200;
/// Of `Trigger`.
const TRIGGER_NAME: u32 = 1;

fn run(target: &Target) -> io::Result<()> {
    let letter = |index: usize| char::from(b'A' + (index.wrapping_mul(2_654_435_761) >> 13) as u8 % 26);
    let name: String = (0..NAME_BYTES).map(letter).collect();
    let mut producer = target.producer("shouter", 4096 * 16)?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&filtered(&name))?;
    for _ in 0..TRIGGERS / AT_ONCE {
        let request = ActivateTriggersRequest { trigger_names: vec![name.clone(); AT_ONCE] };
        producer.send("ActivateTriggers", &request)?;
        producer.sync()?;
    }
    let answer = consumer.ask("ReadBuffers", &ReadBuffersRequest::default())?;
    Refused::unless(answer.bytes > TRIGGERS * NAME_BYTES, "the triggers were not read back")
}

fn filtered(name: &str) -> Vec<u8> {
    let text = format!(
        "buffers {{ size_kb: 64 }} trigger_config {{ trigger_mode: STOP_TRACING trigger_timeout_ms: 600000 \
         triggers {{ name: '{name}' stop_delay_ms: 500000 }} }}"
    );
    let rule = StringFilterRule {
        policy: Some(StringFilterPolicy::SfpMatchRedactGroups as i32),
        regex_pattern: Some(PATTERN.to_owned()),
        ..Default::default()
    };
    let filter = TraceFilter {
        bytecode_v2: Some(program().into()),
        string_filter_chain: Some(StringFilterChain { rules: vec![rule] }),
        ..Default::default()
    };
    let mut bytes = config(&text);
    bytes.extend(TraceConfig { trace_filter: Some(filter), ..Default::default() }.encode_to_vec());
    bytes
}

/// The names of triggers are what the rule is for.
fn program() -> Vec<u8> {
    let mut builder = BytecodeBuilder::new();
    let (trace, packet, trigger) = (builder.message(), builder.message(), builder.message());
    builder.nested(trace, fields::trace::PACKET, packet);
    builder.nested(packet, fields::trace_packet::TRIGGER, trigger).string(trigger, TRIGGER_NAME, 0);
    builder.build().map(|built| built.bytecode_v2).unwrap_or_default()
}
