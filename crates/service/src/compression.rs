//! Packets that are compressed together, as one packet of the trace (upstream: zlib_compressor.cc, zstd_compressor.cc).
//!
//! Each batch that is read becomes a packet with `compressed_packets` or `zstd_compressed_packets`: the batch as it would stand in a file,
//! in the format of zlib or as a frame of zstd. The packets that readers want before they unpack anything stay as they are.

use std::io::Write as _;

use ferretto_protos::fields::trace_packet::{COMPRESSED_PACKETS, ZSTD_COMPRESSED_PACKETS};
use ferretto_protozero::Message as Writer;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use ruzstd::encoding::{CompressionLevel, FrameCompressor};

use crate::config::Codec;
use crate::file_output::{PREAMBLE_BYTES, preamble};
use crate::read_back::PacketSink;
use crate::repetitions::{Effort, Repetitions};

/// zlib's own choice, and upstream's.
const DEFLATE_LEVEL: u32 = 6;

/// The only one of the library that compresses. What is to be found is found by [`Repetitions`], as hard as the config says.
const ZSTD_LEVEL: CompressionLevel = CompressionLevel::Fastest;

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
        self.encoder.get_or_insert_with(|| Encoder::new(self.codec)).write(bytes);
        self.taken += bytes.len();
    }
}

enum Encoder {
    Deflate(ZlibEncoder<Vec<u8>>),
    /// All of it is needed at once.
    Zstd(Vec<u8>, Effort),
}

impl Encoder {
    fn new(codec: Codec) -> Self {
        match codec {
            Codec::Deflate => Self::Deflate(ZlibEncoder::new(Vec::new(), Compression::new(DEFLATE_LEVEL))),
            Codec::Zstd { level } => Self::Zstd(Vec::new(), Effort::of_level(level)),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Deflate(encoder) => {
                let written = encoder.write_all(bytes);
                debug_assert!(written.is_ok(), "memory takes everything");
            }
            Self::Zstd(batch, _) => batch.extend_from_slice(bytes),
        }
    }

    /// The field for it, and its bytes.
    fn finish(self) -> Option<(u32, Vec<u8>)> {
        match self {
            // Writing to memory cannot fail.
            Self::Deflate(encoder) => encoder.finish().ok().map(|batch| (COMPRESSED_PACKETS, batch)),
            Self::Zstd(batch, effort) => Some((ZSTD_COMPRESSED_PACKETS, zstd_frame(&batch, effort))),
        }
    }
}

fn zstd_frame(batch: &[u8], effort: Effort) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut encoder = FrameCompressor::new_with_matcher(Repetitions::new(batch, effort), ZSTD_LEVEL);
    encoder.set_source(batch);
    encoder.set_drain(&mut frame);
    encoder.compress();
    drop(encoder);
    frame
}

/// The packet that a batch becomes, should nothing in it become smaller.
fn largest(batch_len: usize) -> usize {
    batch_len.saturating_add(batch_len / EXPANSION_DIVISOR + OVERHEAD_BYTES)
}

impl<S: PacketSink> PacketSink for Compressing<'_, S> {
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        self.write(preamble(len).as_slice());
        slices.for_each(|slice| self.write(slice));
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
}
