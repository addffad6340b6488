//! How columns are kept.

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
pub trait Cell: Copy {
    /// What it is.
    const KIND: Kind;
    /// Whether it may be nothing.
    const MAY_BE_NULL: bool = false;
    /// The table whose rows it numbers, if it does.
    const REFERS_TO: Option<&'static str> = None;
    /// It as a value.
    fn value(&self) -> Value;
}

macro_rules! cells {
    ($($type:ty => $kind:ident, $value:expr;)*) => { $(
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            #[inline]
            fn value(&self) -> Value {
                let read: fn($type) -> Value = $value;
                read(*self)
            }
        }
    )* };
}

cells! {
    i64 => Int, Value::Int;
    i32 => Int, |it| Value::Int(i64::from(it));
    u32 => Int, |it| Value::Int(i64::from(it));
    u16 => Int, |it| Value::Int(i64::from(it));
    f64 => Real, Value::Real;
    bool => Bool, Value::Bool;
}

impl Cell for Option<Str> {
    const KIND: Kind = Kind::Text;
    const MAY_BE_NULL: bool = true;

    #[inline]
    fn value(&self) -> Value {
        self.map_or(Value::Null, Value::Str)
    }
}

/// A column most of whose cells may be empty: nothing is kept before the first that is not.
#[derive(Clone, Debug, Default)]
pub struct Gaps<T> {
    len: usize,
    /// As long as the column once something stands in it; what is in gaps means nothing.
    values: Vec<T>,
    /// A bit a row: something stands there.
    is_set: Vec<u64>,
}

impl<T: Copy + Default> Gaps<T> {
    /// Adds a cell.
    #[inline]
    pub fn push(&mut self, value: Option<T>) {
        let row = self.len;
        self.len += 1;
        if self.values.is_empty() {
            if value.is_none() {
                return;
            }
            self.values.resize(row, T::default());
            self.is_set.resize(row.div_ceil(64), 0);
        }
        self.values.push(value.unwrap_or_default());
        if row.is_multiple_of(64) {
            self.is_set.push(0);
        }
        if let Some(word) = self.is_set.last_mut() {
            *word |= u64::from(value.is_some()) << (row % 64);
        }
    }

    /// Writes over a cell. A row that is not there is not written.
    pub fn set(&mut self, row: usize, value: Option<T>) {
        if row >= self.len || (value.is_none() && self.values.is_empty()) {
            return;
        }
        self.values.resize(self.len, T::default());
        self.is_set.resize(self.len.div_ceil(64), 0);
        self.write(row, value);
    }

    /// What stands in a row.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<T> {
        let is_set = self.is_set.get(row / 64)? >> (row % 64) & 1 != 0;
        self.values.get(row).copied().filter(|_| is_set)
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn write(&mut self, row: usize, value: Option<T>) {
        if let Some(word) = self.is_set.get_mut(row / 64) {
            *word = *word & !(1 << (row % 64)) | u64::from(value.is_some()) << (row % 64);
        }
        if let (Some(cell), Some(value)) = (self.values.get_mut(row), value) {
            *cell = value;
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

    fn memory_bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

impl<T: Cell + Default> ColumnData for Gaps<T> {
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
        self.len
    }

    #[inline]
    fn get(&self, row: usize) -> Value {
        Self::get(self, row).map_or(Value::Null, |value| value.value())
    }

    fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>() + self.is_set.capacity() * size_of::<u64>()
    }
}

/// A column while a table grows: what the definitions of tables are made of.
pub trait Grow {
    /// What a row gives it.
    type Cell;
    /// Adds a cell.
    fn grow(&mut self, cell: Self::Cell);
}

impl<T> Grow for Vec<T> {
    type Cell = T;

    #[inline]
    fn grow(&mut self, cell: T) {
        self.push(cell);
    }
}

impl<T: Copy + Default> Grow for Gaps<T> {
    type Cell = Option<T>;

    #[inline]
    fn grow(&mut self, cell: Option<T>) {
        self.push(cell);
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
            prop_assert_eq!(found, plain);
        }
    }
}
