//! A ring in whose first place lies what comes last in its sequence: with it goes all that comes before.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor, commit_data_request::ChunksToMove, text};
use prost::encoding::encode_varint;

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const VMS: Case = Case {
    name: "evict_order_vms",
    tells: "a ring of 64 MiB whose first chunk comes last, and a ProtoVM that takes what goes",
    needs_many: false,
    asks_for_kib: RING_KIB,
    is_slow: true,
    run: |target| run(target, ""),
};

pub(crate) const FOLDS: Case = Case {
    name: "evict_order_folds",
    tells: "the same in a ring that folds, too",
    run: |target| run(target, "fold_overwritten: true "),
    ..VMS
};

const RING_KIB: u64 = 64 * 1024;
/// The session of the honest has the first buffer.
const BUFFER: u32 = 2;
const LAST: u32 = 1 << 30;
/// A program that goes through all of a packet, three times, and takes nothing of it.
const LOOK: &str = "instructions { abort_level: SKIP_CURRENT_INSTRUCTION select { cursor: VM_CURSOR_SRC \
    relative_path { field_id: 900 } relative_path { field_id: 1 is_repeated: true } } }";
const FIELDS: usize = 27_000;

fn run(target: &Target, mode: &str) -> io::Result<()> {
    let mut producer = target.producer("ordered", 4096 * 16)?;
    producer.listen()?;
    let program = text::parse("perfetto.protos.VmProgram", &format!("version: 1 {}", LOOK.repeat(3)))
        .map_err(io::Error::other)?;
    producer.register(&DataSourceDescriptor {
        name: Some("ordered".to_owned()),
        no_flush: Some(true),
        protovm_program: Some(program.into()),
        ..Default::default()
    })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {RING_KIB} {mode}}} \
         data_sources {{ config {{ name: 'ordered' protovm_config {{ memory_limit_kb: 1024 }} }} }}"
    )))?;
    let packet = packet();
    let mut ids = 0..;
    while target.goes_on() {
        commit(&mut producer, 1, LAST, &packet)?;
        for _ in 0..RING_KIB as usize * 1024 / packet.len() + 2 {
            commit(&mut producer, 1, ids.next().unwrap_or_default(), &packet)?;
        }
        producer.sync()?;
        let stats = consumer.stats()?;
        let overwritten: u64 = stats.buffer_stats.iter().map(|buffer| buffer.chunks_overwritten()).sum();
        Refused::unless(overwritten > 0, "nothing was overwritten")?;
    }
    Ok(())
}

fn commit(producer: &mut Client, writer: u16, id: u32, packet: &[u8]) -> io::Result<()> {
    let mut data = id.to_le_bytes().to_vec();
    data.extend(writer.to_le_bytes());
    data.extend(1_u16.to_le_bytes());
    data.extend(packet);
    let chunk = ChunksToMove { target_buffer: Some(BUFFER), data: Some(data.into()), ..Default::default() };
    producer.commit(&CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() })
}

/// With its size before it.
fn packet() -> Vec<u8> {
    let mut packet = Vec::new();
    prost::encoding::bytes::encode(900, &[0x08, 1].repeat(FIELDS), &mut packet);
    let mut sized = Vec::new();
    encode_varint(packet.len() as u64, &mut sized);
    sized.extend(packet);
    sized
}
