//! The few bytes that stand before each packet on its way out.

use bytes::BytesMut;

/// Bytes that are put together aside and appended at once: each append costs as much as the bytes of a small packet.
///
/// In a number, which stays in registers. Bytes that are stored one by one and then loaded together make the processor wait for all of
/// the stores.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prefix {
    /// The first byte is the lowest.
    bytes: u128,
    len: usize,
}

impl Prefix {
    /// Room for two tags and two lengths below 4 GiB, and some. To be had at the end of what a prefix is appended to, so that it need not
    /// grow for bytes that are taken back.
    pub(crate) const MAX_BYTES: usize = 16;

    #[inline]
    pub(crate) fn byte(self, byte: u8) -> Self {
        match self.len < Self::MAX_BYTES {
            true => Self { bytes: self.bytes | u128::from(byte) << (8 * self.len), len: self.len + 1 },
            false => self,
        }
    }

    #[inline]
    pub(crate) fn varint(mut self, mut value: usize) -> Self {
        while value >= 0x80 {
            self = self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8)
    }

    #[inline]
    pub(crate) fn append_to(&self, out: &mut BytesMut) {
        let end = out.len() + self.len;
        // To copy a fixed number of bytes takes two instructions.
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.truncate(end);
    }

    /// The bytes, and how many of them count.
    pub(crate) fn to_bytes(self) -> ([u8; Self::MAX_BYTES], usize) {
        (self.bytes.to_le_bytes(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_appended_without_what_it_has_room_for() {
        let mut out = BytesMut::from(&b"x"[..]);
        Prefix::default().byte(0x0a).varint(300).append_to(&mut out);
        Prefix::default().varint(7).append_to(&mut out);
        assert_eq!(out, &[b'x', 0x0a, 0xac, 0x02, 7][..]);
    }
}
