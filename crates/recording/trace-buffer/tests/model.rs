//! The buffer against a plain model: a list of packets for each writer.
//!
//! Random writers cut random packets into chunks as a trace writer does: a packet that does not fit goes on in
//! the next chunk, and the part that stays behind has its size patched in later, or not at all. Compaction, at
//! any time between reads, is not to be noticed.

use std::collections::BTreeMap;

use ferretto_trace_buffer::{
    Chunk, ClientIdentity, FillPolicy, OverwriteSink, Packet, Patch, ProducerId, TraceBuffer, chunk_flags,
};
use proptest::prelude::*;

/// A chunk that a writer has finished, to be committed or lost.
#[derive(Debug, Clone, Default)]
struct Finished {
    writer: u16,
    chunk_id: u32,
    num_fragments: u16,
    flags: u8,
    payload: Vec<u8>,
    /// Where the size of the last fragment has to be patched in, and the size.
    patch: Option<(u32, [u8; 4])>,
}

/// Cuts packets into chunks with payloads of at most `chunk_size`.
#[derive(Debug)]
struct Writer {
    open: Finished,
    chunk_size: usize,
    finished: Vec<Finished>,
}

/// A size in four bytes, however small it is, as trace writers reserve room for it.
fn long_varint(size: usize) -> [u8; 4] {
    [0, 7, 14, 21].map(|shift| (size >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 })
}

impl Writer {
    fn new(writer: u16, chunk_size: usize, first_chunk_id: u32) -> Self {
        let open = Finished { writer, chunk_id: first_chunk_id, ..Finished::default() };
        Self { open, chunk_size, finished: Vec::new() }
    }

    fn write(&mut self, mut packet: &[u8]) {
        loop {
            let room = self.chunk_size - self.open.payload.len();
            if room >= 5 {
                let here = packet.len().min(room - 4);
                let header_at = self.open.payload.len();
                self.open.payload.extend(long_varint(here));
                self.open.payload.extend(&packet[..here]);
                self.open.num_fragments += 1;
                packet = &packet[here..];
                if packet.is_empty() {
                    return;
                }
                self.open.flags |= chunk_flags::LAST_CONTINUES_ON_NEXT | chunk_flags::NEEDS_PATCHING;
                self.open.payload[header_at..header_at + 4].copy_from_slice(&long_varint(here));
                self.open.patch = Some((header_at as u32, long_varint(here)));
            }
            self.next_chunk();
        }
    }

    fn next_chunk(&mut self) {
        let continues = self.open.flags & chunk_flags::LAST_CONTINUES_ON_NEXT != 0;
        let flags = if continues { chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS } else { 0 };
        let next = Finished {
            writer: self.open.writer,
            chunk_id: self.open.chunk_id.wrapping_add(1),
            flags,
            ..Finished::default()
        };
        self.finished.push(std::mem::replace(&mut self.open, next));
    }
}

/// Packet `number` of a writer: its number, then filling.
fn packet(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = (number as u32).to_le_bytes().to_vec();
    bytes.resize(4 + size, number as u8);
    bytes
}

#[derive(Debug, Clone)]
struct Workload {
    first_chunk_id: u32,
    chunk_size: usize,
    /// Writer and size of each packet.
    packets: Vec<(u16, usize)>,
}

/// Writers and the chunks they finish, in the order of finishing.
fn finished_chunks(workload: &Workload) -> Vec<Finished> {
    let mut writers: BTreeMap<u16, (Writer, usize)> = BTreeMap::new();
    let mut chunks = Vec::new();
    for &(id, size) in &workload.packets {
        let (writer, count) = writers
            .entry(id)
            .or_insert_with(|| (Writer::new(id, workload.chunk_size, workload.first_chunk_id), 0));
        writer.write(&packet(*count, size));
        *count += 1;
        chunks.append(&mut writer.finished);
    }
    for (mut writer, _) in writers.into_values() {
        writer.next_chunk();
        chunks.append(&mut writer.finished);
    }
    chunks
}

fn commit(buffer: &mut TraceBuffer, chunk: &Finished) {
    commit_with(buffer, chunk, &mut ());
}

fn commit_with(buffer: &mut TraceBuffer, chunk: &Finished, sink: &mut impl OverwriteSink) {
    let chunk = Chunk {
        producer: ProducerId(1),
        client: ClientIdentity::default(),
        writer: chunk.writer,
        chunk_id: chunk.chunk_id,
        num_fragments: chunk.num_fragments,
        flags: chunk.flags,
        complete: true,
        payload: &chunk.payload,
    };
    buffer.copy_chunk_with(&chunk, sink);
}

fn patch(buffer: &mut TraceBuffer, chunk: &Finished) -> bool {
    chunk.patch.is_none_or(|(offset, data)| {
        buffer.try_patch(ProducerId(1), chunk.writer, chunk.chunk_id, &[Patch { offset, data }], false)
    })
}

/// Number and loss of the packets of each writer.
type Seen = BTreeMap<u16, Vec<(usize, u32)>>;

fn read(buffer: &mut TraceBuffer, max: usize, seen: &mut Seen) {
    buffer.begin_read();
    for _ in 0..max {
        let Some(found) = buffer.read_next() else { return };
        seen.entry(found.writer).or_default().push((number_of(&found), found.loss));
    }
}

fn number_of(packet: &Packet<'_>) -> usize {
    let bytes = packet.to_vec();
    let number = u32::from_le_bytes(bytes[..4].try_into().expect("at least four bytes")) as usize;
    assert!(bytes[4..].iter().all(|&byte| byte == number as u8), "a packet's bytes are its own");
    number
}

/// The numbers of the packets that were overwritten.
struct Overwritten<'a>(&'a mut Vec<usize>);

impl OverwriteSink for Overwritten<'_> {
    fn wants(&self, _producer: ProducerId) -> bool {
        true
    }

    fn take(&mut self, packet: &Packet<'_>) {
        self.0.push(number_of(packet));
    }
}

fn workloads() -> impl Strategy<Value = Workload> {
    let packet = (1u16..4, prop_oneof![0usize..40, 0usize..700]);
    let first_id = prop_oneof![Just(0u32), Just(u32::MAX - 3)];
    (first_id, 24usize..400, proptest::collection::vec(packet, 1..120))
        .prop_map(|(first_chunk_id, chunk_size, packets)| Workload { first_chunk_id, chunk_size, packets })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// With room for everything, each packet comes back once, in order and whole, when chunks come late within a
    /// batch (as scraping makes them) and patches later still.
    #[test]
    fn a_large_ring_gives_back_everything(
        workload in workloads(),
        batch_size in 1usize..8,
        rotate in 0usize..8,
        max_read in prop_oneof![Just(usize::MAX), 0usize..20],
        compacts in any::<bool>(),
    ) {
        let mut buffer = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
        let mut seen = Seen::new();
        let mut chunks = finished_chunks(&workload);
        for batch in chunks.chunks_mut(batch_size) {
            batch.rotate_left(rotate % batch.len());
            batch.iter().for_each(|chunk| commit(&mut buffer, chunk));
            read(&mut buffer, max_read, &mut seen);
            if compacts {
                let used = buffer.used_size();
                buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
                prop_assert!(buffer.used_size() <= used);
            }
            for chunk in batch.iter() {
                prop_assert!(patch(&mut buffer, chunk), "a chunk that needs patching stays until it is patched");
            }
        }
        read(&mut buffer, usize::MAX, &mut seen);

        for (writer, numbers) in seen {
            let wrote = workload.packets.iter().filter(|(id, _)| *id == writer).count();
            prop_assert_eq!(numbers, (0..wrote).map(|number| (number, 0)).collect::<Vec<_>>());
        }
        prop_assert_eq!(buffer.stats().abi_violations, 0);
        prop_assert_eq!(buffer.stats().chunks_overwritten, 0);
        prop_assert_eq!(buffer.stats().compactions_skipped, 0, "the ring never wrapped");
        if compacts {
            buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
            prop_assert_eq!(buffer.used_size(), 0, "nothing is unread");
        }
    }

    /// In a small ring, with chunks and patches lost, what comes back is in order, and whenever a packet is
    /// missing the next one says so.
    #[test]
    fn a_small_ring_tells_every_loss(
        workload in workloads(),
        lost in proptest::collection::vec(0u8..12, 64),
        reads in proptest::collection::vec((0u8..6, 0usize..30, any::<bool>()), 64),
    ) {
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        let mut seen = Seen::new();
        for (index, chunk) in finished_chunks(&workload).iter().enumerate() {
            match lost[index % lost.len()] {
                0 => {}
                1 => commit(&mut buffer, chunk), // never patched
                _ => {
                    commit(&mut buffer, chunk);
                    patch(&mut buffer, chunk);
                }
            }
            let (when, max, compacts) = reads[index % reads.len()];
            if when == 0 {
                read(&mut buffer, max, &mut seen);
            }
            if when == 0 && compacts {
                buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
            }
        }
        read(&mut buffer, usize::MAX, &mut seen);

        for numbers in seen.values() {
            let mut expected = numbers[0].0;
            for &(number, loss) in numbers {
                prop_assert!(number >= expected, "in order, and none twice");
                prop_assert!(number == expected || loss != 0, "packets before {number} are missing without a word");
                expected = number + 1;
            }
        }
    }

    /// What a small ring overwrites and what it gives back is, together and in this order, everything that was
    /// written: nothing is lost to who takes both.
    #[test]
    fn a_small_ring_gives_away_what_it_overwrites(
        mut workload in workloads(),
        reads in proptest::collection::vec((0u8..20, 0usize..30, any::<bool>()), 64),
    ) {
        workload.packets.iter_mut().for_each(|(writer, _)| *writer = 1);
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        let mut numbers = Vec::new();
        let read_now = |buffer: &mut TraceBuffer, max, numbers: &mut Vec<usize>| {
            let mut seen = Seen::new();
            read(buffer, max, &mut seen);
            numbers.extend(seen.into_values().flatten().map(|(number, _)| number));
        };
        for (index, chunk) in finished_chunks(&workload).iter().enumerate() {
            commit_with(&mut buffer, chunk, &mut Overwritten(&mut numbers));
            patch(&mut buffer, chunk);
            let (when, max, compacts) = reads[index % reads.len()];
            if when == 0 {
                read_now(&mut buffer, max, &mut numbers);
            }
            if when == 0 && compacts {
                buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
            }
        }
        read_now(&mut buffer, usize::MAX, &mut numbers);
        prop_assert_eq!(numbers, (0..workload.packets.len()).collect::<Vec<_>>());
    }
}
