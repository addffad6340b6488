//! Which parts of a file the pass that writes has to see.
//!
//! The pass that looks sees all of a file, and notes of each block of it whether something in it will be written or changes what later
//! packets mean. Of a block that is not wanted only remains what its packets leave behind ([`Left`]): the time of each sequence's last packet,
//! and what its clocks of differences show.
//!
//! Memory: [`MAX_BLOCKS`], [`MAX_LEFT`].

use ferretto_trace_read::Place;

use crate::plan::Plan;
use crate::walk::{Left, Walk};

/// Blocks of one file: with more, each two become one. Ours: some 50 bytes each.
const MAX_BLOCKS: usize = 1 << 16;
/// What blocks leave behind, together: blocks beyond are wanted. Ours: 16 bytes each.
const MAX_LEFT: usize = 1 << 20;

/// The blocks of a file.
#[derive(Debug)]
pub(crate) struct Blocks {
    bytes: u64,
    blocks: Vec<Block>,
    /// Where the last packet was, or the batch that it was in.
    last_offset: u64,
    /// Sequences with packets in the last block.
    active: Vec<usize>,
    /// The number of the last block, counted on when blocks become one.
    number: u32,
    left: usize,
}

#[derive(Debug)]
struct Block {
    offset: u64,
    /// Packets before it.
    packets: u64,
    is_wanted: bool,
    left: Vec<Left>,
}

/// Blocks that are wanted, and follow one another.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// Where they begin.
    pub(crate) from: u64,
    /// Where they end, if not with the file.
    pub(crate) to: Option<u64>,
    packets: u64,
    passed_over: &'a [Block],
}

impl Run<'_> {
    /// Goes on behind the blocks before these.
    pub(crate) fn go_on(&self, walk: &mut Walk) {
        self.passed_over.iter().for_each(|block| walk.go_on(self.packets, &block.left));
        walk.go_on(self.packets, &[]);
    }
}

impl Blocks {
    /// Of so many bytes each.
    pub(crate) fn of(bytes: u64) -> Self {
        Self { bytes, blocks: Vec::new(), last_offset: 0, active: Vec::new(), number: 0, left: 0 }
    }

    /// A packet comes next, before the pass has taken it.
    #[inline]
    pub(crate) fn begin(&mut self, place: Place, walk: &Walk) {
        let is_next = match self.blocks.last() {
            None => true,
            // A batch is in one block.
            Some(last) => place.offset >= last.offset + self.bytes && place.offset != self.last_offset,
        };
        self.last_offset = place.offset;
        if is_next {
            self.next(place.offset, walk);
        }
    }

    /// The packet was taken.
    #[inline]
    pub(crate) fn take(&mut self, walk: &mut Walk, sequence: usize, is_wanted: bool) {
        let Some(block) = self.blocks.last_mut() else { return };
        block.is_wanted |= is_wanted;
        if block.is_wanted {
            return;
        }
        if let Some(of_sequence) = walk.sequences.get_mut(sequence)
            && of_sequence.block != self.number
        {
            of_sequence.block = self.number;
            self.active.push(sequence);
        }
    }

    /// What `plan` needs is wanted.
    pub(crate) fn need(&mut self, plan: &Plan) {
        for ordinal in plan.all_needed() {
            let after = self.blocks.partition_point(|block| block.packets <= ordinal);
            if let Some(block) = after.checked_sub(1).and_then(|at| self.blocks.get_mut(at)) {
                block.is_wanted = true;
            }
        }
    }

    /// All is wanted.
    pub(crate) fn want_all(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.is_wanted = true);
    }

    /// What is to be read.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let mut rest = self.blocks.as_slice();
        std::iter::from_fn(move || {
            let first = rest.iter().position(|block| block.is_wanted)?;
            let (passed_over, from_first) = rest.split_at_checked(first)?;
            let count = from_first.iter().take_while(|block| block.is_wanted).count();
            let (wanted, after) = from_first.split_at_checked(count)?;
            rest = after;
            let begin = wanted.first()?;
            let to = after.first().map(|block| block.offset);
            Some(Run { from: begin.offset, to, packets: begin.packets, passed_over })
        })
    }

    fn next(&mut self, offset: u64, walk: &Walk) {
        self.close(walk);
        if self.blocks.len() >= MAX_BLOCKS {
            self.halve();
        }
        self.number = self.number.wrapping_add(1) % u32::MAX;
        self.blocks.push(Block { offset, packets: walk.packets(), is_wanted: false, left: Vec::new() });
    }

    /// The last block has ended.
    pub(crate) fn close(&mut self, walk: &Walk) {
        let active = std::mem::take(&mut self.active);
        let Some(block) = self.blocks.last_mut().filter(|block| !block.is_wanted) else { return };
        block.left.extend(active.iter().flat_map(|sequence| walk.left(*sequence)));
        self.left += block.left.len();
        if self.left > MAX_LEFT {
            self.left -= block.left.len();
            block.left = Vec::new();
            block.is_wanted = true;
        }
    }

    /// Makes one block of each two.
    fn halve(&mut self) {
        self.bytes = self.bytes.saturating_mul(2);
        let mut halved: Vec<Block> = Vec::with_capacity(MAX_BLOCKS);
        for (at, block) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            match halved.last_mut().filter(|_| at % 2 == 1) {
                Some(last) => {
                    last.is_wanted |= block.is_wanted;
                    last.left.extend(block.left);
                }
                None => halved.push(block),
            }
        }
        self.blocks = halved;
    }
}
