//! The profiler's end of the ring: whatever the program has made of it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::{
    Counter, HEAD_BYTES, Head, HeapName, MAX_HEAPS, NAME_WORDS, PAGE_BYTES, READ_AT, RECORD_HEAD_BYTES,
    SESSION_AT, State, WRITTEN_AT, Wishes, name_at,
};
use crate::memory::{MemoryError, SharedMemory};

/// Takes records out, in their order.
#[derive(Debug)]
pub struct RingReader {
    memory: SharedMemory,
    /// Bytes that were read since the beginning. That of the shared memory is for the program.
    read: u64,
    is_broken: bool,
}

/// Says to all programs which session there is; 0 is none. They can read it only.
#[derive(Debug)]
pub struct SessionPage(SharedMemory);

impl SessionPage {
    /// Without a session.
    ///
    /// # Errors
    ///
    /// If the system has no memory or descriptors left, or memory cannot be sealed against who writes (before Linux 5.1).
    pub fn create() -> Result<Self, MemoryError> {
        SharedMemory::create_for_readers(PAGE_BYTES).map(Self)
    }

    /// What programs are sent.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_fd()
    }

    /// From now on there is this one.
    pub fn say(&self, session: u64) {
        if let Some(word) = self.0.long(0) {
            word.store(session, Ordering::Release);
        }
    }
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A record, whose payload was appended.
    Record,
    /// Nothing yet.
    Nothing,
    /// A record that somebody has begun, and others may be behind it.
    Unfinished,
    /// There are no records any more: what is in there follows no rule.
    Broken,
}

impl RingReader {
    /// A ring of so many bytes, a multiple of 4096.
    ///
    /// # Errors
    ///
    /// If the size is none, or the system has no memory or descriptors left.
    pub fn create(ring_bytes: usize) -> Result<Self, MemoryError> {
        let memory = SharedMemory::create(ring_bytes.saturating_add(HEAD_BYTES))?;
        Ok(Self { memory, read: 0, is_broken: false })
    }

    /// What the program is sent.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_fd()
    }

    /// What the program has counted, or says it has.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.memory.long(counter.offset()).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// From now on the program writes what a session wants, whose number is not 0, nor that of the session before it.
    pub fn begin(&self, session: u64, wishes: &Wishes) {
        for (at, word) in wishes.words() {
            if let Some(place) = self.memory.long(at) {
                place.store(word, Ordering::Relaxed);
            }
        }
        self.say_session(session);
    }

    /// From now on, or a moment later, the program writes nothing.
    pub fn end(&self) {
        self.say_session(0);
    }

    fn say_session(&self, session: u64) {
        if let Some(word) = self.memory.long(SESSION_AT) {
            word.store(session, Ordering::Release);
        }
    }

    /// Passes over all that is there, and gives the memory of the ring back.
    pub fn clear(&mut self) {
        let written = self.memory.long(WRITTEN_AT).map_or(0, |word| word.load(Ordering::Acquire));
        let ahead = written.wrapping_sub(self.read);
        if ahead > self.ring_bytes() as u64 || !ahead.is_multiple_of(8) {
            self.is_broken = true;
        } else {
            self.pass(usize::try_from(ahead).unwrap_or(0));
        }
        self.memory.give_back(HEAD_BYTES);
    }

    /// The name of a heap of the program, if it has said one.
    #[must_use]
    pub fn heap_name(&self, heap: usize) -> Option<HeapName> {
        let at = name_at(heap);
        let word = |number: usize| self.memory.long(at + number * size_of::<u64>());
        // The first word is written last.
        let first = word(0)?.load(Ordering::Acquire);
        if first == 0 || heap >= MAX_HEAPS {
            return None;
        }
        let mut name = [first; NAME_WORDS];
        for (number, place) in name.iter_mut().enumerate().skip(1) {
            *place = word(number)?.load(Ordering::Relaxed);
        }
        Some(HeapName(name))
    }

    /// Takes the next record. That there is none, or how it goes on, is said of this moment.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> Next {
        loop {
            let head = match self.head() {
                Ok(Some(head)) => head,
                Ok(None) => return Next::Nothing,
                Err(next) => return next,
            };
            if head.state == State::Begun {
                return Next::Unfinished;
            }
            if head.state == State::Whole {
                let at = HEAD_BYTES + self.place() + RECORD_HEAD_BYTES;
                self.memory.copy_out(at, head.len - RECORD_HEAD_BYTES, payload);
            }
            self.pass(head.len);
            if head.state == State::Whole {
                return Next::Record;
            }
        }
    }

    /// Gives up a record that is not finished, and says whether it was known how long it is.
    pub fn skip_unfinished(&mut self) -> bool {
        match self.head() {
            Ok(Some(head)) if head.state == State::Begun => {
                self.pass(head.len);
                true
            }
            _ => false,
        }
    }

    /// How large it is.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.memory.len() - HEAD_BYTES
    }

    /// Where in the ring the next record is.
    fn place(&self) -> usize {
        (self.read % self.ring_bytes() as u64) as usize
    }

    /// The next record's first word, if there is a record.
    fn head(&mut self) -> Result<Option<Head>, Next> {
        if self.is_broken {
            return Err(Next::Broken);
        }
        let written = self.memory.long(WRITTEN_AT).map_or(0, |word| word.load(Ordering::Acquire));
        let ahead = written.wrapping_sub(self.read);
        if ahead == 0 {
            return Ok(None);
        }
        let place = self.place();
        let word = self.memory.long(HEAD_BYTES + place).map(|word| word.load(Ordering::Acquire));
        let is_possible = ahead <= self.ring_bytes() as u64 && ahead.is_multiple_of(8);
        let (Some(word), true) = (word, is_possible) else { return Err(self.broken()) };
        // Its first word comes a moment after the room was reserved.
        let Some(head) = Head::unpack(word, self.read) else { return Err(Next::Unfinished) };
        let is_within = head.len as u64 <= ahead && place + head.len <= self.ring_bytes();
        if head.len < RECORD_HEAD_BYTES || !is_within {
            return Err(self.broken());
        }
        Ok(Some(head))
    }

    fn broken(&mut self) -> Next {
        self.is_broken = true;
        Next::Broken
    }

    fn pass(&mut self, len: usize) {
        self.read = self.read.wrapping_add(len as u64);
        if let Some(word) = self.memory.long(READ_AT) {
            word.store(self.read, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RING: usize = 8192;

    fn put(ring: &RingReader, at: usize, word: u64) {
        ring.memory.long(at).unwrap().store(word, Ordering::Relaxed);
    }

    fn ring(written: u64, heads: &[Head]) -> RingReader {
        let ring = RingReader::create(RING).unwrap();
        put(&ring, WRITTEN_AT, written);
        for head in heads {
            put(&ring, HEAD_BYTES + head.position as usize % RING, head.pack());
        }
        ring
    }

    fn head(position: u64, len: usize, state: State) -> Head {
        Head { position, len, state }
    }

    #[test]
    fn records_come_in_order_and_what_is_not_finished_holds_up_those_behind_it() {
        let heads = [head(0, 24, State::Whole), head(24, 16, State::Void), head(40, 8, State::Begun)];
        let mut ring = ring(64, &heads);
        let mut payload = Vec::new();
        assert_eq!(ring.next(&mut payload), Next::Record);
        assert_eq!(payload.len(), 16);
        assert_eq!(ring.next(&mut payload), Next::Unfinished);
        assert_eq!(ring.memory.long(READ_AT).unwrap().load(Ordering::Relaxed), 40);
        assert!(ring.skip_unfinished());
        // Of the next one nothing is known, not even how long it is.
        assert_eq!(ring.next(&mut payload), Next::Unfinished);
        assert!(!ring.skip_unfinished());
        put(&ring, HEAD_BYTES + 48, head(48, 16, State::Whole).pack());
        assert_eq!(ring.next(&mut payload), Next::Record);
        assert_eq!((ring.next(&mut payload), payload.len()), (Next::Nothing, 24));
    }

    #[test]
    fn what_is_passed_over_is_gone_and_what_comes_then_is_read() {
        let mut ring = ring(64, &[head(0, 24, State::Whole), head(24, 40, State::Begun)]);
        ring.clear();
        let mut payload = Vec::new();
        assert_eq!((ring.next(&mut payload), payload.len()), (Next::Nothing, 0));
        assert_eq!(ring.memory.long(HEAD_BYTES).unwrap().load(Ordering::Relaxed), 0);
        put(&ring, HEAD_BYTES + 64, head(64, 16, State::Whole).pack());
        put(&ring, WRITTEN_AT, 80);
        assert_eq!(ring.next(&mut payload), Next::Record);
        put(&ring, WRITTEN_AT, 1 << 40);
        ring.clear();
        assert_eq!(ring.next(&mut payload), Next::Broken);
    }

    #[test]
    fn programs_can_read_which_session_there_is_and_not_write_it() {
        let page = SessionPage::create().unwrap();
        page.say(7);
        let mut word = [0; 8];
        let fd = page.as_fd().unwrap();
        assert_eq!(rustix::io::pread(fd, &mut word, 0).unwrap(), 8);
        assert_eq!(u64::from_ne_bytes(word), 7);
        assert!(rustix::io::pwrite(fd, &[1], 0).is_err());
        let again = fd.try_clone_to_owned().unwrap();
        assert!(SharedMemory::from_fd(again, crate::Seals::Required).is_err(), "nor be mapped for it");
    }

    #[test]
    fn what_follows_no_rule_is_broken_for_good() {
        for (written, first) in [
            (4, head(0, 8, State::Whole)),
            (RING as u64 + 8, head(0, 8, State::Whole)),
            (64, head(0, 72, State::Whole)),
            (64, head(0, 0, State::Whole)),
            (64, head(0, 0, State::Begun)),
            (u64::MAX - 7, head(0, 8, State::Whole)),
        ] {
            let mut ring = ring(written, &[first]);
            assert_eq!(ring.next(&mut Vec::new()), Next::Broken, "{written} {first:?}");
            put(&ring, WRITTEN_AT, 0);
            assert_eq!(ring.next(&mut Vec::new()), Next::Broken);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_in_there_reading_ends(written in any::<u16>(), words in proptest::collection::vec((0usize..RING / 8, any::<u64>(), 0u64..64), 0..64)) {
            let mut ring = ring(u64::from(written), &[]);
            for (at, word, len) in words {
                // Half of them look like records.
                let word = if len % 2 == 0 { head(at as u64 * 8, len as usize * 8, State::Whole).pack() } else { word };
                put(&ring, HEAD_BYTES + at * 8, word);
            }
            let mut payload = Vec::new();
            for _ in 0..=RING / 8 {
                if ring.next(&mut payload) != Next::Record {
                    break;
                }
            }
            prop_assert!(ring.next(&mut payload) != Next::Record && payload.len() <= RING);
        }
    }
}
