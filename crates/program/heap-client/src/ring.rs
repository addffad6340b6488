//! The program's end of the ring: threads reserve room, write, and say that it is whole. [`ferretto_shm::heap`] has the layout.

use core::sync::atomic::{AtomicU64, Ordering};

use ferretto_shm::heap::{
    ALIGN_BYTES, Counter, HEAD_BYTES, Head, HeapName, MAX_RECORD_BYTES, READ_AT, RECORD_HEAD_BYTES,
    SESSION_AT, State, WRITTEN_AT, least_interval, name_at, wanted_interval,
};

/// Other threads may come first so many times; a sample that is given up is counted.
const MAX_TRIES: u32 = 64;
/// Of the ring this part is for blocks that are freed: without it a full ring would make blocks look as if they lived on.
const PART_FOR_FREES: u64 = 8;

/// Memory that this process shares with the profiler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingWriter {
    base: *mut u8,
    ring_bytes: u64,
}

/// Room in the ring that is this thread's until it is finished.
#[derive(Debug)]
#[must_use]
pub(crate) struct Room {
    ring: RingWriter,
    head: Head,
}

/// What room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Alloc,
    Free,
}

impl RingWriter {
    /// # Safety
    ///
    /// `base` is at a multiple of 4096, and a head and `ring_bytes`, a multiple of 4096 and more than a record, are mapped there for reading and writing as
    /// long as this or a copy of it lives.
    #[must_use]
    pub(crate) const unsafe fn new(base: *mut u8, ring_bytes: usize) -> Self {
        Self { base, ring_bytes: ring_bytes as u64 }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: all callers give offsets within the head or the ring, multiples of 8; the memory stays mapped, by the promise of `new`.
        // JUSTIFICATION: the memory is another process's, too: it is not Rust's, and is looked at through atomics.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast()) }
    }

    /// The session that wants samples; 0 is none.
    pub(crate) fn session(&self) -> u64 {
        self.word(SESSION_AT).load(Ordering::Acquire)
    }

    /// What it wants: bytes between samples of a heap, and the least of all.
    pub(crate) fn wanted(&self, name: &HeapName, is_main: bool) -> u64 {
        wanted_interval(|at| self.word(at).load(Ordering::Relaxed), name, is_main)
    }

    pub(crate) fn least_wanted(&self) -> u64 {
        least_interval(|at| self.word(at).load(Ordering::Relaxed))
    }

    /// What a heap is called.
    pub(crate) fn name(&self, heap: u8, name: &HeapName) {
        let place = |number: usize| self.word(name_at(heap.into()) + number * ALIGN_BYTES);
        for (number, word) in name.0.iter().enumerate().rev() {
            // The first one is written last, and says that all are there.
            place(number).store(*word, Ordering::Release);
        }
    }

    /// Counts something.
    pub(crate) fn count(&self, counter: Counter) {
        self.word(counter.offset()).fetch_add(1, Ordering::Relaxed);
    }

    /// Room for a payload of so many bytes, if there is.
    pub(crate) fn reserve(&self, payload_bytes: usize, what: For) -> Option<Room> {
        let len = RECORD_HEAD_BYTES + payload_bytes.checked_next_multiple_of(ALIGN_BYTES)?;
        if len > MAX_RECORD_BYTES {
            return None;
        }
        let limit = match what {
            For::Alloc => self.ring_bytes - self.ring_bytes / PART_FOR_FREES,
            For::Free => self.ring_bytes,
        };
        for _ in 0..MAX_TRIES {
            let written = self.word(WRITTEN_AT).load(Ordering::Relaxed);
            // Whoever has read it has done so before the room is written anew.
            let used = written.wrapping_sub(self.word(READ_AT).load(Ordering::Acquire));
            let at = written % self.ring_bytes;
            let to_end = self.ring_bytes - at;
            // A record lies in one piece: if there is too little up to the end, that stays empty.
            let skipped = if len as u64 > to_end { to_end } else { 0 };
            let needed = skipped + len as u64;
            if used.saturating_add(needed) > limit {
                return None;
            }
            let after = written.wrapping_add(needed);
            let word = self.word(WRITTEN_AT);
            if word.compare_exchange_weak(written, after, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            if skipped > 0 {
                self.say(Head { position: written, len: skipped as usize, state: State::Void });
            }
            let head = Head { position: written.wrapping_add(skipped), len, state: State::Begun };
            self.say(head);
            return Some(Room { ring: *self, head });
        }
        None
    }

    fn place(&self, position: u64) -> usize {
        HEAD_BYTES + (position % self.ring_bytes) as usize
    }

    fn say(&self, head: Head) {
        self.word(self.place(head.position)).store(head.pack(), Ordering::Release);
    }
}

impl Room {
    /// Writes words from the payload's beginning on, and behind them the bytes at `rest`, as much of both as there is room for.
    ///
    /// # Safety
    ///
    /// `rest_bytes` can be read at `rest`.
    pub(crate) unsafe fn write(&self, words: &[u64], rest: *const u8, rest_bytes: usize) {
        let first = self.ring.place(self.head.position) + RECORD_HEAD_BYTES;
        let room = self.head.len - RECORD_HEAD_BYTES;
        for (number, word) in words.iter().enumerate().take(room / ALIGN_BYTES) {
            self.ring.word(first + number * ALIGN_BYTES).store(*word, Ordering::Relaxed);
        }
        let before = words.len() * ALIGN_BYTES;
        let len = rest_bytes.min(room.saturating_sub(before));
        if len > 0 {
            // SAFETY: the source is readable by the caller's promise; the target is within the room, which lies in one piece within the ring. The two
            // do not overlap: nothing of a thread's stack is in the ring.
            // JUSTIFICATION: a copy of kilobytes by words would be most of what a sample costs.
            unsafe { core::ptr::copy_nonoverlapping(rest, self.ring.base.add(first + before), len) };
        }
    }

    /// It may be read, or passed over.
    pub(crate) fn finish(self, state: State) {
        self.ring.say(Head { state, ..self.head });
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use ferretto_shm::heap::{FREE_WORDS, Next, Record, RingReader};

    use super::*;

    const RING: usize = 64 << 10;

    fn pair(ring_bytes: usize) -> (RingReader, RingWriter) {
        let reader = RingReader::create(ring_bytes).unwrap();
        let len = HEAD_BYTES + ring_bytes;
        let fd = reader.as_fd().unwrap().as_raw_fd();
        // SAFETY: maps a file of this length anew; nothing else is touched. It stays mapped.
        // JUSTIFICATION: the program's end is a mapping of its own, as it is in the program.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        // SAFETY: so much is mapped there.
        // JUSTIFICATION: as above.
        (reader, unsafe { RingWriter::new(base.cast(), ring_bytes) })
    }

    fn write(writer: &RingWriter, words: &[u64]) -> bool {
        let Some(room) = writer.reserve(words.len() * 8, For::Alloc) else { return false };
        // SAFETY: nothing is read behind the words.
        // JUSTIFICATION: what is tested.
        unsafe { room.write(words, core::ptr::null(), 0) };
        room.finish(State::Whole);
        true
    }

    /// Against a queue.
    #[test]
    fn what_is_written_is_read_in_its_order_or_there_was_no_room() {
        let (mut reader, writer) = pair(4096 * 2);
        let mut model = std::collections::VecDeque::new();
        let (mut random, mut payload, mut refused) = (1u64, Vec::new(), 0);
        for number in 0..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let words: Vec<u64> = (0..random >> 58).map(|word| word ^ number).collect();
            if random & (1 << 40) != 0 {
                match write(&writer, &words) {
                    true => model.push_back(words),
                    false => refused += 1,
                }
                continue;
            }
            payload.clear();
            let expected = model.pop_front();
            assert_eq!(
                reader.next(&mut payload),
                if expected.is_some() { Next::Record } else { Next::Nothing }
            );
            let found: Vec<u64> =
                payload.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            assert_eq!(found, expected.unwrap_or_default());
        }
        assert!(refused > 0, "it was full now and then");
    }

    #[test]
    fn threads_write_beside_each_other() {
        const THREADS: u64 = 4;
        const RECORDS: u64 = 50_000;
        let (mut reader, writer) = pair(RING);
        let base = writer.base as usize;
        let writes = move |thread: u64| {
            // SAFETY: as above; the pointer is of the whole process.
            // JUSTIFICATION: threads share the ring.
            let writer = unsafe { RingWriter::new(base as *mut u8, RING) };
            let mut written = 0;
            for number in 0..RECORDS {
                let words: Vec<u64> = std::iter::once(thread << 32 | number).chain(0..number % 40).collect();
                while !write(&writer, &words) {
                    std::thread::yield_now();
                }
                written += 1;
            }
            written
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| std::thread::spawn(move || writes(thread))).collect();
        let (mut next, mut payload, mut all) = ([0; THREADS as usize], Vec::new(), 0);
        while all < THREADS * RECORDS {
            payload.clear();
            match reader.next(&mut payload) {
                Next::Record => {}
                Next::Broken => panic!("broken after {all}"),
                Next::Nothing | Next::Unfinished => {
                    std::thread::yield_now();
                    continue;
                }
            }
            all += 1;
            let words: Vec<u64> =
                payload.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            let (thread, number) = ((words[0] >> 32) as usize, words[0] & u64::from(u32::MAX));
            assert_eq!(number, next[thread], "in the order in which a thread has written");
            next[thread] += 1;
            assert!(words[1..].iter().copied().eq(0..number % 40));
        }
        assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>(), all);
    }

    #[test]
    fn a_full_ring_has_room_for_what_is_freed() {
        let (mut reader, writer) = pair(4096);
        while write(&writer, &[1; 15]) {}
        let mut freed = 0;
        while let Some(room) = writer.reserve(FREE_WORDS * 8, For::Free) {
            // SAFETY: nothing is read behind the words.
            // JUSTIFICATION: what is tested.
            unsafe { room.write(&Record::pack_free(0, freed), core::ptr::null(), 0) };
            room.finish(State::Whole);
            freed += 1;
        }
        assert!(freed >= 16, "{freed}");
        let mut found = 0;
        let mut payload = Vec::new();
        while reader.next(&mut payload) == Next::Record {
            found += u64::from(Record::parse(&payload) == Some(Record::Free { heap: 0, address: found }));
            payload.clear();
        }
        assert_eq!(found, freed);
    }
}
