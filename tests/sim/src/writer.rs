//! A trace writer that keeps the rules: packets in chunks, large ones over several, patches when they are known, all in the end committed.

use bytes::Bytes;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch::Patch};
use ferretto_protos::{CommitDataRequest, TracePacket};
use ferretto_shm::{ChunkFlags, ChunkWriter, NewChunk, PageLayout, ProducerView};
use prost::Message as _;

use crate::fate::Fate;
use crate::interned::Said;
use crate::trace::{self, Stream};

/// Writers reserve four bytes for a fragment's size.
const SIZE_LEN: usize = 4;
/// With less room a packet begins in the next chunk.
const LEAST_ROOM: usize = SIZE_LEN + 8;

/// A writer without shared memory that has more than this to send waits until it is sent: with what one more packet finishes, up to
/// three chunks, it must fit into a frame.
const MAX_UNSENT_BYTES: usize = 40 * 1024;

/// A patch, and the first packet that does not come out without it: nothing in its chunk does.
struct Owed {
    packet: u64,
    patch: ChunkToPatch,
}

/// Writes the packets of one data source instance.
pub(crate) struct Writer {
    pub(crate) id: u16,
    pub(crate) stream: Stream,
    pub(crate) buffer: u32,
    /// The service has been told of it, and has heard.
    pub(crate) is_registered: bool,
    open: Option<Open>,
    next_chunk: u32,
    next_packet: u64,
    /// Packets that end in chunks that are finished.
    finished: u64,
    /// Chunks that are finished and not committed.
    moves: Vec<ChunksToMove>,
    owed: Vec<Owed>,
    /// Patches that are sent and of which the service has not heard.
    pub(crate) patches_on_the_way: usize,
    /// The first packet that got lost in the writer.
    broken_at: Option<u64>,
    is_after_loss: bool,
    said: Said,
    /// Chunks that it may still fill.
    budget: usize,
}

struct Open {
    chunk: ChunkWriter,
    offset: usize,
    /// The number after its last whole packet's; 0 if it has none.
    until: u64,
}

/// A commit, and how many packets of the stream are in the service's hands after it.
pub(crate) struct Commit {
    pub(crate) request: CommitDataRequest,
    pub(crate) stream: Stream,
    pub(crate) count: u64,
    pub(crate) patches: usize,
}

impl Writer {
    pub(crate) fn new(id: u16, stream: Stream, buffer: u32, budget: usize) -> Self {
        Self {
            id,
            stream,
            buffer,
            is_registered: false,
            open: None,
            next_chunk: 0,
            next_packet: 0,
            finished: 0,
            moves: Vec::new(),
            owed: Vec::new(),
            patches_on_the_way: 0,
            broken_at: None,
            is_after_loss: false,
            said: Said::default(),
            budget,
        }
    }

    /// Writes some packets, at most `burst`.
    pub(crate) fn write(&mut self, view: &ProducerView, burst: usize, is_emulated: bool, fate: &mut Fate) {
        for _ in 0..1 + fate.below(burst) {
            if self.budget == 0 || self.unsent_bytes() > MAX_UNSENT_BYTES {
                return;
            }
            let len = if fate.one_in(10) { 2000 + fate.below(9000) } else { fate.below(120) };
            if let Some(beginning) = self.said.beginning() {
                self.put_or_lose(view, beginning, self.next_packet, is_emulated, fate);
            }
            let packet = trace::packet(self.stream, self.next_packet, len, &mut self.said, fate);
            self.put_or_lose(view, packet, self.next_packet + 1, is_emulated, fate);
            self.next_packet += 1;
        }
        if fate.one_in(3) {
            self.finish_chunk(view, is_emulated);
        } else if self.open.is_some() {
            fate.saw("a chunk stays open over several steps");
        }
    }

    /// All names and times have to be said once more.
    pub(crate) fn begin_anew(&mut self) {
        self.said.forget();
    }

    /// One packet, after which there are `until` of those that have a number.
    fn put_or_lose(
        &mut self,
        view: &ProducerView,
        mut packet: TracePacket,
        until: u64,
        is_emulated: bool,
        fate: &mut Fate,
    ) {
        // What writers of ours say after they found no memory: DATA_LOSS_PRESENT and SMB_FULL.
        packet.previous_packet_dropped = self.is_after_loss.then_some(0x101);
        if self.put(view, &packet.encode_to_vec(), until, is_emulated, fate) {
            self.is_after_loss = false;
        } else {
            fate.saw("a writer finds no free chunk");
            self.broken_at.get_or_insert(self.next_packet);
            self.is_after_loss = true;
            self.said.forget();
        }
    }

    /// One packet, over as many chunks as it takes; false if there are not enough.
    fn put(
        &mut self,
        view: &ProducerView,
        packet: &[u8],
        until: u64,
        is_emulated: bool,
        fate: &mut Fate,
    ) -> bool {
        let room = self.open.as_ref().map_or(0, |open| open.chunk.capacity() - open.offset);
        if room < LEAST_ROOM && !self.next_chunk(view, false, is_emulated, fate) {
            return false;
        }
        let mut rest = packet;
        loop {
            let Some(open) = &mut self.open else { return false };
            let room = open.chunk.capacity() - open.offset - SIZE_LEN;
            let (part, after) = rest.split_at(rest.len().min(room));
            open.chunk.write_at(open.offset, &redundant_size(part.len()));
            open.chunk.write_at(open.offset + SIZE_LEN, part);
            if after.is_empty() {
                open.offset += SIZE_LEN + part.len();
                open.chunk.increment_packet_count();
                open.until = until;
                return true;
            }
            if fate.one_in(2) {
                self.leave_for_later(part, is_emulated, fate);
            }
            self.continue_in_next();
            if !self.next_chunk(view, true, is_emulated, fate) {
                return false;
            }
            fate.saw("a packet over several chunks");
            rest = after;
        }
    }

    /// Marks the open chunk's last packet as one that goes on.
    fn continue_in_next(&mut self) {
        if let Some(open) = &mut self.open {
            open.chunk.increment_packet_count();
            open.chunk.set_flags(ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
        }
    }

    /// Leaves the first bytes of a fragment to be patched.
    fn leave_for_later(&mut self, part: &[u8], is_emulated: bool, fate: &mut Fate) {
        let Some(open) = &mut self.open else { return };
        // Where the chunk is sent by value, it is sent as it is.
        if is_emulated || part.len() < 8 {
            return;
        }
        let at = open.offset + SIZE_LEN;
        let pieces = if fate.one_in(3) { 2 } else { 1 };
        for piece in 0..pieces {
            let offset = at + 4 * piece;
            open.chunk.write_at(offset, &[0; 4]);
            let data = Bytes::copy_from_slice(&part[4 * piece..4 * piece + 4]);
            let patch = Patch { offset: u32::try_from(offset).ok(), data: Some(data) };
            let patch = ChunkToPatch {
                target_buffer: Some(self.buffer),
                writer_id: Some(u32::from(self.id)),
                chunk_id: Some(open.chunk.header().chunk_id),
                patches: vec![patch],
                has_more_patches: Some(piece + 1 < pieces),
            };
            self.owed.push(Owed { packet: self.finished, patch });
        }
        open.chunk.set_flags(ChunkFlags::NEEDS_PATCHING);
    }

    fn next_chunk(
        &mut self,
        view: &ProducerView,
        continues: bool,
        is_emulated: bool,
        fate: &mut Fate,
    ) -> bool {
        self.finish_chunk(view, is_emulated);
        let layout = if continues { PageLayout::Div1 } else { fate.pick(&PageLayout::ALL) };
        let label = NewChunk { chunk_id: self.next_chunk, writer_id: self.id };
        let Some(mut chunk) = view.try_acquire(layout, label) else { return false };
        if continues {
            chunk.set_flags(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
        }
        self.budget = self.budget.saturating_sub(1);
        self.next_chunk += 1;
        self.open = Some(Open { chunk, offset: 0, until: 0 });
        true
    }

    fn finish_chunk(&mut self, view: &ProducerView, is_emulated: bool) {
        let Some(open) = self.open.take() else { return };
        self.finished = self.finished.max(open.until);
        let header = open.chunk.header();
        // Whoever else writes into this memory may have changed the chunk's state: then it is lost.
        let Ok(at) = open.chunk.complete() else { return };
        let mut data = None;
        if is_emulated {
            let mut payload = Vec::new();
            if view.take_complete(at, &mut payload).is_err() {
                return;
            }
            data = Some(Bytes::from([&header.to_bytes(), payload.as_slice()].concat()));
        }
        self.moves.push(ChunksToMove {
            page: Some(at.page),
            chunk: Some(at.chunk),
            target_buffer: Some(self.buffer),
            data,
            chunk_incomplete: None,
        });
    }

    /// Finishes the open chunk; all goes into the next commit.
    pub(crate) fn finish(&mut self, view: &ProducerView, is_emulated: bool) {
        self.finish_chunk(view, is_emulated);
    }

    /// What is to be committed, if there is anything.
    pub(crate) fn commit(&mut self, with_patches: bool) -> Option<Commit> {
        let owed = if with_patches { std::mem::take(&mut self.owed) } else { Vec::new() };
        if self.moves.is_empty() && owed.is_empty() {
            return None;
        }
        self.patches_on_the_way += owed.len();
        let patches = owed.len();
        let request = CommitDataRequest {
            chunks_to_move: std::mem::take(&mut self.moves),
            chunks_to_patch: owed.into_iter().map(|owed| owed.patch).collect(),
            flush_request_id: None,
        };
        Some(Commit { request, stream: self.stream, count: self.promised(), patches })
    }

    fn unsent_bytes(&self) -> usize {
        self.moves.iter().flat_map(|chunk| &chunk.data).map(Bytes::len).sum()
    }

    pub(crate) fn owes_patches(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(crate) fn has_open_chunk(&self) -> bool {
        self.open.is_some()
    }

    /// The packets that come out once all that is finished is committed.
    fn promised(&self) -> u64 {
        let whole = self.owed.first().map_or(self.finished, |owed| owed.packet.min(self.finished));
        self.broken_at.map_or(whole, |broken_at| whole.min(broken_at))
    }

    /// The packets that come out if the service takes what is in the memory now; nothing if that is hard to tell.
    pub(crate) fn scrapable(&self) -> Option<u64> {
        if !self.is_registered || self.owes_patches() || self.patches_on_the_way > 0 {
            return None;
        }
        // Of a chunk that is being written, the last packet does not count, and one with less than two is left out.
        let open = self.open.as_ref().filter(|open| open.chunk.packet_count() >= 2);
        let whole = open.map_or(self.finished, |open| self.finished.max(open.until.saturating_sub(1)));
        Some(self.broken_at.map_or(whole, |broken_at| whole.min(broken_at)))
    }
}

/// A length in four bytes, as writers reserve them.
fn redundant_size(len: usize) -> [u8; SIZE_LEN] {
    let len = u32::try_from(len).expect("a fragment is smaller than a page");
    let part = |shift: u32| (len >> shift) as u8 & 0x7f;
    [part(0) | 0x80, part(7) | 0x80, part(14) | 0x80, part(21)]
}
