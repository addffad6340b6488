//! Heaps by their names, and what a session wants of them, in the head of the memory.

use super::HEAD_BYTES;

/// Heaps of a program; number 0 is its allocator's own.
pub const MAX_HEAPS: usize = 64;
/// Words of a name: 64 bytes with the zero at its end (upstream: heap_profile.h, HEAPPROFD_HEAP_NAME_SZ).
pub const NAME_WORDS: usize = 8;
const WORD: usize = size_of::<u64>();
const NAME_BYTES: usize = NAME_WORDS * WORD;

/// Where the names of a program's heaps are.
const NAMES_AT: usize = 4096;
/// Where the wishes are: words for the allocator's own heap, for all heaps, how many are named; then those, each an interval and a name.
const WISHES_AT: usize = 8192;
const MAIN_AT: usize = WISHES_AT;
const ALL_AT: usize = WISHES_AT + WORD;
const COUNT_AT: usize = WISHES_AT + 2 * WORD;
const NAMED_AT: usize = WISHES_AT + 64;
const NAMED_BYTES: usize = WORD + NAME_BYTES;

const _: () = assert!(NAMES_AT + MAX_HEAPS * NAME_BYTES <= WISHES_AT);
const _: () = assert!(NAMED_AT + MAX_HEAPS * NAMED_BYTES <= HEAD_BYTES);

/// A heap's name, with zeros behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapName(pub [u64; NAME_WORDS]);

impl HeapName {
    /// Of so many bytes, which are not 0. None if there are none, or too many.
    #[must_use]
    pub const fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() >= NAME_BYTES {
            return None;
        }
        let (mut words, mut rest, mut at) = ([0; NAME_WORDS], bytes, 0);
        while let Some((byte, others)) = rest.split_first() {
            if *byte == 0 {
                return None;
            }
            words[at / WORD] |= (*byte as u64) << (at % WORD * 8);
            rest = others;
            at += 1;
        }
        Some(Self(words))
    }

    /// As text, whatever a program has put there.
    #[must_use]
    pub fn to_text(self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Where the name of a heap is.
#[must_use]
pub const fn name_at(heap: usize) -> usize {
    NAMES_AT + heap % MAX_HEAPS * NAME_BYTES
}

/// What a session wants: bytes between samples; 0 is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Of the allocator's own heap, whatever it is called, if that is not named.
    pub main_interval: u64,
    /// Of all others that are not named.
    pub all_interval: u64,
    /// Of some; the first ones that there is room for.
    pub named: Vec<(HeapName, u64)>,
}

impl Wishes {
    /// As words, and where they are.
    pub(super) fn words(&self) -> Vec<(usize, u64)> {
        let named = self.named.get(..self.named.len().min(MAX_HEAPS)).unwrap_or_default();
        let mut words =
            vec![(MAIN_AT, self.main_interval), (ALL_AT, self.all_interval), (COUNT_AT, named.len() as u64)];
        for (number, (name, interval)) in named.iter().enumerate() {
            let at = NAMED_AT + number * NAMED_BYTES;
            words.push((at, *interval));
            words.extend(name.0.iter().enumerate().map(|(word, value)| (at + (word + 1) * WORD, *value)));
        }
        words
    }
}

/// Bytes between samples of a heap; 0 is none. `word` reads the memory.
#[must_use]
pub fn wanted_interval(word: impl Fn(usize) -> u64, name: &HeapName, is_main: bool) -> u64 {
    for number in 0..count(&word) {
        let at = NAMED_AT + number * NAMED_BYTES;
        if name.0.iter().enumerate().all(|(part, value)| word(at + (part + 1) * WORD) == *value) {
            return word(at);
        }
    }
    word(if is_main { MAIN_AT } else { ALL_AT })
}

/// The least of all that is wanted; 0 if nothing is.
#[must_use]
pub fn least_interval(word: impl Fn(usize) -> u64) -> u64 {
    let named = (0..count(&word)).map(|number| word(NAMED_AT + number * NAMED_BYTES));
    let all = [word(MAIN_AT), word(ALL_AT)].into_iter().chain(named);
    all.filter(|interval| *interval > 0).min().unwrap_or(0)
}

fn count(word: impl Fn(usize) -> u64) -> usize {
    usize::try_from(word(COUNT_AT)).map_or(MAX_HEAPS, |count| count.min(MAX_HEAPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HeapName {
        HeapName::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_name_is_a_text_that_has_an_end() {
        let longest = "x".repeat(63);
        for text in ["a", "dev.example.arena", &longest] {
            assert_eq!(name(text).to_text(), text);
        }
        for bytes in [&b""[..], &[b'x'; 64], b"a\0b"] {
            assert_eq!(HeapName::new(bytes), None);
        }
        assert_eq!(HeapName([u64::MAX; NAME_WORDS]).to_text().chars().count(), 64);
    }

    #[test]
    fn a_heap_that_is_named_has_its_own_interval_and_others_that_of_all() {
        let wishes = Wishes {
            main_interval: 4096,
            all_interval: 8192,
            named: vec![(name("a"), 100), (name("off"), 0)],
        };
        let words = wishes.words();
        let word = |at: usize| words.iter().find(|(place, _)| *place == at).map_or(0, |(_, word)| *word);
        for (text, is_main, interval) in
            [("a", false, 100), ("off", false, 0), ("b", false, 8192), ("libc.malloc", true, 4096)]
        {
            assert_eq!(wanted_interval(word, &name(text), is_main), interval, "{text}");
        }
        assert_eq!(least_interval(word), 100);
        assert_eq!(least_interval(|_| 0), 0);
        // Whatever is there, reading ends.
        assert_eq!(wanted_interval(|_| u64::MAX, &name("a"), false), u64::MAX);
    }

    #[test]
    fn more_names_than_there_is_room_for_are_left_out() {
        let named = (0..100).map(|number| (name(&format!("heap {number}")), 7)).collect();
        let words = Wishes { named, ..Wishes::default() }.words();
        assert!(words.iter().all(|(at, _)| (WISHES_AT..HEAD_BYTES).contains(at)));
        assert!(words.contains(&(COUNT_AT, MAX_HEAPS as u64)));
    }
}
