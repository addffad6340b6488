//! The bytes of the buffer: chunks back to back, each a 16-byte header and its payload, padded to 16 bytes.
//!
//! The memory is reserved when the buffer is made and becomes resident as it is first written. Headers are
//! written by this crate only and lie outside every payload's range, so offsets taken from them can be trusted.

use crate::CreateError;
use crate::compact::Released;
use crate::copying::Copying;
use crate::memory::Memory;
use crate::prefetch::prefetch;

/// Size of a chunk's header, and what chunks are aligned to: a gap always has room for a header of its own.
///
/// Equal to the size of both headers in shared memory, so that a chunk needs as much here as there
/// (upstream: trace_buffer_v2.h, `TBChunk`).
pub(crate) const HEADER_BYTES: usize = 16;

/// The largest payload that a header can describe.
pub(crate) const MAX_PAYLOAD_BYTES: usize = u16::MAX as usize;

/// What is asked for of the place of the next chunk: as much as one of the usual size takes.
const MAX_PLACE_BYTES: usize = 4096;

/// Buffer sizes are rounded up to this.
const SIZE_STEP_BYTES: usize = 4096;

/// Set for chunks that were scraped while their writer may still have been writing.
///
/// Shares a byte with the ABI's flags, which use the lowest three bits.
pub(crate) const INCOMPLETE: u8 = 0x80;

/// Set for chunks in which every fragment is a whole packet and at least one is not empty.
///
/// Such a chunk can be overwritten without looking at its payload. A change to the payload clears it.
pub(crate) const PLAIN: u8 = 0x40;

/// What precedes a chunk's payload in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The sequence's slot; none for padding.
    pub(crate) slot: Option<u32>,
    /// The chunk's number in its sequence.
    pub(crate) id: u32,
    /// Bytes reserved for the payload. Never changes while the chunk is there.
    pub(crate) size: u16,
    /// Bytes of valid fragments. At most `size`.
    pub(crate) payload_size: u16,
    /// Bytes at the payload's end that are not consumed yet. At most `payload_size`.
    pub(crate) unread: u16,
    /// The ABI's flags, [`INCOMPLETE`] and [`PLAIN`].
    pub(crate) flags: u8,
    /// What a folding buffer has to know of the packets is kept behind them. It holds for as long as the chunk is [`PLAIN`].
    pub(crate) is_usual: bool,
    /// How often the chunk has come again, for a packet whose end has not come yet: below 128.
    pub(crate) moves: u8,
}

impl Header {
    /// A chunk that holds nothing: what is left of a consumed one, or a gap.
    pub(crate) fn padding(size: u16) -> Self {
        Self { slot: None, id: 0, size, payload_size: 0, unread: 0, flags: 0, is_usual: false, moves: 0 }
    }

    /// Offset in the payload of the first fragment that is not consumed.
    #[inline]
    pub(crate) fn unread_at(&self) -> usize {
        usize::from(self.payload_size - self.unread)
    }

    /// Bytes from this chunk's start to the next chunk's.
    #[inline]
    pub(crate) fn outer_size(&self) -> usize {
        outer_size(usize::from(self.size))
    }

    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let slot = self.slot.map_or(0, |slot| slot + 1); // there are fewer chunks than that
        let word = u128::from(slot)
            | u128::from(self.id) << 32
            | u128::from(self.size) << 64
            | u128::from(self.payload_size) << 80
            | u128::from(self.unread) << 96
            | u128::from(self.flags) << 112
            | u128::from(self.is_usual) << 120
            | u128::from(self.moves) << 121;
        word.to_le_bytes()
    }

    #[inline]
    fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let word = u128::from_le_bytes(bytes);
        Self {
            slot: (word as u32).checked_sub(1),
            id: (word >> 32) as u32,
            size: (word >> 64) as u16,
            payload_size: (word >> 80) as u16,
            unread: (word >> 96) as u16,
            flags: (word >> 112) as u8,
            is_usual: word >> 120 & 1 != 0,
            moves: (word >> 121) as u8,
        }
    }
}

/// Bytes that a chunk with room for `payload_bytes` takes in the ring.
#[inline]
pub(crate) fn outer_size(payload_bytes: usize) -> usize {
    (HEADER_BYTES + payload_bytes).next_multiple_of(HEADER_BYTES)
}

/// The memory.
#[derive(Debug)]
pub(crate) struct Ring {
    /// `size` bytes; those of a clone end with what is used.
    bytes: Memory,
    size: usize,
    /// The part from the start that chunks have been written to.
    used: usize,
    /// A copy under way, which gets to see what is about to change.
    copying: Option<Box<Copying>>,
}

impl Ring {
    pub(crate) fn new(size_bytes: usize) -> Result<Self, CreateError> {
        let size = size_bytes
            .max(1)
            .checked_next_multiple_of(SIZE_STEP_BYTES)
            .filter(|&size| u32::try_from(size).is_ok())
            .ok_or(CreateError::TooLarge { size_bytes })?;
        Ok(Self { bytes: Memory::reserve(size)?, size, used: 0, copying: None })
    }

    /// A copy with room for nothing more than what is used.
    pub(crate) fn copy_used(&self) -> Result<Self, CreateError> {
        let mut bytes = Memory::reserve(self.used.max(1))?;
        bytes.prefer_large_pages();
        bytes[..self.used].copy_from_slice(self.bytes());
        Ok(Self { bytes, size: self.size, used: self.used, copying: None })
    }

    /// Begins what [`copy_used`](Self::copy_used) does at once, of what is here now. One that is under way is given up.
    pub(crate) fn begin_copy(&mut self) -> Result<(), CreateError> {
        self.copying = Some(Box::new(Copying::new(Memory::reserve(self.used.max(1))?, self.used)));
        Ok(())
    }

    /// Copies some more; gives the copy when it is whole.
    pub(crate) fn continue_copy(&mut self) -> Option<Self> {
        if !self.copying.as_mut()?.copy_next(&self.bytes) {
            return None;
        }
        let (bytes, used) = self.copying.take()?.into_bytes();
        Some(Self { bytes, size: self.size, used, copying: None })
    }

    /// Gives up a copy under way.
    pub(crate) fn abandon_copy(&mut self) -> Option<Released> {
        self.copying.take().map(|copying| Released(copying.into_bytes().0))
    }

    /// All that changes bytes asks this first.
    #[inline]
    fn before_change(&mut self, at: usize, len: usize) {
        if let Some(copying) = &mut self.copying {
            copying.before_change(&self.bytes, at, len);
        }
    }

    /// The ring is full, and will be written from its start again. Only now, and by the kernel in the background: to make the first byte
    /// of a large page resident takes milliseconds on some machines, in which nobody empties the memory of producers.
    pub(crate) fn turn(&self) {
        self.bytes.prefer_large_pages();
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) fn header(&self, at: usize) -> Header {
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&self.bytes[at..at + HEADER_BYTES]);
        Header::from_bytes(bytes)
    }

    #[inline]
    pub(crate) fn set_header(&mut self, at: usize, header: Header) {
        self.before_change(at, HEADER_BYTES);
        self.bytes[at..at + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }

    /// The valid fragments of the chunk at `at`.
    #[inline]
    pub(crate) fn payload(&self, at: usize, header: &Header) -> &[u8] {
        &self.bytes[at + HEADER_BYTES..][..usize::from(header.payload_size)]
    }

    /// Begins to bring a chunk and the header behind it into the caches, if there is a chunk at `at`.
    ///
    /// Who walks a payload hops from one fragment's size to the next: each hop would wait for memory, for the
    /// processor cannot guess where it goes. So the chunk that is to be walked next is asked for while this one is.
    #[inline]
    pub(crate) fn prefetch_chunk(&self, at: usize) {
        if at < self.used() {
            let next = at + self.header(at).outer_size();
            prefetch(&self.bytes[at..(next + HEADER_BYTES).min(self.used())]);
        }
    }

    /// The same for where a chunk will be written next, over the one at `at`, and for the header behind it. A store that misses the caches
    /// waits for memory as a load does.
    #[inline]
    pub(crate) fn prefetch_place(&self, at: usize) {
        if at < self.used() {
            let next = at + self.header(at).outer_size();
            prefetch(&self.bytes[at..next.min(at + MAX_PLACE_BYTES).min(self.used())]);
            self.prefetch_header(next);
        }
    }

    /// The same for the header at `at`, if there is one.
    #[inline]
    pub(crate) fn prefetch_header(&self, at: usize) {
        prefetch(self.bytes.get(at..at + HEADER_BYTES).unwrap_or_default());
    }

    #[inline]
    pub(crate) fn payload_mut(&mut self, at: usize, header: &Header) -> &mut [u8] {
        self.before_change(at, header.outer_size());
        &mut self.bytes[at + HEADER_BYTES..][..usize::from(header.payload_size)]
    }

    /// Puts four bytes at an offset of the payload of the chunk at `at`. `None` if they lie outside of it.
    pub(crate) fn patch(&mut self, at: usize, header: &Header, offset: usize, data: [u8; 4]) -> Option<()> {
        let end = offset.checked_add(data.len()).filter(|&end| end <= usize::from(header.payload_size))?;
        self.before_change(at + HEADER_BYTES + offset, data.len());
        self.bytes[at + HEADER_BYTES..][offset..end].copy_from_slice(&data);
        Some(())
    }

    /// All bytes in use; packets point into them.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Writes a whole chunk at `at`, which is at most `used()`. The chunk fits before the ring's end.
    pub(crate) fn place(&mut self, at: usize, header: Header, payload: &[u8]) {
        let end = at + header.outer_size();
        debug_assert!(end <= self.size && payload.len() == usize::from(header.payload_size));
        self.used = self.used.max(end);
        self.set_header(at, header);
        self.payload_mut(at, &header).copy_from_slice(payload);
    }

    /// The room behind the valid fragments of the chunk at `at`.
    #[inline]
    pub(crate) fn behind_payload(&self, at: usize, header: &Header) -> &[u8] {
        &self.bytes[at + HEADER_BYTES..][usize::from(header.payload_size)..usize::from(header.size)]
    }

    #[inline]
    pub(crate) fn behind_payload_mut(&mut self, at: usize, header: &Header) -> &mut [u8] {
        self.before_change(at, header.outer_size());
        &mut self.bytes[at + HEADER_BYTES..][usize::from(header.payload_size)..usize::from(header.size)]
    }

    /// Moves the chunk at `from` to `to`, which is not behind it.
    pub(crate) fn move_chunk(&mut self, from: usize, to: usize) {
        let end = from + self.header(from).outer_size();
        self.before_change(to, end - from);
        self.bytes.copy_within(from..end, to);
    }

    /// Forgets everything from `used` on. With `release`, its memory goes back to the system, if there is
    /// memory to move the rest into, and no copy under way that needs it.
    pub(crate) fn truncate(&mut self, used: usize, release: bool) -> Option<Released> {
        self.used = used;
        if !release || self.copying.is_some() {
            return None;
        }
        let mut fresh = Memory::reserve(self.size).ok()?;
        fresh[..used].copy_from_slice(self.bytes());
        Some(Released(std::mem::replace(&mut self.bytes, fresh)))
    }
}
