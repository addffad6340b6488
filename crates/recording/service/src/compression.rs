//! Packets that are compressed together, as one packet of the trace (upstream: zlib_compressor.cc, zstd_compressor.cc).
//!
//! Each batch that is read becomes a packet with `compressed_packets` or `zstd_compressed_packets`: the batch as it would stand in a file,
//! in the format of zlib or as a frame of zstd. The packets that readers want before they unpack anything stay as they are.

use std::io::{BufWriter, Write as _};

use ferretto_protos::fields::trace_packet::{COMPRESSED_PACKETS, ZSTD_COMPRESSED_PACKETS};
use ferretto_protozero::Message as Writer;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::config::Codec;
use crate::file_output::{PREAMBLE_BYTES, preamble};
use crate::limits;
use crate::read_back::PacketSink;

/// zlib's own choice, and upstream's.
const DEFLATE_LEVEL: u32 = 6;

/// For large packets, which are compressed at once: at the level above, one that repeats itself in the worst way takes 0.2 µs a byte.
const FAST_DEFLATE_LEVEL: u32 = 1;

/// Bytes that are given to the encoder at once.
const DEFLATE_WRITE_BYTES: usize = 16 << 10;

/// zstd's own choice, which it names 0.
const ZSTD_DEFAULT_LEVEL: i32 = 3;

/// Those that the library has. Other numbers are brought into them.
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -7..=4;

/// What compression and framing may add, as a part of the batch: data that cannot be compressed is stored in blocks of at least 16 KiB,
/// with 5 bytes each (deflate), or of 128 KiB, with 3 (zstd).
const EXPANSION_DIVISOR: usize = 2048;
const OVERHEAD_BYTES: usize = 64;

/// Compresses packets on their way to another sink. Call [`finish`](Self::finish) at the end.
pub(crate) struct Compressing<'a, S> {
    sink: &'a mut S,
    codec: Codec,
    /// The batch, once it has begun.
    encoder: Option<Encoder>,
    /// Bytes of the batch before compression.
    taken: usize,
}

impl<'a, S: PacketSink> Compressing<'a, S> {
    pub(crate) fn new(sink: &'a mut S, codec: Codec) -> Self {
        Self { sink, codec, encoder: None, taken: 0 }
    }

    /// Gives the batch to the sink.
    pub(crate) fn finish(mut self) {
        self.end_batch();
    }

    fn end_batch(&mut self) {
        self.taken = 0;
        let Some((field, batch)) = self.encoder.take().and_then(Encoder::finish) else { return };
        let mut packet = Vec::with_capacity(batch.len() + OVERHEAD_BYTES);
        Writer::new(&mut packet).bytes(field, &batch);
        self.sink.packet(std::iter::once(packet.as_slice()), packet.len());
    }

    fn write(&mut self, bytes: &[u8]) {
        self.encoder.get_or_insert_with(|| Encoder::new(self.codec, DEFLATE_LEVEL)).write(bytes);
        self.taken += bytes.len();
    }
}

enum Encoder {
    /// Each write costs the encoder as much as kilobytes do, and packets are small.
    Deflate(BufWriter<ZlibEncoder<Vec<u8>>>),
    /// All of it is needed at once.
    Zstd { batch: Vec<u8>, level: i32 },
}

impl Encoder {
    /// The level is that of zlib.
    fn new(codec: Codec, deflate_level: u32) -> Self {
        match codec {
            Codec::Deflate => {
                let encoder = ZlibEncoder::new(Vec::new(), Compression::new(deflate_level));
                Self::Deflate(BufWriter::with_capacity(DEFLATE_WRITE_BYTES, encoder))
            }
            Codec::Zstd { level } => Self::Zstd { batch: Vec::new(), level: zstd_level(level) },
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Deflate(encoder) => {
                let written = encoder.write_all(bytes);
                debug_assert!(written.is_ok(), "memory takes everything");
            }
            Self::Zstd { batch, .. } => batch.extend_from_slice(bytes),
        }
    }

    /// The field for it, and its bytes.
    fn finish(self) -> Option<(u32, Vec<u8>)> {
        match self {
            // Writing to memory cannot fail.
            Self::Deflate(encoder) => {
                let batch = encoder.into_inner().ok()?.finish().ok()?;
                Some((COMPRESSED_PACKETS, batch))
            }
            Self::Zstd { batch, level } => match zstd_frame(&batch, level) {
                Ok(frame) => Some((ZSTD_COMPRESSED_PACKETS, frame)),
                Err(error) => {
                    tracing::warn!("zstd failed ({error}): these packets are compressed by zlib instead");
                    let mut encoder = Self::new(Codec::Deflate, DEFLATE_LEVEL);
                    encoder.write(&batch);
                    encoder.finish()
                }
            },
        }
    }
}

/// Takes any number, as upstream does.
fn zstd_level(asked_for: i32) -> i32 {
    let level = if asked_for == 0 { ZSTD_DEFAULT_LEVEL } else { asked_for };
    level.clamp(*ZSTD_LEVELS.start(), *ZSTD_LEVELS.end())
}

/// With a checksum, unlike upstream's: 4 bytes by which a reader sees that the batch came back as it was.
fn zstd_frame(batch: &[u8], level: i32) -> Result<Vec<u8>, zrip::CompressError> {
    zrip::compress(batch, level)
}

/// The packet that a batch becomes, should nothing in it become smaller.
fn largest(batch_len: usize) -> usize {
    batch_len.saturating_add(batch_len / EXPANSION_DIVISOR + OVERHEAD_BYTES)
}

impl<S: PacketSink> PacketSink for Compressing<'_, S> {
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        if len > limits::MAX_COMPRESSED_PACKET_BYTES {
            self.end_batch();
            return self.sink.packet(slices, len);
        }
        let is_large = len > limits::MAX_THOROUGHLY_COMPRESSED_BYTES;
        if is_large {
            self.end_batch();
            self.encoder = Some(Encoder::new(self.codec, FAST_DEFLATE_LEVEL));
        }
        let (prefix, prefix_len) = preamble(len).to_bytes();
        self.write(prefix.get(..prefix_len).unwrap_or_default());
        slices.for_each(|slice| self.write(slice));
        if is_large {
            self.end_batch();
        }
    }

    /// What is large stands as it is.
    fn owned_packet(&mut self, packet: &mut Vec<u8>) {
        if packet.len() <= limits::MAX_COMPRESSED_PACKET_BYTES {
            return self.packet(std::iter::once(packet.as_slice()), packet.len());
        }
        self.end_batch();
        self.sink.owned_packet(packet);
    }

    /// As if nothing became smaller.
    fn len(&self) -> usize {
        self.sink.len() + self.taken
    }

    /// How small a batch becomes is known at its end only: near the limit of a file, batches end early.
    fn make_room(&mut self, len: usize) -> bool {
        let len = len.saturating_add(PREAMBLE_BYTES);
        if self.sink.make_room(largest(self.taken.saturating_add(len))) {
            return true;
        }
        self.end_batch();
        self.sink.make_room(largest(len))
    }

    fn largest_packet(&self) -> usize {
        self.sink.largest_packet()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;
    use ruzstd::decoding::StreamingDecoder;

    use super::*;

    fn frame(batch: &[u8], level: i32) -> Vec<u8> {
        zstd_frame(batch, zstd_level(level)).unwrap()
    }

    fn unpacked(frame: &[u8]) -> Vec<u8> {
        let mut batch = Vec::new();
        StreamingDecoder::new(frame).unwrap().read_to_end(&mut batch).unwrap();
        batch
    }

    #[test]
    fn any_level_is_one_of_the_librarys() {
        assert_eq!(zstd_level(0), zstd_level(3));
        assert_eq!([i32::MIN, -8, -7, 4, 5, i32::MAX].map(zstd_level), [-7, -7, -7, 4, 4, 4]);
    }

    #[test]
    fn batches_of_all_sizes_come_back() {
        const BLOCK_BYTES: usize = 128 * 1024; // the largest of the format
        for len in [0, 1, 4, 9, 100, BLOCK_BYTES, BLOCK_BYTES + 1] {
            let mut state = 1u32;
            let mut noise = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            let random: Vec<u8> = (0..len).map(|_| noise()).collect();
            let some: Vec<u8> = (0..len).map(|at| if at % 7 < 4 { 7 } else { noise() & 3 }).collect();
            for level in ZSTD_LEVELS {
                for batch in [&random, &some, &vec![7; len]] {
                    let frame = frame(batch, level);
                    assert!(frame.len() <= largest(len), "{} bytes of {len} at level {level}", frame.len());
                    assert!(unpacked(&frame) == *batch, "{len} bytes at level {level}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        /// Of pieces that are new, or copied from anywhere before, as long as they like.
        #[test]
        fn whatever_is_pieced_together_comes_back(
            pieces in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..60).prop_map(Ok),
                    (any::<u16>(), 1usize..3000).prop_map(Err),
                    (any::<u16>(), 1usize..40).prop_map(Err),
                ],
                0..40,
            ),
            level in ZSTD_LEVELS,
        ) {
            let mut batch: Vec<u8> = Vec::new();
            for piece in pieces {
                match piece {
                    Ok(new) => batch.extend(new),
                    Err((distance, len)) => (0..len).for_each(|_| {
                        let from = batch.len().saturating_sub(1 + usize::from(distance));
                        batch.push(batch.get(from).copied().unwrap_or(0));
                    }),
                }
            }
            let frame = frame(&batch, level);
            prop_assert!(frame.len() <= largest(batch.len()));
            prop_assert!(unpacked(&frame) == batch);
        }
    }
}
