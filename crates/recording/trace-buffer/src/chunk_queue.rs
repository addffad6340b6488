//! Where the chunks of one sequence lie in the ring, in order: 4 bytes each, and no more than 8 with the spare room. A single one takes
//! nothing: most writers that are many have one chunk each, and each allocation is one more to be made when a session is cloned.
//!
//! The standard queue would do, but is 8 bytes larger, and there is one for each of maybe 65,000 writers.

/// The smallest allocation, in offsets.
const MIN_CAPACITY: usize = 2;

/// A queue of offsets into the ring.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkQueue {
    /// Circular. Its size is 0 or a power of two.
    room: Box<[u32]>,
    /// Where the first offset is; the only offset itself, if there is no room yet. While the queue is empty: whatever its owner keeps here.
    first: u32,
    len: u32,
}

impl ChunkQueue {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it takes beyond itself.
    #[inline]
    pub(crate) fn room_bytes(&self) -> usize {
        size_of_val(&*self.room)
    }

    /// The offset at `index`, counted from the first.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<u32> {
        let at = self.room.get(self.place(index)).copied();
        if index < self.len() { at.or(Some(self.first)) } else { None }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        let first = (self.first as usize).min(self.room.len());
        let only = self.room.is_empty().then_some(&mut self.first);
        let (wrapped, from_first) = self.room.split_at_mut(first);
        from_first.iter_mut().chain(wrapped).chain(only).take(self.len as usize)
    }

    /// Inserts before `index`, which is at most the queue's length.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, at: u32) {
        if self.is_empty() {
            if self.room.is_empty() {
                (self.first, self.len) = (at, 1);
                return;
            }
            self.first = 0;
        }
        if self.len() >= self.room.len() {
            self.move_to((self.len() * 2).max(MIN_CAPACITY));
        }
        if index < self.len() {
            match index < self.len() / 2 {
                true => self.move_those_before(index),
                false => self.move_those_from(index),
            }
        }
        self.len += 1; // no more than there are chunks in a ring
        self.room[self.place(index)] = at;
    }

    /// Moves the first ones, up to `index`, a place towards the front; there is room for one more.
    fn move_those_before(&mut self, index: usize) {
        let (first, last_place) = (self.first as usize, self.room.len() - 1);
        let wrapped = (first + index).saturating_sub(self.room.len());
        if first > 0 {
            self.room.copy_within(first..first + index - wrapped, first - 1);
        }
        if first == 0 || wrapped > 0 {
            let moved = if first == 0 { index } else { wrapped };
            self.room[last_place] = self.room[0];
            self.room.copy_within(1..moved.max(1), 0);
        }
        self.first = if first == 0 { last_place as u32 } else { first as u32 - 1 };
    }

    /// Moves those from `index` on a place towards the end; there is room for one more.
    fn move_those_from(&mut self, index: usize) {
        let (start, last_place) = (self.place(index), self.room.len() - 1);
        let end = start + self.len() - index;
        if end <= last_place {
            return self.room.copy_within(start..end, start + 1);
        }
        self.room.copy_within(0..end - self.room.len(), 1);
        self.room[0] = self.room[last_place];
        self.room.copy_within(start..last_place, start + 1);
    }

    /// Removes the first. What is kept while the queue is empty is 0 at first.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<u32> {
        let at = self.get(0)?;
        self.first = self.place(1) as u32;
        self.len -= 1;
        if self.is_empty() {
            self.first = 0;
        }
        // Not at once: queues that fill and empty in turn should not allocate each time.
        if self.room.len() > 8 * MIN_CAPACITY && self.len() <= self.room.len() / 8 {
            self.move_to(self.room.len() / 4);
        }
        Some(at)
    }

    /// Removes the last of several.
    pub(crate) fn pop_last(&mut self) -> Option<u32> {
        let last = self.len().checked_sub(1).filter(|&last| last > 0)?;
        let at = self.get(last)?;
        self.len -= 1;
        Some(at)
    }

    /// A number that the owner of an empty queue keeps in it.
    pub(crate) fn kept(&self) -> Option<u32> {
        self.is_empty().then_some(self.first)
    }

    /// Keeps a number until the queue is not empty any more.
    pub(crate) fn keep(&mut self, number: u32) {
        if self.is_empty() {
            self.first = number;
        }
    }

    /// Where in `room` the offset with this index is.
    #[inline]
    fn place(&self, index: usize) -> usize {
        (self.first as usize + index) & self.room.len().wrapping_sub(1)
    }

    /// Changes the capacity to one that all offsets fit in.
    fn move_to(&mut self, capacity: usize) {
        let first = (self.first as usize).min(self.room.len());
        let (wrapped, from_first) = self.room.split_at(first);
        let before_end = self.len().min(from_first.len());
        let mut room = Vec::with_capacity(capacity);
        match self.room.is_empty() {
            true => room.extend(self.get(0)),
            false => {
                room.extend_from_slice(&from_first[..before_end]);
                room.extend_from_slice(&wrapped[..self.len() - before_end]);
            }
        }
        room.resize(capacity, 0);
        self.room = room.into_boxed_slice();
        if !self.is_empty() {
            self.first = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue_with_little_spare_room(
            operations in proptest::collection::vec(prop_oneof![
                3 => (0usize..1000, any::<u32>()).prop_map(Some),
                2 => Just(None),
            ], 0..400),
        ) {
            let (mut queue, mut model) = (ChunkQueue::default(), VecDeque::new());
            for operation in operations {
                match operation {
                    Some((near, at)) => {
                        let index = near % (model.len() + 1);
                        queue.insert(index, at);
                        model.insert(index, at);
                        prop_assert!(queue.room.len() < (8 * queue.len()).max(8 * MIN_CAPACITY + 1));
                    }
                    None => {
                        prop_assert_eq!(queue.pop_first(), model.pop_front());
                        queue.keep(7);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert!((0..=model.len()).all(|index| queue.get(index) == model.get(index).copied()));
                prop_assert!(queue.iter_mut().map(|at| *at).eq(model.iter().copied()));
                prop_assert_eq!(queue.kept().is_some(), model.is_empty());
            }
        }

        #[test]
        fn while_it_grows_a_chunk_takes_at_most_8_bytes(len in 1usize..5000) {
            let mut queue = ChunkQueue::default();
            (0..len).for_each(|index| queue.insert(index, 0));
            prop_assert!(queue.room.len() * size_of::<u32>() <= 8 * len);
        }
    }
}
