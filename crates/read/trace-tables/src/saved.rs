//! Tables as blocks of a store, and a directory that says which they are: how they lie in a file, to be asked again without the trace.
//!
//! ```text
//! format │ columns │ texts: their number, pieces of their bytes, blocks of where each ends │ a table: its rows │ a column: its blocks │ …
//! ```
//!
//! A block is named by its [`Place`]. Columns are those of this build: of another one, which may have others, nothing is taken.

use std::sync::Arc;

use crate::column::Cell;
use crate::helper::Later;
use crate::packed::{BLOCK_ROWS, Packed};
use crate::store::{Kept, Place, Store};
use crate::strings::Strings;
use crate::tables::Tables;

/// Of this module: how the words of a directory and of blocks are read.
const FORMAT: u64 = 1;
/// Bytes of texts that are a block.
const TEXT_BYTES: usize = 1 << 20;
const WORD_BYTES: usize = size_of::<u64>();

/// Takes tables apart.
pub(crate) struct Saving<'a> {
    store: &'a dyn Store,
    directory: Vec<u64>,
}

/// Puts tables together. What is not as it was written gives nothing.
pub(crate) struct Loading<'a> {
    store: Arc<dyn Store>,
    directory: std::slice::Iter<'a, u64>,
    /// Blocks that were asked for stay in memory.
    are_kept: bool,
}

impl Tables {
    /// Puts all of their blocks into the store; returns the words by which [`Tables::load`] finds them there.
    ///
    /// Nothing if the store has no room for them, or if some cells cannot be had.
    #[must_use]
    pub fn save(&self, store: &dyn Store) -> Option<Vec<u64>> {
        let mut to = Saving { store, directory: vec![FORMAT, self.shape()] };
        to.strings(&self.strings)?;
        self.save_all(&mut to)?;
        self.are_whole().then_some(to.directory)
    }

    /// Tables that were put into this store by the same build. Their blocks are read when somebody asks for their cells, and stay in memory then if
    /// `are_kept` says so; that one cannot be read is known afterwards: see [`Tables::are_whole`].
    ///
    /// Nothing if the words are not of such tables. Of words that somebody made up any tables come, whose rows may refer to others that there are
    /// not.
    #[must_use]
    pub fn load(store: &Arc<dyn Store>, directory: &[u64], are_kept: bool) -> Option<Self> {
        let directory = directory.strip_prefix(&[FORMAT, Self::default().shape()])?;
        let mut from = Loading { store: store.clone(), directory: directory.iter(), are_kept };
        let strings = from.strings()?;
        let tables = Self::load_all(&mut from, strings, store)?;
        (from.directory.len() == 0 && !store.has_failed()).then_some(tables)
    }

    /// A number for which tables, columns and types there are.
    fn shape(&self) -> u64 {
        let mut shape = Shape::default();
        for table in self.all() {
            shape.take(table.name());
            for column in table.columns() {
                shape.take(column.name);
                shape.take(&format!("{:?} {}", column.data.kind(), column.data.may_be_null()));
            }
        }
        shape.0
    }
}

impl Saving<'_> {
    pub(crate) fn number(&mut self, number: usize) {
        self.directory.push(number as u64);
    }

    /// Cells of at most a block.
    pub(crate) fn cells<T: Cell>(&mut self, cells: &[T]) -> Option<()> {
        self.block(Packed::of(cells).words())
    }

    fn block(&mut self, words: &[u64]) -> Option<()> {
        let place = self.store.put(words)?;
        self.directory.extend([place.at, u64::from(place.words)]);
        Some(())
    }

    fn strings(&mut self, strings: &Strings) -> Option<()> {
        let bytes = strings.bytes().as_bytes();
        self.number(strings.len());
        self.number(bytes.len());
        for piece in bytes.chunks(TEXT_BYTES) {
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.block(&piece.chunks(WORD_BYTES).map(word).collect::<Vec<_>>())?;
        }
        let ends: Vec<i64> = strings.ends().map(|end| i64::try_from(end).unwrap_or(i64::MAX)).collect();
        ends.chunks(BLOCK_ROWS).try_for_each(|ends| self.cells(ends))
    }
}

impl Loading<'_> {
    pub(crate) fn number(&mut self) -> Option<usize> {
        usize::try_from(*self.directory.next()?).ok()
    }

    fn place(&mut self) -> Option<Place> {
        let (at, words) = (*self.directory.next()?, *self.directory.next()?);
        Some(Place { at, words: u32::try_from(words).ok()? })
    }

    /// The next block, for later.
    pub(crate) fn later(&mut self) -> Option<Kept> {
        let place = self.place()?;
        if !self.are_kept {
            return Some(Kept::There(place));
        }
        let store = self.store.clone();
        Some(Kept::Later(Later::lazily(move || Kept::Here(Packed::from_words(store.get(place))))))
    }

    /// The cells of the next block, now.
    pub(crate) fn cells<T: Cell>(&mut self, rows: usize) -> Option<Vec<T>> {
        let mut cells = Vec::new();
        self.append(rows, &mut cells)?;
        Some(cells)
    }

    /// The cells of the next blocks, now.
    pub(crate) fn all_cells<T: Cell>(&mut self, rows: usize) -> Option<Vec<T>> {
        let mut cells = Vec::new();
        for first in (0..rows).step_by(BLOCK_ROWS) {
            self.append(BLOCK_ROWS.min(rows - first), &mut cells)?;
        }
        Some(cells)
    }

    fn append<T: Cell>(&mut self, rows: usize, to: &mut Vec<T>) -> Option<()> {
        let place = self.place()?;
        Packed::from_words(self.store.get(place)).unpack(rows, to);
        Some(())
    }

    /// Where blocks lie that are not kept in memory.
    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        (!self.are_kept).then(|| self.store.clone())
    }

    fn strings(&mut self) -> Option<Strings> {
        let (count, len) = (self.number()?, self.number()?);
        let mut bytes = Vec::new();
        for first in (0..len).step_by(TEXT_BYTES) {
            let place = self.place()?;
            let piece = self.store.get(place).iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
            bytes.extend_from_slice(piece.get(..TEXT_BYTES.min(len - first))?);
        }
        let ends = self.all_cells::<i64>(count)?;
        let ends = ends.into_iter().map(|end| usize::try_from(end).ok()).collect::<Option<Vec<_>>>()?;
        Strings::from_parts(String::from_utf8(bytes).ok()?, ends)
    }
}

/// FNV-1a, which is the same in every build: <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct Shape(u64);

impl Default for Shape {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Shape {
    fn take(&mut self, word: &str) {
        const PRIME: u64 = 0x0100_0000_01b3;
        for byte in word.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Run;
    use crate::consistency::check;
    use crate::ids::{SliceId, TrackId};
    use crate::store::tests::InMemory;
    use crate::strings::Str;
    use crate::table::Table;
    use crate::tables::{SliceRow, TrackRow};

    /// Of more than two blocks, with a text for each row, gaps, and rows that changed late.
    fn filled() -> Tables {
        let mut tables = Tables::default();
        let names = ["main", "", "ü€"].map(|name| tables.strings.intern(name));
        tables.track.push(TrackRow { name: Some(names[0]), ..TrackRow::default() });
        for row in 0..2 * BLOCK_ROWS as u32 + 77 {
            let name = tables.strings.intern(&format!("slice {}", row % 40_000));
            tables.slice.push(SliceRow {
                ts: i64::from(row) * 1000,
                dur: -1,
                track_id: TrackId(0),
                name: (row % 5 != 0).then_some(name),
                parent_id: (row > 20_000).then(|| SliceId(row - 1)),
                ..SliceRow::default()
            });
        }
        tables.slice.dur.set(3, 55);
        tables.slice.category.set(40_000, Some(names[2]));
        tables
    }

    /// What stands in the columns of all tables.
    fn cells(tables: &Tables) -> Vec<Vec<Option<u64>>> {
        let columns = |table: &dyn Table| {
            let mut run = Run::default();
            table.columns().iter().for_each(|column| column.data.read(0..table.len(), &mut run));
            run.iter().collect()
        };
        tables.all().into_iter().map(columns).collect()
    }

    fn texts(tables: &Tables) -> Vec<&str> {
        (0..tables.strings.len()).map(|at| tables.strings.get(Str::from_index(at).unwrap())).collect()
    }

    #[test]
    fn tables_come_back_whether_or_not_their_blocks_stay_in_memory() {
        let tables = filled();
        let store: Arc<dyn Store> = Arc::new(InMemory::default());
        let directory = tables.save(&*store).unwrap();
        for are_kept in [true, false] {
            let mut loaded = Tables::load(&store, &directory, are_kept).unwrap();
            check(&loaded).unwrap();
            assert_eq!(loaded.are_elsewhere(), !are_kept);
            assert!(cells(&loaded) == cells(&tables) && texts(&loaded) == texts(&tables));
            let name = loaded.strings.intern("slice 7");
            assert_eq!(loaded.strings.len(), tables.strings.len(), "{name:?} was there");
            // It goes on growing.
            for row in 0..3 * BLOCK_ROWS as i64 {
                loaded.slice.push(SliceRow { ts: row, ..SliceRow::default() });
            }
            let len = loaded.slice.len();
            assert_eq!(
                (len, loaded.slice.ts.get(len - 1)),
                (5 * BLOCK_ROWS + 77, Some(3 * BLOCK_ROWS as i64 - 1))
            );
            assert_eq!(loaded.slice.ts.get(2 * BLOCK_ROWS + 5), tables.slice.ts.get(2 * BLOCK_ROWS + 5));
        }
    }

    #[test]
    fn no_word_of_a_directory_that_is_another_one_does_harm() {
        let store: Arc<dyn Store> = Arc::new(InMemory::default());
        let mut tables = Tables::default();
        tables.track.push(TrackRow { name: Some(tables.strings.intern("main")), ..TrackRow::default() });
        let directory = tables.save(&*store).unwrap();
        for at in 0..directory.len() {
            assert!(Tables::load(&store, &directory[..at], true).is_none(), "{at} words");
            for word in [0, 1, 1 << 20, u64::MAX] {
                let mut changed = directory.clone();
                changed[at] = word;
                for are_kept in [true, false] {
                    let _ = Tables::load(&store, &changed, are_kept);
                }
            }
        }
        let mut longer = directory.clone();
        longer.push(0);
        assert!(Tables::load(&store, &longer, true).is_none());
    }
}
