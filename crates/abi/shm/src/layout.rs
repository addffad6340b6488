//! The numbers of the ABI: sizes, layouts, states, and the words that hold them. Nothing here touches memory.

use std::error::Error;
use std::fmt;
use std::ops::BitOr;

/// Bytes at the start of a page: the bitmap and a reserved word (upstream: `PageHeader` in
/// shared_memory_abi.h).
pub const PAGE_HEADER_LEN: usize = 8;

/// Bytes at the start of a chunk (upstream: `ChunkHeader` in shared_memory_abi.h).
pub const CHUNK_HEADER_LEN: usize = 8;

/// The most chunks a page can have: two bits each in 28 (upstream: `kMaxChunksPerPage`).
pub const MAX_CHUNKS_PER_PAGE: u32 = 14;

/// The largest chunk, header included: one that fills the largest page.
///
/// Upstream's bound is 65536 but it keeps sizes in 16 bits, so a chunk sent inline with 65536 bytes counts as
/// empty there. No real chunk is that long.
pub const MAX_CHUNK_LEN: usize = PageSize::MAX as usize - PAGE_HEADER_LEN;

/// The most packets a chunk can count: ten bits (upstream: `Packets::kMaxCount`).
pub const MAX_PACKETS_PER_CHUNK: u16 = (1 << PACKET_COUNT_BITS) - 1;

/// The most packets a writer should put in a chunk: one is left for the count's inflation at the end of a
/// packet (upstream: trace_writer_impl.cc).
pub const WRITER_MAX_PACKETS_PER_CHUNK: u16 = MAX_PACKETS_PER_CHUNK - 1;

const PACKET_COUNT_BITS: u32 = 10;
const LAYOUT_SHIFT: u32 = 28;
const LAYOUT_MASK: u32 = 0x7;
const STATE_MASK: u32 = 0x3;
const ALL_STATES_MASK: u32 = (1 << LAYOUT_SHIFT) - 1;

/// The size of a page: a power of two from 4 to 64 KiB, the same for all pages of a producer.
///
/// ```
/// use ferretto_shm::PageSize;
/// assert_eq!(PageSize::new(8192).unwrap().bytes(), 8192);
/// assert!(PageSize::new(12288).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

/// A number that is no page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSizeError {
    /// The number found.
    pub bytes: u64,
}

impl fmt::Display for PageSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes is no page size of shared memory; use a power of two from 4096 to 65536",
            self.bytes
        )
    }
}

impl Error for PageSizeError {}

impl PageSize {
    /// What is used when nobody asks for anything else (upstream: `kDefaultShmPageSize`).
    pub const DEFAULT: Self = Self(Self::MIN);
    /// The smallest page, in bytes (upstream: `kMinPageSize`).
    #[cfg(not(loom))]
    pub const MIN: u32 = 4096;
    /// The smallest page, in bytes: small enough for a model checker, which pays for each word.
    #[cfg(loom)]
    pub const MIN: u32 = 64;
    /// The largest page, in bytes (upstream: `kMaxPageSize`).
    pub const MAX: u32 = 65536;

    /// Checks a number of bytes.
    ///
    /// # Errors
    ///
    /// If it is not a power of two from 4096 to 65536.
    pub const fn new(bytes: u64) -> Result<Self, PageSizeError> {
        if bytes.is_power_of_two() && bytes >= Self::MIN as u64 && bytes <= Self::MAX as u64 {
            Ok(Self(bytes as u32))
        } else {
            Err(PageSizeError { bytes })
        }
    }

    /// The size in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// How a page is divided. The value 0, not listed, is a page that is free; 6 and 7 are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageLayout {
    /// One chunk.
    Div1 = 1,
    /// Two chunks.
    Div2 = 2,
    /// Four chunks.
    Div4 = 3,
    /// Seven chunks.
    Div7 = 4,
    /// Fourteen chunks.
    Div14 = 5,
}

impl PageLayout {
    /// All of them, fewest chunks first.
    pub const ALL: [Self; 5] = [Self::Div1, Self::Div2, Self::Div4, Self::Div7, Self::Div14];

    /// The number of chunks.
    #[inline]
    #[must_use]
    pub const fn chunks(self) -> u32 {
        match self {
            Self::Div1 => 1,
            Self::Div2 => 2,
            Self::Div4 => 4,
            Self::Div7 => 7,
            Self::Div14 => 14,
        }
    }

    /// The size of each chunk in bytes, header included: a multiple of four.
    ///
    /// ```
    /// use ferretto_shm::{PageLayout, PageSize};
    /// assert_eq!(PageLayout::Div1.chunk_len(PageSize::DEFAULT), 4088);
    /// assert_eq!(PageLayout::Div14.chunk_len(PageSize::DEFAULT), 292);
    /// ```
    #[inline]
    #[must_use]
    pub const fn chunk_len(self, page_size: PageSize) -> usize {
        ((page_size.bytes() - PAGE_HEADER_LEN) / self.chunks() as usize) & !3
    }

    /// The bitmap of a page that has this layout and only free chunks.
    #[inline]
    pub(crate) const fn bitmap(self) -> u32 {
        (self as u32) << LAYOUT_SHIFT
    }

    #[inline]
    const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::Div1),
            2 => Some(Self::Div2),
            3 => Some(Self::Div4),
            4 => Some(Self::Div7),
            5 => Some(Self::Div14),
            _ => None,
        }
    }
}

/// Who may touch a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkState {
    /// Nobody's: the producer may take it.
    Free = 0,
    /// The producer writes to it. The service may read it when it scrapes, but not change it.
    BeingWritten = 1,
    /// The service copies it.
    BeingRead = 2,
    /// The producer is done with it, and the service may take it.
    Complete = 3,
}

impl ChunkState {
    #[inline]
    const fn from_bits(bits: u32) -> Self {
        match bits & STATE_MASK {
            0 => Self::Free,
            1 => Self::BeingWritten,
            2 => Self::BeingRead,
            _ => Self::Complete,
        }
    }
}

/// The word at the start of a page: its layout and the states of its chunks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bitmap(pub(crate) u32);

impl Bitmap {
    pub(crate) const FREE_PAGE: Self = Self(0);

    /// `None` for a free page and for the reserved values.
    #[inline]
    pub(crate) const fn layout(self) -> Option<PageLayout> {
        PageLayout::from_bits(self.layout_bits())
    }

    #[inline]
    pub(crate) const fn layout_bits(self) -> u32 {
        (self.0 >> LAYOUT_SHIFT) & LAYOUT_MASK
    }

    /// `chunk` is below [`MAX_CHUNKS_PER_PAGE`].
    #[inline]
    pub(crate) const fn state(self, chunk: u32) -> ChunkState {
        ChunkState::from_bits(self.0 >> (2 * chunk))
    }

    /// `chunk` is below [`MAX_CHUNKS_PER_PAGE`].
    #[inline]
    pub(crate) const fn with_state(self, chunk: u32, state: ChunkState) -> Self {
        let shift = 2 * chunk;
        Self(self.0 & !(STATE_MASK << shift) | (state as u32) << shift)
    }

    #[inline]
    pub(crate) const fn all_chunks_free(self) -> bool {
        self.0 & ALL_STATES_MASK == 0
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bitmap({:#010x})", self.0)
    }
}

/// What a chunk says of its first and last packets (upstream: `ChunkHeader::Flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(u8);

impl ChunkFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The first fragment continues the last packet of the writer's previous chunk.
    pub const FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK: Self = Self(1);
    /// The last fragment continues in the writer's next chunk.
    pub const LAST_PACKET_CONTINUES_ON_NEXT_CHUNK: Self = Self(2);
    /// Lengths within the last packet are still to be patched; it is not readable until they are.
    pub const NEEDS_PATCHING: Self = Self(4);
    /// All flags the ABI knows (upstream: `kFlagsMask`).
    pub const ALL: Self = Self(7);

    /// Takes the flags the ABI knows from `bits` and drops the rest.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// The flags as they stand in the header.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all flags of `other` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags without those of `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for ChunkFlags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A chunk's header, copied out of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Counts the chunks of one writer, from 0, wrapping.
    pub chunk_id: u32,
    /// The writer, 1..=32767; what a producer claims, so any value may come.
    pub writer_id: u16,
    /// Packets or fragments in the chunk, at most [`MAX_PACKETS_PER_CHUNK`]; what the payload holds may be
    /// less.
    pub packet_count: u16,
    /// What is special about the first and the last packet.
    pub flags: ChunkFlags,
}

/// Inline chunk data that cannot be a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineChunkError {
    /// The number of bytes found.
    pub len: usize,
}

impl fmt::Display for InlineChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an inline chunk has {} bytes; a chunk has 8 to 65528", self.len)
    }
}

impl Error for InlineChunkError {}

impl ChunkHeader {
    /// Splits a chunk that came over the socket, as it does from producers without shared memory, into header
    /// and payload (upstream: `ChunksToMove.data`).
    ///
    /// # Errors
    ///
    /// If it is shorter than a header or longer than any chunk. (Upstream aborts on some such lengths.)
    ///
    /// ```
    /// use ferretto_shm::ChunkHeader;
    /// let (header, payload) = ChunkHeader::split_inline(&[5, 0, 0, 0, 7, 0, 1, 0x08, b'x']).unwrap();
    /// assert_eq!((header.chunk_id, header.writer_id, header.packet_count), (5, 7, 1));
    /// assert_eq!((header.flags.bits(), payload), (2, &b"x"[..]));
    /// ```
    pub fn split_inline(data: &[u8]) -> Result<(Self, &[u8]), InlineChunkError> {
        let error = InlineChunkError { len: data.len() };
        if data.len() > MAX_CHUNK_LEN {
            return Err(error);
        }
        let (id, rest) = data.split_first_chunk().ok_or(error)?;
        let (word, payload) = rest.split_first_chunk().ok_or(error)?;
        Ok((Self::from_words(u32::from_le_bytes(*id), u32::from_le_bytes(*word)), payload))
    }

    /// The header as it stands at the start of a chunk.
    #[must_use]
    pub fn to_bytes(self) -> [u8; CHUNK_HEADER_LEN] {
        (u64::from(self.chunk_id) | u64::from(self.packets_word()) << 32).to_le_bytes()
    }

    /// From the two words of a header. Unknown flags are dropped.
    #[inline]
    pub(crate) const fn from_words(chunk_id: u32, packets_word: u32) -> Self {
        let packets = (packets_word >> 16) as u16;
        Self {
            chunk_id,
            writer_id: packets_word as u16,
            packet_count: packets & MAX_PACKETS_PER_CHUNK,
            flags: ChunkFlags::from_bits((packets >> PACKET_COUNT_BITS) as u8),
        }
    }

    /// The second word of the header: writer id, packet count and flags.
    #[inline]
    pub(crate) const fn packets_word(self) -> u32 {
        let count = (self.packet_count & MAX_PACKETS_PER_CHUNK) as u32;
        self.writer_id as u32 | count << 16 | (self.flags.bits() as u32) << (16 + PACKET_COUNT_BITS)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_those_of_the_abi() {
        // (page size, chunk sizes of Div1, Div2, Div4, Div7, Div14): ((P - 8) / n) & ~3
        let cases = [
            (4096, [4088, 2044, 1020, 584, 292]),
            (8192, [8184, 4092, 2044, 1168, 584]),
            (16384, [16376, 8188, 4092, 2336, 1168]),
            (32768, [32760, 16380, 8188, 4680, 2340]),
            (65536, [65528, 32764, 16380, 9360, 4680]),
        ];
        for (bytes, expected) in cases {
            let page_size = PageSize::new(bytes).unwrap();
            let found = PageLayout::ALL.map(|layout| layout.chunk_len(page_size));
            assert_eq!(found, expected, "page of {bytes}");
            for layout in PageLayout::ALL {
                let end = PAGE_HEADER_LEN + layout.chunks() as usize * layout.chunk_len(page_size);
                assert!(end <= page_size.bytes() && layout.chunk_len(page_size) <= MAX_CHUNK_LEN);
            }
        }
    }

    #[test]
    fn only_powers_of_two_from_4_to_64_kib_are_page_sizes() {
        for bytes in [0, 1, 2048, 4095, 12288, 65537, 131072, u64::MAX] {
            assert_eq!(PageSize::new(bytes), Err(PageSizeError { bytes }));
        }
    }

    #[test]
    fn reserved_layouts_are_no_layouts() {
        for (bits, expected) in [0, 1, 2, 3, 4, 5, 6, 7].into_iter().zip([0, 1, 2, 4, 7, 14, 0, 0]) {
            for reserved_bit in [0, 1 << 31] {
                let bitmap = Bitmap(bits << LAYOUT_SHIFT | reserved_bit);
                assert_eq!(bitmap.layout().map_or(0, PageLayout::chunks), expected);
            }
        }
    }

    #[test]
    fn headers_survive_the_way_to_bytes_and_back() {
        for packet_count in [0, 1, 1022, 1023] {
            for flags in 0..8 {
                let header = ChunkHeader {
                    chunk_id: u32::MAX,
                    writer_id: 0x7fff,
                    packet_count,
                    flags: ChunkFlags(flags),
                };
                assert_eq!(ChunkHeader::split_inline(&header.to_bytes()), Ok((header, &[][..])));
            }
        }
    }

    #[test]
    fn inline_chunks_of_impossible_length_are_refused() {
        for len in [0, 7, MAX_CHUNK_LEN + 1, 65536, 70000] {
            assert_eq!(ChunkHeader::split_inline(&vec![0; len]), Err(InlineChunkError { len }));
        }
        assert!(ChunkHeader::split_inline(&vec![0xff; MAX_CHUNK_LEN]).is_ok());
    }
}
