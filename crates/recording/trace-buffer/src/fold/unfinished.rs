//! Packets whose beginnings are in the way before their ends have come.
//!
//! A chunk that ends with the beginning of a packet, and nothing after it that ends the packet, or its patches have not come: its writer is
//! at work on the rest, and may take a while. Were it overwritten, the packet would be lost, and with it all that the sequence's state
//! knows, for a reader who has missed a packet believes no name from before. So its whole packets go, as those of others, and then the
//! chunk comes again, as one does that was scraped and overwritten before it was complete, and those after it with it: what was scraped
//! while the writer was at work on the packet's end, and the middle of a large packet.

use std::collections::VecDeque;
use std::ops::Range;

use crate::chunk_flags::{FIRST_CONTINUES_FROM_PREVIOUS, LAST_CONTINUES_ON_NEXT};
use crate::drain::{Purpose, Reassembled};
use crate::fragments::{Found, Kind, fragment_at};
use crate::ring::{Header, INCOMPLETE, PLAIN};
use crate::sequences::SequenceKey;
use crate::write::Accepted;
use crate::{OverwriteSink, TraceBuffer};

/// Chunks of one sequence that come again together: one or two are the rule.
const MAX_OF_SEQUENCE: usize = 4;

/// One that comes again may be in the way of the next, where many threads were stopped together. So much of the ring's size at most moves
/// because of one commit, and no more than others can wait for.
const MAX_MOVED_DIVISOR: usize = 2;
const MAX_MOVED_BYTES: usize = 4 << 20;
const MAX_MOVED_CHUNKS: usize = 2048;

/// What one that comes again costs, in chunks looked at.
const LOOKS_TO_BRING_BACK: usize = 8;

/// How often a chunk comes again. A thread that nobody lets run may take seconds, in which a small ring goes round many times; of a program
/// that hangs not every lap of the session is to carry a chunk along.
const MAX_MOVES: u8 = 100;

/// A chunk that is to come again.
#[derive(Debug)]
pub(super) struct Unfinished {
    key: SequenceKey,
    id: u32,
    flags: u8,
    moves: u8,
    reserved: u16,
    payload: Vec<u8>,
}

/// Those of one commit.
#[derive(Debug, Default)]
pub(super) struct AllUnfinished {
    /// In the order in which they come again.
    chunks: VecDeque<Unfinished>,
    /// Bytes of the ring for these and those that have come already.
    moved_bytes: usize,
    /// How many they are.
    moved_chunks: usize,
}

impl AllUnfinished {
    /// Whose chunks they are.
    pub(super) fn keys(&self) -> impl Iterator<Item = SequenceKey> {
        self.chunks.iter().map(|chunk| chunk.key)
    }
}

impl TraceBuffer {
    /// Where the chunk at `at`, or one before it in its sequence, ends with a packet that goes on: leaves in that chunk what is whole, if the
    /// rest is to come again, and nothing of those after it. Says where it is: up to there, and no further, the sequence is to be drained.
    pub(super) fn keep_unfinished(
        &mut self,
        slot: u32,
        at: usize,
        header: &Header,
        all: &mut AllUnfinished,
    ) -> Option<usize> {
        // What came again lies behind what was stored in its way, though it is older: that may be the rest of its own packet.
        if !header.has(LAST_CONTINUES_ON_NEXT) && self.sequences.get(slot).first() == Some(at) {
            return None;
        }
        let (chunks, begin) = self.find_unfinished(slot, at)?;
        let bytes = self.bytes_of(slot, chunks.clone())?;
        let max_bytes = MAX_MOVED_BYTES.min(self.ring.size() / MAX_MOVED_DIVISOR);
        if all.moved_bytes + bytes > max_bytes || all.moved_chunks + chunks.len() > MAX_MOVED_CHUNKS {
            return None;
        }
        let begin_at = self.sequences.get(slot).get(chunks.start)?;
        let header = self.ring.header(begin_at);
        all.moved_bytes += bytes;
        all.moved_chunks += chunks.len();
        let moves = header.moves + 1;
        let num_after = chunks.len() - 1;
        for index in chunks {
            let chunk = self.sequences.get(slot).get(index)?;
            all.chunks.push_back(self.unfinished(slot, chunk, moves));
        }
        for _ in 0..num_after {
            self.take_out_newest(slot);
        }
        let whole = begin as u16; // no more than the payload
        let rest = Header {
            payload_size: whole,
            unread: whole - header.unread_at() as u16,
            flags: header.flags & FIRST_CONTINUES_FROM_PREVIOUS | INCOMPLETE,
            ..header
        };
        self.ring.set_header(begin_at, rest);
        Some(begin_at)
    }

    /// The chunk that ends with the beginning of a packet and those after it, by their indices, and where that packet begins: the first such
    /// chunk of the sequence's last few, if it is the one at `at` or before it.
    fn find_unfinished(&mut self, slot: u32, at: usize) -> Option<(Range<usize>, usize)> {
        let len = self.sequences.get(slot).len();
        for index in len.saturating_sub(MAX_OF_SEQUENCE)..len {
            let found = self.sequences.get(slot).get(index)?;
            let header = self.ring.header(found);
            let may_come_again =
                header.has(LAST_CONTINUES_ON_NEXT) && !header.has(INCOMPLETE) && header.moves < MAX_MOVES;
            if may_come_again && let Some(begin) = beginning_at(self.ring.payload(found, &header), &header) {
                self.packet_parts.clear();
                if self.look_ahead(Purpose::Evict, slot, index, &header, false) == Reassembled::NotYet {
                    let is_between =
                        (index..len).any(|index| self.sequences.get(slot).get(index) == Some(at));
                    return is_between.then_some((index..len, begin));
                }
            }
            if found == at {
                return None;
            }
        }
        None
    }

    /// What chunks take of the ring, if nothing was read of those after the first.
    fn bytes_of(&self, slot: u32, chunks: Range<usize>) -> Option<usize> {
        let mut bytes = 0;
        for index in chunks.clone() {
            let header = self.ring.header(self.sequences.get(slot).get(index)?);
            if index != chunks.start && header.unread != header.payload_size {
                return None;
            }
            bytes += header.outer_size();
        }
        Some(bytes)
    }

    /// Takes the sequence's newest chunk out of it as if it had never been there, and leaves padding in its place.
    fn take_out_newest(&mut self, slot: u32) {
        let Some(at) = self.sequences.get_mut(slot).pop_newest() else { return };
        let header = self.ring.header(at);
        if header.payload_size > 0 {
            self.count_consumed(Purpose::Evict, header.outer_size());
        }
        self.ring.set_header(at, Header::padding(header.size));
    }

    /// The chunk as it is to come again.
    fn unfinished(&self, slot: u32, at: usize, moves: u8) -> Unfinished {
        let header = self.ring.header(at);
        Unfinished {
            key: self.sequences.get(slot).key,
            id: header.id,
            flags: header.flags,
            moves,
            reserved: header.size,
            payload: self.ring.payload(at, &header).to_vec(),
        }
    }

    /// Has chunks come again, after the one that they were in the way of.
    pub(crate) fn bring_back_unfinished(&mut self, sink: &mut impl OverwriteSink) {
        while let Some(fold) = &mut self.fold {
            let Some(chunk) = fold.unfinished.chunks.pop_front() else {
                (fold.unfinished.moved_bytes, fold.unfinished.moved_chunks) = (0, 0);
                return;
            };
            self.bring_back(&chunk, sink);
        }
    }

    fn bring_back(&mut self, chunk: &Unfinished, sink: &mut impl OverwriteSink) {
        // The buffer may have forgotten a sequence of which it had nothing any more.
        let Some(slot) = self.sequences.find(chunk.key) else { return };
        let accepted = Accepted {
            id: chunk.id,
            flags: chunk.flags,
            fragments: &chunk.payload,
            plain: chunk.flags & PLAIN != 0,
            usual: None,
            moves: chunk.moves,
            reserved: chunk.reserved,
        };
        self.stats.chunks_relocated += 1;
        self.evict_looks += LOOKS_TO_BRING_BACK;
        self.store(slot, &accepted, sink);
    }
}

/// Where the packet begins that the chunk does not end.
fn beginning_at(payload: &[u8], header: &Header) -> Option<usize> {
    let mut at = header.unread_at();
    while let Found::Fragment(fragment) = fragment_at(payload, at, header.flags) {
        if fragment.kind == Kind::Begin {
            return Some(at);
        }
        at = fragment.end;
    }
    None
}
