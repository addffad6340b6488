//! The heaps of a program: its allocator's own, and those that it names itself. They stay, with their numbers, as long as the program runs, in children too.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use ferretto_shm::heap::{HeapName, MAX_HEAPS, NAME_WORDS};

use crate::client::{chosen, freed_in, is_unsampled_key, mapped, passes, reported};
use crate::ring::RingWriter;

/// The allocator's own.
pub(crate) const MAIN: u8 = 0;

#[derive(Debug)]
struct OneHeap {
    /// All 0 before it was named; the first word comes last.
    name: [AtomicU64; NAME_WORDS],
    /// Bytes between samples; 0 is none.
    interval: AtomicU64,
}

static HEAPS: [OneHeap; MAX_HEAPS] =
    [const { OneHeap { name: [const { AtomicU64::new(0) }; NAME_WORDS], interval: AtomicU64::new(0) } };
        MAX_HEAPS];
/// So many have a number; the allocator's own always has one.
static COUNT: AtomicU8 = AtomicU8::new(1);

impl OneHeap {
    fn name(&self) -> Option<HeapName> {
        let [first, rest @ ..] = &self.name;
        let first = first.load(Ordering::SeqCst);
        let mut words = [first; NAME_WORDS];
        for (to, from) in words.iter_mut().skip(1).zip(rest) {
            *to = from.load(Ordering::Relaxed);
        }
        (first != 0).then_some(HeapName(words))
    }

    fn set_name(&self, name: &HeapName) {
        for (to, from) in self.name.iter().zip(name.0).rev() {
            to.store(from, Ordering::SeqCst);
        }
    }
}

fn named() -> impl Iterator<Item = (u8, &'static OneHeap, HeapName)> {
    (0..).zip(&HEAPS).filter_map(|(number, heap): (u8, _)| heap.name().map(|name| (number, heap, name)))
}

/// Bytes between samples of a heap; 0 is none.
pub(crate) fn interval(heap: u8) -> u64 {
    HEAPS.get(usize::from(heap)).map_or(0, |heap| heap.interval.load(Ordering::Relaxed))
}

/// What the table knows a block by. Of the allocator's own heap it is the address; the numbers of others are anything, their blocks often in blocks of it.
#[inline(always)]
pub(crate) fn key(heap: u8, id: u64) -> u64 {
    if heap == MAIN {
        return id;
    }
    // Odd factors: two blocks of a heap never have one key; of two heaps they do as seldom as two random numbers are the same.
    let key = (id ^ u64::from(heap).wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // 0 is no key.
    if key == 0 { 1 } else { key }
}

pub(crate) fn name_main(name: &HeapName) {
    let [main, ..] = &HEAPS;
    main.set_name(name);
}

/// Tells the profiler of all.
pub(crate) fn say_all(ring: &RingWriter) {
    named().for_each(|(number, _, name)| ring.name(number, &name));
}

/// What a session wants of each; the least of all, of heaps that are not there yet, too.
pub(crate) fn take_wishes(ring: &RingWriter) -> u64 {
    for (number, heap, name) in named() {
        heap.interval.store(ring.wanted(&name, number == MAIN), Ordering::Relaxed);
    }
    ring.least_wanted()
}

pub(crate) fn want_none() {
    HEAPS.iter().for_each(|heap| heap.interval.store(0, Ordering::Relaxed));
}

/// A heap of the program's own, by its number: an arena, a pool, memory of a device.
///
/// What it allocates is a heap of its own in profiles, beside that of the program's allocator; where its memory comes from there, bytes are in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnHeap(u8);

impl OwnHeap {
    /// The heap of a name: who asks for it again has the same one. None if there are too many: a program has 63.
    #[must_use]
    pub fn named(name: &HeapName) -> Option<Self> {
        if let Some((number, ..)) = named().find(|(number, _, known)| *number != MAIN && known == name) {
            return Some(Self(number));
        }
        let more = |count: u8| (usize::from(count) < MAX_HEAPS).then_some(count + 1);
        let number = COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let heap = HEAPS.get(usize::from(number))?;
        heap.set_name(name);
        // A thread that attaches meanwhile tells, too.
        if let Some(ring) = mapped() {
            ring.name(number, name);
            if ring.session() != 0 {
                heap.interval.store(ring.wanted(name, false), Ordering::Relaxed);
            }
        }
        Some(Self(number))
    }

    /// The heap of a number that one was told.
    #[must_use]
    pub fn numbered(number: u32) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        (number != MAIN && number < COUNT.load(Ordering::Relaxed)).then_some(Self(number))
    }

    /// Its number, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Bytes between samples, if a session wants any.
    #[must_use]
    pub fn interval(self) -> Option<u64> {
        Some(interval(self.0)).filter(|interval| *interval > 0)
    }

    /// Something was allocated, by whoever calls this. Says whether it is a sample.
    #[inline(always)]
    pub fn allocated(self, id: u64, size: u64) -> bool {
        let is_passed = usize::try_from(size).is_ok_and(passes);
        !is_passed && self.may_be_sample(id, size)
    }

    /// Of what does not pass ([`passes`]).
    #[cold]
    #[inline(never)]
    pub fn may_be_sample(self, id: u64, size: u64) -> bool {
        reported(self.0, id, size)
    }

    /// Something was allocated that the program has chosen as a sample, and that stands for so many bytes. Says whether a session wants it.
    #[inline(never)]
    pub fn sampled(self, id: u64, size: u64) -> bool {
        chosen(self.0, id, size)
    }

    /// It is about to be given back. What is not known is none.
    #[inline(always)]
    pub fn freed(self, id: u64) {
        if !is_unsampled_key(key(self.0, id)) {
            self.may_be_freed(id);
        }
    }

    #[cold]
    #[inline(never)]
    fn may_be_freed(self, id: u64) {
        freed_in(self.0, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_has_one_number_and_no_others_have_it() {
        let name = |text: &str| HeapName::new(text.as_bytes()).unwrap();
        let first = OwnHeap::named(&name("first")).unwrap();
        assert_eq!(OwnHeap::named(&name("first")), Some(first));
        let second = OwnHeap::named(&name("second")).unwrap();
        assert!(first != second && OwnHeap::numbered(second.number()) == Some(second));
        assert_eq!([0, 63, 64, 256].map(OwnHeap::numbered), [None; 4]);
        // Nobody profiles.
        assert!(!first.allocated(1, 1 << 40) && !first.sampled(1, 1) && first.interval().is_none());
        first.freed(1);
        let all =
            (0..MAX_HEAPS).filter_map(|number| OwnHeap::named(&name(&format!("heap {number}")))).count();
        assert_eq!(all, MAX_HEAPS - 3, "the allocator's own and those two are there already");
    }

    #[test]
    fn blocks_of_two_heaps_are_told_apart() {
        let mut keys = std::collections::HashSet::new();
        for heap in 0..16 {
            for id in 0..1000 {
                assert!(keys.insert(key(heap, id * 16 + 16)), "{heap} {id}");
            }
        }
        assert!((1..64).all(|heap| key(heap, u64::from(heap).wrapping_mul(0xd6e8_feb8_6659_fd93)) == 1));
    }
}
