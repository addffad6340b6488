//! What leaves a ring is folded: of each sequence, what its next packets rely on, to be said before the first of them.
//!
//! Names, defaults, descriptions of tracks and reference times are said once by a writer. When a ring has gone round they are
//! overwritten, and readers could make nothing of the packets that are left. With [`TraceBuffer::fold_overwritten`] whatever
//! leaves the buffer, overwritten or read, changes its sequence's state first (`state` has the rules). Where packets were
//! overwritten, and in clones, whose readers have seen nothing, a sequence's next packet comes after packets that say the state.
//!
//! | module | what it does |
//! |---|---|
//! | `packet` | finds in a packet what matters |
//! | `state`, `records` | what a reader knows of a sequence |
//! | `usual` | chunks of events that change nothing but the time |
//! | `unfinished` | packets whose beginnings are in the way before their ends have come |

mod packet;
mod records;
mod state;
mod unfinished;
pub(crate) mod usual;

use hashbrown::HashTable;

use self::packet::scan;
use self::state::{Said, SequenceState};
use self::unfinished::AllUnfinished;
use crate::buffer::ReadPass;
use crate::drain::{Part, Purpose};
use crate::fragments::{self, Fragment, Kind, fragment_at};
use crate::loss::{DATA_LOSS_PRESENT, OVERWRITE, READ_GAP};
use crate::ring::{Header, INCOMPLETE};
use crate::sequence::{Consumed, compare_ids};
use crate::sequences::{SequenceKey, Sequences};
use crate::write::Accepted;
use crate::{ClientIdentity, OverwriteSink, Packet, TraceBuffer};

/// All states together take at most this part of the buffer's size.
const LIMIT_DIVISOR: usize = 20;
/// But in small buffers as much as the states of a hundred threads need, if that is at most this part.
const MIN_LIMIT_BYTES: usize = 128 * 1024;
const MAX_MIN_LIMIT_DIVISOR: usize = 8;

/// And no more than this in all buffers that are cloned at one time: clones copy the states at once, and a state is said at once. Both take
/// a millisecond for a megabyte.
const MAX_STATES_BYTES: usize = 8 << 20;

/// Between packets in pieces, so much memory is kept for putting them together.
const KEEP_BYTES: usize = 64 * 1024;

/// A packet in pieces that is larger is not put together: what it says is lost. It is copied and gone through while nobody else is served,
/// and may be most of a ring. One of this size may have a hundred thousand names, which takes some 20 ms.
const MAX_WHOLE_BYTES: usize = 512 << 10;
/// Because of what is stored so many times as much is put together of what is overwritten, and once in a while [`MAX_WHOLE_BYTES`]: many
/// large packets may begin in one place.
const WHOLE_BYTES_PER_STORED: usize = 16;

/// A sequence's state, and what is to be done with it.
#[derive(Debug, Clone)]
struct Folded {
    key: SequenceKey,
    state: SequenceState,
    /// Losses that no reader has been told of: bits of [`loss`](crate::loss).
    untold: u32,
    /// The reader has not seen what was folded.
    is_new_to_reader: bool,
    /// There was a state, which was given up. It is missed if the sequence has packets, or gets some, before it says all again.
    was_emptied: bool,
    /// There was a state, which was given up or lost, and all has not been said again since.
    is_gone: bool,
    /// What it counts in `Fold::used`.
    size: usize,
}

impl Folded {
    fn lose(&mut self, loss: u32) {
        if loss != 0 {
            self.is_gone |= self.state.is_valid();
            self.state.lose();
            self.untold |= loss;
        }
    }

    /// It lacks what a packet says that has been there.
    fn miss(&mut self) {
        self.state.lose();
        (self.was_emptied, self.is_gone) = (true, true);
    }

    fn empty(&mut self) {
        let state = std::mem::take(&mut self.state);
        self.was_emptied |= !state.is_empty();
        self.is_gone |= !state.is_empty();
    }
}

/// The states of a buffer's sequences.
#[derive(Debug)]
pub(crate) struct Fold {
    states: Vec<Folded>,
    index_of: HashTable<u32>,
    /// Bytes that all states take, and may take.
    used: usize,
    limit: usize,
    /// When there is no room: states are looked through after so many more.
    takes_until_forgetting: usize,
    /// A packet in pieces, put together.
    whole: Vec<u8>,
    /// How much may be put together because of what was stored.
    whole_left: usize,
    unfinished: AllUnfinished,
    /// For a chunk of which room is being made.
    arriving: Option<SequenceKey>,
    /// If it comes again: its number, until something behind it in its sequence goes to make that room.
    returning: Option<u32>,
    telling: Telling,
    /// How far the read pass has come; here, where the shorter ways of reading do not find it.
    pub(crate) pass: Option<ReadPass>,
}

/// Packets to be given out before the buffer is read on: a state, and the packet that was found after it.
#[derive(Debug, Default)]
struct Telling {
    said: Said,
    next: usize,
    of: Option<(SequenceKey, ClientIdentity)>,
    /// Told with the first.
    loss: u32,
    parts: Vec<Part>,
}

/// What a read found.
enum Found {
    /// In `Telling`, with this loss.
    Said(u32),
    /// In the ring: slot and loss.
    InRing(u32, u32),
}

impl Fold {
    fn new(limit: usize) -> Self {
        Self {
            states: Vec::new(),
            index_of: HashTable::new(),
            used: 0,
            limit,
            takes_until_forgetting: 0,
            whole: Vec::new(),
            whole_left: MAX_WHOLE_BYTES,
            unfinished: AllUnfinished::default(),
            arriving: None,
            returning: None,
            telling: Telling::default(),
            pass: None,
        }
    }

    /// For a reader who has seen nothing.
    pub(crate) fn for_clone(&self) -> Self {
        let mut states = self.states.clone();
        states.iter_mut().for_each(|folded| folded.is_new_to_reader = true);
        Self { states, index_of: self.index_of.clone(), used: self.used, ..Self::new(self.limit) }
    }

    fn find(&self, key: SequenceKey) -> Option<usize> {
        let found = self.index_of.find(key.hash(), |&at| self.states[at as usize].key == key);
        found.map(|&at| at as usize)
    }

    /// The sequence's state, which is made if there is none.
    fn index_of(&mut self, key: SequenceKey) -> usize {
        self.find(key).unwrap_or_else(|| {
            let size = size_of::<Folded>() + 2 * size_of::<u32>();
            self.used += size;
            let state = SequenceState::default();
            self.states.push(Folded {
                key,
                state,
                untold: 0,
                is_new_to_reader: false,
                was_emptied: false,
                is_gone: false,
                size,
            });
            let at = self.states.len() - 1; // there are at most 2^32 keys
            let states = &self.states;
            self.index_of.insert_unique(key.hash(), at as u32, |&at| states[at as usize].key.hash());
            at
        })
    }

    /// Folds the sequence's next packet, before which there was this loss. True if the state may have grown.
    #[inline]
    fn take(&mut self, at: usize, packet: &Packet<'_>) -> bool {
        match packet.in_one_piece() {
            Some(bytes) => self.take_bytes(at, bytes),
            None => self.take_pieces(at, packet),
        }
    }

    #[inline]
    fn take_bytes(&mut self, at: usize, bytes: &[u8]) -> bool {
        let folded = &mut self.states[at];
        scan(bytes).is_some_and(|packet| {
            if packet.clears_state() {
                (folded.was_emptied, folded.is_gone) = (false, false);
            }
            folded.state.take(&packet)
        })
    }

    fn take_pieces(&mut self, at: usize, packet: &Packet<'_>) -> bool {
        let Some(left) = self.whole_left.checked_sub(packet.len()) else {
            self.states[at].miss();
            return false;
        };
        self.whole_left = left;
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        whole.shrink_to(KEEP_BYTES);
        packet.slices().for_each(|slice| whole.extend_from_slice(slice));
        let has_grown = self.take_bytes(at, &whole);
        self.whole = whole;
        has_grown
    }

    /// The same of a packet that is read, one of many that readers wait for.
    fn take_read(&mut self, at: usize, packet: &Packet<'_>) -> bool {
        self.whole_left = MAX_WHOLE_BYTES;
        self.take(at, packet)
    }

    fn lose(&mut self, at: usize, loss: u32) {
        self.states[at].lose(loss);
    }

    /// Keeps the states within their limit: older descriptions go first, then the state of this sequence. Gives how many
    /// descriptions of tracks went.
    fn settle(&mut self, at: usize, sequences: &mut Sequences) -> u64 {
        self.measure(at);
        let mut tracks = 0;
        if self.used <= self.limit {
            return tracks;
        }
        // It looks at all: not each time.
        self.takes_until_forgetting = self.takes_until_forgetting.saturating_sub(1);
        let key = self.states[at].key;
        if self.takes_until_forgetting == 0 {
            self.forget_gone(sequences);
        }
        let Some(at) = self.find(key) else { return tracks };
        if self.used > self.limit && self.states[at].state.drop_older_tracks() {
            self.measure(at);
        }
        if self.used > self.limit {
            tracks = self.states[at].state.drop_older_half();
            self.measure(at);
        }
        if self.used > self.limit {
            self.states[at].empty();
            self.measure(at);
        }
        tracks
    }

    /// Whether packets of the sequence, which are here, rely on what was given up.
    fn take_emptied(&mut self, at: usize) -> u64 {
        u64::from(std::mem::take(&mut self.states[at].was_emptied))
    }

    fn measure(&mut self, at: usize) {
        let folded = &mut self.states[at];
        let size = size_of::<Folded>() + 2 * size_of::<u32>() + folded.state.size();
        self.used = self.used + size - folded.size;
        folded.size = size;
    }

    /// Empties the states of sequences of which nothing is left in the buffer, nor on its way into it, and forgets those that the buffer has
    /// forgotten.
    fn forget_gone(&mut self, sequences: &mut Sequences) {
        self.takes_until_forgetting = self.states.len();
        let mut coming: Vec<SequenceKey> = self.unfinished.keys().chain(self.arriving).collect();
        coming.sort_unstable();
        self.states.retain_mut(|folded| {
            let slot = sequences.find(folded.key);
            if slot.is_some_and(|slot| sequences.get(slot).is_empty())
                && coming.binary_search(&folded.key).is_err()
            {
                folded.empty();
            }
            slot.is_some()
        });
        self.index_of.clear();
        self.used = 0;
        for at in 0..self.states.len() {
            self.states[at].size = 0;
            self.measure(at);
            let states = &self.states;
            let hash = states[at].key.hash();
            self.index_of.insert_unique(hash, at as u32, |&at| states[at as usize].key.hash());
        }
    }
}

fn is_too_large(packet: &Packet<'_>) -> bool {
    packet.in_one_piece().is_none() && packet.len() > MAX_WHOLE_BYTES
}

/// Does the first packet that was not consumed say that all is said again?
fn next_clears_state(chunk: &Accepted<'_>, already_consumed: u16) -> bool {
    match fragment_at(chunk.fragments, usize::from(already_consumed), chunk.flags) {
        fragments::Found::Fragment(Fragment { kind: Kind::Whole, body_at, end }) => {
            chunk.fragments.get(body_at..end).and_then(scan).is_some_and(|packet| packet.clears_state())
        }
        _ => false,
    }
}

impl Telling {
    /// The next packet with its loss.
    fn next(&mut self) -> Option<u32> {
        let end = *self.said.ends.get(self.next)?;
        let start = self.next.checked_sub(1).and_then(|before| self.said.ends.get(before)).copied();
        self.parts.clear();
        let mut at = start.unwrap_or(0);
        while at < end {
            let size = (end - at).min(usize::from(u16::MAX));
            self.parts.push(Part::apart(at, size));
            at += size;
        }
        self.next += 1;
        Some(std::mem::take(&mut self.loss))
    }
}

impl TraceBuffer {
    /// From here on, what is overwritten is folded, sequence by sequence, within a twentieth of the buffer's size, in small ones an
    /// eighth, and 8 MiB in all buffers that are [cloned at one time](Self::one_of).
    /// Meant for rings that are still empty.
    #[must_use]
    pub fn fold_overwritten(mut self) -> Self {
        self.fold = Some(Box::new(Fold::new(usize::MAX)));
        self.limit_fold();
        self
    }

    pub(crate) fn limit_fold(&mut self) {
        let size = self.ring.size();
        let least = MIN_LIMIT_BYTES.min(size / MAX_MIN_LIMIT_DIVISOR);
        if let Some(fold) = &mut self.fold {
            fold.limit = (size / LIMIT_DIVISOR).max(least).min(MAX_STATES_BYTES / self.parts);
        }
    }

    /// Is what is overwritten folded?
    pub fn folds_overwritten(&self) -> bool {
        self.fold.is_some()
    }

    /// Goes on from the end of `before`, a clone of which nothing has been read: what is in it counts as read by somebody else.
    ///
    /// `looks_left` is how many of its packets and chunks may be looked at, and becomes how many are left. False if there are more: then
    /// this buffer is as it was, and does not fold.
    pub fn fold_all_of(&mut self, mut before: Self, looks_left: &mut usize) -> bool {
        let Some(mut fold) = before.fold.take() else { return false };
        // Read without saying states, as one that gives nothing away.
        before.begin_read();
        before.look_at_most(*looks_left);
        while let Some((slot, loss)) = before.read_on() {
            let Some(left) = looks_left.checked_sub(1) else { return false };
            *looks_left = left;
            let sequence = before.sequences.get(slot);
            let at = fold.index_of(sequence.key);
            fold.lose(at, loss);
            let packet = Packet::new(sequence, loss, before.ring.bytes(), &before.packet_parts);
            fold.take_read(at, &packet);
            *looks_left = looks_left.saturating_sub(fold.states[at].state.take_extra_looks());
        }
        *looks_left = before.looks_left().min(*looks_left);
        if before.is_reading() {
            return false;
        }
        for slot in before.sequences.slots() {
            self.follow_on(&before, slot, &mut fold);
        }
        for folded in &mut fold.states {
            folded.is_new_to_reader = true;
            // What counts the loss goes with the old buffer, and is missed here all the same.
            folded.was_emptied |= folded.is_gone;
        }
        (0..fold.states.len()).for_each(|at| fold.measure(at));
        // Settling may forget some.
        let keys: Vec<SequenceKey> = fold.states.iter().map(|folded| folded.key).collect();
        for key in keys {
            if let Some(at) = fold.find(key) {
                self.stats.track_descriptors_dropped += fold.settle(at, &mut self.sequences);
            }
        }
        self.fold = Some(fold);
        true
    }

    /// Goes on where all that could be read of a sequence ends. A chunk that was scraped will come again: only what is new in it counts.
    fn follow_on(&mut self, before: &Self, slot: u32, fold: &mut Fold) {
        let sequence = before.sequences.get(slot);
        let rest = sequence.first().map(|at| before.ring.header(at));
        let end = match rest {
            None => sequence.last_consumed(),
            Some(header) if sequence.len() == 1 && header.has(INCOMPLETE) && header.unread == 0 => {
                Some(Consumed { id: header.id, payload_size: header.payload_size, incomplete: true })
            }
            // Packets that wait for a patch: in this buffer they are never whole.
            Some(_) => {
                let at = fold.index_of(sequence.key);
                return fold.lose(at, READ_GAP | DATA_LOSS_PRESENT);
            }
        };
        let untold = sequence.loss();
        if end.is_none() && untold == 0 {
            return;
        }
        let slot = self.add_sequence(sequence.key, sequence.client);
        match end {
            Some(end) => self.sequences.begin_after(slot, end, untold),
            None => self.sequences.begin_after_loss(slot, untold),
        }
    }

    /// Room is going to be made for a chunk of this sequence.
    #[inline]
    pub(crate) fn expect_chunk_of(&mut self, slot: u32, chunk: &Accepted<'_>) {
        if let Some(fold) = &mut self.fold {
            fold.arriving = Some(self.sequences.get(slot).key);
            fold.returning = (chunk.moves > 0).then_some(chunk.id);
        }
    }

    /// A sequence of which nothing is here gets a chunk, for which there is room now: making it may have cost a state, this one's too. What
    /// was known of it may have been given up, or forgotten with it; for writers count their chunks from 0. It is not missed if the first
    /// packet says that all is said again.
    pub(crate) fn note_return(&mut self, slot: u32, chunk: &Accepted<'_>, already_consumed: u16) {
        let Some(fold) = &mut self.fold else { return };
        let sequence = self.sequences.get(slot);
        let is_missed = match fold.find(sequence.key) {
            Some(at) => fold.take_emptied(at) != 0,
            None => chunk.id != 0 && sequence.last_consumed().is_none(),
        };
        if is_missed && !next_clears_state(chunk, already_consumed) {
            self.stats.sequence_states_lost += 1;
        }
    }

    /// So much is stored: for that something may be put together of what is overwritten.
    #[inline]
    pub(crate) fn earn_folding(&mut self, stored_bytes: usize) {
        if let Some(fold) = &mut self.fold {
            let earned = WHOLE_BYTES_PER_STORED.saturating_mul(stored_bytes);
            fold.whole_left = fold.whole_left.saturating_add(earned).min(MAX_WHOLE_BYTES);
        }
    }

    /// Drains the sequence up to the chunk at `at`, as [`evict`](Self::evict) does, and folds what goes.
    pub(crate) fn evict_folding(
        &mut self,
        slot: u32,
        at: usize,
        header: &Header,
        sink: &mut impl OverwriteSink,
    ) {
        let Some(mut fold) = self.fold.take() else { return };
        self.ring.prefetch_chunk(at + header.outer_size());
        let key = self.sequences.get(slot).key;
        let wanted = sink.wants(key.producer());
        let index = fold.index_of(key);
        // What was begun in the chunk that comes again, too late now, is lost before this one.
        let is_after_lost = fold.arriving == Some(key)
            && fold.returning.take_if(|id| compare_ids(*id, header.id).is_lt()).is_some();
        if is_after_lost {
            self.sequences.get_mut(slot).add_loss(OVERWRITE);
        }
        if !wanted && !is_after_lost && self.fold_usual(slot, at, header, &mut fold.states[index]) {
            self.fold = Some(fold);
            return;
        }
        let (mut grew, mut lost_any, mut cut) = (false, false, 0);
        let at = self.keep_unfinished(slot, at, header, &mut fold.unfinished).unwrap_or(at);
        if let Some(mut drain) = self.start_drain(slot, at, Purpose::Evict) {
            loop {
                let has_packet = self.next_whole(&mut drain) || {
                    self.ring.set_header(drain.at, drain.header);
                    self.drain_next(&mut drain)
                };
                if !has_packet && drain.rests {
                    self.erase_rest(&drain);
                    self.sequences.get_mut(slot).add_loss(OVERWRITE);
                    if wanted {
                        sink.miss(key.producer());
                    }
                }
                let loss = self.sequences.get_mut(slot).take_loss();
                fold.lose(index, loss);
                // A packet of which something was still to come: whatever it said, and what was said before it, is of no use.
                let is_cut = loss & OVERWRITE != 0;
                if !has_packet {
                    cut += u64::from(is_cut);
                    break;
                }
                lost_any = true;
                let packet = Packet::new(
                    self.sequences.get(slot),
                    fold.states[index].untold,
                    self.ring.bytes(),
                    &self.packet_parts,
                );
                grew |= fold.take(index, &packet);
                cut += u64::from(is_cut && !fold.states[index].state.is_valid());
                if wanted {
                    sink.take(&packet);
                }
            }
        }
        self.evict_looks += fold.states[index].state.take_extra_looks();
        if lost_any {
            fold.states[index].untold |= OVERWRITE | DATA_LOSS_PRESENT;
        }
        self.stats.sequence_states_lost += cut;
        if grew || fold.used > fold.limit {
            self.stats.track_descriptors_dropped += fold.settle(index, &mut self.sequences);
        }
        if !self.sequences.get(slot).is_empty()
            && let Some(index) = fold.find(key)
        {
            self.stats.sequence_states_lost += fold.take_emptied(index);
        }
        self.fold = Some(fold);
    }

    /// The usual case: the chunk is the first of its sequence, unread, and of usual packets. False if it is not.
    #[inline]
    fn fold_usual(&mut self, slot: u32, at: usize, header: &Header, folded: &mut Folded) -> bool {
        if !self.is_plain_first(slot, at, header) || folded.was_emptied {
            return false;
        }
        let Some(sum) = usual::kept(&self.ring, at, header) else { return false };
        let sequence = self.sequences.get_mut(slot);
        if sequence.has_gap_before(header.id) {
            sequence.add_loss(READ_GAP);
        }
        folded.lose(sequence.loss());
        if !folded.state.take_usual(sum) {
            return false;
        }
        self.sequences.get_mut(slot).take_loss();
        folded.untold |= OVERWRITE | DATA_LOSS_PRESENT;
        self.count_consumed(Purpose::Evict, header.outer_size());
        self.erase_first(slot, at, header);
        true
    }

    /// The next packet of the read pass, with the states that are to be said.
    #[inline(never)]
    pub(crate) fn read_folded(&mut self) -> Option<Packet<'_>> {
        let mut fold = self.fold.take()?;
        let found = self.find_folded(&mut fold);
        let fold = self.fold.insert(fold);
        match found? {
            Found::Said(loss) => {
                let (key, client) = fold.telling.of?;
                Some(Packet::of(key, client, loss, &fold.telling.said.bytes, &fold.telling.parts))
            }
            Found::InRing(slot, loss) => {
                Some(Packet::new(self.sequences.get(slot), loss, self.ring.bytes(), &self.packet_parts))
            }
        }
    }

    fn find_folded(&mut self, fold: &mut Fold) -> Option<Found> {
        fold.pass.as_ref()?;
        if let Some(loss) = fold.telling.next() {
            return Some(Found::Said(loss));
        }
        fold.telling = Telling::default();
        self.read_pass = fold.pass.take();
        let found = self.read_on();
        fold.pass = self.read_pass.take();
        let (slot, loss) = found?;
        let sequence = self.sequences.get(slot);
        let at = if self.read_only {
            match fold.find(sequence.key) {
                Some(at) => at,
                None => return Some(Found::InRing(slot, loss)),
            }
        } else {
            fold.index_of(sequence.key)
        };
        fold.lose(at, loss);
        let folded = &mut fold.states[at];
        let untold = std::mem::take(&mut folded.untold);
        let is_new = std::mem::take(&mut folded.is_new_to_reader);
        let packet = Packet::new(sequence, untold, self.ring.bytes(), &self.packet_parts);
        let has_to_say = (untold & OVERWRITE != 0 || is_new) && !folded.state.is_empty();
        let says_state = has_to_say && !is_too_large(&packet);
        // Otherwise before the next one.
        folded.is_new_to_reader = has_to_say && !says_state;
        if says_state {
            let telling = &mut fold.telling;
            folded.state.say(&mut telling.said);
            // The packet itself is gone from the ring once it was found: it is told with the others.
            packet.slices().for_each(|slice| telling.said.bytes.extend_from_slice(slice));
            telling.said.ends.push(telling.said.bytes.len());
            telling.of = Some((sequence.key, sequence.client));
            telling.loss = untold;
        }
        // Nothing of a clone is overwritten, so nothing more has to be said of it.
        if !self.read_only {
            if fold.take_read(at, &packet) {
                self.stats.track_descriptors_dropped += fold.settle(at, &mut self.sequences);
            }
        } else if has_to_say && !says_state {
            fold.states[at].state.lose();
        }
        if says_state { fold.telling.next().map(Found::Said) } else { Some(Found::InRing(slot, untold)) }
    }
}
