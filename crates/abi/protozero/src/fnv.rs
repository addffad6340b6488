//! FNV-1a, by which this system makes numbers of names: uuids of tracks, ids of machines, the checksums of filters.

/// The hash of some bytes.
///
/// ```
/// use ferretto_protozero::fnv::{fnv1a, fnv1a_on};
/// assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
/// assert_eq!(fnv1a(b"ab"), fnv1a_on(fnv1a(b"a"), b"b"));
/// ```
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_on(0xcbf2_9ce4_8422_2325, bytes)
}

/// The hash of what `so_far` is the hash of, followed by `bytes`.
pub const fn fnv1a_on(so_far: u64, bytes: &[u8]) -> u64 {
    let mut hash = so_far;
    let mut rest = bytes;
    while let [first, others @ ..] = rest {
        hash = (hash ^ *first as u64).wrapping_mul(0x0100_0000_01b3);
        rest = others;
    }
    hash
}
