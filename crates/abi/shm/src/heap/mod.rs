//! What a program whose heap is profiled and its profiler agree on. Both are of one build: [`VERSION`] says so, and nothing else is promised.
//!
//! The program's library connects to the socket that [`SOCKET_ENV`] names (SOCK_SEQPACKET), is sent a [`Reply`] and with it a memfd, maps that,
//! and closes both: it holds no descriptor while the program runs. The memfd is sealed: its size is fixed.
//!
//! ```text
//! memfd   │ head: four pages │ ring: records, one behind the other, never across its end │
//! head    │ at 64: written, bytes │ at 128: read, bytes │ from 192: what the program counts, a u64 each (Counter) │ at 384: the session │
//!         │ at 4096: names of the program's heaps, 64 bytes each │ at 8192: what the session wants of them (Wishes) │
//! record  │ state: 3 bits, length / 8: 18, position / 8: 43 │ payload, to a multiple of 8 │
//! ```
//!
//! The program writes while there is a session, whose number is not 0; what it wants is written before that, and stays until it has ended.
//!
//! Threads of the program reserve room by moving `written`, write, and then say in the record's first word that it is whole. The word has
//! the position in it, so that what was there a round before is not taken for it. There is one order of all records: that in which room was reserved.

mod reader;
mod record;
mod wishes;

pub use reader::{Next, RingReader, SessionPage};
pub use record::{Alloc, FREE_WORDS, MAX_STACK_BYTES, Record, Registers};
pub use wishes::{HeapName, MAX_HEAPS, NAME_WORDS, Wishes, least_interval, name_at, wanted_interval};

/// Of the memory's layout, of records, and of [`Reply`].
pub const VERSION: u32 = 2;
/// The environment variable that names the profiler's socket: `@` and the abstract name.
pub const SOCKET_ENV: &str = "FERRETTO_HEAP";
/// What a daemon is called that programs look for which have no such variable, behind it the number of its user: an abstract name.
pub const DAEMON_NAME: &str = "ferretto-heap-";
/// The memory of a [`SessionPage`].
pub const PAGE_BYTES: usize = 4096;
/// What is in the file of a program that has the client linked, and so can be profiled without a library that is loaded before it.
pub const PROGRAM_MARK: [u8; 48] = *b"ferretto: a heap profiler is linked with this. \0";
/// Bytes before the ring.
pub const HEAD_BYTES: usize = 4 * 4096;
/// Where in the head it says how many bytes were written since the beginning.
pub const WRITTEN_AT: usize = 64;
/// Where it says how many were read.
pub const READ_AT: usize = 128;
/// Where what the program counts begins.
const COUNTERS_AT: usize = 192;
/// Where the number of the session is that wants samples of this program; 0 is none.
pub const SESSION_AT: usize = 384;

/// All positions and lengths are multiples of it.
pub const ALIGN_BYTES: usize = 8;
/// Bytes of a record's first word.
pub const RECORD_HEAD_BYTES: usize = 8;
const STATE_BITS: u32 = 3;
const LEN_BITS: u32 = 18;
/// Bytes of the longest record.
pub const MAX_RECORD_BYTES: usize = ((1 << LEN_BITS) - 1) * ALIGN_BYTES;

/// What a program counts while it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// 1 once the ring is in use.
    Attached,
    /// Samples for which the ring had no room.
    NoRoom,
    /// Samples for which the table of sampled blocks had none.
    TableFull,
    /// Blocks that were freed while the ring had no room even for that: they look as if they lived on.
    FreesLost,
    /// Samples on a stack that is not the thread's own: up to the end of a page of it is there.
    ForeignStacks,
}

impl Counter {
    /// Where it is in the head.
    #[must_use]
    pub const fn offset(self) -> usize {
        COUNTERS_AT + self as usize * size_of::<u64>()
    }
}

/// How far a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody writes it.
    Begun,
    /// All of it is there.
    Whole,
    /// There is nothing in it.
    Void,
}

/// A record's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where the record is, in bytes since the beginning.
    pub position: u64,
    /// All of its bytes.
    pub len: usize,
    /// How far it is.
    pub state: State,
}

impl Head {
    /// As the word.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        let position = (self.position / ALIGN_BYTES as u64) << (STATE_BITS + LEN_BITS);
        let len = ((self.len / ALIGN_BYTES) as u64 & ((1 << LEN_BITS) - 1)) << STATE_BITS;
        position | len | (self.state as u64 + 1)
    }

    /// The word of a record at `position`; none if it is something else.
    #[must_use]
    pub const fn unpack(word: u64, position: u64) -> Option<Self> {
        let at = Self { position, len: 0, state: State::Begun }.pack() >> (STATE_BITS + LEN_BITS);
        if word >> (STATE_BITS + LEN_BITS) != at {
            return None;
        }
        let len = ((word >> STATE_BITS) & ((1 << LEN_BITS) - 1)) as usize * ALIGN_BYTES;
        let state = match word & ((1 << STATE_BITS) - 1) {
            1 => State::Begun,
            2 => State::Whole,
            3 => State::Void,
            _ => return None,
        };
        Some(Self { position, len, state })
    }
}

/// What a program is told when it connects; the memory comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Of a stack so many bytes are copied.
    pub max_stack_bytes: u32,
    /// There may be sessions later on, when there is none now or it has ended. A second descriptor comes with it: a page whose first word is the number
    /// of the session that there is, for children that have no ring yet.
    pub may_begin_later: bool,
}

impl Reply {
    /// Bytes of one.
    pub const BYTES: usize = 16;
    const MAGIC: u32 = u32::from_le_bytes(*b"fhp1");

    /// As it is sent.
    #[must_use]
    pub fn pack(self) -> [u8; Self::BYTES] {
        let words = [Self::MAGIC, VERSION, self.max_stack_bytes, self.may_begin_later.into()];
        let mut bytes = [0; Self::BYTES];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// What was sent, by a profiler of this version.
    #[must_use]
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
        let is_ours = word(0)? == Self::MAGIC && word(4)? == VERSION && bytes.len() == Self::BYTES;
        is_ours.then_some(Self { max_stack_bytes: word(8)?, may_begin_later: word(12)? != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_a_program_is_what_it_hears() {
        let reply = Reply { max_stack_bytes: 65_536, may_begin_later: true };
        assert_eq!(Reply::unpack(&reply.pack()), Some(reply));
        let mut other = reply.pack();
        other[4] ^= 1;
        assert_eq!(Reply::unpack(&other), None);
        assert_eq!(Reply::unpack(&reply.pack()[..15]), None);
    }

    #[test]
    fn a_records_first_word_is_of_its_place_only() {
        for (position, len) in [(0, 8), (8, 64), (u64::from(u32::MAX) * 8, MAX_RECORD_BYTES)] {
            for state in [State::Begun, State::Whole, State::Void] {
                let head = Head { position, len, state };
                assert_eq!(Head::unpack(head.pack(), position), Some(head));
                assert_eq!(Head::unpack(head.pack(), position + (8 << 20)), None);
            }
        }
        assert_eq!(Head::unpack(0, 0), None);
    }
}
