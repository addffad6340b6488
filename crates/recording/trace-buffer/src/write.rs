//! What a commit does to the buffer.

use crate::fold::usual::{SUM_BYTES, Times};
use crate::fragments::{Missing, measure};
use crate::loss::WRITER_ABORT;
use crate::ring::{Header, INCOMPLETE, MAX_PAYLOAD_BYTES, PLAIN, outer_size};
use crate::sequence::{Place, Sequence, compare_ids};
use crate::sequences::SequenceKey;
use crate::{ClientIdentity, FillPolicy, OverwriteSink, ProducerId, TraceBuffer};

/// One chunk as it was found in a producer's shared memory.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Whose shared memory it was in.
    pub producer: ProducerId,
    /// Who that is.
    pub client: ClientIdentity,
    /// The writer's number within the producer.
    pub writer: u16,
    /// The chunk's number within the writer; counts up and wraps round.
    pub chunk_id: u32,
    /// Fragments that the chunk's header announces.
    pub num_fragments: u16,
    /// The header's flags, see [`chunk_flags`]; other bits are ignored.
    pub flags: u8,
    /// False when the chunk was scraped while its writer may still be writing to it.
    pub complete: bool,
    /// What follows the chunk's header, perhaps with unused space at its end.
    pub payload: &'a [u8],
}

/// The flags in a chunk's header. Source: upstream's shared_memory_abi.h, `ChunkHeader::Flags`.
pub mod chunk_flags {
    /// The first fragment continues the packet of the chunk before.
    pub const FIRST_CONTINUES_FROM_PREVIOUS: u8 = 1;
    /// The last fragment's packet goes on in the next chunk.
    pub const LAST_CONTINUES_ON_NEXT: u8 = 2;
    /// Patches are on their way for the last fragment.
    pub const NEEDS_PATCHING: u8 = 4;
    /// All of them.
    pub const MASK: u8 = 7;
}

/// A chunk is refused if its sequence has more chunks than this, and its newest one has an id that is higher by more.
///
/// Chunks come late only when shared memory is scraped, by as many as its writer filled meanwhile: these are all that the largest one
/// (32 MiB) has, in pages of one chunk. A frame has room for 6,000 late chunks, each of which makes the offsets of those after it move:
/// 32 KiB, which are in the processor's nearest cache. And a chunk that is overwritten takes those with it that come before it and came after
/// it: no more than twice as many.
pub(crate) const MAX_LATER_CHUNKS: u32 = 8 * 1024;

/// It takes 4 to 8 bytes to know where a chunk is, and an empty one takes 16 of the ring. When all that is this part of the ring's size or
/// more, or so many bytes, each chunk that comes takes at least so much of the ring (upstream has no limit). With chunks of 48 bytes and
/// more it never comes to that in a ring of less than 144 MiB. (What it takes may double once more, where queues of offsets grow.) The most
/// is that of all buffers that are cloned at one time.
const INDEX_DIVISOR: usize = 6;
const MIN_INDEX_BYTES: usize = 64 * 1024;
const MAX_INDEX_BYTES: usize = 24 << 20;
const LEAST_BYTES_WHEN_CROWDED: usize = 240;
/// In large rings more, so that it comes to no more than that, up to what writers have in a page.
const MOST_LEAST_BYTES: usize = 4000;
const INDEX_BYTES_A_CHUNK: usize = 8;

/// A chunk whose fragments were found, and what is to be stored of it.
pub(crate) struct Accepted<'a> {
    pub(crate) id: u32,
    /// The ABI's flags as the buffer takes them, and [`INCOMPLETE`].
    pub(crate) flags: u8,
    /// The fragments that are valid.
    pub(crate) fragments: &'a [u8],
    pub(crate) plain: bool,
    /// What is to be kept behind the fragments, if all of them are usual packets.
    pub(crate) usual: Option<u64>,
    /// How often it has come again, this time included.
    pub(crate) moves: u8,
    /// Bytes to keep room for.
    pub(crate) reserved: u16,
}

/// Whether a chunk is to be placed at the write cursor.
enum Admission {
    /// Yes, before the chunk with this index in its sequence; so many bytes at its start were consumed when the
    /// buffer had it before.
    Place { index: usize, already_consumed: u16 },
    /// No; everything that there was to do has been done.
    Done,
}

impl TraceBuffer {
    /// Stores a chunk, or what is new in it if the buffer has it already. Ends the read pass.
    ///
    /// Whatever is wrong with the chunk is counted in the [`Stats`](crate::Stats), and what can be saved of
    /// it is stored.
    pub fn copy_chunk(&mut self, chunk: &Chunk<'_>) {
        self.copy_chunk_with(chunk, &mut ());
    }

    /// The same, giving `sink` the packets that are overwritten to make room, in the order of their sequences.
    pub fn copy_chunk_with(&mut self, chunk: &Chunk<'_>, sink: &mut impl OverwriteSink) {
        if self.read_only {
            return;
        }
        self.end_pass();
        (self.evict_looks, self.erased_chunks) = (0, 0);
        if self.closed {
            self.stats.chunks_discarded += 1;
            return;
        }
        let key = SequenceKey::new(chunk.producer, chunk.writer);
        let found = self.sequences.find(key);
        if let Some(slot) = found {
            self.prefetch_newest(slot);
        }
        let (num_fragments, flags) = announced(chunk);
        let (measured, usual) = if self.fold.is_some() {
            let mut times = Times::default();
            let measured = measure(chunk.payload, num_fragments, flags, &mut times);
            let is_room = self.has_room_for(measured.size + SUM_BYTES);
            (measured, times.sum().filter(|_| measured.plain && is_room))
        } else {
            (measure(chunk.payload, num_fragments, flags, &mut ()), None)
        };
        if measured.missing == Some(Missing::Violation) {
            self.stats.abi_violations += 1;
        }
        let reserved = if chunk.complete { measured.size } else { chunk.payload.len() };
        let reserved = reserved.max(measured.size + usual.map_or(0, |_| SUM_BYTES)).max(self.least_bytes());
        if !self.has_room_for(reserved) {
            self.stats.abi_violations += 1;
            return;
        }
        let accepted = Accepted {
            id: chunk.chunk_id,
            flags,
            fragments: &chunk.payload[..measured.size],
            plain: measured.plain,
            usual,
            moves: 0,
            reserved: reserved as u16, // at most MAX_PAYLOAD_BYTES
        };
        let slot = found.unwrap_or_else(|| self.add_sequence(key, chunk.client));
        self.histograms.add(self.sequences.histogram(slot), measured.size as u64);
        if measured.missing == Some(Missing::GivenUp) {
            self.stats.trace_writer_packet_loss += 1;
            self.sequences.get_mut(slot).add_loss(WRITER_ABORT);
        }
        self.earn_folding(accepted.fragments.len());
        self.store(slot, &accepted, sink);
        self.bring_back_unfinished(sink);
    }

    /// How many chunks were looked at, beyond one, to make room for the chunk that was [stored](Self::copy_chunk) last: what it cost beside
    /// its bytes.
    pub fn looks_to_store(&self) -> usize {
        self.evict_looks + self.erased_chunks.saturating_sub(1)
    }

    /// What a chunk's payload takes at least, lest there be too many of them.
    #[inline]
    fn least_bytes(&self) -> usize {
        let most = self.crowded_index_bytes;
        if self.sequences.index_bytes() < most {
            return 0;
        }
        (self.ring.size() / (most / INDEX_BYTES_A_CHUNK)).clamp(LEAST_BYTES_WHEN_CROWDED, MOST_LEAST_BYTES)
    }

    pub(crate) fn limit_index(&mut self) {
        let most = (self.ring.size() / INDEX_DIVISOR).min(MAX_INDEX_BYTES / self.parts);
        self.crowded_index_bytes = most.max(MIN_INDEX_BYTES);
    }

    /// Could the ring hold a chunk with a payload of this size?
    #[inline]
    fn has_room_for(&self, payload_bytes: usize) -> bool {
        payload_bytes <= MAX_PAYLOAD_BYTES && outer_size(payload_bytes) <= self.ring.size()
    }

    pub(crate) fn add_sequence(&mut self, key: SequenceKey, client: ClientIdentity) -> u32 {
        let histogram = self.histograms.index_of(key);
        self.sequences.add(Sequence::new(key, client), histogram)
    }

    /// The chunk's place will be sought from the end of its sequence.
    #[inline]
    fn prefetch_newest(&self, slot: u32) {
        let sequence = self.sequences.get(slot);
        if let Some(at) = sequence.len().checked_sub(1).and_then(|newest| sequence.get(newest)) {
            self.ring.prefetch_header(at);
        }
    }

    #[inline]
    pub(crate) fn store(&mut self, slot: u32, chunk: &Accepted<'_>, sink: &mut impl OverwriteSink) {
        let Admission::Place { index, already_consumed } = self.admit(slot, chunk) else { return };
        let len_before = self.sequences.get(slot).len();
        self.expect_chunk_of(slot, chunk);
        if self.make_room(outer_size(usize::from(chunk.reserved)), sink).is_err() {
            self.closed = true;
            self.stats.chunks_discarded += 1;
            return;
        }
        // Making room may have taken the sequence's first chunks.
        let num_evicted = len_before - self.sequences.get(slot).len();
        if num_evicted > index && chunk.moves > 0 {
            self.leave_out(chunk);
            return;
        }
        if num_evicted == len_before {
            self.note_return(slot, chunk, already_consumed);
        }
        self.place(slot, chunk, index.saturating_sub(num_evicted), already_consumed);
        self.sequences.sweep();
    }

    /// A chunk that comes again has overwritten those after it, for the ring is small, and so comes too late. The room made for it stays
    /// empty. (Upstream keeps other late chunks, and reads them in the wrong order.) The loss was noted before those after it went.
    fn leave_out(&mut self, chunk: &Accepted<'_>) {
        let empty = Header::padding(chunk.reserved);
        self.ring.place(self.write_at, empty, &[]);
        self.stats.padding_bytes_written += empty.outer_size() as u64;
        self.stats.chunks_discarded += 1;
    }

    /// Deals with chunks that the buffer has or had. This must come before room is made: the very chunk that
    /// is committed again could be evicted by that.
    #[inline]
    fn admit(&mut self, slot: u32, chunk: &Accepted<'_>) -> Admission {
        let sequence = self.sequences.get(slot);
        let mut already_consumed = 0;
        if let Some(last) = sequence.last_consumed()
            && compare_ids(chunk.id, last.id).is_le()
        {
            let has_more = last.incomplete && usize::from(last.payload_size) < chunk.fragments.len();
            if chunk.id != last.id || !has_more {
                self.stats.chunks_discarded += 1;
                let is_known = chunk.id == last.id || !sequence.may_miss_chunks();
                self.stats.chunks_discarded_without_loss += u64::from(is_known);
                return Admission::Done;
            }
            // It was evicted while incomplete. What it held then is not to be read twice.
            already_consumed = last.payload_size;
        }
        match sequence.place_of(chunk.id, &self.ring) {
            Place::Before(index) if index < sequence.len() && sequence.is_far_ahead(chunk.id, &self.ring) => {
                self.stats.abi_violations += 1;
                Admission::Done
            }
            Place::Before(index) => Admission::Place { index, already_consumed },
            Place::Taken(index) => self.commit_again(slot, index, chunk),
        }
    }

    /// The buffer has a copy of the chunk, which was scraped. It may only grow.
    fn commit_again(&mut self, slot: u32, index: usize, chunk: &Accepted<'_>) -> Admission {
        let Some(at) = self.sequences.get(slot).get(index) else { return Admission::Done };
        let header = self.ring.header(at);
        let copy_flags = header.flags & chunk_flags::MASK;
        let size = chunk.fragments.len();
        if size < usize::from(header.payload_size)
            || size > usize::from(header.size)
            || copy_flags & chunk.flags != copy_flags
        {
            self.stats.abi_violations += 1;
            return Admission::Done;
        }
        let grows = size > usize::from(header.payload_size);
        let is_spent = header.has(INCOMPLETE) && header.unread == 0;
        if grows && is_spent && index == 0 && self.policy == FillPolicy::Ring {
            // The copy may lie just before the write cursor, and the new packets would be overwritten before
            // anyone reads them: the chunk moves to the cursor.
            self.stats.chunks_relocated += 1;
            self.erase_first(slot, at, &header);
            return Admission::Place { index: 0, already_consumed: header.payload_size };
        }
        self.rewrite(at, header, chunk);
        Admission::Done
    }

    /// Commits again in place. Bytes of it that were consumed stay consumed.
    fn rewrite(&mut self, at: usize, mut header: Header, chunk: &Accepted<'_>) {
        let is_complete = chunk.flags & INCOMPLETE == 0;
        if is_complete {
            header.flags &= !INCOMPLETE;
        }
        let size = chunk.fragments.len() as u16; // at most what the copy has room for
        if size > header.payload_size {
            header.unread += size - header.payload_size;
            header.payload_size = size;
            header.flags |= chunk.flags;
            header.flags &= !PLAIN;
            self.ring.payload_mut(at, &header).copy_from_slice(chunk.fragments);
            self.stats.chunks_rewritten += 1;
        }
        self.ring.set_header(at, header);
    }

    /// Puts the chunk at the write cursor, where there is room for it, and into its sequence.
    #[inline]
    fn place(&mut self, slot: u32, chunk: &Accepted<'_>, index: usize, already_consumed: u16) {
        let payload_size = chunk.fragments.len() as u16; // at most MAX_PAYLOAD_BYTES
        let header = Header {
            slot: Some(slot),
            id: chunk.id,
            size: chunk.reserved,
            payload_size,
            unread: payload_size.saturating_sub(already_consumed),
            flags: chunk.flags | if chunk.plain { PLAIN } else { 0 },
            is_usual: chunk.usual.is_some(),
            moves: chunk.moves,
        };
        let at = self.write_at;
        self.ring.place(at, header, chunk.fragments);
        if let Some(sum) = chunk.usual
            && let Some(room) = self.ring.behind_payload_mut(at, &header).first_chunk_mut()
        {
            *room = sum.to_le_bytes();
        }
        self.write_at = at + header.outer_size();

        if index < self.sequences.get(slot).len() {
            self.stats.chunks_committed_out_of_order += 1;
        }
        self.sequences.insert_chunk(slot, index, at);
        self.has_data = true;
        self.stats.chunks_written += 1;
        self.stats.bytes_written += header.outer_size() as u64;
    }
}

/// The fragments to look for, and the flags to store.
///
/// The writer may be at work on the last fragment of a scraped chunk. It is left out, and with it the flags that
/// are about it.
fn announced(chunk: &Chunk<'_>) -> (u16, u8) {
    let flags = chunk.flags & chunk_flags::MASK;
    if chunk.complete {
        return (chunk.num_fragments, flags);
    }
    match chunk.num_fragments.checked_sub(1) {
        None => (0, flags | INCOMPLETE),
        Some(without_last) => {
            let about_last = chunk_flags::LAST_CONTINUES_ON_NEXT | chunk_flags::NEEDS_PATCHING;
            (without_last, flags & !about_last | INCOMPLETE)
        }
    }
}
