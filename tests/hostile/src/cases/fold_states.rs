//! Names and tracks by the million, in rings that fold: kept as the sequences' states, changed by one packet, copied by clones and said to
//! their readers.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{CloneSessionRequest, DataSourceDescriptor, FreeBuffersRequest, ReadBuffersRequest};
use prost::encoding::encode_varint;

use crate::chunks::{chunk, commit_all};
use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "fold_states",
    tells: "1.5 million names in each of four rings of 1 GiB that fold, which are cloned, and as many tracks, all of another age at once",
    needs_many: false,
    asks_for_kib: 4 * RINGS as u64 * ENTRIES as u64 * 10 / 1024,
    is_slow: true,
    run,
};

const RINGS: u32 = 4;
const RING_KIB: u32 = 1024 * 1024;
const ENTRIES: u32 = 1_500_000;
const ENTRIES_PER_CHUNK: usize = 900;
/// The session of the honest has the first buffer.
const FIRST: u32 = 2;
const NAMES: u16 = 1;
const TRACKS: u16 = 2;
/// `sequence_flags`: `SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: [u8; 2] = [0x68, 1];

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("states", 4096 * 16)?;
    producer.listen()?;
    let name = Some("states".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let rings: String = (0..RINGS)
        .map(|index| {
            format!(
                "buffers {{ size_kb: {RING_KIB} fold_overwritten: true }} \
                 data_sources {{ config {{ name: 'states' target_buffer: {index} }} }}"
            )
        })
        .collect();
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!("{rings} unique_session_name: 'states'")))?;
    for ring in FIRST..FIRST + RINGS {
        say_all(&mut producer, ring, NAMES, &name_of)?;
        consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
    }
    say_all(&mut producer, FIRST, TRACKS, &track_of)?;
    consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
    let written: u64 = consumer.stats()?.buffer_stats.iter().map(|ring| ring.bytes_written()).sum();
    let least = u64::from(ENTRIES) * u64::from(RINGS) * 7;
    Refused::unless(written > least, "nothing was written")?;
    let selector = Some(Selector::UniqueSessionName("states".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    for round in 1..4 {
        for writer in [NAMES, TRACKS] {
            let id = u32::MAX / 4 * round;
            commit_all(
                &mut producer,
                std::iter::once(chunk(FIRST, writer, id, 1, 0, &packet(&[0x08, 1]))),
                1,
            )?;
        }
        let mut cloner = target.consumer()?;
        cloner.call("CloneSession", &clone)?;
        cloner.call("ReadBuffers", &ReadBuffersRequest::default())?;
        cloner.call("FreeBuffers", &FreeBuffersRequest::default())?;
        let id = u32::MAX / 4 * round + 1;
        commit_all(&mut producer, std::iter::once(chunk(FIRST, TRACKS, id, 1, 0, &packet(&CLEARED))), 1)?;
        consumer.call("ReadBuffers", &ReadBuffersRequest::default())?;
    }
    Ok(())
}

/// A packet for each; the first clears the state.
fn say_all(producer: &mut Client, ring: u32, writer: u16, of: &dyn Fn(u32) -> Vec<u8>) -> io::Result<()> {
    let entries: Vec<u32> = (1..=ENTRIES).collect();
    let chunks = (0..).zip(entries.chunks(ENTRIES_PER_CHUNK)).map(|(id, entries)| {
        let mut payload = if id == 0 { packet(&CLEARED) } else { Vec::new() };
        entries.iter().for_each(|number| payload.extend(packet(&of(*number))));
        let fragments = entries.len() + usize::from(id == 0);
        chunk(ring, writer, id, u16::try_from(fragments).unwrap_or(u16::MAX), 0, &payload)
    });
    commit_all(producer, chunks, 10)
}

/// A fragment.
fn packet(bytes: &[u8]) -> Vec<u8> {
    let mut fragment = Vec::with_capacity(bytes.len() + 1);
    encode_varint(bytes.len() as u64, &mut fragment);
    fragment.extend(bytes);
    fragment
}

/// `interned_data` with an entry that has a number and nothing else.
fn name_of(number: u32) -> Vec<u8> {
    let entry = numbered(number);
    let mut bytes = vec![0x62, entry.len() as u8 + 2, 0x2a, entry.len() as u8];
    bytes.extend(entry);
    bytes
}

/// `track_descriptor` with the same.
fn track_of(number: u32) -> Vec<u8> {
    let entry = numbered(number);
    let mut bytes = vec![0xe2, 0x03, entry.len() as u8];
    bytes.extend(entry);
    bytes
}

fn numbered(number: u32) -> Vec<u8> {
    let mut bytes = vec![0x08];
    encode_varint(u64::from(number), &mut bytes);
    bytes
}
