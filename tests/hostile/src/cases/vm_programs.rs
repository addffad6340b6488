//! Programs of ProtoVMs that are large once they are parsed: in as many sessions as a user may have, and in clones.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{CloneSessionRequest, DataSourceDescriptor, DetachRequest, FreeBuffersRequest};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "vm_programs",
    tells: "32 programs of 110 KB, all of it the least instructions, in five sessions",
    needs_many: false,
    asks_for_kib: 1024,
    is_slow: false,
    run,
};

pub(crate) const CLONES: Case = Case {
    name: "vm_programs_clones",
    tells: "the same in one session, and clones of it",
    run: run_clones,
    ..CASE
};

const VMS: u8 = 32;
/// A user has no more at one time.
const SESSIONS: usize = 5;
const PROGRAM_BYTES: usize = 109 * 1024;
/// An instruction, and one within it, both empty.
const INSTRUCTION: [u8; 4] = [0x12, 0x02, 0x3a, 0x00];

fn run(target: &Target) -> io::Result<()> {
    let _producer = producer(target)?;
    let mut consumer = target.consumer()?;
    for number in 0..SESSIONS {
        consumer.have_enabled(&text(""))?;
        if number + 1 < SESSIONS {
            consumer.call("Detach", &DetachRequest { key: Some(format!("key{number}")) })?;
        }
    }
    Ok(())
}

fn run_clones(target: &Target) -> io::Result<()> {
    let _producer = producer(target)?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&text("unique_session_name: 'vms'"))?;
    let mut cloner = target.consumer()?;
    let selector = Some(Selector::UniqueSessionName("vms".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    while target.goes_on() {
        Refused::unless(cloner.ask("CloneSession", &clone)?.last.is_some(), "a clone was refused")?;
        cloner.call("FreeBuffers", &FreeBuffersRequest::default())?;
    }
    Ok(())
}

fn producer(target: &Target) -> io::Result<Client> {
    let mut producer = target.producer("vm", 4096 * 16)?;
    producer.listen()?;
    for number in 0..VMS {
        // By its version each is another one.
        let program = [vec![0x08, number], INSTRUCTION.repeat(PROGRAM_BYTES / INSTRUCTION.len())].concat();
        producer.register(&DataSourceDescriptor {
            name: Some(format!("vm{number}")),
            no_flush: Some(true),
            protovm_program: Some(program.into()),
            ..Default::default()
        })?;
    }
    producer.sync()?;
    Ok(producer)
}

fn text(more: &str) -> Vec<u8> {
    let source = |number| {
        format!("data_sources {{ config {{ name: 'vm{number}' protovm_config {{ memory_limit_kb: 10 }} }} }}")
    };
    let sources: String = (0..VMS).map(source).collect();
    config(&format!("buffers {{ size_kb: 64 }} {more} {sources}"))
}
