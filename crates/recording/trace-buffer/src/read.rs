//! Reading back: the walk around the ring, and the packets it gives out.

use crate::buffer::{PassPlace, ReadPass};
use crate::drain::{Part, Purpose};
use crate::fragments::{Found, Kind, fragment_at};
use crate::sequence::Sequence;
use crate::sequences::SequenceKey;
use crate::{ClientIdentity, ProducerId, TraceBuffer};

/// Between passes, memory is kept for packets of this many fragments.
const KEEP_PARTS_CAPACITY: usize = 1024;

/// A whole packet. Its bytes lie in the buffer, in one or more slices.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The producer it came from.
    pub producer: ProducerId,
    /// The writer within the producer; with it, the packet's sequence.
    pub writer: u16,
    /// Who the producer was when the sequence began.
    pub client: ClientIdentity,
    /// What was lost on this sequence since the packet before: bits of [`loss`](crate::loss), 0 for nothing.
    pub loss: u32,
    ring: &'a [u8],
    parts: &'a [Part],
}

/// The slices of a [`Packet`], in order.
#[derive(Debug, Clone)]
pub struct Slices<'a> {
    ring: &'a [u8],
    parts: std::slice::Iter<'a, Part>,
}

impl<'a> Packet<'a> {
    #[inline]
    pub(crate) fn new(sequence: &Sequence, loss: u32, ring: &'a [u8], parts: &'a [Part]) -> Self {
        Self::of(sequence.key, sequence.client, loss, ring, parts)
    }

    #[inline]
    pub(crate) fn of(
        key: SequenceKey,
        client: ClientIdentity,
        loss: u32,
        ring: &'a [u8],
        parts: &'a [Part],
    ) -> Self {
        Self { producer: key.producer(), writer: key.writer(), client, loss, ring, parts }
    }

    /// The packet's bytes, in order. No slice is empty.
    #[inline]
    pub fn slices(&self) -> Slices<'a> {
        Slices { ring: self.ring, parts: self.parts.iter() }
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)] // a packet of no bytes can come out of a fragmented one; nobody asks
    #[inline]
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// The bytes, if they lie in one piece.
    #[inline]
    pub fn in_one_piece(&self) -> Option<&'a [u8]> {
        match self.parts {
            [] => Some(&[]),
            [part] => Some(part.bytes(self.ring)),
            _ => None,
        }
    }

    /// A copy of the bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.slices().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }
}

impl<'a> Iterator for Slices<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.parts.next().map(|part| part.bytes(self.ring))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.parts.size_hint()
    }
}

impl ExactSizeIterator for Slices<'_> {}

/// How far the walk round the ring went.
enum Walked {
    /// To the next packet of the sequence in this slot.
    ToPacket(u32),
    /// As far as it may, for now.
    Enough,
    ToEnd,
}

impl TraceBuffer {
    /// Starts a read pass at the oldest chunk. Sequences that were stalled get another chance.
    pub fn begin_read(&mut self) {
        self.begin_pass(self.oldest());
        self.sequences.end_stalls();
        self.packet_parts.clear();
        self.packet_parts.shrink_to(KEEP_PARTS_CAPACITY);
    }

    /// Goes on with the read pass. If it was ended by what was written it begins again where it was, or at the oldest chunk if that place
    /// was overwritten; sequences that were stalled remain so.
    pub fn resume_read(&mut self) {
        if !self.is_reading() {
            let place = self.interrupted.filter(|place| self.is_there(place));
            self.begin_pass(place.map_or_else(|| self.oldest(), |place| place.at));
        }
        self.looks_left = usize::MAX;
    }

    fn begin_pass(&mut self, at: usize) {
        let pass = Some(ReadPass { at, drain: None });
        match &mut self.fold {
            None => self.read_pass = pass,
            Some(fold) => fold.pass = pass,
        }
        self.interrupted = None;
        self.looks_left = usize::MAX;
    }

    /// Has the read pass more to look at?
    pub fn is_reading(&self) -> bool {
        self.read_pass.is_some() || self.fold.as_ref().is_some_and(|fold| fold.pass.is_some())
    }

    /// The read pass looks at so many chunks, and then rests: [`read_next`](Self::read_next) gives `None` while it
    /// [is still reading](Self::is_reading). For there may be millions in which there is nothing to read.
    pub fn look_at_most(&mut self, chunks: usize) {
        self.looks_left = chunks;
    }

    /// How many more chunks the read pass may look at.
    pub fn looks_left(&self) -> usize {
        self.looks_left
    }

    fn oldest(&self) -> usize {
        if self.write_at == self.ring.used() { 0 } else { self.write_at }
    }

    pub(crate) fn place_of(&self, at: usize) -> PassPlace {
        let rounds = self.stats.write_wrap_count;
        PassPlace { at, round: if at < self.write_at { rounds } else { rounds.saturating_sub(1) } }
    }

    /// Does a chunk, or what is left of it, still begin there?
    fn is_there(&self, place: &PassPlace) -> bool {
        place.at < self.ring.used() && self.place_of(place.at).round == place.round
    }

    /// The next packet of the read pass, or `None` when nothing more can be read in it, or it [rests](Self::look_at_most).
    pub fn read_next(&mut self) -> Option<Packet<'_>> {
        let slot = match self.next_in_chunk() {
            Some(slot) => slot,
            None => {
                let Some(pass) = self.read_pass.take() else { return self.read_folded() };
                self.go_on_with(pass)?
            }
        };
        let loss = self.sequences.get_mut(slot).take_loss();
        Some(Packet::new(self.sequences.get(slot), loss, self.ring.bytes(), &self.packet_parts))
    }

    /// Finds the next packet: its sequence's slot and its loss. Its parts are then in `packet_parts`.
    pub(crate) fn read_on(&mut self) -> Option<(u32, u32)> {
        let pass = self.read_pass.take()?;
        let slot = self.go_on_with(pass)?;
        Some((slot, self.sequences.get_mut(slot).take_loss()))
    }

    /// The pass is kept if there may be more.
    #[inline]
    fn go_on_with(&mut self, mut pass: ReadPass) -> Option<u32> {
        match self.advance(&mut pass) {
            Walked::ToPacket(slot) => {
                self.read_pass = Some(pass);
                Some(slot)
            }
            Walked::Enough => {
                self.read_pass = Some(pass);
                None
            }
            Walked::ToEnd => None,
        }
    }

    /// The usual case of [`advance`](Self::advance), done in place: the chunk that the walk is at goes on with a whole packet.
    #[inline]
    fn next_in_chunk(&mut self) -> Option<u32> {
        let drain = self.read_pass.as_mut()?.drain.as_mut()?;
        let payload = self.ring.payload(drain.at, &drain.header);
        let found = fragment_at(payload, drain.header.unread_at(), drain.header.flags);
        let Found::Fragment(fragment) = found else { return None };
        let is_last = fragment.end == payload.len();
        if fragment.kind != Kind::Whole || fragment.body_size() == 0 || is_last {
            return None;
        }
        let part = Part::new(drain.at, &drain.header, &fragment);
        drain.header.unread -= part.size_with_varint;
        self.ring.set_header(drain.at, drain.header);
        self.packet_parts.clear();
        self.packet_parts.push(part);
        Some(drain.slot)
    }

    /// Goes round the ring, draining at each chunk its sequence up to it, until there is a packet. Gives the
    /// packet's sequence.
    fn advance(&mut self, pass: &mut ReadPass) -> Walked {
        if self.ring.used() == 0 {
            return Walked::ToEnd;
        }
        loop {
            if let Some(drain) = &mut pass.drain {
                if self.drain_next(drain) {
                    return Walked::ToPacket(drain.slot);
                }
                if drain.rests {
                    return Walked::Enough;
                }
                pass.drain = None;
            } else {
                let Some(left) = self.looks_left.checked_sub(1) else { return Walked::Enough };
                self.looks_left = left;
                let slot = self.ring.header(pass.at).slot;
                pass.drain = slot.and_then(|slot| self.start_drain(slot, pass.at, Purpose::Read));
                if pass.drain.is_some() {
                    self.prefetch_behind(pass.at);
                    continue;
                }
            }
            match self.next_in_ring(pass.at) {
                Some(next) => pass.at = next,
                None => return Walked::ToEnd,
            }
        }
    }

    /// Asks for the chunk behind the one at `at`, if there may be something to read in it: it may be large.
    fn prefetch_behind(&self, at: usize) {
        let next = at + self.ring.header(at).outer_size();
        if next >= self.ring.used() {
            return;
        }
        let header = self.ring.header(next);
        let is_stalled = header.slot.is_some_and(|slot| self.sequences.get(slot).is_stalled());
        match header.unread > 0 && !is_stalled {
            true => self.ring.prefetch_chunk(next),
            false => self.ring.prefetch_header(next + header.outer_size()),
        }
    }

    /// The chunk behind the one at `at`; none when that is where the next write goes, and so the newest.
    fn next_in_ring(&self, at: usize) -> Option<usize> {
        let next = at + self.ring.header(at).outer_size();
        let next_or_start = if next >= self.ring.used() { 0 } else { next };
        (next != self.write_at && next_or_start != self.write_at).then_some(next_or_start)
    }
}
