//! Where encoded bytes go: a sequence of contiguous ranges, or a growing vector.

use crate::varint;

/// The number of bytes that [`Sink::write_small`] takes at once: a tag and a varint at their longest, rounded
/// up to a machine's vector register.
pub const SMALL_LEN: usize = 16;

/// The longest nested message whose length fits in the four reserved bytes (upstream: `kMaxMessageLength` in
/// proto_utils.h).
pub const MAX_LEN: u32 = (1 << 28) - 1;

/// Lengths below this take one byte.
const ONE_BYTE_LIMIT: usize = 0x80;

/// The bytes reserved for a length.
const SLOT_LEN: usize = 4;

/// Takes the bytes of an encoded message, in order.
///
/// The bytes go to contiguous ranges that are handed out one after another; a message may begin in one and
/// end in another. Only the four bytes of a reserved length always lie within one range. If that range is out
/// of reach when the length becomes known, the sink keeps the four bytes as a patch.
///
/// Slots are closed in reverse order of their reservation, as [`Message`](crate::Message)s nest.
pub trait Sink {
    /// Appends `bytes`; they may cross from one range to the next.
    fn write(&mut self, bytes: &[u8]);

    /// Appends the first `len` of `bytes`. A sink with room for all of `bytes` stores them with one
    /// instruction and advances by `len`; the bytes after `len` carry no meaning.
    ///
    /// This is what makes small fields cheap. `len` is at most [`SMALL_LEN`].
    #[inline]
    fn write_small(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        self.write(bytes.get(..len).unwrap_or(&bytes));
    }

    /// Reserves four contiguous bytes for the length of the nested message that begins after them. They
    /// should hold zeroes until they are closed, so that what reads a half-written range sees an empty
    /// message.
    fn reserve_len(&mut self) -> LenSlot;

    /// Fills in a reserved length: the number of bytes written since [`reserve_len`](Self::reserve_len)
    /// returned `slot`.
    ///
    /// The sink may move the nested message three bytes down and write its length in one byte, if the length
    /// is below 128 and the slot's range is still the current one.
    fn close_len(&mut self, slot: LenSlot);
}

/// A reserved length, as its sink sees it.
///
/// Only the sink that made it looks inside; it fills in what it needs to find the four bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenSlot {
    /// Which of the sink's ranges the four bytes lie in, in the sink's own numbering.
    pub range: u32,
    /// The offset of the four bytes within that range.
    pub offset: u32,
    /// The sink's count of bytes just after the four bytes: where the nested message begins.
    pub start: u64,
}

impl<S: Sink + ?Sized> Sink for &mut S {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        (**self).write(bytes);
    }

    #[inline(always)]
    fn write_small(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        (**self).write_small(bytes, len);
    }

    #[inline(always)]
    fn reserve_len(&mut self) -> LenSlot {
        (**self).reserve_len()
    }

    #[inline(always)]
    fn close_len(&mut self, slot: LenSlot) {
        (**self).close_len(slot);
    }
}

/// Encodes on the heap: one range that never ends, so there are no patches and every length is minimal or
/// four bytes.
impl Sink for Vec<u8> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn write_small(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        let end = self.len() + len;
        self.extend_from_slice(&bytes);
        self.truncate(end);
    }

    #[inline]
    fn reserve_len(&mut self) -> LenSlot {
        self.extend_from_slice(&[0; SLOT_LEN]);
        LenSlot { range: 0, offset: 0, start: self.len() as u64 }
    }

    #[inline(never)]
    fn close_len(&mut self, slot: LenSlot) {
        let start = slot.start as usize;
        let len = self.len().saturating_sub(start);
        let Some(begin) = start.checked_sub(SLOT_LEN) else { return };
        if len < ONE_BYTE_LIMIT {
            self.copy_within(start.., begin + 1);
            self.truncate(begin + 1 + len);
            if let Some(byte) = self.get_mut(begin) {
                *byte = len as u8;
            }
        } else if len <= MAX_LEN as usize {
            if let Some(place) = self.get_mut(begin..start) {
                place.copy_from_slice(&varint::redundant4(len as u32));
            }
        } else {
            // Too long for four bytes: make room. Never the case for trace packets, which are cut at 64 MiB.
            let message = self.split_off(start);
            self.truncate(begin);
            varint::encode(len as u64, self);
            self.extend_from_slice(&message);
        }
    }
}
