//! Unpacks packets that were compressed together.
//!
//! Such a packet holds nothing but its batch: a part of a trace in the format of zlib or as a frame of zstd (upstream:
//! trace_packet.proto, `compressed_packets`, `zstd_compressed_packets`).

use std::io::{Read, Take};

use ferretto_protos::fields::trace_packet::{COMPRESSED_PACKETS, ZSTD_COMPRESSED_PACKETS};
use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::fields::{Fields, Value};
use crate::stream::PacketStream;

/// What is unpacked of one batch, at most. Services end a batch with the packet that makes it a megabyte; it bounds our time on a hostile
/// trace. (The memory has its bounds in the formats: a window of 32 KiB, or of the 128 MiB that zstd's decoder allows.)
const MAX_BATCH_BYTES: u64 = 64 << 20;
/// Their tags have more than one byte.
const _: () = assert!(COMPRESSED_PACKETS > 15 && ZSTD_COMPRESSED_PACKETS > 15);
/// Unpacked at once.
const PIECE_BYTES: usize = 64 << 10;

/// Packets that were compressed together.
#[derive(Clone, Copy, Debug)]
pub enum Batch<'a> {
    /// In the format of zlib.
    Deflate(&'a [u8]),
    /// A frame of zstd.
    Zstd(&'a [u8]),
}

impl<'a> Batch<'a> {
    /// What a packet holds, if that is a batch.
    #[inline(always)]
    #[must_use]
    pub fn of(packet: &'a [u8]) -> Option<Self> {
        // Their tags have two bytes, those of what most packets begin with one.
        if packet.first().is_none_or(|byte| *byte < 0x80) { None } else { Self::by_first_field(packet) }
    }

    #[inline(never)]
    fn by_first_field(packet: &'a [u8]) -> Option<Self> {
        let first = Fields::new(packet).next()?.ok()?;
        match (first.number, first.value) {
            (COMPRESSED_PACKETS, Value::Bytes(bytes)) => Some(Self::Deflate(bytes)),
            (ZSTD_COMPRESSED_PACKETS, Value::Bytes(bytes)) => Some(Self::Zstd(bytes)),
            _ => None,
        }
    }

    /// Calls `each` with every packet inside and its offset in the batch, up to where the batch cannot be read; says whether that is its
    /// end.
    pub fn unpack(self, each: &mut impl FnMut(&[u8], u64)) -> bool {
        self.unpack_within(MAX_BATCH_BYTES, each).0
    }

    /// The same, of so many bytes at most; says how many came out, too.
    pub(crate) fn unpack_within(self, bytes: u64, each: &mut impl FnMut(&[u8], u64)) -> (bool, u64) {
        let most = bytes.min(MAX_BATCH_BYTES);
        match self {
            Self::Deflate(bytes) => cut(ZlibDecoder::new(bytes).take(most), most, each),
            Self::Zstd(bytes) => match StreamingDecoder::new(bytes) {
                Ok(frame) => cut(frame.take(most), most, each),
                Err(_) => (false, 0),
            },
        }
    }
}

fn cut(mut batch: Take<impl Read>, most: u64, each: &mut impl FnMut(&[u8], u64)) -> (bool, u64) {
    let mut stream = PacketStream::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut is_whole = false;
    while stream.broken_at().is_none() {
        match batch.read(&mut piece) {
            Ok(0) => {
                is_whole = batch.limit() > 0 && !stream.is_torn();
                break;
            }
            Ok(len) => stream.push(piece.get(..len).unwrap_or_default(), each),
            Err(_) => break,
        }
    }
    (is_whole, most - batch.limit())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ferretto_protozero::Message as Writer;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// A part of a trace.
    fn part(bodies: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bodies.iter().for_each(|body| Writer::new(&mut bytes).bytes(1, body));
        bytes
    }

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    type Compress = fn(&[u8]) -> Vec<u8>;
    const CODECS: [(u32, Compress); 2] = [(COMPRESSED_PACKETS, deflated), (ZSTD_COMPRESSED_PACKETS, zstd)];

    fn packet(field: u32, batch: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).bytes(field, batch);
        bytes
    }

    fn unpack(packet: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut seen = Vec::new();
        let is_whole =
            Batch::of(packet).expect("a batch").unpack(&mut |packet, _| seen.push(packet.to_vec()));
        (seen, is_whole)
    }

    #[test]
    fn what_is_inside_comes_out_in_order() {
        let long = vec![7; 200_000];
        let bodies: [&[u8]; 5] = [b"one", b"", &long, b"four", &long];
        for (field, compress) in CODECS {
            let (seen, is_whole) = unpack(&packet(field, &compress(&part(&bodies))));
            assert!(seen == bodies && is_whole, "field {field}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (field, compress) in CODECS {
            let bytes = part(&[b"one", b"two"]);
            let whole = compress(&bytes);
            assert_eq!(unpack(&packet(field, &whole)).0.len(), 2);
            assert!(!unpack(&packet(field, &whole[..whole.len() / 2])).1, "the batch is cut off");
            assert!(!unpack(&packet(field, b"no such format")).1);
            assert!(!unpack(&packet(field, b"")).1);
            let torn = unpack(&packet(field, &compress(&bytes[..bytes.len() - 1])));
            assert_eq!(torn, (vec![b"one".to_vec()], false), "its last packet is cut off");
            assert_eq!(unpack(&packet(field, &compress(b"not a trace"))), (vec![], false));
        }
    }

    #[test]
    fn a_batch_that_unpacks_to_more_than_the_bound_ends_there() {
        let megabyte = vec![0; 1 << 20];
        let packets = part(&[megabyte.as_slice(); 4]);
        let mut count = 0;
        let packed = deflated(&packets);
        let end = Batch::Deflate(&packed).unpack_within(5 << 19, &mut |_, _| count += 1);
        assert_eq!((count, end), (2, (false, 5 << 19)));
    }

    #[test]
    fn other_packets_are_no_batches() {
        for packet in [part(&[b"one"]), Vec::new(), b"\xff\xff".to_vec()] {
            assert!(Batch::of(&packet).is_none());
        }
    }
}
