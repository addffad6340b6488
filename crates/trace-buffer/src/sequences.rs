//! The table of all sequences.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::ProducerId;
use crate::sequence::{ChunkRef, Sequence};

/// Producer and writer in one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SequenceKey(u32);

impl SequenceKey {
    pub(crate) fn new(producer: ProducerId, writer: u16) -> Self {
        Self(u32::from(producer.0) << 16 | u32::from(writer))
    }

    pub(crate) fn producer(self) -> ProducerId {
        ProducerId((self.0 >> 16) as u16)
    }

    pub(crate) fn writer(self) -> u16 {
        self.0 as u16
    }
}

pub(crate) type KeyHasher = BuildHasherDefault<MixingHasher>;

/// Spreads a 32-bit key with one multiplication.
///
/// Writers choose 16 of the bits. The table's index comes from the product's upper half folded onto its lower,
/// so that no choice of them puts more than a few keys into one place.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MixingHasher(u64);

impl Hasher for MixingHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, key: u32) {
        let product = (self.0 ^ u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15); // 2^64 / golden ratio
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Sequences without chunks that are always kept, the latest ones.
///
/// A sequence must outlive its chunks for a while, or a gap before its next chunk could not be seen
/// (upstream: trace_buffer_v2.cc, `kKeepLastEmptySeq`).
const KEEP_EMPTY: usize = 1024;

/// So many more may gather before the oldest are swept away together.
const EMPTY_SLACK: usize = 128;

/// The state of every writer that has chunks in the buffer or had some lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {
    slot_of: HashMap<SequenceKey, u32, KeyHasher>,
    slots: Vec<Sequence>,
    free_slots: Vec<u32>,
    /// The writer that was looked up last: writers tend to commit several chunks in a row.
    latest: Option<(SequenceKey, u32)>,
    /// How many sequences are without chunks.
    num_empty: usize,
    /// When and which sequences became empty, in this order. Some are not any more.
    emptied: VecDeque<(u64, u32)>,
    num_emptied: u64,
}

impl Sequences {
    pub(crate) fn find(&mut self, key: SequenceKey) -> Option<u32> {
        if let Some((latest, slot)) = self.latest
            && latest == key
        {
            return Some(slot);
        }
        let slot = *self.slot_of.get(&key)?;
        self.latest = Some((key, slot));
        Some(slot)
    }

    /// Adds a sequence that is not there yet.
    pub(crate) fn add(&mut self, sequence: Sequence) -> u32 {
        let key = sequence.key;
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.slots[slot as usize] = sequence;
                slot
            }
            None => {
                self.slots.push(sequence);
                self.slots.len() as u32 - 1 // there are at most 2^32 keys
            }
        };
        self.slot_of.insert(key, slot);
        self.latest = Some((key, slot));
        slot
    }

    pub(crate) fn get(&self, slot: u32) -> &Sequence {
        &self.slots[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Sequence {
        &mut self.slots[slot as usize]
    }

    /// All chunks of all sequences, in no order.
    pub(crate) fn chunks_mut(&mut self) -> impl Iterator<Item = &mut ChunkRef> {
        self.slots.iter_mut().flat_map(Sequence::chunks_mut)
    }

    /// Slot and offset of all chunks.
    #[cfg(test)]
    pub(crate) fn all_chunks(&self) -> impl Iterator<Item = (u32, usize)> {
        let num_empty = self.slots.iter().filter(|sequence| sequence.emptied_as.is_some()).count();
        assert_eq!(num_empty, self.num_empty);
        let slots = (0..).zip(&self.slots);
        slots
            .flat_map(|(slot, sequence)| (0..sequence.len()).map(move |index| (slot, sequence, index)))
            .filter_map(|(slot, sequence, index)| sequence.get(index).map(|chunk| (slot, chunk.offset())))
    }

    pub(crate) fn insert_chunk(&mut self, slot: u32, index: usize, chunk: ChunkRef) {
        let sequence = self.get_mut(slot);
        sequence.insert(index, chunk);
        if sequence.emptied_as.take().is_some() {
            self.num_empty -= 1;
        }
    }

    /// Removes a sequence's first chunk as consumed.
    pub(crate) fn pop_first_chunk(
        &mut self,
        slot: u32,
        payload_size: u16,
        incomplete: bool,
    ) -> Option<ChunkRef> {
        let sequence = &mut self.slots[slot as usize];
        let chunk = sequence.pop_first(payload_size, incomplete)?;
        if sequence.is_empty() {
            self.num_emptied += 1;
            sequence.emptied_as = Some(self.num_emptied);
            self.num_empty += 1;
            self.emptied.push_back((self.num_emptied, slot));
            self.forget_refilled();
        }
        Some(chunk)
    }

    /// Keeps `emptied` from growing when the same sequences empty and fill again and again.
    fn forget_refilled(&mut self) {
        if self.emptied.len() > 2 * (self.num_empty + KEEP_EMPTY) {
            let slots = &self.slots;
            self.emptied.retain(|&(number, slot)| slots[slot as usize].emptied_as == Some(number));
        }
    }

    /// Forgets the sequences that have been empty for longest, if there are many.
    ///
    /// Slots change hands here: no read pass may go on across it.
    pub(crate) fn sweep(&mut self) {
        if self.num_empty <= KEEP_EMPTY + EMPTY_SLACK {
            return;
        }
        while self.num_empty > KEEP_EMPTY
            && let Some((number, slot)) = self.emptied.pop_front()
        {
            let sequence = &mut self.slots[slot as usize];
            if sequence.emptied_as == Some(number) {
                sequence.clear();
                self.slot_of.remove(&sequence.key);
                self.free_slots.push(slot);
                self.num_empty -= 1;
            }
        }
        self.latest = None;
    }
}
