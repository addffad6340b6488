//! The state of one writer.

use std::cmp::Ordering;

use crate::ClientIdentity;
use crate::chunk_queue::ChunkQueue;
use crate::loss::{DATA_LOSS_PRESENT, SMB_FULL};
use crate::ring::Ring;
use crate::sequences::SequenceKey;
use crate::write::MAX_LATER_CHUNKS;

/// This many of the latest chunks are looked at one by one before a search by bisection.
///
/// Chunks come late by a few places only. When a hostile writer's ids span more than half of their range, no
/// order exists, and the two ways of searching may disagree; that is its own loss.
const NEAR_CHUNKS: usize = 256;

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

/// The bits of `marks` that are reasons of [`loss`](crate::loss); the others are the `MARK_*`.
const LOSS_BITS: u16 = (SMB_FULL as u16) * 2 - 1;
/// Readers went on where a chunk was missing.
const MARK_READ_PAST_GAP: u16 = 1 << 11;
/// A chunk has been consumed.
const MARK_CONSUMED: u16 = 1 << 12;
/// The chunk consumed last was incomplete.
const MARK_CONSUMED_INCOMPLETE: u16 = 1 << 13;
/// Nothing more can be read in this read pass.
const MARK_STALLED: u16 = 1 << 14;
/// The sequence had chunks and has none now.
const MARK_EMPTIED: u16 = 1 << 15;
const _: () = assert!(LOSS_BITS < MARK_READ_PAST_GAP);

/// The state of one {producer, writer}. Packed: a producer may have 65,000 of them.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) key: SequenceKey,
    /// As it was when the sequence began.
    pub(crate) client: ClientIdentity,
    /// Where the chunks lie in the ring, by id. While there are none: a number that tells which sequence emptied first.
    chunks: ChunkQueue,
    consumed_id: u32,
    consumed_payload_size: u16,
    /// What was lost since the last packet, and what there is to remember.
    marks: u16,
}

/// With its part of the table that finds it, a sequence is to take no more than 64 bytes.
const _: () = assert!(size_of::<Sequence>() == 48);

impl Sequence {
    pub(crate) fn new(key: SequenceKey, client: ClientIdentity) -> Self {
        let chunks = ChunkQueue::default();
        Self { key, client, chunks, consumed_id: 0, consumed_payload_size: 0, marks: 0 }
    }

    pub(crate) fn add_loss(&mut self, reason: u32) {
        self.marks |= (reason | DATA_LOSS_PRESENT) as u16 & LOSS_BITS;
    }

    #[inline]
    pub(crate) fn take_loss(&mut self) -> u32 {
        let loss = self.loss();
        self.marks &= !LOSS_BITS;
        loss
    }

    #[inline]
    pub(crate) fn loss(&self) -> u32 {
        u32::from(self.marks & LOSS_BITS)
    }

    /// Readers go on although a chunk is missing before the one with this id. Writers count from 0.
    pub(crate) fn note_read(&mut self, id: u32) {
        let is_missing = if self.last_consumed().is_some() { self.has_gap_before(id) } else { id != 0 };
        if is_missing {
            self.marks |= MARK_READ_PAST_GAP;
        }
    }

    /// May a chunk from before the one consumed last hold something that no reader has seen and that was not overwritten?
    pub(crate) fn may_miss_chunks(&self) -> bool {
        self.marks & MARK_READ_PAST_GAP != 0
    }

    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.marks & MARK_STALLED != 0
    }

    pub(crate) fn set_stalled(&mut self, stalled: bool) {
        self.marks = if stalled { self.marks | MARK_STALLED } else { self.marks & !MARK_STALLED };
    }

    /// If the sequence had chunks and has none: the number that it was given then.
    pub(crate) fn emptied_as(&self) -> Option<u32> {
        if self.marks & MARK_EMPTIED != 0 { self.chunks.kept() } else { None }
    }

    pub(crate) fn set_emptied_as(&mut self, number: u32) {
        self.marks |= MARK_EMPTIED;
        self.chunks.keep(number);
    }

    /// Where the first chunk is.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        self.get(0)
    }

    /// Where the chunk with this index is.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<usize> {
        self.chunks.get(index).map(|at| at as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes that it takes to know where the chunks are.
    #[inline]
    pub(crate) fn index_bytes(&self) -> usize {
        self.chunks.room_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn chunks_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.chunks.iter_mut()
    }

    /// Where `id` is or belongs. Ids wrap round.
    #[inline]
    pub(crate) fn place_of(&self, id: u32, ring: &Ring) -> Place {
        let near = self.len().saturating_sub(NEAR_CHUNKS);
        for index in (near..self.len()).rev() {
            match compare_ids(id, self.id_at(index, ring)) {
                Ordering::Greater => return Place::Before(index + 1),
                Ordering::Equal => return Place::Taken(index),
                Ordering::Less => {}
            }
        }
        let before = self.first_after(id, near, ring);
        match before.checked_sub(1) {
            Some(index) if self.id_at(index, ring) == id => Place::Taken(index),
            _ => Place::Before(before),
        }
    }

    /// By bisection: the first chunk of those before `end` that comes after `id`.
    fn first_after(&self, id: u32, end: usize, ring: &Ring) -> usize {
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if compare_ids(self.id_at(middle, ring), id).is_le() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Where the chunk with this id is. A hostile producer asks for thousands that are not there: each takes as many looks as there are
    /// chunks nearby, and a bisection.
    pub(crate) fn find(&self, id: u32, ring: &Ring) -> Option<usize> {
        let near = self.len().saturating_sub(NEAR_CHUNKS);
        let found = (near..self.len()).rev().find(|&index| self.id_at(index, ring) == id);
        let index = found.or_else(|| self.first_after(id, near, ring).checked_sub(1))?;
        if self.id_at(index, ring) == id { self.get(index) } else { None }
    }

    /// Whether the newest chunk is too far ahead of one with this id, which comes before it.
    pub(crate) fn is_far_ahead(&self, id: u32, ring: &Ring) -> bool {
        self.len() > MAX_LATER_CHUNKS as usize
            && self.id_at(self.len() - 1, ring).wrapping_sub(id) > MAX_LATER_CHUNKS
    }

    #[inline]
    fn id_at(&self, index: usize, ring: &Ring) -> u32 {
        self.get(index).map_or(0, |at| ring.header(at).id)
    }

    /// Inserts a chunk before the one with this index.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, at: usize) {
        self.marks &= !MARK_EMPTIED;
        self.chunks.insert(index.min(self.chunks.len()), at as u32); // the ring is smaller than 4 GiB
    }

    /// Removes the first chunk, and remembers it as the one consumed last.
    #[inline]
    pub(crate) fn pop_first(&mut self, consumed: Consumed) {
        if self.chunks.pop_first().is_some() {
            self.set_consumed(consumed);
        }
    }

    /// Removes the newest chunk, which is not the only one, and says where it is.
    pub(crate) fn pop_newest(&mut self) -> Option<usize> {
        if self.len() > 1 { self.chunks.pop_last().map(|at| at as usize) } else { None }
    }

    /// Remembers a chunk as the one consumed last.
    #[inline]
    pub(crate) fn set_consumed(&mut self, consumed: Consumed) {
        self.consumed_id = consumed.id;
        self.consumed_payload_size = consumed.payload_size;
        self.marks = self.marks & !MARK_CONSUMED_INCOMPLETE | MARK_CONSUMED;
        if consumed.incomplete {
            self.marks |= MARK_CONSUMED_INCOMPLETE;
        }
    }

    /// The chunk that left the buffer last.
    #[inline]
    pub(crate) fn last_consumed(&self) -> Option<Consumed> {
        let incomplete = self.marks & MARK_CONSUMED_INCOMPLETE != 0;
        let last = Consumed { id: self.consumed_id, payload_size: self.consumed_payload_size, incomplete };
        (self.marks & MARK_CONSUMED != 0).then_some(last)
    }

    /// Is a chunk missing between the one consumed last and the first that is here, whose id is given?
    ///
    /// Not if that is the same chunk, which was overwritten while incomplete and came again with more.
    #[inline]
    pub(crate) fn has_gap_before(&self, first_id: u32) -> bool {
        self.last_consumed().is_some_and(|last| {
            let came_again = last.incomplete && first_id == last.id;
            !came_again && first_id != last.id.wrapping_add(1)
        })
    }
}

/// Which of two ids comes first, if they are less than half of the range apart.
#[inline]
pub(crate) fn compare_ids(a: u32, b: u32) -> Ordering {
    (a.wrapping_sub(b) as i32).cmp(&0)
}
