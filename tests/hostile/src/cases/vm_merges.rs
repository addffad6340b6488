//! ProtoVMs whose merges make fields and delete them again, and abort at the end of a packet.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, SyncRequest, commit_data_request::ChunksToMove, text,
};

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "vm_merges",
    tells: "packets of 1.9 MB that 32 ProtoVMs merge in turn, and abort",
    needs_many: false,
    asks_for_kib: 4096,
    is_slow: true,
    run,
};

const VMS: usize = 32;
const MERGE: &str = "instructions { select { cursor: VM_CURSOR_SRC relative_path { field_id: 900 } }
    nested_instructions { merge { del_if_src_empty: true } } }";
/// Fields that are made and deleted.
const PAIRS: usize = 470_000;
const PIECE_BYTES: usize = 60_000;
const CONTINUED: u16 = 1;
const CONTINUES: u16 = 2;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("vm", 4096 * 16)?;
    producer.listen()?;
    for number in 0..VMS {
        let program = text::parse("perfetto.protos.VmProgram", &format!("version: {number} {MERGE}"))
            .map_err(io::Error::other)?;
        producer.register(&DataSourceDescriptor {
            name: Some(format!("vm{number}")),
            no_flush: Some(true),
            protovm_program: Some(program.into()),
            ..Default::default()
        })?;
    }
    let mut consumer = target.consumer()?;
    let sources: String = (0..VMS)
        .map(|number| {
            format!(
                "data_sources {{ config {{ name: 'vm{number}' protovm_config {{ memory_limit_kb: 1 }} }} }}"
            )
        })
        .collect();
    consumer.have_enabled(&config(&format!("buffers {{ size_kb: 4096 }} {sources}")))?;
    let packet = packet();
    let mut id = 0;
    while target.goes_on() {
        // Whatever the number of its buffer is.
        for buffer in 1..20 {
            let pieces: Vec<&[u8]> = packet.chunks(PIECE_BYTES).collect();
            for (index, piece) in pieces.iter().enumerate() {
                let before = if index > 0 { CONTINUED } else { 0 };
                let after = if index + 1 < pieces.len() { CONTINUES } else { 0 };
                producer.commit(&CommitDataRequest {
                    chunks_to_move: vec![chunk(id, buffer, before | after, piece)],
                    ..Default::default()
                })?;
                id += 1;
            }
        }
        producer.call("Sync", &SyncRequest::default())?;
    }
    Ok(())
}

/// No memory grows, and there is no room for the last field.
fn packet() -> Vec<u8> {
    let mut fields = [0x08, 1, 0x0a, 0].repeat(PAIRS);
    prost::encoding::bytes::encode(2, &vec![0x55; 2000], &mut fields);
    let mut packet = Vec::new();
    prost::encoding::bytes::encode(900, &fields, &mut packet);
    packet
}

fn chunk(id: u32, buffer: u32, flags: u16, piece: &[u8]) -> ChunksToMove {
    let mut data = id.to_le_bytes().to_vec();
    data.extend(1_u16.to_le_bytes());
    data.extend((1 | flags << 10).to_le_bytes());
    prost::encoding::encode_varint(piece.len() as u64, &mut data);
    data.extend(piece);
    ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() }
}
