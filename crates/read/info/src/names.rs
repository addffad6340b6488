//! Names behind small numbers, not more than a bound: what does not fit is one of the others.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Names that are told apart. People call their events by hundreds of names; a trace that puts numbers into names has more, and then the
/// first ones stand for themselves.
const MAX_NAMES: usize = 1 << 16;
/// What is kept of one, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A name's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

impl Name {
    /// All names that came when the table was full.
    pub const OTHERS: Self = Self(0);
    /// Nothing was called so.
    pub const NONE: Self = Self(1);

    /// Its place in a table by name.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The table.
#[derive(Debug)]
pub struct Names {
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// Where each ends in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Default for Names {
    fn default() -> Self {
        // Two that nobody can find.
        Self {
            numbers: HashTable::new(),
            hasher: RandomState::default(),
            ends: vec![0; 2],
            bytes: Vec::new(),
        }
    }
}

impl Names {
    /// The number of a name. Names that begin with the same 256 bytes are one.
    pub fn number(&mut self, name: &[u8]) -> Name {
        let name = name.get(..MAX_NAME_BYTES).unwrap_or(name);
        let hash = self.hasher.hash_one(name);
        let found = self.numbers.find(hash, |number| self.get(Name(*number)) == name);
        if let Some(number) = found {
            return Name(*number);
        }
        let number = self.ends.len();
        if number >= MAX_NAMES {
            return Name::OTHERS;
        }
        self.bytes.extend_from_slice(name);
        // The bounds keep it below 2^32.
        self.ends.push(self.bytes.len() as u32);
        let Self { numbers, hasher, ends, bytes } = self;
        numbers.insert_unique(hash, number as u32, |number| hasher.hash_one(text(ends, bytes, *number)));
        Name(number as u32)
    }

    /// The text of a name: nothing for the two that are none.
    #[must_use]
    pub fn get(&self, name: Name) -> &[u8] {
        text(&self.ends, &self.bytes, name.0)
    }
}

fn text<'a>(ends: &[u32], bytes: &'a [u8], number: u32) -> &'a [u8] {
    let number = number as usize;
    let begin = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(number).copied().unwrap_or(begin);
    bytes.get(begin as usize..end as usize).unwrap_or_default()
}

/// What has been counted of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// How many.
    pub count: u64,
    /// How large they are in sum.
    pub bytes: u64,
}

impl Weight {
    /// One, so large.
    #[inline]
    #[must_use]
    pub const fn of(bytes: usize) -> Self {
        Self { count: 1, bytes: bytes as u64 }
    }

    /// What else was counted.
    #[inline]
    pub fn add_all(&mut self, more: Self) {
        self.count += more.count;
        self.bytes += more.bytes;
    }

    /// One more.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }
}

/// What has been counted, by number.
#[derive(Clone, Debug, Default)]
pub struct ByNumber<T>(Vec<T>);

impl<T: Default + Clone> ByNumber<T> {
    /// That of a number below `bound`, or that of 0.
    #[inline]
    pub fn get_mut(&mut self, number: usize, bound: usize) -> Option<&mut T> {
        if number < self.0.len() { self.0.get_mut(number) } else { self.grow(number, bound) }
    }

    /// The bound is looked at here only: there is no number above it.
    #[cold]
    fn grow(&mut self, number: usize, bound: usize) -> Option<&mut T> {
        let number = if number < bound { number } else { 0 };
        if self.0.len() <= number {
            self.0.resize(number + 1, T::default());
        }
        self.0.get_mut(number)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0.iter().enumerate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_number_each_until_the_table_is_full() {
        let mut names = Names::default();
        let one = names.number(b"one");
        let empty = names.number(b"");
        assert_eq!((names.number(b"one"), names.number(b"")), (one, empty));
        assert!(one != empty && ![Name::OTHERS, Name::NONE].contains(&empty));
        assert_eq!(
            (names.get(one), names.get(empty), names.get(Name::NONE)),
            (&b"one"[..], &b""[..], &b""[..])
        );
        for number in 0..2 * MAX_NAMES {
            names.number(&number.to_le_bytes());
        }
        assert_eq!(names.number(b"late"), Name::OTHERS);
        let five = names.number(&5usize.to_le_bytes());
        assert_eq!(names.get(five), &5usize.to_le_bytes());
        assert_eq!(names.number(&[b'x'; 1000]), Name::OTHERS);
    }
}
