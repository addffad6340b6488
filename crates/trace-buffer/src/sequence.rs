//! The state of one writer.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::ClientIdentity;
use crate::loss::DATA_LOSS_PRESENT;
use crate::sequences::SequenceKey;
use crate::stats::HistogramIndex;

/// This many of the latest chunks are looked at one by one before a search by bisection.
///
/// Chunks come late by a few places only. When a hostile writer's ids span more than half of their range, no
/// order exists, and the two ways of searching may disagree; that is its own loss.
const NEAR_CHUNKS: usize = 256;

/// An emptied queue keeps room for this many chunks, lest every pass of reading allocates anew.
const KEEP_CHUNKS_CAPACITY: usize = 1024;

/// A chunk of the sequence: its number, and where it lies in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    pub(crate) id: u32,
    pub(crate) at: u32,
}

impl ChunkRef {
    pub(crate) fn offset(self) -> usize {
        self.at as usize
    }
}

/// What is remembered of the chunk that left the buffer last, read or overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consumed {
    pub(crate) id: u32,
    pub(crate) payload_size: u16,
    pub(crate) incomplete: bool,
}

/// Where a chunk belongs in the order of its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before the chunk with this index.
    Before(usize),
    /// It is there, at this index.
    Taken(usize),
}

/// The state of one {producer, writer}.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) key: SequenceKey,
    /// As it was when the sequence began.
    pub(crate) client: ClientIdentity,
    pub(crate) histogram: HistogramIndex,
    /// The chunks in the buffer, by id.
    chunks: VecDeque<ChunkRef>,
    pub(crate) last_consumed: Option<Consumed>,
    /// Nothing more can be read in the read pass of this number.
    pub(crate) stalled_in: u64,
    /// What was lost since the last packet.
    loss: u32,
    /// While the sequence has no chunks and had some: a number that tells which emptied first.
    pub(crate) emptied_as: Option<u64>,
}

impl Sequence {
    pub(crate) fn new(key: SequenceKey, client: ClientIdentity, histogram: HistogramIndex) -> Self {
        Self {
            key,
            client,
            histogram,
            chunks: VecDeque::new(),
            last_consumed: None,
            stalled_in: 0,
            loss: 0,
            emptied_as: None,
        }
    }

    pub(crate) fn add_loss(&mut self, reason: u32) {
        self.loss |= reason | DATA_LOSS_PRESENT;
    }

    pub(crate) fn loss(&self) -> u32 {
        self.loss
    }

    pub(crate) fn take_loss(&mut self) -> u32 {
        std::mem::take(&mut self.loss)
    }

    pub(crate) fn first(&self) -> Option<ChunkRef> {
        self.chunks.front().copied()
    }

    pub(crate) fn get(&self, index: usize) -> Option<ChunkRef> {
        self.chunks.get(index).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn chunks_mut(&mut self) -> impl Iterator<Item = &mut ChunkRef> {
        self.chunks.iter_mut()
    }

    /// Where `id` is or belongs. Ids wrap round.
    pub(crate) fn place_of(&self, id: u32) -> Place {
        let near = self.chunks.len().saturating_sub(NEAR_CHUNKS);
        for (index, chunk) in self.chunks.range(near..).enumerate().rev() {
            match compare_ids(id, chunk.id) {
                Ordering::Greater => return Place::Before(near + index + 1),
                Ordering::Equal => return Place::Taken(near + index),
                Ordering::Less => {}
            }
        }
        let before = self.chunks.partition_point(|chunk| compare_ids(chunk.id, id).is_le()).min(near);
        match before.checked_sub(1) {
            Some(index) if self.chunks.get(index).is_some_and(|chunk| chunk.id == id) => Place::Taken(index),
            _ => Place::Before(before),
        }
    }

    /// The chunk with this id.
    pub(crate) fn find(&self, id: u32) -> Option<ChunkRef> {
        let near = self.chunks.len().saturating_sub(NEAR_CHUNKS);
        if let Some(chunk) = self.chunks.range(near..).rev().find(|chunk| chunk.id == id) {
            return Some(*chunk);
        }
        match self.place_of(id) {
            Place::Taken(index) => self.get(index),
            Place::Before(_) => None,
        }
    }

    pub(crate) fn insert(&mut self, index: usize, chunk: ChunkRef) {
        self.chunks.insert(index.min(self.chunks.len()), chunk);
    }

    /// Removes the first chunk, and remembers it as the one consumed last.
    pub(crate) fn pop_first(&mut self, payload_size: u16, incomplete: bool) -> Option<ChunkRef> {
        let chunk = self.chunks.pop_front()?;
        self.last_consumed = Some(Consumed { id: chunk.id, payload_size, incomplete });
        if self.chunks.is_empty() && self.chunks.capacity() > KEEP_CHUNKS_CAPACITY {
            self.chunks.shrink_to(KEEP_CHUNKS_CAPACITY);
        }
        Some(chunk)
    }

    /// Is a chunk missing between the one consumed last and the first that is here?
    ///
    /// Not if that is the same chunk, which was overwritten while incomplete and came again with more.
    pub(crate) fn has_gap_before(&self, first: ChunkRef) -> bool {
        self.last_consumed.is_some_and(|last| {
            let came_again = last.incomplete && first.id == last.id;
            !came_again && first.id != last.id.wrapping_add(1)
        })
    }

    /// Gives back the memory of a sequence that is no longer used.
    pub(crate) fn clear(&mut self) {
        self.chunks = VecDeque::new();
        self.emptied_as = None;
    }
}

/// Which of two ids comes first, if they are less than half of the range apart.
pub(crate) fn compare_ids(a: u32, b: u32) -> Ordering {
    (a.wrapping_sub(b) as i32).cmp(&0)
}
