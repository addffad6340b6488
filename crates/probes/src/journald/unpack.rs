//! Undoes the compression of long fields.

use std::fmt;
use std::io::Read;

/// How a field is packed: the flags of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// From before systemd 231, or where it was built so. Not undone here.
    Xz,
    /// Systemd 231 to 245: the length, and one block.
    Lz4,
    /// Since systemd 246.
    Zstd,
    /// What a later systemd may add.
    Unknown,
}

impl Packing {
    pub(super) fn of_flags(flags: u8) -> Option<Self> {
        match flags & 0b111 {
            0 => None,
            0b001 => Some(Self::Xz),
            0b010 => Some(Self::Lz4),
            0b100 => Some(Self::Zstd),
            _ => Some(Self::Unknown),
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Unknown => "an unknown compression",
        })
    }
}

/// The beginning of what was packed, `max_bytes` at most; false if it cannot be had.
pub(super) fn unpack(packing: Packing, packed: &[u8], max_bytes: usize, plain: &mut Vec<u8>) -> bool {
    plain.clear();
    match packing {
        Packing::Xz | Packing::Unknown => false,
        Packing::Lz4 => packed.split_first_chunk::<8>().is_some_and(|(_, block)| {
            unpack_lz4(block, max_bytes, plain).is_some() || plain.len() == max_bytes
        }),
        Packing::Zstd => unpack_zstd(packed, max_bytes, plain) || plain.len() == max_bytes,
    }
}

/// A window for more than twice what is wanted is none that journald makes, and memory that a file asks for.
const MAX_ZSTD_WINDOW_BYTES: u64 = 8 << 20;

fn unpack_zstd(packed: &[u8], max_bytes: usize, plain: &mut Vec<u8>) -> bool {
    let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(packed, MAX_ZSTD_WINDOW_BYTES);
    let Ok(decoder) = decoder else { return false };
    decoder.take(max_bytes as u64).read_to_end(plain).is_ok()
}

/// One LZ4 block: `None` if it is damaged, or longer than `max_bytes`, up to which it is in `plain` then. A block is a series of literals and
/// copies of what came before (lz4_Block_format.md).
fn unpack_lz4(mut block: &[u8], max_bytes: usize, plain: &mut Vec<u8>) -> Option<()> {
    loop {
        let (&token, rest) = block.split_first()?;
        block = rest;
        let literals = length(usize::from(token >> 4), &mut block)?;
        let (literal_bytes, rest) = block.split_at_checked(literals)?;
        block = rest;
        let room = max_bytes - plain.len();
        plain.extend_from_slice(literal_bytes.get(..room).unwrap_or(literal_bytes));
        // The last series has literals only.
        if block.is_empty() {
            return (literals <= room).then_some(());
        }
        let (offset, rest) = block.split_first_chunk::<2>()?;
        block = rest;
        let copied = length(usize::from(token & 15), &mut block)?.checked_add(4)?;
        let from = plain.len().checked_sub(usize::from(u16::from_le_bytes(*offset)))?;
        let room = max_bytes - plain.len();
        // Byte by byte: a copy may reach into itself.
        for at in from..from + copied.min(room) {
            plain.push(*plain.get(at)?);
        }
        if copied > room {
            return None;
        }
    }
}

/// A length of which four bits are known; 15 means that bytes follow, up to one that is not 255.
fn length(bits: usize, block: &mut &[u8]) -> Option<usize> {
    let mut length = bits;
    let mut more = bits == 15;
    while more {
        let (&byte, rest) = block.split_first()?;
        *block = rest;
        length += usize::from(byte);
        more = byte == 255;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lz4(block: &[u8], max_bytes: usize) -> (bool, Vec<u8>) {
        let mut plain = Vec::new();
        let packed = [&[0; 8], block].concat();
        (unpack(Packing::Lz4, &packed, max_bytes, &mut plain), plain)
    }

    #[test]
    fn lz4_blocks_are_literals_and_copies() {
        // Three literals, a copy of 10 bytes from 3 back that reaches into itself, two literals.
        let block = [0x36, b'a', b'b', b'c', 3, 0, 0x20, b'd', b'e'];
        assert_eq!(lz4(&block, 100), (true, b"abcabcabcabcade".to_vec()));
        assert_eq!(lz4(&block, 7), (true, b"abcabca".to_vec()), "cut in a copy");
        assert_eq!(lz4(&block, 2), (true, b"ab".to_vec()), "cut in literals");
        // 15 + 255 + 3 literals.
        let long = [&[0xf0, 255, 3][..], &[b'x'; 273]].concat();
        assert_eq!(lz4(&long, 1000), (true, vec![b'x'; 273]));
        for damaged in [
            &[][..],
            &[0x30, b'a'],
            &[0x10, b'a', 2, 0, 0],
            &[0x10, b'a', 1],
            &[0xf0, 255],
            &[0x10, b'a', 0, 0],
        ] {
            assert!(!lz4(damaged, 100).0, "{damaged:?}");
        }
    }

    #[test]
    fn zstd_is_undone_and_cut_and_xz_is_named() {
        let text =
            b"MESSAGE=".iter().copied().chain((0..2000).map(|n| b'a' + (n % 7) as u8)).collect::<Vec<u8>>();
        let packed =
            ruzstd::encoding::compress_to_vec(text.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        let mut plain = Vec::new();
        assert!(unpack(Packing::Zstd, &packed, 1 << 16, &mut plain));
        assert_eq!(plain, text);
        assert!(unpack(Packing::Zstd, &packed, 100, &mut plain));
        assert_eq!(plain, text[..100]);
        assert!(!unpack(Packing::Zstd, &packed[..20], 1 << 16, &mut plain));
        assert!(!unpack(Packing::Xz, &packed, 100, &mut plain));
        assert_eq!(Packing::of_flags(1).unwrap().to_string(), "xz");
        assert_eq!([Packing::of_flags(0), Packing::of_flags(6)], [None, Some(Packing::Unknown)]);
    }

    proptest::proptest! {
        #[test]
        fn anything_unpacks_to_an_end_within_its_bound(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), flags in 0u8..8,
        ) {
            if let Some(packing) = Packing::of_flags(flags) {
                let mut plain = Vec::new();
                unpack(packing, &bytes, 1000, &mut plain);
                proptest::prop_assert!(plain.len() <= 1000);
            }
        }
    }
}
