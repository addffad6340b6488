//! A file, packet by packet.

use std::io::{self, Read};

use crate::batch::Batch;
use crate::place::Place;
use crate::stream::PacketStream;

/// Read at once: what is read stays in the processor's own cache until it was looked at.
const PIECE_BYTES: usize = 1 << 18;

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
        Self { file, stream: PacketStream::default(), end: End::default() }
    }

    /// Calls `each` with every packet, those out of batches too, in the order of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read. What is wrong with its bytes is not an error but told by [`End`].
    pub fn for_each(mut self, mut each: impl FnMut(&[u8], Place)) -> io::Result<End> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match self.file.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => self.push(piece.get(..len).unwrap_or_default(), &mut each),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
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
        let end = &mut self.end;
        end.bytes += piece.len() as u64;
        self.stream.push(piece, &mut |packet, offset| match Batch::of(packet) {
            None => {
                end.packets += 1;
                each(packet, Place { offset, in_batch: None });
            }
            Some(batch) => {
                let is_whole = batch.unpack(&mut |packet, inner| {
                    end.packets += 1;
                    each(packet, Place { offset, in_batch: Some(inner) });
                });
                if !is_whole {
                    end.broken_batches += 1;
                    end.first_broken_batch.get_or_insert(Place { offset, in_batch: None });
                }
            }
        });
    }
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
