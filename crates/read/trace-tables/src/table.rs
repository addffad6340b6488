//! What a table says of itself.

use crate::column::{ColumnData, Value};

/// A table of any definition.
pub trait Table {
    /// Its name in SQL.
    fn name(&self) -> &'static str;
    /// What its rows are.
    fn doc(&self) -> &'static str;
    /// How many rows it has.
    fn len(&self) -> usize;
    /// Its columns, in their order. The number of a row (`id`) is none of them.
    fn columns(&self) -> Vec<Column<'_>>;

    /// Whether it has no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A cell by the name of its column.
    fn cell(&self, column: &str, row: usize) -> Value {
        self.columns().iter().find(|it| it.name == column).map_or(Value::Null, |it| it.data.get(row))
    }

    /// Bytes of memory that its columns hold.
    fn memory_bytes(&self) -> usize {
        self.columns().iter().map(|column| column.data.memory_bytes()).sum()
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    /// Its name in SQL.
    pub name: &'static str,
    /// What stands in it.
    pub doc: &'static str,
    /// Its cells.
    pub data: &'a dyn ColumnData,
}

impl std::fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column")
            .field("name", &self.name)
            .field("kind", &self.data.kind())
            .finish_non_exhaustive()
    }
}

/// Defines a table: its type, that of its rows, and what it says of itself.
///
/// A column is `name: Blocks<T>` if every row has a value, or `name: Gaps<T>` if not; of a table that never is long also `name: Vec<T>`.
/// (A text that may be missing costs no more than one that may not.)
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $table:ident, $row:ident, $name:literal;
        $( $(#[doc = $column_doc:literal])+ $column:ident: $type:ty, )*
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default)]
        pub struct $table {
            len: usize,
            $( $(#[doc = $column_doc])+ pub $column: $type, )*
        }

        #[doc = concat!("A row of `", $name, "`.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $row {
            $( $(#[doc = $column_doc])+ pub $column: <$type as $crate::column::Grow>::Cell, )*
        }

        impl $table {
            /// Adds a row; returns its number.
            #[inline]
            pub fn push(&mut self, row: $row) -> u32 {
                let number = self.len;
                self.len += 1;
                if number.is_multiple_of($crate::packed::BLOCK_ROWS) {
                    self.make_room();
                }
                $( $crate::column::Grow::grow(&mut self.$column, number, row.$column); )*
                // Four billion rows are more than any trace has that fits in memory.
                u32::try_from(number).unwrap_or(u32::MAX)
            }

            #[cold]
            #[inline(never)]
            fn make_room(&mut self) {
                $( $crate::column::Grow::make_room(&mut self.$column); )*
            }

            /// Blocks of its columns lie in the store from now on.
            pub fn move_to(&mut self, store: &std::sync::Arc<dyn $crate::store::Store>) {
                $( $crate::column::Grow::move_to(&mut self.$column, store); )*
            }

            /// Somebody packs blocks of its columns from now on. Without, all of them are packed.
            pub fn set_helper(&mut self, helper: Option<&std::sync::Arc<dyn $crate::helper::Helper>>) {
                $( $crate::column::Grow::set_helper(&mut self.$column, helper); )*
            }

            pub(crate) fn save(&self, to: &mut $crate::saved::Saving<'_>) -> Option<()> {
                to.number(self.len);
                $( $crate::column::Save::save(&self.$column, to)?; )*
                Some(())
            }

            pub(crate) fn load(from: &mut $crate::saved::Loading<'_>) -> Option<Self> {
                let len = from.number()?;
                Some(Self { len, $( $column: $crate::column::Save::load(from, len)?, )* })
            }

            /// How many rows it has.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether it has none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }
        }

        impl $crate::table::Table for $table {
            fn name(&self) -> &'static str {
                $name
            }

            fn doc(&self) -> &'static str {
                concat!($($doc,)+).trim_ascii()
            }

            fn len(&self) -> usize {
                self.len
            }

            fn columns(&self) -> Vec<$crate::table::Column<'_>> {
                vec![ $( $crate::table::Column {
                    name: $crate::table::sql_name(stringify!($column)),
                    doc: concat!($($column_doc,)+).trim_ascii(),
                    data: &self.$column,
                }, )* ]
            }
        }
    };
}
pub(crate) use table;

/// Names that are words of Rust have a `_` at their end.
pub(crate) fn sql_name(name: &'static str) -> &'static str {
    name.strip_suffix('_').unwrap_or(name)
}
