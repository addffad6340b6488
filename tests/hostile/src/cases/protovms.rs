//! ProtoVMs that take all the steps they may.

use std::io;
use std::thread;
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, SyncRequest, commit_data_request::ChunksToMove, text,
};

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "protovms",
    tells: "32 ProtoVMs that take all the steps they may for one packet",
    needs_many: false,
    asks_for_kib: 1024,
    is_slow: true,
    run,
};

const VMS: usize = 32;
/// They look for the field 900, and then for each of the fields 1 in it.
const INSTRUCTION: &str =
    "instructions { abort_level: SKIP_CURRENT_INSTRUCTION select { cursor: VM_CURSOR_SRC
    relative_path { field_id: 900 } relative_path { field_id: 1 is_repeated: true } } }";
const FIELDS: usize = 27_000;
const PAUSE: Duration = Duration::from_millis(100);

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("vm", 4096 * 16)?;
    producer.listen()?;
    for number in 0..VMS {
        let text = format!("version: {number} {}", INSTRUCTION.repeat(300));
        let program = text::parse("perfetto.protos.VmProgram", &text).map_err(io::Error::other)?;
        producer.register(&DataSourceDescriptor {
            name: Some(format!("vm{number}")),
            no_flush: Some(true),
            protovm_program: Some(program.into()),
            ..Default::default()
        })?;
    }
    while target.goes_on() {
        let mut consumer = target.consumer()?;
        let sources: String = (0..VMS)
            .map(|number| {
                format!("data_sources {{ config {{ name: 'vm{number}' protovm_config {{ memory_limit_kb: 100 }} }} }}")
            })
            .collect();
        consumer.have_enabled(&config(&format!("buffers {{ size_kb: 64 }} {sources}")))?;
        // Whatever the number of its buffer is.
        for (id, buffer) in (0..4).flat_map(|id| (1..20).map(move |buffer| (id, buffer))) {
            producer.commit(&CommitDataRequest {
                chunks_to_move: vec![chunk(id, buffer)],
                ..Default::default()
            })?;
        }
        producer.call("Sync", &SyncRequest::default())?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// One packet that fills most of the ring.
fn chunk(id: u32, buffer: u32) -> ChunksToMove {
    let mut packet = Vec::new();
    prost::encoding::encode_varint(900 << 3 | 2, &mut packet);
    prost::encoding::encode_varint(2 * FIELDS as u64, &mut packet);
    packet.extend([0x08, 1].repeat(FIELDS));
    let mut data = id.to_le_bytes().to_vec();
    data.extend([1, 0, 1, 0]);
    prost::encoding::encode_varint(packet.len() as u64, &mut data);
    data.extend(packet);
    ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() }
}
