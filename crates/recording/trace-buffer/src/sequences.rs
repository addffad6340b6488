//! The table of all sequences.

use std::collections::{HashMap, VecDeque};

use hashbrown::HashTable;

use crate::sequence::{Consumed, Sequence};
use crate::stats::HistogramIndex;
use crate::{ProducerId, WriterOwner, WritersOfOwner};

/// Producer and writer in one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Spreads the key with one multiplication.
    ///
    /// Writers choose 16 of its bits. A table's index comes from the product's upper half folded onto its lower,
    /// so that no choice of them puts more than a few keys into one place.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        let product = u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15); // 2^64 / golden ratio
        product ^ (product >> 32)
    }
}

/// Sequences without chunks that are always kept, the latest ones.
///
/// A sequence must outlive its chunks for a while, or a gap before its next chunk could not be seen
/// (upstream: trace_buffer_v2.cc, `kKeepLastEmptySeq`).
pub(crate) const KEEP_EMPTY: usize = 1024;

/// So many more may gather before the oldest are swept away together.
const EMPTY_SLACK: usize = 128;

/// So many sequences are allocated together: a list that doubles would have room for twice as many as there are.
const SEQUENCES_PER_BLOCK: usize = 64;

/// The state of every writer that has chunks in the buffer or had some lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {
    slot_of: HashTable<u32>,
    /// Slot n is sequence `n % SEQUENCES_PER_BLOCK` of block `n / SEQUENCES_PER_BLOCK`.
    blocks: Vec<Vec<Sequence>>,
    /// By slot.
    histograms: Vec<HistogramIndex>,
    free_slots: Vec<u32>,
    /// How many each owner has, and slots were made for.
    of_owners: HashMap<WriterOwner, WritersOfOwner>,
    /// How often that has changed.
    changes: u64,
    /// The writer that was looked up last: writers tend to commit several chunks in a row.
    latest: Option<(SequenceKey, u32)>,
    /// Bytes that it takes to know where all chunks are.
    index_bytes: usize,
    /// How many sequences are without chunks.
    num_empty: usize,
    /// When and which sequences became empty, in this order. Some are not any more.
    emptied: VecDeque<(u32, u32)>,
    /// Wraps round; when two numbers are taken for one, a sequence is swept away early.
    num_emptied: u32,
    /// What nothing more can be read from in this read pass. Some have other sequences in their place since.
    stalled: Vec<u32>,
}

impl Sequences {
    #[inline]
    pub(crate) fn find(&mut self, key: SequenceKey) -> Option<u32> {
        if let Some((latest, slot)) = self.latest
            && latest == key
        {
            return Some(slot);
        }
        let slot = *self.slot_of.find(key.hash(), |&slot| self.get(slot).key == key)?;
        self.latest = Some((key, slot));
        Some(slot)
    }

    /// Adds a sequence that is not there yet.
    pub(crate) fn add(&mut self, sequence: Sequence, histogram: HistogramIndex) -> u32 {
        let key = sequence.key;
        let owner = self.of_owners.entry(sequence.client.writer_owner()).or_default();
        owner.known += 1;
        owner.slots += usize::from(self.free_slots.is_empty());
        self.changes += 1;
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                *self.get_mut(slot) = sequence;
                self.histograms[slot as usize] = histogram;
                slot
            }
            None => self.push(sequence, histogram),
        };
        let blocks = &self.blocks;
        self.slot_of.insert_unique(key.hash(), slot, |&slot| at_slot(blocks, slot).key.hash());
        self.latest = Some((key, slot));
        slot
    }

    fn push(&mut self, sequence: Sequence, histogram: HistogramIndex) -> u32 {
        let slot = self.histograms.len() as u32; // there are at most 2^32 keys
        self.histograms.push(histogram);
        match self.blocks.last_mut().filter(|block| block.len() < SEQUENCES_PER_BLOCK) {
            Some(block) => block.push(sequence),
            None => {
                let mut block = Vec::with_capacity(SEQUENCES_PER_BLOCK);
                block.push(sequence);
                self.blocks.push(block);
            }
        }
        slot
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &Sequence {
        at_slot(&self.blocks, slot)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Sequence {
        let slot = slot as usize;
        &mut self.blocks[slot / SEQUENCES_PER_BLOCK][slot % SEQUENCES_PER_BLOCK]
    }

    pub(crate) fn histogram(&self, slot: u32) -> HistogramIndex {
        self.histograms[slot as usize]
    }

    /// Slots are not given back, but to other sequences.
    pub(crate) fn slot_count(&self) -> usize {
        self.histograms.len()
    }

    pub(crate) fn has_free_slot(&self) -> bool {
        !self.free_slots.is_empty()
    }

    pub(crate) fn of_owners(&self) -> impl Iterator<Item = (WriterOwner, WritersOfOwner)> {
        self.of_owners.iter().map(|(owner, writers)| (*owner, *writers))
    }

    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// All sequences, in no order.
    pub(crate) fn slots(&self) -> Vec<u32> {
        self.slot_of.iter().copied().collect()
    }

    /// The sequence is new here, and was consumed up to this elsewhere, where its readers were not told of this loss (0: of none).
    pub(crate) fn begin_after(&mut self, slot: u32, consumed: Consumed, untold_loss: u32) {
        let sequence = self.get_mut(slot);
        sequence.set_consumed(consumed);
        if untold_loss != 0 {
            sequence.add_loss(untold_loss);
        }
        self.has_emptied(slot);
    }

    /// The sequence is new here, and something of it is lost for this reason.
    pub(crate) fn begin_after_loss(&mut self, slot: u32, reason: u32) {
        self.get_mut(slot).add_loss(reason);
        self.has_emptied(slot);
    }

    /// Bytes that it takes to know where all chunks are: 4 to 8 for each.
    #[inline]
    pub(crate) fn index_bytes(&self) -> usize {
        self.index_bytes
    }

    /// Where all chunks of all sequences are, in no order.
    pub(crate) fn chunks_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.blocks.iter_mut().flatten().flat_map(Sequence::chunks_mut)
    }

    /// Slot and offset of all chunks.
    pub(crate) fn all_chunks(&self) -> impl Iterator<Item = (u32, usize)> {
        let sequences = || self.blocks.iter().flatten();
        #[cfg(test)]
        assert_eq!(sequences().map(Sequence::index_bytes).sum::<usize>(), self.index_bytes);
        #[cfg(test)]
        assert_eq!(sequences().filter(|sequence| sequence.emptied_as().is_some()).count(), self.num_empty);
        let slots = (0..).zip(sequences());
        slots
            .flat_map(|(slot, sequence)| (0..sequence.len()).map(move |index| (slot, sequence, index)))
            .filter_map(|(slot, sequence, index)| sequence.get(index).map(|at| (slot, at)))
    }

    #[inline]
    pub(crate) fn insert_chunk(&mut self, slot: u32, index: usize, at: usize) {
        let sequence = self.get_mut(slot);
        let was_empty = sequence.emptied_as().is_some();
        let before = sequence.index_bytes();
        sequence.insert(index, at);
        let after = sequence.index_bytes();
        self.num_empty -= usize::from(was_empty);
        self.index_bytes = self.index_bytes + after - before;
    }

    /// Removes a sequence's first chunk as consumed.
    #[inline]
    pub(crate) fn pop_first_chunk(&mut self, slot: u32, consumed: Consumed) {
        let sequence = self.get_mut(slot);
        let before = sequence.index_bytes();
        sequence.pop_first(consumed);
        let given_back = before - sequence.index_bytes();
        self.index_bytes -= given_back;
        let sequence = self.get(slot);
        if sequence.is_empty() && sequence.emptied_as().is_none() {
            self.has_emptied(slot);
        }
    }

    fn has_emptied(&mut self, slot: u32) {
        self.num_emptied = self.num_emptied.wrapping_add(1);
        let number = self.num_emptied;
        self.get_mut(slot).set_emptied_as(number);
        self.num_empty += 1;
        self.emptied.push_back((number, slot));
        self.forget_refilled();
    }

    /// Keeps `emptied` from growing when the same sequences empty and fill again and again.
    fn forget_refilled(&mut self) {
        if self.emptied.len() > 2 * (self.num_empty + KEEP_EMPTY) {
            let blocks = &self.blocks;
            self.emptied.retain(|&(number, slot)| at_slot(blocks, slot).emptied_as() == Some(number));
        }
    }

    /// Nothing more can be read from the sequence in this read pass.
    pub(crate) fn set_stalled(&mut self, slot: u32) {
        self.get_mut(slot).set_stalled(true);
        self.stalled.push(slot);
    }

    /// A new read pass begins.
    pub(crate) fn end_stalls(&mut self) {
        for slot in std::mem::take(&mut self.stalled) {
            self.get_mut(slot).set_stalled(false);
        }
    }

    /// Forgets the sequences that have been empty for longest, if there are many.
    ///
    /// Slots change hands here: no read pass may go on across it.
    #[inline]
    pub(crate) fn sweep(&mut self) {
        if self.num_empty > KEEP_EMPTY + EMPTY_SLACK {
            self.sweep_oldest();
        }
    }

    fn sweep_oldest(&mut self) {
        while self.num_empty > KEEP_EMPTY
            && let Some((number, slot)) = self.emptied.pop_front()
        {
            if self.get(slot).emptied_as() == Some(number) {
                self.remove(slot);
                self.num_empty -= 1;
            }
        }
        self.latest = None;
    }

    /// Gives back the memory of a sequence that is no longer used, and its slot to another.
    fn remove(&mut self, slot: u32) {
        let Sequence { key, client, .. } = *self.get(slot);
        self.index_bytes -= self.get(slot).index_bytes();
        if let Ok(entry) = self.slot_of.find_entry(key.hash(), |&other| other == slot) {
            entry.remove();
        }
        *self.get_mut(slot) = Sequence::new(key, client);
        self.changes += 1;
        if let Some(owner) = self.of_owners.get_mut(&client.writer_owner()) {
            owner.known -= 1;
        }
        self.free_slots.push(slot);
    }
}

#[inline]
fn at_slot(blocks: &[Vec<Sequence>], slot: u32) -> &Sequence {
    let slot = slot as usize;
    &blocks[slot / SEQUENCES_PER_BLOCK][slot % SEQUENCES_PER_BLOCK]
}
