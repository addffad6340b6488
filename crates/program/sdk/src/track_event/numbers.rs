//! Numbers for texts that are known at compile time: the same in all sequences of the process, so that a trace point looks nothing up.
//!
//! A number is given at the first use of a text and never taken back. Which numbers its reader knows, each sequence keeps in a [`Set`].

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers of texts of one kind. They are varints of at most two bytes; texts beyond are sent with each event.
pub(crate) const MAX_TEXTS: usize = (1 << 14) - 1;
/// Trace points that take the short way. A set of them has at most 8 KiB.
const MAX_POINTS: u32 = (1 << 16) - 1;

/// Gives texts their numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    categories: Texts,
    event_names: Texts,
    argument_names: Texts,
    /// Places in source code so far.
    locations: u16,
    /// Trace points so far.
    points: u32,
}

/// Texts of one kind. Those of equal content have one number.
#[derive(Debug)]
struct Texts {
    /// In the order of their numbers.
    texts: Vec<&'static str>,
    /// Places in `texts`, in the order of the texts. Two bytes each: adding to the midst of the longest moves 32 KiB.
    sorted: Vec<u16>,
}

/// Numbers that a sequence's reader knows. Grows with the highest.
#[derive(Debug, Default)]
pub(crate) struct Set {
    words: Vec<u64>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers::new());

#[inline(never)]
pub(crate) fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lock_for_fork() -> Box<dyn crate::runtime::Held> {
    Box::new(numbers())
}

impl Numbers {
    const fn new() -> Self {
        Self {
            categories: Texts::new(),
            event_names: Texts::new(),
            argument_names: Texts::new(),
            locations: 0,
            points: 0,
        }
    }

    pub(crate) fn category(&mut self, name: &'static str) -> u16 {
        self.categories.number(name)
    }

    pub(crate) fn event_name(&mut self, name: &'static str) -> u16 {
        self.event_names.number(name)
    }

    pub(crate) fn argument_name(&mut self, name: &'static str) -> u16 {
        self.argument_names.number(name)
    }

    /// A number for a place in source code; 0 if there are none left.
    pub(crate) fn location(&mut self) -> u16 {
        if usize::from(self.locations) == MAX_TEXTS {
            return 0;
        }
        self.locations += 1;
        self.locations
    }

    /// A number for a trace point; `None` if there are none left.
    pub(crate) fn point(&mut self) -> Option<u32> {
        if self.points == MAX_POINTS {
            return None;
        }
        self.points += 1;
        Some(self.points)
    }
}

impl Texts {
    const fn new() -> Self {
        Self { texts: Vec::new(), sorted: Vec::new() }
    }

    /// The number of a text, from 1; 0 if there are none left.
    #[inline(never)]
    fn number(&mut self, text: &'static str) -> u16 {
        let text_at = |index: u16| self.texts.get(usize::from(index)).copied().unwrap_or_default();
        let place = self.sorted.binary_search_by(|index| text_at(*index).cmp(text));
        match place.map_err(|place| (place, self.texts.len())) {
            Ok(place) => self.sorted.get(place).map_or(0, |index| index + 1),
            Err((_, MAX_TEXTS..)) => 0,
            Err((place, index)) => {
                self.texts.push(text);
                self.sorted.insert(place, index as u16);
                index as u16 + 1
            }
        }
    }
}

impl Set {
    #[inline(always)]
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Adds a number; whether it is new.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let index = number as usize / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let Some(word) = self.words.get_mut(index) else {
            return false;
        };
        let before = *word;
        *word |= 1 << (number % 64);
        before != *word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_of_their_kind() {
        let mut numbers = Numbers::new();
        assert_eq!(numbers.category("b"), 1);
        assert_eq!((numbers.event_name("a"), numbers.event_name("b")), (1, 2));
        let again: &'static str = String::from("a").leak();
        assert_eq!((numbers.event_name(again), numbers.event_name("c")), (1, 3));
        assert_eq!((numbers.argument_name("c"), numbers.category("b")), (1, 1));
    }

    #[test]
    fn numbers_run_out_without_harm() {
        let mut texts = Texts::new();
        for number in 1..=MAX_TEXTS {
            assert_eq!(texts.number(format!("{number}").leak()), number as u16);
        }
        assert_eq!((texts.number("one more"), texts.number("1")), (0, 1));
        let mut numbers = Numbers::new();
        assert_eq!((0..MAX_POINTS).filter_map(|_| numbers.point()).last(), Some(MAX_POINTS));
        assert_eq!(numbers.point(), None);
    }

    #[test]
    fn a_set_holds_what_was_inserted() {
        let mut set = Set::default();
        assert!(!set.contains(0) && !set.contains(1000));
        for number in [1, 63, 64, 1000] {
            assert!(set.insert(number) && !set.insert(number));
        }
        let found: Vec<u32> = (0..2000).filter(|number| set.contains(*number)).collect();
        assert_eq!(found, [1, 63, 64, 1000]);
    }
}
