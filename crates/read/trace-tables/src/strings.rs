//! Every text once.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A text of a [`Strings`]. Those of one pool are equal if their texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(NonZeroU32);

impl Str {
    /// That of every pool: [`TOO_MANY`].
    pub(crate) const FIRST: Self = Self(NonZeroU32::MIN);

    /// Its number among the pool's texts, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The text of this number. It means something only to the pool that has so many.
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok()?.checked_add(1).and_then(NonZeroU32::new).map(Self)
    }
}

/// A pool of texts.
///
/// A text that is no UTF-8 is kept with U+FFFD for what is none. Beyond four billion texts, or [`MAX_BYTES`] of them, further ones are all
/// `"(too many strings)"`.
#[derive(Clone, Debug)]
pub struct Strings {
    bytes: String,
    /// Where each text ends.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: RandomState,
    recent: Recent,
}

/// Bytes of all texts of a pool. Ours: a trace of such a size with nothing but different texts is none that anybody looks at.
pub const MAX_BYTES: usize = 16 << 30;
const TOO_MANY: &str = "(too many strings)";

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self {
            bytes: String::new(),
            ends: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::default(),
            recent: Recent::default(),
        };
        strings.intern(TOO_MANY);
        strings
    }
}

impl Strings {
    /// The text's number, new or old.
    #[inline]
    pub fn intern(&mut self, text: &str) -> Str {
        let hash = self.hasher.hash_one(text);
        if let Some(found) = self.table.find(hash, |index| self.at(*index as usize) == text) {
            return number(*found);
        }
        self.add(text, hash)
    }

    /// The number of a text out of a trace, which should be UTF-8.
    #[inline]
    pub fn intern_bytes(&mut self, bytes: &[u8]) -> Str {
        let short = Short::of(bytes);
        if let Some(known) = short.and_then(|short| self.recent.get(short)) {
            return known;
        }
        let number = match std::str::from_utf8(bytes) {
            Ok(text) => self.intern(text),
            Err(_) => self.intern(&String::from_utf8_lossy(bytes)),
        };
        if let Some(short) = short {
            self.recent.put(short, number);
        }
        number
    }

    /// The number of a text, if it is here.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Str> {
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |index| self.at(*index as usize) == text).map(|index| number(*index))
    }

    /// The text.
    #[must_use]
    pub fn get(&self, text: Str) -> &str {
        self.at(text.index())
    }

    /// All texts, one behind the other.
    pub(crate) fn bytes(&self) -> &str {
        &self.bytes
    }

    /// Where each of them ends.
    pub(crate) fn ends(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.ends.iter().copied()
    }

    /// A pool out of these; nothing if they are not of one.
    pub(crate) fn from_parts(bytes: String, ends: Vec<usize>) -> Option<Self> {
        let is_first = ends.first() == Some(&TOO_MANY.len()) && bytes.starts_with(TOO_MANY);
        let is_whole = ends.last() == Some(&bytes.len()) && ends.len() < u32::MAX as usize;
        let are_texts = ends.is_sorted() && ends.iter().all(|end| bytes.is_char_boundary(*end));
        if !is_first || !is_whole || !are_texts {
            return None;
        }
        let hasher = RandomState::default();
        let hash = |index: &u32| hasher.hash_one(at(&bytes, &ends, *index as usize));
        let mut table = HashTable::with_capacity(ends.len());
        for index in 0..ends.len() as u32 {
            table.insert_unique(hash(&index), index, hash);
        }
        Some(Self { table, hasher, recent: Recent::default(), bytes, ends })
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + size_of_val(&*self.recent.0)
            + self.table.capacity() * size_of::<u32>()
    }

    #[cold]
    fn add(&mut self, text: &str, hash: u64) -> Str {
        let index = self.ends.len();
        if self.bytes.len() + text.len() > MAX_BYTES || index >= u32::MAX as usize - 1 {
            return number(0);
        }
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
        // It is below u32::MAX.
        let index = index as u32;
        let rehash = |index: &u32| self.hasher.hash_one(at(&self.bytes, &self.ends, *index as usize));
        self.table.insert_unique(hash, index, rehash);
        number(index)
    }

    fn at(&self, index: usize) -> &str {
        at(&self.bytes, &self.ends, index)
    }
}

/// All of a short text: its length, its first bytes and its last ones, which may be the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Short {
    len: u64,
    first: u64,
    last: u64,
}

/// Places for short texts that were asked for lately. Ours: they stay in the processor's cache, and names of threads and values of arguments
/// come again and again.
const RECENT: usize = 512;

/// Short texts, of several that share a place the last.
#[derive(Clone, Debug)]
struct Recent(Box<[(Short, Option<Str>)]>);

impl Short {
    #[inline]
    fn of(text: &[u8]) -> Option<Self> {
        let len = text.len();
        let (first, last) = match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) if len <= 2 * size_of::<u64>() => {
                (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
            }
            (None, _) => (text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
            _ => return None,
        };
        Some(Self { len: len as u64, first, last })
    }

    #[inline]
    fn place(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.first ^ self.last.rotate_left(23) ^ self.len).wrapping_mul(ODD);
        (mixed >> 48) as usize % RECENT
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self(vec![(Short::default(), None); RECENT].into())
    }
}

impl Recent {
    #[inline]
    fn get(&self, short: Short) -> Option<Str> {
        let (its, known) = self.0.get(short.place())?;
        known.filter(|_| *its == short)
    }

    #[inline]
    fn put(&mut self, short: Short, number: Str) {
        if let Some(place) = self.0.get_mut(short.place()) {
            *place = (short, Some(number));
        }
    }
}

fn number(index: u32) -> Str {
    Str(NonZeroU32::MIN.saturating_add(index))
}

#[inline]
fn at<'a>(bytes: &'a str, ends: &[usize], index: usize) -> &'a str {
    let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(index).and_then(|end| bytes.get(start..*end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let mut strings = Strings::default();
        let texts: Vec<String> = (0..10_000).map(|n| format!("text {}", n % 5000)).collect();
        let numbers: Vec<Str> = texts.iter().map(|text| strings.intern(text)).collect();
        assert_eq!(strings.len(), 5001);
        for (text, number) in texts.iter().zip(&numbers) {
            assert_eq!((strings.get(*number), strings.find(text)), (text.as_str(), Some(*number)));
        }
        assert_eq!(strings.find("no such"), None);
    }

    #[test]
    fn what_is_no_text_is_kept_as_far_as_it_is() {
        let mut strings = Strings::default();
        let bad = strings.intern_bytes(b"a\xffb");
        assert_eq!(strings.get(bad), "a\u{fffd}b");
        let empty = strings.intern("");
        assert_eq!(strings.get(empty), "");
    }

    #[test]
    fn texts_out_of_a_trace_have_the_numbers_of_the_same_texts() {
        let mut strings = Strings::default();
        for _ in 0..2 {
            for len in 0..40 {
                for text in ["abcdefghijklm\0nopqrstuvwxyz0123456789ABCDEF", "\0".repeat(40).as_str()] {
                    let text = &text[..len];
                    let number = strings.intern(text);
                    assert_eq!(strings.intern_bytes(text.as_bytes()), number, "{text:?}");
                }
            }
        }
        let bad = strings.intern_bytes(b"\xff");
        assert_eq!((strings.intern_bytes(b"\xff"), strings.get(bad)), (bad, "\u{fffd}"));
    }

    #[test]
    fn one_that_may_be_missing_takes_no_more_room() {
        assert_eq!(size_of::<Option<Str>>(), 4);
    }
}
