//! Records that were packed together: one stream of zstd, in pieces, which perf does not end.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;

/// What comes out may be so many times what went in. Ours: records pack to a tenth or so.
const MAX_RATIO: u64 = 100;
/// Whatever the ratio. Ours.
const FREE_BYTES: u64 = 16 << 20;

/// The stream.
#[derive(Debug, Default)]
pub(super) struct Packed(Vec<u8>);

impl Packed {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// What comes out, and whether that is all.
    pub(super) fn unpack(&self) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let mut left = (self.0.len() as u64).saturating_mul(MAX_RATIO).max(FREE_BYTES);
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let Some(frame) = Frame::of(rest) else { return (out, false) };
            let before = out.len();
            let end = unpack_frame(&frame.bytes, left, &mut out);
            left = left.saturating_sub((out.len() - before) as u64);
            if end.is_err() || left == 0 {
                return (out, false);
            }
            rest = rest.get(frame.used..).unwrap_or_default();
            if !frame.is_whole {
                return (out, rest.is_empty());
            }
        }
        (out, true)
    }
}

fn unpack_frame(frame: &[u8], limit: u64, out: &mut Vec<u8>) -> io::Result<()> {
    let frame = StreamingDecoder::new(frame).map_err(io::Error::other)?;
    frame.take(limit).read_to_end(out).map(|_| ())
}

/// The first frame of a stream, with an end of its own: what follows its last whole block is left out, and so is a checksum of what may not be
/// all. (Of a frame without an end the decoder would keep what its window holds.)
struct Frame {
    bytes: Vec<u8>,
    /// How much of the stream it is.
    used: usize,
    /// It had its end.
    is_whole: bool,
}

impl Frame {
    fn of(stream: &[u8]) -> Option<Self> {
        const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
        const CHECKSUM: u8 = 1 << 2;
        const SINGLE_SEGMENT: u8 = 1 << 5;
        /// A last block of no bytes.
        const END: [u8; 3] = [1, 0, 0];
        if !stream.starts_with(&MAGIC) {
            return None;
        }
        let descriptor = *stream.get(MAGIC.len())?;
        let is_single = descriptor & SINGLE_SEGMENT != 0;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size = match descriptor >> 6 {
            0 => usize::from(is_single),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let mut at = MAGIC.len() + 1 + usize::from(!is_single) + dictionary + size;
        loop {
            let block = stream.get(at..at + 3);
            let Some(len) = block.and_then(block_bytes).filter(|len| at + len <= stream.len()) else {
                let mut bytes = stream.get(..at)?.to_vec();
                if let Some(descriptor) = bytes.get_mut(MAGIC.len()) {
                    *descriptor &= !CHECKSUM;
                }
                bytes.extend(END);
                return Some(Self { bytes, used: at, is_whole: false });
            };
            at += len;
            if block.is_some_and(|block| block.first().is_some_and(|byte| byte & 1 != 0)) {
                let used = at + if descriptor & CHECKSUM == 0 { 0 } else { 4 };
                let bytes = stream.get(..used)?.to_vec();
                return Some(Self { bytes, used, is_whole: true });
            }
        }
    }
}

/// How many bytes a block is, with its head.
fn block_bytes(head: &[u8]) -> Option<usize> {
    const REPEATED: usize = 1;
    let [a, b, c] = head else { return None };
    let head = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
    let len = if head >> 1 & 3 == REPEATED { 1 } else { head >> 3 };
    Some(3 + len)
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    #[test]
    fn what_was_packed_comes_out_up_to_the_last_whole_block() {
        let text: Vec<u8> = (0..400_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let frame = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
        let unpacked = |bytes: &[u8]| {
            let mut packed = Packed::default();
            bytes.chunks(1000).for_each(|piece| packed.push(piece));
            packed.unpack()
        };
        assert_eq!(unpacked(&frame), (text.clone(), true));
        assert_eq!(unpacked(&[frame.clone(), frame.clone()].concat()), (text.repeat(2), true));
        let (out, is_all) = unpacked(&frame[..frame.len() / 2]);
        assert!(!is_all && out.len() > text.len() / 8 && text.starts_with(&out), "{}", out.len());
        assert_eq!(unpacked(b"nonsense"), (vec![], false));
        for end in 0..50 {
            unpacked(&frame[..end]);
        }
    }

    #[test]
    fn far_more_than_went_in_does_not_come_out() {
        // A frame of blocks of one byte, again and again.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x50];
        for _ in 0..1000 {
            frame.extend([0x02, 0x00, 0x10, 7]);
        }
        let mut packed = Packed::default();
        packed.push(&frame);
        let (out, is_all) = packed.unpack();
        assert!(!is_all && out.len() as u64 <= FREE_BYTES, "{}", out.len());
    }
}
