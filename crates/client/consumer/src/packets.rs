//! Packets out of the slices in which a service sends them.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use ferretto_protos::ReadBuffersResponse;

/// The largest packet that is put together. Upstream's largest (compressed bundles, proto dumps) have a few MiB; a service that sends a
/// larger one is broken, and its packet is dropped and counted.
pub const MAX_PACKET_SIZE: usize = 64 * 1024 * 1024;

/// The tag of `Trace.packet`: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;

/// Writes a packet as a trace file holds it, as one write: tag, length, bytes.
pub fn write_packet(out: &mut impl Write, packet: &[u8]) -> io::Result<()> {
    // A tag and a varint of at most ten bytes.
    let mut framed = Vec::with_capacity(packet.len().saturating_add(11));
    framed.push(PACKET_TAG);
    prost::encode_length_delimiter(packet.len(), &mut framed).map_err(io::Error::other)?;
    framed.extend_from_slice(packet);
    out.write_all(&framed)
}

/// Joins slices into packets.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The packet so far, if it came in several slices.
    partial: BytesMut,
    /// The packet so far is too large: the rest of it is skipped.
    skipping: bool,
    /// Packets that were too large.
    pub(crate) oversized: u64,
}

impl Reassembly {
    /// The packets that this reply completes.
    pub(crate) fn take(&mut self, reply: ReadBuffersResponse) -> Vec<Bytes> {
        let mut packets = Vec::with_capacity(reply.slices.len());
        for slice in reply.slices {
            let last = slice.last_slice_for_packet();
            packets.extend(self.take_slice(slice.data.unwrap_or_default(), last));
        }
        packets
    }

    /// Whether a packet has begun that no slice completed.
    pub(crate) fn is_torn(&self) -> bool {
        self.skipping || !self.partial.is_empty()
    }

    fn take_slice(&mut self, data: Bytes, last: bool) -> Option<Bytes> {
        if last && self.partial.is_empty() && !self.skipping {
            return Some(data);
        }
        if self.partial.len().saturating_add(data.len()) > MAX_PACKET_SIZE {
            self.skipping = true;
            self.partial = BytesMut::new();
        }
        if !self.skipping {
            self.partial.extend_from_slice(&data);
        }
        if !last {
            return None;
        }
        if self.skipping {
            self.skipping = false;
            self.oversized = self.oversized.saturating_add(1);
            return None;
        }
        Some(self.partial.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_protos::read_buffers_response::Slice;

    fn reply(slices: &[(&[u8], bool)]) -> ReadBuffersResponse {
        let slices = slices.iter().map(|(data, last)| Slice {
            data: Some(Bytes::copy_from_slice(data)),
            last_slice_for_packet: Some(*last),
        });
        ReadBuffersResponse { slices: slices.collect() }
    }

    #[test]
    fn packets_are_whole_however_they_are_sliced() {
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.take(reply(&[(b"ab", true), (b"c", false)])), [&b"ab"[..]]);
        assert!(reassembly.is_torn());
        assert!(reassembly.take(reply(&[(b"d", false), (b"", false)])).is_empty());
        assert_eq!(
            reassembly.take(reply(&[(b"e", true), (b"", true), (b"f", true)])),
            [&b"cde"[..], b"", b"f"]
        );
        assert!(!reassembly.is_torn());
    }

    #[test]
    fn a_packet_beyond_the_limit_is_dropped_and_counted_and_the_next_is_whole() {
        let mut reassembly = Reassembly::default();
        let big = vec![7; MAX_PACKET_SIZE / 2 + 1];
        assert!(reassembly.take(reply(&[(&big, false)])).is_empty());
        assert!(reassembly.take(reply(&[(&big, false)])).is_empty());
        assert_eq!(reassembly.partial.capacity(), 0, "its memory is given back");
        assert_eq!(reassembly.take(reply(&[(b"x", true), (b"next", true)])), [&b"next"[..]]);
        assert_eq!(reassembly.oversized, 1);
    }

    #[test]
    fn packets_are_framed_as_fields_of_trace() {
        let mut out = Vec::new();
        write_packet(&mut out, b"hi").unwrap();
        write_packet(&mut out, &[9; 200]).unwrap();
        assert_eq!(&out[..8], [0x0a, 2, b'h', b'i', 0x0a, 0xc8, 1, 9]);
        assert_eq!(out.len(), 4 + 3 + 200);
    }
}
