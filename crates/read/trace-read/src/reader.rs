//! A file, packet by packet.

use std::io::{self, Read};

use crate::batch::Batch;
use crate::container::FileBytes;
use crate::place::Place;
use crate::stream::PacketStream;

/// Read at once: what is read stays in the processor's own cache until it was looked at.
const PIECE_BYTES: usize = 1 << 18;
/// What becomes of a byte of a file, packed as it is, on average, at most: what deflate alone can make of it. Batches in a file that is packed
/// as a whole could become that squared; traces are a twentieth of their size when they are packed, seldom less.
const MAX_RATIO: u64 = 1032;
/// Beside that. Ours: a batch may have a few bytes, and become a megabyte; this is read in some seconds.
const MAX_BESIDE_BYTES: u64 = 256 << 20;

/// Reads a trace from its first byte to its last, whole packets only.
///
/// ```
/// use ferretto_trace_read::Reader;
///
/// let mut packets = Vec::new();
/// let end = Reader::new(&b"\x0a\x03one\x0a\x03tw"[..]).for_each(|packet, place| packets.push((packet.to_vec(), place.offset)))?;
/// assert_eq!(packets, [(b"one".to_vec(), 0)]);
/// assert_eq!(end.torn_at, Some(5));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    file: R,
    stream: PacketStream,
    end: End,
    /// Of the file, if it is packed.
    file_bytes: Option<FileBytes>,
    /// Bytes out of batches.
    out_of_batches: u64,
    /// Where a batch begins with which these are too many.
    too_much_at: Option<u64>,
}

/// What was met on the way to the end of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// How many bytes were read, without gzip or zstd around them.
    pub bytes: u64,
    /// Packets, those within batches too; batches themselves are none.
    pub packets: u64,
    /// Packets above [`crate::stream::MAX_BUFFERED_PACKET_BYTES`], which nobody has looked into.
    pub huge_packets: u64,
    /// Batches that could not be unpacked to their end, and the first of them.
    pub broken_batches: u64,
    /// The first of those.
    pub first_broken_batch: Option<Place>,
    /// Where a last packet begins that is not whole.
    pub torn_at: Option<u64>,
    /// Where bytes begin that are no trace; they were not read on.
    pub broken_at: Option<u64>,
}

impl<R: Read> Reader<R> {
    /// Reads `file`, which holds a trace that is not packed: see [`crate::container::unpacked`].
    pub fn new(file: R) -> Self {
        let (stream, end) = (PacketStream::default(), End::default());
        Self { file, stream, end, file_bytes: None, out_of_batches: 0, too_much_at: None }
    }

    /// What is read comes out of a file with so many bytes, packed as it is, and may be 256 MiB and 1,032 times as much. Otherwise this is so of
    /// what comes out of batches, for the bytes that are read.
    #[must_use]
    pub fn within(mut self, file_bytes: FileBytes) -> Self {
        self.file_bytes = Some(file_bytes);
        self
    }

    /// Calls `each` with every packet, those out of batches too, in the order of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or becomes more when it is unpacked than one can be made for: [`io::ErrorKind::InvalidData`], which says
    /// where. What else is wrong with its bytes is not an error but told by [`End`].
    pub fn for_each(mut self, mut each: impl FnMut(&[u8], Place)) -> io::Result<End> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match self.file.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => self.push(piece.get(..len).unwrap_or_default(), &mut each),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if let Some(at) = self.too_much_at {
                return Err(too_much(at));
            }
            if self.stream.broken_at().is_some() {
                break;
            }
        }
        self.end.huge_packets += self.stream.huge();
        self.end.broken_at = self.stream.broken_at();
        if self.end.broken_at.is_none() && self.stream.is_torn() {
            self.end.torn_at = Some(self.stream.whole_until());
        }
        Ok(self.end)
    }

    fn push(&mut self, piece: &[u8], each: &mut impl FnMut(&[u8], Place)) {
        let Self { stream, end, file_bytes, out_of_batches, too_much_at, .. } = self;
        end.bytes += piece.len() as u64;
        let (file_bytes, so_far) = file_bytes.as_ref().map_or((end.bytes, 0), |file| (file.get(), end.bytes));
        let most = MAX_BESIDE_BYTES.saturating_add(file_bytes.saturating_mul(MAX_RATIO));
        if so_far > most {
            *too_much_at = Some(stream.whole_until());
            return;
        }
        stream.push(piece, &mut |packet, offset| match Batch::of(packet) {
            None => {
                end.packets += 1;
                each(packet, Place { offset, in_batch: None });
            }
            Some(_) if too_much_at.is_some() => {}
            Some(batch) => {
                let left = most.saturating_sub(so_far).saturating_sub(*out_of_batches);
                let (is_whole, bytes) = batch.unpack_within(left, &mut |packet, inner| {
                    end.packets += 1;
                    each(packet, Place { offset, in_batch: Some(inner) });
                });
                *out_of_batches += bytes;
                if bytes == left {
                    *too_much_at = Some(offset);
                }
                if !is_whole {
                    end.broken_batches += 1;
                    end.first_broken_batch.get_or_insert(Place { offset, in_batch: None });
                }
            }
        });
    }
}

fn too_much(offset: u64) -> io::Error {
    let words =
        format!("at offset {offset}: unpacked it is more than {MAX_RATIO} times as much as is in the file");
    io::Error::new(io::ErrorKind::InvalidData, words)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ferretto_protos::fields::trace_packet::COMPRESSED_PACKETS;
    use ferretto_protozero::Message;
    use proptest::prelude::*;

    use super::*;

    fn trace(bodies: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bodies.iter().for_each(|body| Message::new(&mut bytes).bytes(1, body));
        bytes
    }

    fn batch(bodies: &[&[u8]]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&trace(bodies)).unwrap();
        let mut packet = Vec::new();
        Message::new(&mut packet).bytes(COMPRESSED_PACKETS, &encoder.finish().unwrap());
        packet
    }

    fn read(bytes: &[u8]) -> (Vec<(Vec<u8>, Place)>, End) {
        let mut seen = Vec::new();
        let end = Reader::new(bytes).for_each(|packet, place| seen.push((packet.to_vec(), place))).unwrap();
        (seen, end)
    }

    #[test]
    fn packets_come_with_their_places_out_of_batches_too() {
        let packed = batch(&[b"\x40\x01", b"\x40\x02"]);
        let bytes = trace(&[b"\x40\x00", &packed, b"\x40\x03"]);
        let (seen, end) = read(&bytes);
        let last = bytes.len() as u64 - 4;
        let at = |offset, in_batch| Place { offset, in_batch };
        let places = [at(0, None), at(4, Some(0)), at(4, Some(4)), at(last, None)];
        let expected: Vec<_> = (0..4u8).map(|n| vec![0x40, n]).zip(places).collect();
        assert_eq!(seen, expected);
        assert_eq!(end, End { bytes: bytes.len() as u64, packets: 4, ..End::default() });
    }

    #[test]
    fn a_broken_batch_is_counted_with_its_place_and_what_follows_is_read() {
        let mut packed = batch(&[b"\x40\x01"]);
        let len = packed.len();
        packed[len - 6..].fill(0xff);
        let (seen, end) = read(&trace(&[b"\x40\x00", &packed, b"\x40\x03"]));
        assert!(seen.iter().any(|(packet, _)| packet == b"\x40\x03"));
        assert_eq!(
            (end.broken_batches, end.first_broken_batch),
            (1, Some(Place { offset: 4, in_batch: None }))
        );
    }

    #[test]
    fn of_a_packed_file_so_much_comes_out_in_sum() {
        // Unpacked, each of them has 4 MB.
        let body = vec![0; 1_000_000];
        let bomb = batch(&[body.as_slice(); 4]);
        let stream = trace(&[bomb.as_slice(); 20]);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&stream).unwrap();
        let file = encoder.finish().unwrap();
        let file_bytes = FileBytes::default();
        let unpacked = crate::container::unpacked(file_bytes.of(file.as_slice())).unwrap();
        let mut bytes = 0;
        let mut reader = Reader::new(unpacked).within(file_bytes);
        // What came before.
        reader.out_of_batches = MAX_BESIDE_BYTES;
        let error = reader.for_each(|packet, _| bytes += packet.len() as u64).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("at offset "), "{error}");
        let most = MAX_RATIO * file.len() as u64;
        assert!(bytes < most && most < 20_000_000, "{bytes} of {most}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let (_, end) = read(&bytes);
            prop_assert!(end.bytes == bytes.len() as u64);
        }

        #[test]
        fn a_trace_that_ends_anywhere_is_read_up_to_its_last_whole_packet(len in 0usize..14) {
            let bytes = trace(&[b"\x40\x00", b"\x40\x01", b"\x40\x02", b""]);
            let (seen, end) = read(&bytes[..len]);
            prop_assert_eq!(seen.len(), if len == 14 { 4 } else { len / 4 });
            prop_assert_eq!(end.torn_at.is_some(), len % 4 != 0 && len != 14);
        }
    }
}
