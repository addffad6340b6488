//! Programs of ProtoVMs that cannot be used, which shows at their very end only, wanted again and again.

use std::io;

use ferretto_interop::config;
use ferretto_protos::DataSourceDescriptor;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "vm_refused",
    tells: "4,096 data sources whose programs of 110 KB are too deep at their end",
    needs_many: true,
    asks_for_kib: 1024,
    is_slow: false,
    run,
};

/// As many descriptors of that size as a producer may have are twice as many.
const REGISTERED: usize = 16;
const CONFIGURED: usize = 4096;
const PROGRAM_BYTES: usize = 109 * 1024;
/// More than a program may have.
const LEVELS: usize = 300;
/// An instruction, and one within it, both empty.
const INSTRUCTION: [u8; 4] = [0x12, 0x02, 0x3a, 0x00];

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("vm", 4096 * 16)?;
    producer.listen()?;
    for number in 0..REGISTERED {
        producer.register(&DataSourceDescriptor {
            name: Some(format!("{number:x}")),
            no_flush: Some(true),
            protovm_program: Some(program().into()),
            ..Default::default()
        })?;
    }
    producer.sync()?;
    let source = |number| {
        format!("data_sources {{ config {{ name: '{number:x}' protovm_config {{ memory_limit_kb: 1 }} }} }}")
    };
    let sources: String = (0..CONFIGURED).map(|number| source(number % REGISTERED)).collect();
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!("buffers {{ size_kb: 64 }} {sources}")))?;
    let losses = consumer.stats()?.losses.unwrap_or_default();
    let refused: u64 = losses.buffers.iter().map(|buffer| buffer.protovms_off()).sum();
    Refused::unless(refused as usize == CONFIGURED, "a program was not looked at")
}

fn program() -> Vec<u8> {
    let mut bytes = INSTRUCTION.repeat(PROGRAM_BYTES / INSTRUCTION.len());
    let deep = (0..LEVELS).fold(Vec::new(), |inner, _| {
        let mut outer = Vec::new();
        prost::encoding::bytes::encode(7, &inner, &mut outer);
        outer
    });
    prost::encoding::bytes::encode(2, &deep, &mut bytes);
    bytes
}
