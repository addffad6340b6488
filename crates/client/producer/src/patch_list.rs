//! Size fields that were left behind in chunks which are no longer ours, and their values once they are known.
//!
//! A nested message's size is known when it ends; its chunk may have been handed over long before. The service keeps such a chunk
//! unreadable (`ChunkNeedsPatching`) until the values arrive. Upstream: `patch_list.h`, `shared_memory_arbiter_impl.cc`.

use std::collections::VecDeque;

/// Names an entry of a [`PatchList`]; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PatchIndex(u64);

/// The values for one chunk that can be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkPatches {
    pub(crate) chunk_id: u32,
    /// Offsets from the start of the chunk's payload, and the four bytes to put there.
    pub(crate) patches: Vec<(u32, [u8; 4])>,
    /// The chunk has other size fields whose values are still unknown.
    pub(crate) has_more: bool,
}

#[derive(Debug)]
struct Entry {
    chunk_id: u32,
    offset: u32,
    value: Option<[u8; 4]>,
}

/// The patches that one writer still owes, in the order of its chunks.
#[derive(Debug, Default)]
pub(crate) struct PatchList {
    first: u64,
    entries: VecDeque<Entry>,
}

impl PatchList {
    /// Notes a size field that will be known later.
    pub(crate) fn push(&mut self, chunk_id: u32, offset: u32) -> PatchIndex {
        let index = self.first.wrapping_add(self.entries.len() as u64);
        self.entries.push_back(Entry { chunk_id, offset, value: None });
        PatchIndex(index)
    }

    /// The size is known now.
    pub(crate) fn resolve(&mut self, index: PatchIndex, value: [u8; 4]) {
        let position = index.0.wrapping_sub(self.first);
        if let Some(entry) =
            usize::try_from(position).ok().and_then(|position| self.entries.get_mut(position))
        {
            entry.value = Some(value);
        }
    }

    /// Whether this chunk waits for values. Only the newest chunk is ever asked for, and its entries are the last.
    pub(crate) fn has_chunk(&self, chunk_id: u32) -> bool {
        self.entries.back().is_some_and(|entry| entry.chunk_id == chunk_id)
    }

    /// Whether nothing is owed.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether something can be sent.
    pub(crate) fn is_head_patched(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.value.is_some())
    }

    /// Takes the leading run of known values, one entry for each chunk. Values behind an unknown one wait: the service takes
    /// `has_more_patches = false` for the last word about a chunk.
    pub(crate) fn take_patched(&mut self) -> Vec<ChunkPatches> {
        let mut ready: Vec<ChunkPatches> = Vec::new();
        while let Some(&Entry { chunk_id, offset, value: Some(value) }) = self.entries.front() {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
            match ready.last_mut() {
                Some(last) if last.chunk_id == chunk_id => last.patches.push((offset, value)),
                _ => ready.push(ChunkPatches { chunk_id, patches: vec![(offset, value)], has_more: false }),
            }
        }
        if let (Some(last), Some(next)) = (ready.last_mut(), self.entries.front()) {
            last.has_more = last.chunk_id == next.chunk_id;
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leading_run_of_known_sizes_is_sent() {
        let mut list = PatchList::default();
        let outer = list.push(0, 8);
        let inner = list.push(0, 16);
        let other = list.push(1, 4);
        assert!(list.has_chunk(1));

        list.resolve(inner, [2; 4]);
        assert!(!list.is_head_patched());
        assert_eq!(list.take_patched(), []);

        list.resolve(outer, [1; 4]);
        let all = ChunkPatches { chunk_id: 0, patches: vec![(8, [1; 4]), (16, [2; 4])], has_more: false };
        assert_eq!(list.take_patched(), [all]);

        list.resolve(other, [3; 4]);
        assert_eq!(list.take_patched().len(), 1);
        assert!(!list.has_chunk(1));
    }

    #[test]
    fn more_patches_for_the_same_chunk_are_announced() {
        let mut list = PatchList::default();
        let first = list.push(7, 0);
        list.push(7, 9);
        list.resolve(first, [5; 4]);
        assert_eq!(
            list.take_patched(),
            [ChunkPatches { chunk_id: 7, patches: vec![(0, [5; 4])], has_more: true }]
        );
    }
}
