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
    /// So many bytes from an offset on, fewer where the trace ends.
    fn read_at(&self, offset: u64, len: usize) -> Vec<u8>;

    /// What had been there is not there any more.
    fn has_changed(&self);
}

/// Where a part of a packet lies.
#[derive(Clone, Debug)]
pub(crate) struct Lies {
    again: Arc<dyn Again>,
    /// Where the packet begins in the trace: its tag. And how long it is.
    packet: (u64, usize),
    /// Where the part begins in the packet.
    at: usize,
}

/// The most bytes before a packet: its tag and its length.
const HEADER_BYTES: usize = 1 + varint::MAX_SIZE;

impl Lies {
    /// Of a part of a packet, both of which are here now. Nothing if the packet lies in a batch: there it is packed.
    pub(crate) fn of(again: &Arc<dyn Again>, place: Place, packet: &[u8], part: &[u8]) -> Option<Self> {
        let at = (part.as_ptr() as usize).checked_sub(packet.as_ptr() as usize)?;
        let is_part = place.in_batch.is_none() && at.checked_add(part.len())? <= packet.len();
        is_part.then(|| Self { again: again.clone(), packet: (place.offset, packet.len()), at })
    }

    fn read(&self, len: usize) -> Part {
        let (offset, packet_len) = self.packet;
        let bytes = self.again.read_at(offset, HEADER_BYTES + self.at + len);
        let (says, size) = bytes.get(1..).and_then(varint::decode).unwrap_or_default();
        let at = 1 + size + self.at;
        if says != packet_len as u64 || bytes.len() < at + len {
            self.again.has_changed();
        }
        Part { bytes, at }
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
    bytes: Vec<u8>,
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
            None => Part { bytes: Vec::new(), at: 0 },
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Bytes(Vec<u8>, AtomicBool);

    impl Again for Bytes {
        fn read_at(&self, offset: u64, len: usize) -> Vec<u8> {
            self.0.iter().skip(offset as usize).take(len).copied().collect()
        }

        fn has_changed(&self) {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_read_again_is_what_was_there_however_its_length_is_written() {
        let packet = b"a packet with something in it";
        for length in [&[29][..], &[29 | 0x80, 0x80, 0x80, 0]] {
            let trace = [b"\x0a\x01x\x0a", length, packet].concat();
            let bytes = Arc::new(Bytes(trace, false.into()));
            let again: Arc<dyn Again> = bytes.clone();
            let place = Place { offset: 3, in_batch: None };
            let part = packet.get(9..23).unwrap();
            let lies = Lies::of(&again, place, packet, part);
            assert!(lies.is_some());
            let keep = Keep::new(part, lies);
            assert!(!keep.are_here());
            assert_eq!((keep.get(), keep.len(), keep.are_here()), (part, 14, true));
            assert!(!bytes.1.load(Ordering::Relaxed));
            assert!(Lies::of(&again, Place { in_batch: Some(0), ..place }, packet, part).is_none());
            assert!(Lies::of(&again, place, packet, b"elsewhere").is_none());
            // It has become shorter.
            let bytes = Arc::new(Bytes(b"\x0a\x01x\x0a\x1dab".to_vec(), false.into()));
            let short: Arc<dyn Again> = bytes.clone();
            assert_eq!(Keep::new(part, Lies::of(&short, place, packet, part)).get(), b"");
            assert!(bytes.1.load(Ordering::Relaxed));
        }
        assert_eq!(Keep::new(b"part", None).get(), b"part");
    }
}
