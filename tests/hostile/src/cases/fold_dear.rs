//! Rings that fold, full of small packets each of which is dear to fold.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{
    CloneSessionRequest, CommitDataRequest, DataSourceDescriptor, FreeBuffersRequest,
    commit_data_request::ChunksToMove,
};
use prost::encoding::{bytes, encode_varint};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const COUNTERS: Case = Case {
    name: "fold_counters",
    tells: "events of 4 bytes, whose defaults name 19,000 counters, in a ring that folds, and clones that take it along",
    needs_many: false,
    asks_for_kib: 2 * RING_KIB,
    is_slow: true,
    run: |target| run(target, &counters(), &sized(&field(TRACK_EVENT, &[12 << 3, 1])).repeat(1000), 1000),
};

pub(crate) const CLOCKS: Case = Case {
    name: "fold_clocks",
    tells: "snapshots of 64 clocks, none of which takes the place of another, likewise",
    run: |target| {
        let snapshots: Vec<Vec<u8>> =
            (0..64).map(|own| sized(&field(CLOCK_SNAPSHOT, &clocks(own)))).collect();
        run(target, &[], &snapshots.concat(), 64)
    },
    ..COUNTERS
};

const RING_KIB: u64 = 8 * 1024;
/// The session of the honest has the first buffer.
const BUFFER: u32 = 2;
/// Of TracePacket.
const CLOCK_SNAPSHOT: u32 = 6;
const TRACK_EVENT: u32 = 11;
const DEFAULTS: u32 = 59;
const TRACK_DESCRIPTOR: u32 = 60;

/// Fills the ring, and goes on; each time a clone takes it along.
fn run(target: &Target, first: &[u8], packets: &[u8], count: u16) -> io::Result<()> {
    let mut producer = target.producer("dear", 4096 * 16)?;
    producer.listen()?;
    let name = Some("dear".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {RING_KIB} fold_overwritten: true transfer_on_clone: true }} \
         unique_session_name: 'dear' data_sources {{ config {{ name: 'dear' }} }}"
    )))?;
    let selector = Some(Selector::UniqueSessionName("dear".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    let mut cloner = target.consumer()?;
    let chunks = RING_KIB as usize * 1024 / packets.len() * 5 / 4;
    let mut ids = 0..;
    while target.goes_on() {
        if !first.is_empty() {
            commit(&mut producer, &mut ids, first, 66)?;
        }
        for _ in 0..chunks {
            commit(&mut producer, &mut ids, packets, count)?;
        }
        producer.sync()?;
        cloner.ask("CloneSession", &clone)?;
        cloner.call("FreeBuffers", &FreeBuffersRequest::default())?;
    }
    Ok(())
}

fn commit(
    producer: &mut Client,
    ids: &mut impl Iterator<Item = u32>,
    packets: &[u8],
    count: u16,
) -> io::Result<()> {
    let id = ids.next().unwrap_or_default();
    let mut data = id.to_le_bytes().to_vec();
    data.extend(1_u16.to_le_bytes());
    data.extend(count.to_le_bytes());
    data.extend(packets);
    let chunk = ChunksToMove { target_buffer: Some(BUFFER), data: Some(data.into()), ..Default::default() };
    producer.commit(&CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() })
}

/// The state begins, with 64 incremental counters, and defaults for thousands.
fn counters() -> Vec<u8> {
    let mut first = sized(&[13 << 3, 1]);
    for uuid in 1..=64_u8 {
        let counter = field(8, &[5 << 3, 1]);
        first.extend(sized(&field(TRACK_DESCRIPTOR, &[&[1 << 3, uuid], &*counter].concat())));
    }
    let tracks: Vec<u8> = [0xf8, 1, 100].repeat(19_000);
    first.extend(sized(&field(DEFAULTS, &field(TRACK_EVENT, &tracks))));
    first
}

/// 63 that all have, and one that no other has.
fn clocks(own: u8) -> Vec<u8> {
    let clock = |id: u64| {
        let mut clock = vec![1 << 3];
        encode_varint(id, &mut clock);
        clock.extend([2 << 3, 1]);
        field(1, &clock)
    };
    (0..63).map(|id| 1000 + id).chain([2000 + u64::from(own)]).flat_map(clock).collect()
}

fn field(number: u32, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes::encode(number, &message.to_vec(), &mut out);
    out
}

/// A packet with its size before it.
fn sized(packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_varint(packet.len() as u64, &mut out);
    out.extend(packet);
    out
}
