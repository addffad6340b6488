//! Where slices of several tracks are drawn in one picture: `experimental_slice_layout`.
//!
//! A slice that nothing lies above, and all below it, stay together: a block as long as they are and as high as they are deep. Blocks have
//! lines in which nothing else is at that time; the highest come first, then those that begin first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::functions::text::texts;
use crate::limits::Held;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, column, input, int_column, int_field};

/// What a slice takes of memory here, about.
const ROW_BYTES: usize = 160;

/// The operator: of a text of numbers of tracks, and of slices, `id` and `layout_depth` of those on these tracks.
#[derive(Debug)]
pub(crate) struct SliceLayout;

impl Operator for SliceLayout {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["id", "layout_depth"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let tracks = texts(column(input(inputs, 0)?, "filter_track_ids")?)?;
        let tracks: HashSet<i64> = tracks
            .iter()
            .flatten()
            .flat_map(|list| list.split(','))
            .filter_map(|it| it.parse().ok())
            .collect();
        let batch = input(inputs, 1)?;
        held.try_grow(batch.num_rows() * ROW_BYTES)?;
        let of = |name| int_column(batch, name);
        let (id, track, parent) = (of("id")?, of("track_id")?, of("parent_id")?);
        let (ts, dur, depth) = (of("ts")?, of("dur")?, of("depth")?);
        let chosen = (0..batch.num_rows()).filter(|row| tracks.contains(&track.value(*row)));
        let slice = |row: usize| Slice {
            id: id.value(row),
            parent: parent.iter().nth(row).flatten(),
            start: ts.value(row),
            end: match dur.value(row) {
                -1 => i64::MAX,
                dur => ts.value(row).saturating_add(dur),
            },
            depth: usize::try_from(depth.value(row)).unwrap_or(0),
        };
        let (ids, lines): (Vec<i64>, Vec<i64>) = layout(chosen.map(slice)).into_iter().unzip();
        Ok(vec![boxed(Int64Array::from(ids)), boxed(Int64Array::from(lines))])
    }
}

struct Slice {
    id: i64,
    parent: Option<i64>,
    start: i64,
    end: i64,
    depth: usize,
}

/// Slices that stay together.
struct Block {
    start: i64,
    end: i64,
    /// Of the lowest of them, so that it has one line more.
    depth: usize,
    /// Where it is drawn.
    line: usize,
}

/// The line of each slice. Parents come before their children.
fn layout(slices: impl Iterator<Item = Slice>) -> Vec<(i64, i64)> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of: HashMap<i64, usize> = HashMap::new();
    let mut rows = Vec::new();
    for slice in slices {
        let above = slice.parent.and_then(|parent| block_of.get(&parent).copied());
        let at = above.unwrap_or(blocks.len());
        match blocks.get_mut(at) {
            Some(block) => {
                block.depth = block.depth.max(slice.depth);
                block.end = block.end.max(slice.end);
            }
            None => blocks.push(Block { start: slice.start, end: slice.end, depth: slice.depth, line: 0 }),
        }
        block_of.insert(slice.id, at);
        rows.push((slice.id, at, slice.depth));
    }
    place(&mut blocks);
    let line = |at: usize| blocks.get(at).map_or(0, |block| block.line);
    rows.iter().map(|(id, at, depth)| (*id, i64::try_from(line(*at) + depth).unwrap_or(i64::MAX))).collect()
}

/// Of a line, when something is there: beginnings and ends.
type Line = BTreeMap<i64, i64>;

fn place(blocks: &mut [Block]) {
    let mut order: Vec<&mut Block> = blocks.iter_mut().collect();
    // Those that are alike stay in their order.
    order.sort_by_key(|block| (Reverse(block.depth), block.start));
    let mut lines: Vec<Line> = Vec::new();
    for block in order {
        let mut free = 0;
        let mut at = 0;
        while free <= block.depth {
            let is_free = lines.get(at).is_none_or(|line| is_free(line, block.start, block.end));
            free = if is_free { free + 1 } else { 0 };
            at += 1;
        }
        block.line = at - free;
        lines.resize_with(lines.len().max(at), Line::new);
        for line in lines.iter_mut().skip(block.line).take(free) {
            let end = line.entry(block.start).or_insert(block.end);
            *end = block.end.max(*end);
        }
    }
}

/// Whether nothing of a line is within these times. What has no length is in nobody's way.
fn is_free(line: &Line, start: i64, end: i64) -> bool {
    let before = line.range(..start).next_back();
    let from = line.range(start..).next();
    before.is_none_or(|(_, its_end)| *its_end <= start) && from.is_none_or(|(its_start, _)| *its_start >= end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::table;
    use arrow::array::{AsArray as _, StringViewArray};
    use arrow::datatypes::{DataType, Int64Type, Schema};
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
    use std::sync::Arc;

    /// The lines of slices: track, beginning, duration, depth and parent (-1 is none); those of track 9 are not chosen.
    fn lines(slices: &[[i64; 5]]) -> Vec<i64> {
        let rows: Vec<[i64; 6]> =
            slices.iter().enumerate().map(|(id, [a, b, c, d, e])| [id as i64, *a, *b, *c, *d, *e]).collect();
        let rows: Vec<&[i64]> = rows.iter().map(|row| row.as_slice()).collect();
        let slices = table(&["id", "track_id", "ts", "dur", "depth", "parent_id"], &rows);
        let field = Field::new("filter_track_ids", DataType::Utf8View, true);
        let tracks: ArrayRef = Arc::new(StringViewArray::from(vec!["1,2,x,3"]));
        let tracks = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![tracks]).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let held = Held::new("a test", &pool, None);
        let arrays = SliceLayout.run(&[tracks, slices], &held).unwrap();
        arrays[1].as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn blocks_lie_where_nothing_else_does() {
        // One behind the other on any tracks have one line; what overlaps has another, and what does not end keeps it.
        assert_eq!(
            lines(&[[1, 0, 5, 0, -1], [2, 5, 5, 0, -1], [3, 7, 1, 0, -1], [9, 0, 9, 0, -1]]),
            [0, 0, 1]
        );
        assert_eq!(lines(&[[1, 0, -1, 0, -1], [2, 99, 1, 0, -1]]), [0, 1]);
        // The higher block comes first, though it begins later.
        let slices = [[1, 0, 9, 0, -1], [2, 3, 9, 0, -1], [2, 4, 1, 1, 1], [3, 10, 1, 0, -1]];
        assert_eq!(lines(&slices), [2, 0, 1, 2]);
    }
}
