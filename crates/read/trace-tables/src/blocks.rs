//! A column that grows long: its last rows as they are, all before them packed.
//!
//! ```text
//! packed │ packed │ packed │ … │ open: one to two blocks of rows
//! ```
//!
//! Rows change for a while after they were added (a slice ends, a thread goes on), mostly while they are among the last. What is written over a
//! packed row stands beside its block until there are enough such rows to pack their blocks anew.
//!
//! Blocks may lie in a [`Store`] in the place of memory. One that is asked for is kept until another is.
//!
//! Memory: the blocks, two blocks of cells as they are, and at most `CHANGES` rows a block that were changed late.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::column::Cell;
use crate::helper::{Helper, Later};
use crate::packed::{BLOCK_ROWS, Packed};
use crate::saved::{Loading, Saving};
use crate::store::{Kept, Store};

/// Rows a block that are changed before they are packed anew: packing all blocks then costs a row's change as much as packing some hundred
/// rows, a microsecond.
const CHANGES: usize = 64;
/// Of few blocks: as many rows as are not worth it.
const FEW_CHANGES: usize = 1024;

/// Rows that are not packed, at most.
const OPEN_ROWS: usize = 2 * BLOCK_ROWS;

/// A long column.
#[derive(Debug)]
pub struct Blocks<T> {
    sealed: Vec<Kept>,
    /// All of them.
    rows: usize,
    /// Those behind the packed ones, each at its number modulo [`OPEN_ROWS`].
    open: Vec<T>,
    /// By row: what was written over packed rows.
    changed: HashMap<u32, T, RandomState>,
    store: Option<Arc<dyn Store>>,
    /// Who packs.
    helper: Option<Arc<dyn Helper>>,
    /// The block of the store that was asked for last.
    last: Last,
}

/// Whose number a block has.
#[derive(Debug, Default)]
struct Last(Mutex<Option<(usize, Arc<Packed>)>>);

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self {
            sealed: Vec::new(),
            rows: 0,
            open: Vec::new(),
            changed: HashMap::default(),
            store: None,
            helper: None,
            last: Last::default(),
        }
    }
}

impl<T: Clone> Clone for Blocks<T> {
    fn clone(&self) -> Self {
        Self {
            sealed: self.sealed.clone(),
            rows: self.rows,
            open: self.open.clone(),
            changed: self.changed.clone(),
            store: self.store.clone(),
            helper: self.helper.clone(),
            last: Last::default(),
        }
    }
}

impl<T: Cell> Blocks<T> {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, cell: T) {
        if self.rows.is_multiple_of(BLOCK_ROWS) {
            self.make_room();
        }
        self.put(self.rows, cell);
    }

    /// Adds a row, of this number: the next. There must be room: see [`make_room`](Self::make_room).
    #[inline]
    pub(crate) fn put(&mut self, row: usize, cell: T) {
        self.rows = row + 1;
        match self.open.get_mut(row % OPEN_ROWS) {
            Some(place) => *place = cell,
            None => self.open.push(cell),
        }
    }

    /// Makes room for the next rows, as many as a block has, where their first is the first of a block.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self) {
        if self.rows - self.sealed_rows() >= OPEN_ROWS {
            self.seal();
        }
    }

    /// How many rows there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What stands in a row.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<T> {
        if row < self.sealed_rows() {
            return Some(self.packed(row));
        }
        if row < self.rows { self.open.get(row % OPEN_ROWS).copied() } else { None }
    }

    /// What stands in a row that is there. In one that is not, whatever a cell is that nobody wrote.
    #[inline]
    #[must_use]
    pub fn at(&self, row: usize) -> T {
        self.get(row).unwrap_or(T::from_bits(None))
    }

    /// Writes over a row. One that is not there is not written.
    #[inline]
    pub fn set(&mut self, row: usize, cell: T) {
        if row < self.sealed_rows() {
            return self.change(row, cell);
        }
        if row < self.rows
            && let Some(there) = self.open.get_mut(row % OPEN_ROWS)
        {
            *there = cell;
        }
    }

    /// All rows, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let sealed = (0..self.sealed.len()).flat_map(|number| self.unpacked(number));
        let open = self.sealed_rows()..self.rows;
        sealed.chain(open.filter_map(|row| self.open.get(row % OPEN_ROWS).copied()))
    }

    /// Appends these rows, as far as there are such.
    pub fn read(&self, rows: Range<usize>, to: &mut Vec<T>) {
        let end = rows.end.min(self.rows);
        let sealed_end = end.min(self.sealed_rows());
        let mut from = rows.start;
        while from < sealed_end {
            let number = from / BLOCK_ROWS;
            let until = sealed_end.min((number + 1) * BLOCK_ROWS);
            self.read_block(number, from % BLOCK_ROWS..until - number * BLOCK_ROWS, to);
            from = until;
        }
        to.extend((from..end).filter_map(|row| self.open.get(row % OPEN_ROWS).copied()));
    }

    /// Blocks lie in the store from now on.
    pub fn move_to(&mut self, store: &Arc<dyn Store>) {
        if self.store.is_some() {
            return;
        }
        self.sealed.iter_mut().for_each(|block| block.move_to(store));
        self.store = Some(store.clone());
    }

    /// Somebody packs blocks from now on. Without, all of them are packed.
    pub fn set_helper(&mut self, helper: Option<&Arc<dyn Helper>>) {
        if helper.is_none() {
            self.sealed.iter_mut().for_each(Kept::settle);
        }
        self.helper = helper.cloned();
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.sealed.iter().map(Kept::memory_bytes).sum::<usize>()
            + self.sealed.capacity() * size_of::<Kept>()
            + self.open.capacity() * size_of::<T>()
            + self.changed.capacity() * size_of::<(u32, T)>()
    }

    /// Adds the same cell so many times, to a column without rows.
    pub(crate) fn fill(&mut self, cell: T, rows: usize) {
        if rows >= BLOCK_ROWS {
            let cells: Vec<T> = std::iter::repeat_n(cell, BLOCK_ROWS).collect();
            let block = Packed::of(&cells);
            self.sealed = vec![Kept::Here(block); rows / BLOCK_ROWS];
        }
        self.rows = rows;
        self.open = vec![cell; self.first_open() + rows % BLOCK_ROWS];
    }

    /// Puts all of its rows into a store.
    pub(crate) fn save(&self, to: &mut Saving<'_>) -> Option<()> {
        let mut cells = Vec::with_capacity(BLOCK_ROWS);
        for first in (0..self.rows).step_by(BLOCK_ROWS) {
            cells.clear();
            self.read(first..first + BLOCK_ROWS, &mut cells);
            to.cells(&cells)?;
        }
        Some(())
    }

    /// A column of so many rows that was put into a store.
    pub(crate) fn load(from: &mut Loading<'_>, rows: usize) -> Option<Self> {
        let mut blocks = Self { store: from.store(), ..Self::default() };
        for _ in 0..rows / BLOCK_ROWS {
            blocks.sealed.push(from.later()?);
        }
        blocks.rows = rows;
        blocks.open = vec![T::from_bits(None); blocks.first_open()];
        if !rows.is_multiple_of(BLOCK_ROWS) {
            blocks.open.extend(from.cells::<T>(rows % BLOCK_ROWS)?);
        }
        Some(blocks)
    }

    #[inline]
    fn sealed_rows(&self) -> usize {
        self.sealed.len() * BLOCK_ROWS
    }

    /// Where the first row stands that is not packed.
    fn first_open(&self) -> usize {
        self.sealed_rows() % OPEN_ROWS
    }

    fn seal(&mut self) {
        let cells = self.open.get(self.first_open()..).and_then(|open| open.get(..BLOCK_ROWS));
        let cells = cells.unwrap_or_default();
        let block = match &self.helper {
            None => Kept::new(Packed::of(cells), self.store.as_ref()),
            Some(helper) => {
                let (cells, store) = (cells.to_vec(), self.store.clone());
                Kept::Later(Later::new(&**helper, move || Kept::new(Packed::of(&cells), store.as_ref())))
            }
        };
        // It is surely packed by now.
        if let Some(last) = self.sealed.last_mut() {
            last.settle();
        }
        self.sealed.push(block);
    }

    #[cold]
    #[inline(never)]
    fn packed(&self, row: usize) -> T {
        if !self.changed.is_empty()
            && let Some(cell) = u32::try_from(row).ok().and_then(|row| self.changed.get(&row))
        {
            return *cell;
        }
        match self.sealed.get(row / BLOCK_ROWS).map(Kept::packed) {
            Some(Kept::Here(packed)) => packed.get(row % BLOCK_ROWS),
            Some(block) => self.stored(row / BLOCK_ROWS, block).get(row % BLOCK_ROWS),
            None => T::from_bits(None),
        }
    }

    fn stored(&self, number: usize, block: &Kept) -> Arc<Packed> {
        // What panics elsewhere leaves a block whole.
        let mut last = self.last.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, block)) = &*last
            && *of == number
        {
            return block.clone();
        }
        let block = Arc::new(block.read(self.store.as_ref()).into_owned());
        *last = Some((number, block.clone()));
        block
    }

    fn unpacked(&self, number: usize) -> Vec<T> {
        let mut cells = Vec::with_capacity(BLOCK_ROWS);
        self.read_block(number, 0..BLOCK_ROWS, &mut cells);
        cells
    }

    /// Appends these rows of a block that is packed.
    fn read_block(&self, number: usize, rows: Range<usize>, to: &mut Vec<T>) {
        let before = to.len();
        match self.sealed.get(number).map(Kept::packed) {
            Some(Kept::Here(packed)) => packed.unpack_rows(rows.clone(), to),
            Some(block) => self.stored(number, block).unpack_rows(rows.clone(), to),
            None => {}
        }
        if self.changed.is_empty() {
            return;
        }
        let first = number * BLOCK_ROWS + rows.start;
        for (row, cell) in (first..).zip(to.iter_mut().skip(before)) {
            let changed = u32::try_from(row).ok().and_then(|row| self.changed.get(&row));
            *cell = changed.copied().unwrap_or(*cell);
        }
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, row: usize, cell: T) {
        let Ok(row) = u32::try_from(row) else { return };
        self.changed.insert(row, cell);
        if self.changed.len() < FEW_CHANGES.max(CHANGES * self.sealed.len()) {
            return;
        }
        let mut numbers: Vec<usize> = self.changed.keys().map(|row| *row as usize / BLOCK_ROWS).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let packed = Packed::of(&self.unpacked(number));
            if let Some(there) = self.sealed.get_mut(number) {
                *there = Kept::new(packed, self.store.as_ref());
            }
        }
        self.changed.clear();
        self.last = Last::default();
    }
}

impl<T: Cell + PartialEq, const N: usize> PartialEq<[T; N]> for Blocks<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::tests::Slow;
    use crate::store::tests::InMemory;

    /// Rows of three blocks and more; some of them change while they are among the last, and some later.
    fn filled(mut each: impl FnMut(&mut Blocks<i64>, usize)) -> (Blocks<i64>, Vec<i64>) {
        let (mut column, mut plain) = (Blocks::default(), Vec::new());
        for row in 0..5 * BLOCK_ROWS + 100 {
            let cell = (row * row % 1000) as i64;
            column.push(cell);
            plain.push(cell);
            for (back, gap) in [(5, 3), (2 * BLOCK_ROWS + 1, 7)] {
                if row >= back && row % gap == 0 {
                    column.set(row - back, -(row as i64));
                    plain[row - back] = -(row as i64);
                }
            }
            each(&mut column, row);
        }
        (column, plain)
    }

    fn check(column: &Blocks<i64>, plain: &[i64]) {
        assert_eq!(column.iter().collect::<Vec<_>>(), plain);
        assert!((0..plain.len()).all(|row| column.get(row) == Some(plain[row])));
        assert_eq!((column.len(), column.get(plain.len())), (plain.len(), None));
        let end = plain.len();
        for rows in
            [0..10, 5..BLOCK_ROWS + 7, BLOCK_ROWS - 1..4 * BLOCK_ROWS, 3 * BLOCK_ROWS..end, end - 1..end]
        {
            let mut read = Vec::new();
            column.read(rows.clone(), &mut read);
            assert_eq!(read, plain[rows]);
        }
        let mut beyond = Vec::new();
        column.read(end - 2..end + 10, &mut beyond);
        column.read(end + 1..end + 10, &mut beyond);
        assert_eq!(beyond, plain[end - 2..]);
    }

    #[test]
    fn what_is_packed_is_as_it_was_written_last() {
        let (column, plain) = filled(|_, _| ());
        assert!(column.sealed.len() >= 3, "{}", column.sealed.len());
        assert!(column.changed.len() < FEW_CHANGES, "{}", column.changed.len());
        check(&column, &plain);
        check(&column.clone(), &plain);
    }

    #[test]
    fn somebody_else_may_pack_blocks() {
        let helper = Arc::new(Slow::default());
        let with: Arc<dyn Helper> = helper.clone();
        let (mut column, plain) = filled(|column, row| match row {
            0 => column.set_helper(Some(&with)),
            _ if row % (3 * BLOCK_ROWS) == 0 => helper.work(),
            _ => {}
        });
        check(&column, &plain);
        column.set_helper(None);
        assert!(column.sealed.iter().all(|block| matches!(block, Kept::Here(_))));
        check(&column, &plain);
    }

    #[test]
    fn blocks_may_lie_in_a_store() {
        let store: Arc<dyn Store> = Arc::new(InMemory::default());
        let (column, plain) = filled(|column, row| {
            if row == 4 * BLOCK_ROWS {
                column.move_to(&store);
            }
        });
        assert!(column.sealed.iter().all(|block| matches!(block, Kept::There(_))));
        check(&column, &plain);
    }

    #[test]
    fn a_store_without_room_leaves_blocks_in_memory() {
        let store: Arc<dyn Store> = Arc::new(InMemory::full());
        let (column, plain) = filled(|column, _| column.store = Some(store.clone()));
        assert!(column.sealed.iter().all(|block| matches!(block, Kept::Here(_))));
        check(&column, &plain);
    }

    #[test]
    fn a_row_that_is_not_there_is_not_written() {
        let mut column = Blocks::default();
        column.push(1i64);
        column.set(1, 2);
        assert_eq!(column.iter().collect::<Vec<_>>(), [1]);
    }
}
