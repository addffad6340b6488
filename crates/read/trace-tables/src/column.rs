//! How columns are kept: short ones as vectors, those that may be long in [`Blocks`], those that are mostly empty in [`Gaps`].

use std::ops::Range;
use std::sync::Arc;

use crate::blocks::Blocks;
use crate::helper::Helper;
use crate::packed::BLOCK_ROWS;
use crate::saved::{Loading, Saving};
use crate::store::Store;
use crate::strings::Str;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers of 64 bits, numbers of rows, times and durations among them.
    Int,
    /// Floating-point numbers.
    Real,
    /// Yes or no.
    Bool,
    /// Texts.
    Text,
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Of [`Kind::Int`].
    Int(i64),
    /// Of [`Kind::Real`].
    Real(f64),
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Text`].
    Str(Str),
}

/// What may stand in a column.
pub trait Cell: Copy + Send + Sync + 'static {
    /// What it is.
    const KIND: Kind;
    /// Whether it may be nothing.
    const MAY_BE_NULL: bool = false;
    /// The table whose rows it numbers, if it does.
    const REFERS_TO: Option<&'static str> = None;
    /// It as a value.
    fn value(&self) -> Value;
    /// It as a number, or nothing; floating-point numbers by their bits.
    fn bits(&self) -> Option<u64>;
    /// The cell of these bits. Of bits that are none of its type, and of nothing where there must be something, any.
    fn from_bits(bits: Option<u64>) -> Self;
}

macro_rules! cells {
    ($($type:ty => $kind:ident, $value:expr, $bits:expr, $from_bits:expr;)*) => { $(
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            #[inline]
            fn value(&self) -> Value {
                let read: fn($type) -> Value = $value;
                read(*self)
            }

            #[inline]
            fn bits(&self) -> Option<u64> {
                let bits: fn($type) -> u64 = $bits;
                Some(bits(*self))
            }

            #[inline]
            fn from_bits(bits: Option<u64>) -> Self {
                let cell: fn(u64) -> $type = $from_bits;
                cell(bits.unwrap_or(0))
            }
        }
    )* };
}

cells! {
    i64 => Int, Value::Int, |it| it as u64, |bits| bits as i64;
    i32 => Int, |it| Value::Int(i64::from(it)), |it| it as u64, |bits| bits as i32;
    u32 => Int, |it| Value::Int(i64::from(it)), u64::from, |bits| bits as u32;
    u16 => Int, |it| Value::Int(i64::from(it)), u64::from, |bits| bits as u16;
    f64 => Real, Value::Real, f64::to_bits, f64::from_bits;
    bool => Bool, Value::Bool, u64::from, |bits| bits != 0;
}

impl Cell for Str {
    const KIND: Kind = Kind::Text;

    #[inline]
    fn value(&self) -> Value {
        Value::Str(*self)
    }

    #[inline]
    fn bits(&self) -> Option<u64> {
        Some(self.index() as u64)
    }

    #[inline]
    fn from_bits(bits: Option<u64>) -> Self {
        let index = bits.and_then(|bits| usize::try_from(bits).ok());
        index.and_then(Self::from_index).unwrap_or(Self::FIRST)
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const MAY_BE_NULL: bool = true;
    const REFERS_TO: Option<&'static str> = T::REFERS_TO;

    #[inline]
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Cell::value)
    }

    #[inline]
    fn bits(&self) -> Option<u64> {
        self.as_ref().and_then(Cell::bits)
    }

    #[inline]
    fn from_bits(bits: Option<u64>) -> Self {
        bits.map(|bits| T::from_bits(Some(bits)))
    }
}

/// A column most of whose cells may be empty: nothing is kept before the first that is not.
#[derive(Clone, Debug)]
pub struct Gaps<T> {
    /// Rows before the first in which something stands, if there is none yet.
    empty: usize,
    cells: Blocks<Option<T>>,
}

impl<T> Default for Gaps<T> {
    fn default() -> Self {
        Self { empty: 0, cells: Blocks::default() }
    }
}

impl<T: Cell> Gaps<T> {
    /// Adds a cell.
    #[inline]
    pub fn push(&mut self, value: Option<T>) {
        let row = self.len();
        if row.is_multiple_of(BLOCK_ROWS) {
            self.cells.make_room();
        }
        self.put(row, value);
    }

    /// Adds a cell, of this row: the next. There must be room, as in [`Blocks::put`].
    #[inline]
    fn put(&mut self, row: usize, value: Option<T>) {
        if self.cells.is_empty() {
            if value.is_none() {
                self.empty = row + 1;
                return;
            }
            self.begin();
        }
        self.cells.put(row, value);
    }

    /// Writes over a cell. A row that is not there is not written.
    #[inline]
    pub fn set(&mut self, row: usize, value: Option<T>) {
        if self.cells.is_empty() && self.empty > row {
            if value.is_none() {
                return;
            }
            self.begin();
        }
        self.cells.set(row, value);
    }

    /// What stands in a row.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<T> {
        self.cells.get(row).flatten()
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.empty + self.cells.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Something stands in the next row, or in one of those before.
    #[cold]
    fn begin(&mut self) {
        self.cells.fill(None, self.empty);
        self.empty = 0;
    }
}

/// Cells that are read one after the other: what many of them are quickest as.
#[derive(Clone, Debug, Default)]
pub struct Run {
    bits: Vec<u64>,
    /// Which of them are there; empty if all are, as in most columns.
    are_there: Vec<bool>,
}

impl Run {
    /// One with room for so many.
    #[must_use]
    pub fn with_room(cells: usize) -> Self {
        Self { bits: Vec::with_capacity(cells), are_there: Vec::new() }
    }

    /// Their [`Cell::bits`], whatever where nothing stands; and, unless something stands everywhere, where it does.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u64>, Option<Vec<bool>>) {
        let are_there = (!self.are_there.is_empty()).then_some(self.are_there);
        (self.bits, are_there)
    }

    /// Cells, one after the other, as [`Cell::bits`].
    pub fn iter(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        let is_there = |row: usize| self.are_there.as_slice().get(row).is_none_or(|is_there| *is_there);
        self.bits.iter().enumerate().map(move |(row, bits)| is_there(row).then_some(*bits))
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bits.clear();
        self.are_there.clear();
    }

    /// Adds a cell.
    #[inline]
    pub fn push(&mut self, bits: Option<u64>) {
        if bits.is_none() || !self.are_there.is_empty() {
            self.are_there.resize(self.bits.len(), true);
            self.are_there.push(bits.is_some());
        }
        self.bits.push(bits.unwrap_or(0));
    }

    /// Adds cells.
    pub fn extend<T: Cell>(&mut self, cells: &[T]) {
        if T::MAY_BE_NULL && cells.iter().any(|cell| cell.bits().is_none()) {
            self.are_there.resize(self.bits.len(), true);
            self.are_there.extend(cells.iter().map(|cell| cell.bits().is_some()));
        } else if !self.are_there.is_empty() {
            self.are_there.resize(self.bits.len() + cells.len(), true);
        }
        self.bits.extend(cells.iter().map(|cell| cell.bits().unwrap_or(0)));
    }
}

impl Value {
    /// It as a number, as [`Cell::bits`] is.
    #[inline]
    #[must_use]
    pub fn bits(self) -> Option<u64> {
        match self {
            Self::Null => None,
            Self::Int(value) => value.bits(),
            Self::Real(value) => value.bits(),
            Self::Bool(value) => value.bits(),
            Self::Str(value) => value.bits(),
        }
    }
}

/// A column, whatever is in it.
pub trait ColumnData {
    /// What it holds.
    fn kind(&self) -> Kind;
    /// Whether cells may be empty.
    fn may_be_null(&self) -> bool;
    /// The table whose rows its numbers are, if they are.
    fn refers_to(&self) -> Option<&'static str>;
    /// How many cells it has.
    fn cells(&self) -> usize;
    /// The cell of a row; nothing beyond the last.
    fn get(&self, row: usize) -> Value;
    /// Adds the cells of these rows, as far as there are such.
    fn read(&self, rows: Range<usize>, to: &mut Run);
    /// Bytes of memory that it holds.
    fn memory_bytes(&self) -> usize;
}

impl<T: Cell> ColumnData for Vec<T> {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn may_be_null(&self) -> bool {
        T::MAY_BE_NULL
    }

    fn refers_to(&self) -> Option<&'static str> {
        T::REFERS_TO
    }

    fn cells(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, row: usize) -> Value {
        self.as_slice().get(row).map_or(Value::Null, Cell::value)
    }

    fn read(&self, rows: Range<usize>, to: &mut Run) {
        let end = rows.end.min(self.len());
        to.extend(self.as_slice().get(rows.start..end).unwrap_or_default());
    }

    fn memory_bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

impl<T: Cell> ColumnData for Blocks<T> {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn may_be_null(&self) -> bool {
        T::MAY_BE_NULL
    }

    fn refers_to(&self) -> Option<&'static str> {
        T::REFERS_TO
    }

    fn cells(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, row: usize) -> Value {
        Self::get(self, row).map_or(Value::Null, |cell| cell.value())
    }

    fn read(&self, rows: Range<usize>, to: &mut Run) {
        let mut cells = Vec::new();
        Self::read(self, rows, &mut cells);
        to.extend(&cells);
    }

    fn memory_bytes(&self) -> usize {
        Self::memory_bytes(self)
    }
}

impl<T: Cell> ColumnData for Gaps<T> {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn may_be_null(&self) -> bool {
        true
    }

    fn refers_to(&self) -> Option<&'static str> {
        T::REFERS_TO
    }

    fn cells(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, row: usize) -> Value {
        Self::get(self, row).map_or(Value::Null, |value| value.value())
    }

    fn read(&self, rows: Range<usize>, to: &mut Run) {
        if self.cells.is_empty() {
            let rows = rows.start..rows.end.min(self.empty);
            return rows.for_each(|_| to.push(None));
        }
        let mut cells = Vec::new();
        self.cells.read(rows, &mut cells);
        to.extend(&cells);
    }

    fn memory_bytes(&self) -> usize {
        self.cells.memory_bytes()
    }
}

/// A column while a table grows: what the definitions of tables are made of.
pub trait Grow {
    /// What a row gives it.
    type Cell;
    /// Adds a cell, of this row: the next.
    fn grow(&mut self, row: usize, cell: Self::Cell);
    /// Makes room, if it has blocks, for as many rows as one has, before the first of them comes.
    fn make_room(&mut self) {}
    /// Blocks, if it has some, lie in the store from now on.
    fn move_to(&mut self, _: &Arc<dyn Store>) {}
    /// Somebody packs its blocks, if it has some, from now on. Without, all of them are packed.
    fn set_helper(&mut self, _: Option<&Arc<dyn Helper>>) {}
}

/// A column that is written and read again: the other thing that the definitions of tables are made of.
pub(crate) trait Save: Sized {
    /// Puts its cells into a store.
    fn save(&self, to: &mut Saving<'_>) -> Option<()>;
    /// One of so many rows that was put into a store.
    fn load(from: &mut Loading<'_>, rows: usize) -> Option<Self>;
}

impl<T: Cell> Save for Vec<T> {
    fn save(&self, to: &mut Saving<'_>) -> Option<()> {
        self.chunks(BLOCK_ROWS).try_for_each(|cells| to.cells(cells))
    }

    fn load(from: &mut Loading<'_>, rows: usize) -> Option<Self> {
        from.all_cells(rows)
    }
}

impl<T: Cell> Save for Blocks<T> {
    fn save(&self, to: &mut Saving<'_>) -> Option<()> {
        Self::save(self, to)
    }

    fn load(from: &mut Loading<'_>, rows: usize) -> Option<Self> {
        Self::load(from, rows)
    }
}

impl<T: Cell> Save for Gaps<T> {
    fn save(&self, to: &mut Saving<'_>) -> Option<()> {
        to.number(self.cells.len());
        self.cells.save(to)
    }

    fn load(from: &mut Loading<'_>, rows: usize) -> Option<Self> {
        let cells = from.number()?;
        let empty = rows.checked_sub(cells).filter(|_| cells == 0 || cells == rows)?;
        Some(Self { empty, cells: Blocks::load(from, cells)? })
    }
}

impl<T> Grow for Vec<T> {
    type Cell = T;

    #[inline]
    fn grow(&mut self, _: usize, cell: T) {
        self.push(cell);
    }
}

impl<T: Cell> Grow for Blocks<T> {
    type Cell = T;

    #[inline]
    fn grow(&mut self, row: usize, cell: T) {
        self.put(row, cell);
    }

    fn make_room(&mut self) {
        Self::make_room(self);
    }

    fn move_to(&mut self, store: &Arc<dyn Store>) {
        Self::move_to(self, store);
    }

    fn set_helper(&mut self, helper: Option<&Arc<dyn Helper>>) {
        Self::set_helper(self, helper);
    }
}

impl<T: Cell> Grow for Gaps<T> {
    type Cell = Option<T>;

    #[inline]
    fn grow(&mut self, row: usize, cell: Option<T>) {
        self.put(row, cell);
    }

    fn make_room(&mut self) {
        self.cells.make_room();
    }

    fn move_to(&mut self, store: &Arc<dyn Store>) {
        self.cells.move_to(store);
    }

    fn set_helper(&mut self, helper: Option<&Arc<dyn Helper>>) {
        self.cells.set_helper(helper);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_cost_nothing_before_the_first_value() {
        let mut column = Gaps::<i64>::default();
        (0..1000).for_each(|_| column.push(None));
        assert_eq!((column.len(), column.memory_bytes()), (1000, 0));
        column.set(10, None);
        assert_eq!(column.memory_bytes(), 0);
        column.set(1000, Some(1));
        assert_eq!((column.len(), column.get(1000)), (1000, None));
    }

    proptest! {
        #[test]
        fn gaps_are_like_a_vector_of_options(
            cells in proptest::collection::vec(proptest::option::weighted(0.2, any::<i64>()), 0..300),
            changes in proptest::collection::vec((0usize..300, any::<Option<i64>>()), 0..50),
        ) {
            let mut plain = Vec::new();
            let mut column = Gaps::default();
            for cell in cells {
                plain.push(cell);
                column.push(cell);
            }
            for (row, cell) in changes {
                if let Some(there) = plain.get_mut(row) {
                    *there = cell;
                }
                column.set(row, cell);
            }
            let found: Vec<_> = (0..column.len()).map(|row| column.get(row)).collect();
            prop_assert_eq!(&found, &plain);
            let mut run = Run::default();
            let (first, second) = (column.len() / 3, column.len() + 1);
            ColumnData::read(&column, 0..first, &mut run);
            ColumnData::read(&column, first..second, &mut run);
            let expected: Vec<_> = plain.iter().map(Cell::bits).collect();
            prop_assert_eq!(run.iter().collect::<Vec<_>>(), expected.clone());
            let (bits, are_there) = run.into_parts();
            prop_assert_eq!(are_there.is_some(), plain.contains(&None));
            let are_there = are_there.unwrap_or(vec![true; bits.len()]);
            let parts: Vec<_> = bits.iter().zip(are_there).map(|(bits, there)| there.then_some(*bits)).collect();
            prop_assert_eq!(parts, expected);
        }
    }
}
