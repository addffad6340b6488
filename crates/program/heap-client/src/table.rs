//! The sampled blocks that live, by their addresses: whether a block that is freed was one.
//!
//! ```text
//! cell    │ so many live in its 16 slots: u8 │   65,536 of them, 64 KiB: what nearly every `free` looks at, and finds 0
//! slots   │ address or 0: u64 │ × 16           8 MiB, of which those pages are used that are
//! ```
//!
//! A block's cell follows from its address; it is in one of the cell's slots. Nobody waits: a slot is taken and given back by one exchange. An address is
//! there once, as the allocator gives it to one owner at a time.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Of cells. Powers of two.
pub(crate) const CELLS: usize = 1 << 16;
const SLOTS_PER_CELL: usize = 16;
/// Of all slots.
pub(crate) const SLOTS: usize = CELLS * SLOTS_PER_CELL;

/// The cell of an address: allocators' addresses are multiples of 16; the multiplication spreads those that are near each other (Fibonacci hashing).
#[inline(always)]
fn cell_of(address: u64) -> usize {
    ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CELLS.trailing_zeros())) as usize
}

/// A look at both parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    pub(crate) cells: &'a [AtomicU8; CELLS],
    pub(crate) slots: &'a [AtomicU64; SLOTS],
}

/// Whether it is sure that a block was not sampled.
#[inline(always)]
pub(crate) fn is_unsampled(cells: &[AtomicU8; CELLS], address: u64) -> bool {
    // The index is below CELLS by its shift, which the compiler sees.
    cells.get(cell_of(address)).is_none_or(|cell| cell.load(Ordering::Relaxed) == 0)
}

impl Table<'_> {
    /// A block was sampled. False if its cell is full.
    pub(crate) fn insert(&self, address: u64) -> bool {
        let (Some(cell), Some(slots)) = (self.cells.get(cell_of(address)), self.slots_of(address)) else {
            return false;
        };
        let taken = slots.iter().any(|slot| {
            slot.load(Ordering::Relaxed) == 0
                && slot.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if taken {
            // At most as many as there are slots. Whoever frees the block has been told of it by this thread, and so sees this.
            cell.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// A block is freed: whether it was sampled.
    pub(crate) fn remove(&self, address: u64) -> bool {
        let (Some(cell), Some(slots)) = (self.cells.get(cell_of(address)), self.slots_of(address)) else {
            return false;
        };
        if address == 0 {
            return false;
        }
        let found = slots.iter().any(|slot| {
            slot.load(Ordering::Relaxed) == address
                && slot.compare_exchange(address, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if found {
            cell.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }

    /// Empties it. What other threads put in meanwhile may be lost, or stay: blocks that are freed without being known, or known and never freed.
    pub(crate) fn clear(&self) {
        for (cell, slots) in self.cells.iter().zip(self.slots.chunks(SLOTS_PER_CELL)) {
            // Where there is nothing no page is used.
            if cell.load(Ordering::Relaxed) != 0 {
                slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
                cell.store(0, Ordering::Relaxed);
            }
        }
    }

    fn slots_of(&self, address: u64) -> Option<&[AtomicU64]> {
        let first = cell_of(address) * SLOTS_PER_CELL;
        self.slots.get(first..first + SLOTS_PER_CELL)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn with_table(test: impl FnOnce(Table<'_>)) {
        let cells: Box<[AtomicU8; CELLS]> =
            (0..CELLS).map(|_| AtomicU8::new(0)).collect::<Vec<_>>().try_into().unwrap();
        let slots: Box<[AtomicU64; SLOTS]> =
            (0..SLOTS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().try_into().unwrap();
        test(Table { cells: &cells, slots: &slots });
    }

    #[test]
    fn what_was_put_in_is_found_once_and_nothing_else() {
        with_table(|table| {
            let mut model = HashSet::new();
            let mut random = 1u64;
            for _ in 0..300_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let address = 0x7f00_0000_0000 + (random >> 44) * 16;
                if random & 1 == 0 {
                    if !model.contains(&address) && table.insert(address) {
                        model.insert(address);
                    }
                } else {
                    assert!(!model.contains(&address) || !is_unsampled(table.cells, address));
                    assert_eq!(table.remove(address), model.remove(&address));
                }
            }
            assert!(model.len() > 10_000);
            model.iter().for_each(|address| assert!(table.remove(*address)));
            assert!(table.cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 0));
        });
    }

    #[test]
    fn a_cell_that_is_full_takes_no_more() {
        with_table(|table| {
            let same = (1u64..).map(|n| n * 16).filter(|address| cell_of(*address) == 5);
            let found: Vec<bool> =
                same.take(SLOTS_PER_CELL + 1).map(|address| table.insert(address)).collect();
            assert_eq!(found.iter().filter(|is| **is).count(), SLOTS_PER_CELL);
            table.clear();
            assert!(table.insert(160) && table.remove(160) && !table.remove(160));
            assert!(!table.remove(0) && is_unsampled(table.cells, 0));
        });
    }

    #[test]
    fn threads_do_not_wait_for_each_other() {
        with_table(|table| {
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    scope.spawn(move || {
                        for round in 0..20_000u64 {
                            let address = (round % 97 * 4 + thread + 1) * 16;
                            assert!(table.insert(address));
                            assert!(!is_unsampled(table.cells, address) && table.remove(address));
                        }
                    });
                }
            });
            assert!(table.cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 0));
        });
    }
}
