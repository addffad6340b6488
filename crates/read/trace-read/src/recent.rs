//! What was looked up lately.
//!
//! A packet mostly belongs to the same sequence, clock and track as one of those just before it: a place by the lowest bits of a number finds them
//! without a hash.

/// Ours: writers that take turns are mostly fewer, and so many places are a few cache lines.
const PLACES: usize = 64;

/// Values by keys, of each number modulo `N` the last that was met.
#[derive(Debug)]
pub struct Recent<K, V, const N: usize = PLACES>([Option<(K, V)>; N]);

impl<K: Copy + Eq, V: Copy, const N: usize> Default for Recent<K, V, N> {
    fn default() -> Self {
        Self([None; N])
    }
}

impl<K: Copy + Eq, V: Copy, const N: usize> Recent<K, V, N> {
    /// The value of a key, whose number this is.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u64, key: K) -> Option<V> {
        match self.0[number as usize % N] {
            Some((last, value)) if last == key => Some(value),
            _ => None,
        }
    }

    /// The value of a key from now on.
    #[inline]
    pub fn put(&mut self, number: u64, key: K, value: V) {
        self.0[number as usize % N] = Some((key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_last_that_was_put_there() {
        let mut recent: Recent<_, _> = Recent::default();
        recent.put(1, "a", 1);
        recent.put(2, "b", 2);
        assert_eq!((recent.get(1, "a"), recent.get(2, "b"), recent.get(1, "b")), (Some(1), Some(2), None));
        recent.put(1 + PLACES as u64, "c", 3);
        assert_eq!((recent.get(1, "a"), recent.get(1, "c")), (None, Some(3)));
    }
}
