//! Where blocks lie that memory has no room for.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::helper::Later;
use crate::packed::Packed;

/// A place of blocks. It lives as long as the columns and queues whose blocks it has.
pub trait Store: Send + Sync + fmt::Debug {
    /// Takes a block; nothing if it cannot, and the block stays where it is.
    fn put(&self, words: &[u64]) -> Option<Place>;

    /// The words of a block; none if they cannot be had, which the store remembers.
    fn get(&self, place: Place) -> Box<[u64]>;

    /// Whether words of some block could not be had: whoever has asked for cells has some that are none.
    fn has_failed(&self) -> bool;
}

/// Where in a store a block lies: a store that gives it is the one to be asked with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Words before it.
    pub at: u64,
    /// Its words.
    pub words: u32,
}

/// A block, wherever it lies.
#[derive(Clone, Debug)]
pub enum Kept {
    /// Perhaps not packed yet.
    Later(Later<Self>),
    /// In memory.
    Here(Packed),
    /// In the store of whoever has this.
    There(Place),
}

impl Default for Kept {
    fn default() -> Self {
        Self::Here(Packed::default())
    }
}

impl Kept {
    /// It, packed: [`Kept::Here`] or [`Kept::There`].
    #[inline]
    #[must_use]
    pub fn packed(&self) -> &Self {
        match self {
            Self::Later(later) => later.get(),
            packed => packed,
        }
    }

    /// It is packed from now on, in memory of the thread that asks: what one thread has had and another one would need is lost to both.
    pub fn settle(&mut self) {
        if let Self::Later(later) = self {
            *self = later.get().clone();
        }
    }

    /// Keeps a block: in the store if there is one that takes it.
    #[must_use]
    pub fn new(packed: Packed, store: Option<&Arc<dyn Store>>) -> Self {
        match store.and_then(|store| store.put(packed.words())) {
            Some(place) => Self::There(place),
            None => Self::Here(packed),
        }
    }

    /// From now on it lies in the store, if that takes it.
    pub fn move_to(&mut self, store: &Arc<dyn Store>) {
        self.settle();
        if let Self::Here(packed) = self
            && let Some(place) = store.put(packed.words())
        {
            *self = Self::There(place);
        }
    }

    /// The block, out of the store that it was given.
    #[must_use]
    pub fn read(&self, store: Option<&Arc<dyn Store>>) -> Cow<'_, Packed> {
        match self.packed() {
            Self::Here(packed) => Cow::Borrowed(packed),
            Self::There(place) => {
                let words = store.map(|store| store.get(*place)).unwrap_or_default();
                Cow::Owned(Packed::from_words(words))
            }
            Self::Later(_) => Cow::Owned(Packed::default()),
        }
    }

    /// Bytes of memory that it holds by now.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Here(packed) => packed.memory_bytes(),
            Self::There(_) => 0,
            Self::Later(later) => later.made().map_or(0, Self::memory_bytes),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use super::*;

    /// One in memory.
    #[derive(Debug, Default)]
    pub(crate) struct InMemory {
        words: Mutex<Vec<u64>>,
        is_full: bool,
    }

    impl InMemory {
        /// One that takes nothing.
        pub(crate) fn full() -> Self {
            Self { is_full: true, ..Self::default() }
        }
    }

    impl Store for InMemory {
        fn put(&self, words: &[u64]) -> Option<Place> {
            let mut all = self.words.lock().unwrap();
            let place = Place { at: all.len() as u64, words: words.len() as u32 };
            all.extend_from_slice(words);
            (!self.is_full).then_some(place)
        }

        fn get(&self, place: Place) -> Box<[u64]> {
            let all = self.words.lock().unwrap();
            let from = usize::try_from(place.at).ok().and_then(|at| all.get(at..));
            from.and_then(|from| from.get(..place.words as usize)).unwrap_or_default().into()
        }

        fn has_failed(&self) -> bool {
            false
        }
    }
}
