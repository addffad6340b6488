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
        Packing::Lz4 => unpack_lz4(packed, max_bytes, plain),
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

/// A field that says it is longer than this stays packed: the library unpacks all of a block or nothing.
const MAX_LZ4_BYTES: usize = 8 << 20;

/// The length, and one block of just as many bytes.
fn unpack_lz4(packed: &[u8], max_bytes: usize, plain: &mut Vec<u8>) -> bool {
    let Some((length, block)) = packed.split_first_chunk::<8>() else { return false };
    let Some(length) =
        usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= MAX_LZ4_BYTES)
    else {
        return false;
    };
    plain.resize(length, 0);
    let is_whole = lz4_flex::block::decompress_into(block, plain).is_ok_and(|unpacked| unpacked == length);
    plain.truncate(if is_whole { max_bytes } else { 0 });
    plain.shrink_to(max_bytes);
    is_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lz4(length: u64, block: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        let packed = [&length.to_le_bytes(), block].concat();
        unpack(Packing::Lz4, &packed, max_bytes, &mut plain).then_some(plain)
    }

    #[test]
    fn lz4_is_undone_and_cut() {
        // Three literals, a copy of 10 bytes from 3 back that reaches into itself, two literals.
        let block = [0x36, b'a', b'b', b'c', 3, 0, 0x20, b'd', b'e'];
        assert_eq!(lz4(15, &block, 100).unwrap(), b"abcabcabcabcade");
        assert_eq!(lz4(15, &block, 7).unwrap(), b"abcabca", "cut");
        let long = vec![b'x'; 100_000];
        assert_eq!(lz4(100_000, &lz4_flex::block::compress(&long), 1000).unwrap(), long[..1000]);
        for wrong_length in [0, 14, 16, MAX_LZ4_BYTES as u64 + 1, u64::MAX] {
            assert_eq!(lz4(wrong_length, &block, 100), None, "{wrong_length}");
        }
        for damaged in [&[][..], &[0x30, b'a'], &[0x10, b'a', 2, 0, 0], &[0x10, b'a', 1], &[0xf0, 255]] {
            assert_eq!(lz4(5, damaged, 100), None, "{damaged:?}");
        }
        assert!(!unpack(Packing::Lz4, &[0; 7], 100, &mut Vec::new()), "no length");
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
