//! Cuts a growing trace file into packets.
//!
//! The tail may be a packet that is not yet whole, or, in a file that is finished, was torn.

use ferretto_protozero::varint;

/// Tag of `Trace.packet`: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;
/// Longer ones are counted, not looked into: no honest packet comes near, and it bounds our memory.
pub const MAX_BUFFERED_PACKET_BYTES: u64 = 64 << 20;

/// Keeps the unfinished packet between two pieces of a file.
///
/// ```
/// use ferretto_trace_read::PacketStream;
///
/// let mut stream = PacketStream::default();
/// let mut seen = Vec::new();
/// for piece in [&b"\x0a\x03on"[..], b"e\x0a\x03two"] {
///     stream.push(piece, &mut |packet, offset| seen.push((packet.to_vec(), offset)));
/// }
/// assert_eq!(seen, [(b"one".to_vec(), 0), (b"two".to_vec(), 5)]);
/// assert!(!stream.is_torn());
/// ```
#[derive(Debug, Default)]
pub struct PacketStream {
    /// The start of a packet whose end has not come.
    pending: Vec<u8>,
    /// Where the next byte lies that is neither cut nor pending, in bytes from the start.
    offset: u64,
    /// Bytes of a huge packet still to be passed over.
    skip: u64,
    huge: u64,
    broken_at: Option<u64>,
}

impl PacketStream {
    /// Takes the next piece, and calls `each` with every packet that is now whole, and with the offset of its tag from the start. A packet
    /// above [`MAX_BUFFERED_PACKET_BYTES`] comes as an empty one.
    pub fn push(&mut self, piece: &[u8], each: &mut impl FnMut(&[u8], u64)) {
        let rest = self.after_skipped(piece);
        let rest = self.complete_pending(rest, each);
        if self.pending.is_empty() && self.broken_at.is_none() {
            self.cut(rest, each);
        }
    }

    /// Where bytes begin that are no trace at all, in bytes from the start: nothing that follows is looked at.
    #[must_use]
    pub fn broken_at(&self) -> Option<u64> {
        self.broken_at
    }

    /// How many packets were too large to be looked into.
    #[must_use]
    pub fn huge(&self) -> u64 {
        self.huge
    }

    /// Whether the bytes so far end in the middle of a packet, or are not a trace at all.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.broken_at.is_some() || self.skip > 0 || !self.pending.is_empty()
    }

    /// Where the packet begins that is not whole, in bytes from the start; the end of all bytes if there is none.
    #[must_use]
    pub fn whole_until(&self) -> u64 {
        self.broken_at.unwrap_or(self.offset)
    }

    fn after_skipped<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
        self.skip -= skipped as u64;
        self.offset += skipped as u64;
        piece.get(skipped..).unwrap_or_default()
    }

    /// Adds to the unfinished packet what it lacks, and no more; returns what follows.
    fn complete_pending<'a>(&mut self, mut rest: &'a [u8], each: &mut impl FnMut(&[u8], u64)) -> &'a [u8] {
        while !self.pending.is_empty() && self.broken_at.is_none() {
            match packet_start(&self.pending) {
                // Byte by byte: a header is short.
                Start::Unfinished => {
                    let Some((byte, after)) = rest.split_first() else { break };
                    self.pending.push(*byte);
                    rest = after;
                }
                Start::NotATrace => self.broken_at = Some(self.offset),
                Start::At { header, len } if len > MAX_BUFFERED_PACKET_BYTES => {
                    let seen = self.pending.len();
                    self.pass_over(len - (seen - header) as u64, seen, each);
                    self.pending.clear();
                    rest = self.after_skipped(rest);
                }
                // The bound says that it fits.
                Start::At { header, len } => {
                    let lacks = (header + len as usize).saturating_sub(self.pending.len());
                    let (more, after) = rest.split_at(lacks.min(rest.len()));
                    self.pending.extend_from_slice(more);
                    rest = after;
                    if more.len() < lacks {
                        break;
                    }
                    each(self.pending.get(header..).unwrap_or_default(), self.offset);
                    self.offset += self.pending.len() as u64;
                    // Its memory serves the next one.
                    self.pending.clear();
                }
            }
        }
        rest
    }

    fn pass_over(&mut self, skip: u64, seen: usize, each: &mut impl FnMut(&[u8], u64)) {
        each(&[], self.offset);
        self.huge += 1;
        self.skip = skip;
        self.offset += seen as u64;
    }

    /// Calls `each` for the whole packets at the start of `bytes`, and keeps what follows.
    fn cut(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8], u64)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (header, len) = match packet_start(rest) {
                Start::At { header, len } => (header, len),
                Start::Unfinished => break,
                Start::NotATrace => {
                    self.broken_at = Some(self.offset);
                    return;
                }
            };
            let end = usize::try_from(len).ok().and_then(|len| header.checked_add(len));
            match end.and_then(|end| rest.split_at_checked(end)) {
                Some((packet, after)) => {
                    each(packet.get(header..).unwrap_or_default(), self.offset);
                    self.offset += packet.len() as u64;
                    rest = after;
                }
                None if len > MAX_BUFFERED_PACKET_BYTES => {
                    return self.pass_over(len - (rest.len() - header) as u64, rest.len(), each);
                }
                None => break,
            }
        }
        self.pending.extend_from_slice(rest);
    }
}

enum Start {
    At { header: usize, len: u64 },
    Unfinished,
    NotATrace,
}

#[inline]
fn packet_start(bytes: &[u8]) -> Start {
    let Some((&PACKET_TAG, rest)) = bytes.split_first() else {
        return Start::NotATrace;
    };
    match varint::decode(rest) {
        Some((len, size)) => Start::At { header: size + 1, len },
        None if rest.len() < varint::MAX_SIZE => Start::Unfinished,
        None => Start::NotATrace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bodies: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for body in bodies {
            out.push(PACKET_TAG);
            varint::encode(body.len() as u64, &mut out);
            out.extend_from_slice(body);
        }
        out
    }

    fn nothing(_: &[u8], offset: u64) {
        panic!("a packet at {offset}");
    }

    #[test]
    fn packets_survive_any_cut() {
        let long = [7; 300];
        let bodies: [&[u8]; 5] = [b"one", b"", &long, b"four", b""];
        let file = framed(&bodies);
        let offsets = [0, 5, 7, 310, 316];
        for piece_len in 1..=file.len() {
            let mut stream = PacketStream::default();
            let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
            for piece in file.chunks(piece_len) {
                stream.push(piece, &mut |packet, offset| seen.push((packet.to_vec(), offset)));
            }
            let expected: Vec<_> = bodies.iter().map(|body| body.to_vec()).zip(offsets).collect();
            assert_eq!(seen, expected, "pieces of {piece_len}");
            assert!(!stream.is_torn() && stream.whole_until() == file.len() as u64);
        }
    }

    #[test]
    fn a_torn_tail_is_noticed() {
        let file = framed(&[b"one", b"two"]);
        let mut stream = PacketStream::default();
        let mut count = 0;
        stream.push(&file[..file.len() - 1], &mut |_, _| count += 1);
        assert_eq!((count, stream.is_torn(), stream.whole_until()), (1, true, 5));
    }

    #[test]
    fn what_is_no_trace_is_not_read_on() {
        let mut stream = PacketStream::default();
        stream.push(b"buffers { size_kb: 1 }", &mut nothing);
        assert_eq!((stream.is_torn(), stream.broken_at()), (true, Some(0)));
        stream.push(&framed(&[b"late"]), &mut nothing);

        let mut stream = PacketStream::default();
        let mut bytes = framed(&[b"one"]);
        bytes.extend(b"#");
        bytes.extend(framed(&[b"two"]));
        for piece in bytes.chunks(3) {
            stream.push(piece, &mut |packet, _| assert_eq!(packet, b"one"));
        }
        assert_eq!(stream.broken_at(), Some(5));
    }

    #[test]
    fn an_endless_length_is_no_trace() {
        for piece_len in [1, 3, 20] {
            let mut stream = PacketStream::default();
            [&[PACKET_TAG][..], &[0xff; 12]]
                .concat()
                .chunks(piece_len)
                .for_each(|piece| stream.push(piece, &mut nothing));
            assert_eq!(stream.broken_at(), Some(0), "pieces of {piece_len}");
        }
    }

    #[test]
    fn a_huge_packet_is_passed_over_without_keeping_it() {
        let mut header = vec![PACKET_TAG];
        header.extend([0x80, 0x80, 0x80, 0x80, 0x01]); // 256 MiB
        for piece_len in [1, header.len()] {
            let mut stream = PacketStream::default();
            let mut seen = Vec::new();
            for piece in header.chunks(piece_len) {
                stream.push(piece, &mut |packet, offset| seen.push((packet.len(), offset)));
            }
            let piece = vec![0; 16 << 20];
            for _ in 0..16 {
                assert!(stream.is_torn());
                stream.push(&piece, &mut nothing);
            }
            assert!(!stream.is_torn() && stream.pending.is_empty() && stream.huge() == 1);
            stream.push(&framed(&[b"next"]), &mut |packet, offset| seen.push((packet.len(), offset)));
            assert_eq!(seen, [(0, 0), (4, (256 << 20) + 6)]);
        }
    }

    #[test]
    fn a_packet_in_many_pieces_comes_whole() {
        let body = vec![7; 4 << 20];
        let file = framed(&[&body]);
        let mut stream = PacketStream::default();
        let mut count = 0;
        for piece in file.chunks(1000) {
            stream.push(piece, &mut |packet, _| {
                assert_eq!(packet.len(), body.len());
                count += 1;
            });
        }
        assert_eq!((count, stream.is_torn()), (1, false));
    }
}
