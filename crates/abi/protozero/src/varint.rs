//! Base-128 varints: seven bits a byte, least significant group first, the top bit set on all but the last
//! byte.

/// The most bytes a 64-bit varint takes.
pub const MAX_SIZE: usize = 10;

/// Values below this fit in [`spread`]'s eight bytes.
const SPREAD_LIMIT: u64 = 1 << 56;

/// The number of bytes that `value` takes as a minimal varint: 1 to 10.
///
/// ```
/// use ferretto_protozero::varint::size;
/// assert_eq!((size(0), size(127), size(128), size(u64::MAX)), (1, 1, 2, 10));
/// ```
#[inline]
#[must_use]
pub const fn size(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `value` to `out` as a minimal varint.
///
/// ```
/// let mut out = Vec::new();
/// ferretto_protozero::varint::encode(300, &mut out);
/// assert_eq!(out, [0xac, 0x02]);
/// ```
#[inline]
pub fn encode(value: u64, out: &mut Vec<u8>) {
    let (word, len) = word(value);
    // `len` is at most MAX_SIZE, so the slice is always there.
    out.extend_from_slice(word.to_le_bytes().get(..len).unwrap_or_default());
}

/// Reads a varint from the start of `bytes`: its value and the number of bytes it took.
///
/// Redundant (non-minimal) encodings are accepted, as trace writers reserve lengths with them. `None` if the
/// varint does not end within `bytes` or within ten bytes. Bits beyond the 64th are dropped, as other parsers
/// do.
///
/// ```
/// use ferretto_protozero::varint::decode;
/// assert_eq!(decode(&[0xac, 0x02, 0xff]), Some((300, 2)));
/// assert_eq!(decode(&[0x85, 0x80, 0x80, 0x00]), Some((5, 4)));
/// assert_eq!(decode(&[0x80]), None);
/// ```
#[inline]
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes {
        [byte, ..] if *byte < 0x80 => Some((u64::from(*byte), 1)),
        _ => decode_long(bytes),
    }
}

/// The high bit of each byte: set where a varint goes on.
const GOES_ON: u64 = 0x8080_8080_8080_8080;

fn decode_long(bytes: &[u8]) -> Option<(u64, usize)> {
    // Timestamps have 7 to 9 bytes: take 8 at once.
    if let Some(&first) = bytes.first_chunk() {
        let word = u64::from_le_bytes(first);
        let end = !word & GOES_ON;
        if end != 0 {
            let len = end.trailing_zeros() / 8 + 1;
            return Some((gather(word << (64 - 8 * len) >> (64 - 8 * len)), len as usize));
        }
    }
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(MAX_SIZE) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// The lower seven bits of each byte, side by side.
const fn gather(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0000_0000_0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// `value` as a varint of exactly four bytes, however small it is.
///
/// This is how a length whose size must be known in advance is written. Values over 2^28 - 1 do not fit: the
/// upper bits are cut off, so callers check first.
///
/// ```
/// assert_eq!(ferretto_protozero::varint::redundant4(5), [0x85, 0x80, 0x80, 0x00]);
/// ```
#[inline]
#[must_use]
pub const fn redundant4(value: u32) -> [u8; 4] {
    let spread = (value & 0x7f)
        | (((value >> 7) & 0x7f) << 8)
        | (((value >> 14) & 0x7f) << 16)
        | (((value >> 21) & 0x7f) << 24);
    (spread | 0x0080_8080).to_le_bytes()
}

/// Maps a signed value to an unsigned one so that small magnitudes stay small (`sint32`, `sint64`).
///
/// ```
/// use ferretto_protozero::varint::{zigzag, unzigzag};
/// assert_eq!((zigzag(0), zigzag(-1), zigzag(1)), (0, 1, 2));
/// assert_eq!(unzigzag(zigzag(i64::MIN)), i64::MIN);
/// ```
#[inline]
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// `value` as a minimal varint in the low bytes of a word, the others zero, and its length.
///
/// Kept in registers: bytes stored one by one and then loaded as a word would stall the processor.
#[inline(always)]
#[must_use]
pub const fn word(value: u64) -> (u128, usize) {
    if value < 0x80 {
        return (value as u128, 1);
    }
    if value < SPREAD_LIMIT {
        let len = size(value);
        let continuation = 0x8080_8080_8080_8080u64 & ((1u64 << (8 * (len - 1))) - 1);
        return ((spread(value) | continuation) as u128, len);
    }
    let low = spread(value & (SPREAD_LIMIT - 1)) | 0x8080_8080_8080_8080;
    let high = (value >> 56) as u16;
    let (tail, tail_len) =
        if high < 0x80 { (high, 1) } else { ((high & 0x7f) | 0x80 | ((high >> 7) << 8), 2) };
    (low as u128 | ((tail as u128) << 64), 8 + tail_len)
}

/// Moves each group of seven of the lower 56 bits into a byte of its own.
#[inline(always)]
const fn spread(value: u64) -> u64 {
    let x = ((value & 0x00ff_ffff_f000_0000) << 4) | (value & 0x0fff_ffff);
    let x = ((x & 0x0fff_c000_0fff_c000) << 2) | (x & 0x0000_3fff_0000_3fff);
    ((x & 0x3f80_3f80_3f80_3f80) << 1) | (x & 0x007f_007f_007f_007f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    fn check(value: u64) {
        let mut fast = Vec::new();
        encode(value, &mut fast);
        assert_eq!(fast, plain(value), "{value:#x}");
        assert_eq!(size(value), fast.len());
        assert_eq!(decode(&fast), Some((value, fast.len())));
        assert_eq!(decode(&fast[..fast.len() - 1]), None);
    }

    #[test]
    fn every_power_of_two_and_its_neighbours_encode_as_the_plain_way_does() {
        for shift in 0..64 {
            let value = 1u64 << shift;
            for value in [value - 1, value, value + 1] {
                check(value);
            }
        }
        check(u64::MAX);
    }

    #[test]
    fn more_than_ten_bytes_are_refused() {
        assert_eq!(decode(&[0x80; 11]), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80, 0x00]), None);
        assert_eq!(decode(&[]), None);
    }

    proptest! {
        #[test]
        fn encoding_agrees_with_the_plain_way(value: u64, shift in 0u32..64) {
            check(value >> shift);
        }

        #[test]
        fn redundant_lengths_decode_to_themselves(value in 0u32..1 << 28) {
            prop_assert_eq!(decode(&redundant4(value)), Some((u64::from(value), 4)));
        }

        #[test]
        fn zigzag_has_an_inverse(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
