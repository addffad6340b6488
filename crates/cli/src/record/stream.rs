//! Cuts a growing trace file into packets.
//!
//! A trace is `repeated TracePacket packet = 1`: each packet is the byte 0x0a, its length, and its bytes
//! (upstream: trace.proto). The tail may be a packet that is not yet whole.

/// Tag of `Trace.packet`: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;
/// Longer ones are counted, not looked into: no honest packet comes near, and it bounds our memory.
const MAX_BUFFERED_PACKET: u64 = 64 << 20;
/// Longest varint of a 64-bit length.
const MAX_VARINT_LEN: usize = 10;

/// Keeps the unfinished packet between two pieces of a file.
#[derive(Default)]
pub(crate) struct PacketStream {
    pending: Vec<u8>,
    /// Bytes of a huge packet still to be passed over.
    skip: u64,
    /// Packets too large to be looked into.
    huge: u64,
    broken: bool,
}

impl PacketStream {
    /// Takes the next piece, and calls `each` with every packet that is now whole.
    pub(crate) fn push(&mut self, mut piece: &[u8], each: &mut impl FnMut(&[u8])) {
        if self.broken {
            return;
        }
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
        self.skip -= skipped as u64;
        piece = &piece[skipped..];
        if self.pending.is_empty() {
            let used = self.cut(piece, each);
            self.pending.extend_from_slice(piece.get(used..).unwrap_or_default());
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(piece);
            let used = self.cut(&joined, each);
            joined.drain(..used.min(joined.len()));
            self.pending = joined;
        }
    }

    /// Whether the bytes are not a trace at all: nothing that follows is looked at.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// How many packets were too large to be looked into.
    pub(crate) fn huge(&self) -> u64 {
        self.huge
    }

    /// Whether the bytes so far end in the middle of a packet, or are not a trace at all.
    pub(crate) fn is_torn(&self) -> bool {
        self.broken || self.skip > 0 || !self.pending.is_empty()
    }

    /// Calls `each` for the whole packets at the start of `bytes`; returns how many bytes they take.
    fn cut(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> usize {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let (start, len) = match packet_start(rest) {
                Start::At { header, len } => (at + header, len),
                Start::Unfinished => break,
                Start::NotATrace => {
                    self.broken = true;
                    break;
                }
            };
            let body = usize::try_from(len).ok().and_then(|len| bytes.get(start..start.checked_add(len)?));
            match body {
                Some(body) => {
                    each(body);
                    at = start + body.len();
                }
                None if len > MAX_BUFFERED_PACKET => {
                    each(&[]);
                    self.huge += 1;
                    self.skip = len - (bytes.len() - start) as u64;
                    return bytes.len();
                }
                None => break,
            }
        }
        at
    }
}

enum Start {
    At { header: usize, len: u64 },
    Unfinished,
    NotATrace,
}

fn packet_start(bytes: &[u8]) -> Start {
    let Some((&PACKET_TAG, rest)) = bytes.split_first() else {
        return Start::NotATrace;
    };
    let mut len = 0u64;
    for (index, byte) in rest.iter().enumerate().take(MAX_VARINT_LEN) {
        len |= u64::from(byte & 0x7f).checked_shl(7 * index as u32).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Start::At { header: index + 2, len };
        }
    }
    if rest.len() < MAX_VARINT_LEN { Start::Unfinished } else { Start::NotATrace }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bodies: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for body in bodies {
            out.push(PACKET_TAG);
            let mut len = body.len();
            while len >= 0x80 {
                out.push(len as u8 | 0x80);
                len >>= 7;
            }
            out.push(len as u8);
            out.extend_from_slice(body);
        }
        out
    }

    #[test]
    fn packets_survive_any_cut() {
        let long = [7; 300];
        let bodies: [&[u8]; 4] = [b"one", b"", &long, b"four"];
        let file = framed(&bodies);
        for piece_len in 1..file.len() {
            let mut stream = PacketStream::default();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for piece in file.chunks(piece_len) {
                stream.push(piece, &mut |packet| seen.push(packet.to_vec()));
            }
            assert_eq!(seen, bodies, "pieces of {piece_len}");
            assert!(!stream.is_torn());
        }
    }

    #[test]
    fn a_torn_tail_is_noticed() {
        let file = framed(&[b"one", b"two"]);
        let mut stream = PacketStream::default();
        let mut count = 0;
        stream.push(&file[..file.len() - 1], &mut |_| count += 1);
        assert_eq!((count, stream.is_torn()), (1, true));
    }

    #[test]
    fn what_is_no_trace_is_not_read_on() {
        let mut stream = PacketStream::default();
        stream.push(b"buffers { size_kb: 1 }", &mut |_| panic!("not a packet"));
        assert!(stream.is_torn());
        stream.push(&framed(&[b"late"]), &mut |_| panic!("not a packet"));
    }

    #[test]
    fn a_huge_packet_is_passed_over_without_keeping_it() {
        let mut header = vec![PACKET_TAG];
        header.extend([0x80, 0x80, 0x80, 0x80, 0x01]); // 256 MiB
        let mut stream = PacketStream::default();
        let mut count = 0;
        stream.push(&header, &mut |_| count += 1);
        let piece = vec![0; 16 << 20];
        for _ in 0..16 {
            assert!(stream.is_torn());
            stream.push(&piece, &mut |_| count += 1);
        }
        assert!(!stream.is_torn() && stream.pending.is_empty());
        stream.push(&framed(&[b"next"]), &mut |_| count += 1);
        assert_eq!(count, 2);
    }
}
