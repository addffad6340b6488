//! Packets whose beginnings are in the way before their ends have come.
//!
//! A chunk that ends with the beginning of a packet and has none after it: its writer is at work on the rest, and may take a while. Were it
//! overwritten, the packet would be lost, and with it all that the sequence's state knows, for a reader who has missed a packet believes
//! no name from before. So its whole packets go, as those of others, and then the chunk comes again, as one does that was scraped and
//! overwritten before it was complete.

use crate::chunk_flags::{FIRST_CONTINUES_FROM_PREVIOUS, LAST_CONTINUES_ON_NEXT};
use crate::fragments::{Found, Kind, fragment_at};
use crate::ring::{Header, INCOMPLETE};
use crate::sequences::SequenceKey;
use crate::write::Accepted;
use crate::{OverwriteSink, TraceBuffer};

/// Chunks that come again because of one that is written. One is the rule; a writer of many unfinished packets must not make a commit
/// move a whole ring.
const MAX_AT_ONCE: usize = 2;

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
    chunks: Vec<Unfinished>,
    /// They are coming again: what is in their way goes for good.
    closed: bool,
}

impl TraceBuffer {
    /// Leaves in the chunk at `at` what is whole, if the rest is to come again.
    pub(super) fn keep_unfinished(
        &mut self,
        slot: u32,
        at: usize,
        header: &Header,
        all: &mut AllUnfinished,
    ) -> Option<()> {
        let has_moved_enough = header.moves >= MAX_MOVES;
        if !header.has(LAST_CONTINUES_ON_NEXT) || header.has(INCOMPLETE) || has_moved_enough {
            return None;
        }
        let sequence = self.sequences.get(slot);
        let is_newest = sequence.len().checked_sub(1).and_then(|last| sequence.get(last)) == Some(at);
        if !is_newest || all.closed || all.chunks.len() >= MAX_AT_ONCE {
            return None;
        }
        let payload = self.ring.payload(at, header);
        let whole = beginning_at(payload, header)?;
        all.chunks.push(Unfinished {
            key: sequence.key,
            id: header.id,
            flags: header.flags,
            moves: header.moves + 1,
            reserved: header.size,
            payload: payload.to_vec(),
        });
        let whole = whole as u16; // no more than the payload
        let rest = Header {
            payload_size: whole,
            unread: whole - header.unread_at() as u16,
            flags: header.flags & FIRST_CONTINUES_FROM_PREVIOUS | INCOMPLETE,
            ..*header
        };
        self.ring.set_header(at, rest);
        Some(())
    }

    /// Has chunks come again, after the one that they were in the way of.
    pub(crate) fn bring_back_unfinished(&mut self, sink: &mut impl OverwriteSink) {
        let Some(fold) = &mut self.fold else { return };
        if fold.unfinished.chunks.is_empty() {
            return;
        }
        fold.unfinished.closed = true;
        for chunk in std::mem::take(&mut fold.unfinished.chunks) {
            self.bring_back(&chunk, sink);
        }
        if let Some(fold) = &mut self.fold {
            fold.unfinished.closed = false;
        }
    }

    fn bring_back(&mut self, chunk: &Unfinished, sink: &mut impl OverwriteSink) {
        // The buffer may have forgotten a sequence of which it had nothing any more.
        let Some(slot) = self.sequences.find(chunk.key) else { return };
        let accepted = Accepted {
            id: chunk.id,
            flags: chunk.flags,
            fragments: &chunk.payload,
            plain: false,
            usual: None,
            moves: chunk.moves,
            reserved: chunk.reserved,
        };
        self.stats.chunks_relocated += 1;
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
