//! Reading back: the walk around the ring, and the packets it gives out.

use std::ops::Range;

use crate::{ClientIdentity, ProducerId, TraceBuffer};

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
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

/// The slices of a [`Packet`], in order.
#[derive(Debug, Clone)]
pub struct Slices<'a> {
    bytes: &'a [u8],
    ranges: std::slice::Iter<'a, Range<usize>>,
}

impl<'a> Packet<'a> {
    /// The packet's bytes, in order. No slice is empty.
    pub fn slices(&self) -> Slices<'a> {
        Slices { bytes: self.bytes, ranges: self.ranges.iter() }
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)] // a packet of no bytes can come out of a fragmented one; nobody asks
    pub fn len(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// The bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.slices().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }
}

impl<'a> Iterator for Slices<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.ranges.next().map(|range| &self.bytes[range.clone()])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranges.size_hint()
    }
}

impl ExactSizeIterator for Slices<'_> {}

impl TraceBuffer {
    /// Starts a read pass at the oldest chunk. Sequences that were stalled get another chance.
    pub fn begin_read(&mut self) {
        todo!()
    }

    /// The next packet of the read pass, or `None` when nothing more can be read in it.
    pub fn read_next(&mut self) -> Option<Packet<'_>> {
        todo!()
    }
}
