//! Bytes of the trace that can be read again: of a plain file, what waits for its turn need not lie in memory.
//!
//! Whoever reads the trace says whether they can ([`Import::set_again`](crate::Import::set_again)). What they are then is believed: a file that
//! changes meanwhile is told by whoever reads it, and costs rows, no more.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ferretto_protozero::varint;
use ferretto_trace_read::Place;

/// The bytes of a trace.
pub trait Again: Send + Sync + fmt::Debug {
    /// Reads from an offset on; returns how many bytes there are, fewer than there is room for where the trace ends. At `least` so many were
    /// there before.
    fn read_at(&self, offset: u64, to: &mut [u8], least: usize) -> usize;
}

/// Where a part of a packet lies.
#[derive(Clone, Debug)]
pub(crate) struct Lies {
    again: Arc<dyn Again>,
    /// Where the packet begins in the trace: its tag.
    packet: u64,
    /// Where the part begins in the packet.
    at: usize,
}

/// The most bytes before a packet: its tag and its length.
const HEADER_BYTES: usize = 1 + varint::MAX_SIZE;
const MIN_HEADER_BYTES: usize = 2;

impl Lies {
    /// Of a part of a packet, both of which are here now. Nothing if the packet lies in a batch: there it is packed.
    pub(crate) fn of(again: &Arc<dyn Again>, place: Place, packet: &[u8], part: &[u8]) -> Option<Self> {
        let at = (part.as_ptr() as usize).checked_sub(packet.as_ptr() as usize)?;
        let is_part = place.in_batch.is_none() && at.checked_add(part.len())? <= packet.len();
        is_part.then(|| Self { again: again.clone(), packet: place.offset, at })
    }

    fn read(&self, len: usize) -> Part {
        let mut bytes = vec![0; HEADER_BYTES + self.at + len];
        let there = self.again.read_at(self.packet, &mut bytes, MIN_HEADER_BYTES + self.at + len);
        bytes.truncate(there);
        let header = bytes.get(1..).and_then(varint::decode).map_or(0, |(_, size)| 1 + size);
        Part { bytes: bytes.into(), at: header + self.at }
    }
}

/// Bytes that are kept until they are needed no more: in memory, or else from when they are first asked for.
#[derive(Debug)]
pub(crate) struct Keep {
    part: OnceLock<Part>,
    len: usize,
    lies: Option<Lies>,
}

/// Bytes, from a place on.
#[derive(Debug)]
struct Part {
    bytes: Box<[u8]>,
    at: usize,
}

impl Keep {
    /// Keeps bytes, where they lie if that is said.
    pub(crate) fn new(bytes: &[u8], lies: Option<Lies>) -> Self {
        let part = match lies {
            Some(_) => OnceLock::new(),
            None => Part { bytes: bytes.into(), at: 0 }.into(),
        };
        Self { part, len: bytes.len(), lies }
    }

    /// The bytes.
    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        let Part { bytes, at } = self.part.get_or_init(|| self.read());
        bytes.get(*at..).and_then(|part| part.get(..self.len)).unwrap_or_default()
    }

    #[cold]
    fn read(&self) -> Part {
        match &self.lies {
            Some(lies) => lies.read(self.len),
            None => Part { bytes: Box::default(), at: 0 },
        }
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether they are in memory.
    pub(crate) fn are_here(&self) -> bool {
        self.part.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Bytes(Vec<u8>);

    impl Again for Bytes {
        fn read_at(&self, offset: u64, to: &mut [u8], _: usize) -> usize {
            let bytes = self.0.get(offset as usize..).unwrap_or_default();
            let len = bytes.len().min(to.len());
            to[..len].copy_from_slice(&bytes[..len]);
            len
        }
    }

    #[test]
    fn what_is_read_again_is_what_was_there_however_its_length_is_written() {
        let packet = b"a packet with something in it";
        for length in [&[29][..], &[29 | 0x80, 0x80, 0x80, 0]] {
            let trace = [b"\x0a\x01x\x0a", length, packet].concat();
            let again: Arc<dyn Again> = Arc::new(Bytes(trace));
            let place = Place { offset: 3, in_batch: None };
            let part = packet.get(9..23).unwrap();
            let lies = Lies::of(&again, place, packet, part);
            assert!(lies.is_some());
            let keep = Keep::new(part, lies);
            assert!(!keep.are_here());
            assert_eq!((keep.get(), keep.len(), keep.are_here()), (part, 14, true));
            assert!(Lies::of(&again, Place { in_batch: Some(0), ..place }, packet, part).is_none());
            assert!(Lies::of(&again, place, packet, b"elsewhere").is_none());
            // It has become shorter.
            let short: Arc<dyn Again> = Arc::new(Bytes(b"\x0a\x01x\x0a\x1dab".to_vec()));
            assert_eq!(Keep::new(part, Lies::of(&short, place, packet, part)).get(), b"");
        }
        assert_eq!(Keep::new(b"part", None).get(), b"part");
    }
}
