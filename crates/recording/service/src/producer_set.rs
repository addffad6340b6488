//! A set of producers that is small and gone at once: a thousand flushes of a session may each wait for thousands of producers.

use crate::ids::ProducerId;

const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each id from the lowest to the highest: 8 KiB at most, where a tree of nodes would take as much for a thousand.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ProducerSet {
    /// The word of all ids that the first of `words` is.
    first_word: usize,
    words: Box<[u64]>,
    len: usize,
}

impl ProducerSet {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// In their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ProducerId> {
        std::iter::successors(self.first(), |id| self.next_after(Some(*id)))
    }

    pub(crate) fn first(&self) -> Option<ProducerId> {
        self.next_after(None)
    }

    /// The next one.
    pub(crate) fn next_after(&self, last: Option<ProducerId>) -> Option<ProducerId> {
        let from = last.map_or(0, |last| usize::from(last.0) + 1).saturating_sub(self.first_word * WORD_BITS);
        let mut index = from / WORD_BITS;
        let mut word = self.words.get(index)? & (u64::MAX << (from % WORD_BITS));
        while word == 0 {
            index += 1;
            word = *self.words.get(index)?;
        }
        let bit = (self.first_word + index) * WORD_BITS + word.trailing_zeros() as usize;
        u16::try_from(bit).ok().map(ProducerId)
    }

    pub(crate) fn contains(&self, id: ProducerId) -> bool {
        let (index, bit) = place_of(id);
        let word = index.checked_sub(self.first_word).and_then(|index| self.words.get(index));
        word.is_some_and(|word| word & bit != 0)
    }

    /// One more: where it lies beyond those that are there, all are copied.
    pub(crate) fn insert(&mut self, id: ProducerId) {
        if !self.remove(id) {
            let (index, _) = place_of(id);
            if self.words.get(index.wrapping_sub(self.first_word)).is_none() {
                *self = self.iter().chain([id]).collect();
                return;
            }
        }
        let (index, bit) = place_of(id);
        if let Some(word) = self.words.get_mut(index.wrapping_sub(self.first_word)) {
            *word |= bit;
            self.len += 1;
        }
    }

    /// Says whether it was there.
    pub(crate) fn remove(&mut self, id: ProducerId) -> bool {
        let (index, bit) = place_of(id);
        let word = index.checked_sub(self.first_word).and_then(|index| self.words.get_mut(index));
        let Some(word) = word.filter(|word| **word & bit != 0) else { return false };
        *word &= !bit;
        self.len -= 1;
        true
    }
}

/// The word among all, and the bit in it.
fn place_of(id: ProducerId) -> (usize, u64) {
    (usize::from(id.0) / WORD_BITS, 1 << (usize::from(id.0) % WORD_BITS))
}

impl FromIterator<ProducerId> for ProducerSet {
    fn from_iter<T: IntoIterator<Item = ProducerId>>(ids: T) -> Self {
        let ids: Vec<ProducerId> = ids.into_iter().collect();
        let indices = || ids.iter().map(|id| place_of(*id).0);
        let (Some(first_word), Some(last_word)) = (indices().min(), indices().max()) else {
            return Self::default();
        };
        let mut words = vec![0; last_word - first_word + 1].into_boxed_slice();
        for id in &ids {
            let (index, bit) = place_of(*id);
            words[index - first_word] |= bit;
        }
        let len = words.iter().map(|word: &u64| word.count_ones() as usize).sum();
        Self { first_word, words, len }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_has_what_was_put_in_and_not_taken_out() {
        for ids in [vec![], vec![1], vec![65535], vec![63, 64, 65], vec![700, 3, 3, 65_000, 128, 127]] {
            let mut plain: BTreeSet<ProducerId> = ids.iter().copied().map(ProducerId).collect();
            let mut set: ProducerSet = plain.iter().copied().collect();
            for id in ids.iter().copied().chain([0, 2, 66, 65535]).map(ProducerId) {
                assert_eq!((set.len(), set.is_empty()), (plain.len(), plain.is_empty()));
                assert!(set.iter().eq(plain.iter().copied()), "{set:?}");
                assert_eq!(set.first(), plain.first().copied());
                assert_eq!(set.next_after(Some(id)), plain.range(id..).find(|next| **next != id).copied());
                assert_eq!(set.contains(id), plain.contains(&id));
                assert_eq!(set.remove(id), plain.remove(&id));
            }
            let mut grown = ProducerSet::default();
            for id in ids.iter().copied().map(ProducerId) {
                grown.insert(id);
                assert!(grown.contains(id));
            }
            let plain: BTreeSet<ProducerId> = ids.iter().copied().map(ProducerId).collect();
            assert!(grown.len() == plain.len() && grown.iter().eq(plain), "{grown:?}");
        }
    }

    /// As many as one user may have, for each of a thousand flushes in each of five sessions.
    #[test]
    fn thousands_of_producers_take_little() {
        let set: ProducerSet = (1..=crate::limits::MAX_PRODUCERS_PER_UID as u16).map(ProducerId).collect();
        assert!(size_of_val(&*set.words) <= 520);
        let all: ProducerSet = (0..=u16::MAX).map(ProducerId).collect();
        assert_eq!((all.len(), size_of_val(&*all.words)), (65_536, 8 * 1024));
    }
}
