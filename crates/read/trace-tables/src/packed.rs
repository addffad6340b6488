//! Cells in as few bits as they need.
//!
//! A column's rows are packed in blocks of [`BLOCK_ROWS`]. A block is a row of words, so that it lies in memory as it lies in a file:
//!
//! ```text
//! flags │ a pair of words a frame of 256 rows: its lowest number │ where its bits begin, and how many a row has │ … │ bits
//! ```
//!
//! A row of a frame is the difference to its lowest number, in as many bits as the largest of them needs: none if all are the same. Where
//! there is nothing stands 0, and what is there is 1 more. So a cell is found without reading those before it. Times, durations and numbers of
//! rows, which differ little from their neighbours, take one to three bytes; what is the same everywhere takes half a bit.

use std::ops::Range;

use crate::column::{Cell, Kind};

/// Rows of a block: few enough that what is not yet packed stays in a processor's cache, enough that its head is nothing.
pub const BLOCK_ROWS: usize = 16 << 10;
/// Rows that share a lowest number.
const FRAME_ROWS: usize = 256;
/// Words before the frames.
const HEAD: usize = 1;
/// Of a block's flags: what is packed are floating-point numbers, all of them whole, as numbers.
const WHOLE_REALS: u64 = 1;
/// Of a frame's second word.
const HAS_NULLS: u64 = 1 << 7;
const WIDTH: u64 = HAS_NULLS - 1;
const PLACE_SHIFT: u32 = 8;
/// A wider difference has no room for 1 more: nothing is said by a bit a row then, behind the bits of the numbers.
const MAX_WIDTH_BESIDE_NULLS: u32 = 62;
/// Whole numbers up to this are the same as floating-point numbers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// A block of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    words: Box<[u64]>,
}

impl Packed {
    /// Packs cells.
    #[must_use]
    pub fn of<T: Cell>(cells: &[T]) -> Self {
        Self::pack(cells.chunks(FRAME_ROWS).map(|frame| frame.iter().copied()), Widths::Any)
    }

    /// Packs what `cell` makes of each of `all`, which is unpacked soon: in whole bytes where that adds less than a byte a row, for these are
    /// quicker to pack and to unpack.
    #[must_use]
    pub fn quickly<A, T: Cell>(all: &[A], cell: impl Fn(&A) -> T + Copy) -> Self {
        Self::pack(all.chunks(FRAME_ROWS).map(|frame| frame.iter().map(cell)), Widths::Bytes)
    }

    #[inline(always)]
    fn pack<T: Cell, F>(cells: impl ExactSizeIterator<Item = F> + Clone, widths: Widths) -> Self
    where
        F: ExactSizeIterator<Item = T> + Clone,
    {
        let is_real = T::KIND == Kind::Real;
        let as_whole = is_real && cells.clone().flatten().all(|cell| is_whole(cell.bits()));
        let frames = cells.len();
        // As many as most columns need: it does not grow, and what it was made of is there for the next.
        let mut words = Vec::with_capacity(HEAD + 2 * frames + frames * FRAME_ROWS / 2);
        words.push(if as_whole { WHOLE_REALS } else { 0 });
        words.resize(HEAD + 2 * frames, 0);
        let mut rows = Rows::new();
        for (frame, cells) in cells.enumerate() {
            rows.fill(cells, as_whole);
            let head = pack_frame(&mut rows, widths, &mut words);
            if let Some(there) = words.get_mut(HEAD + 2 * frame..).and_then(|rest| rest.first_chunk_mut()) {
                *there = head;
            }
        }
        Self { words: words.as_slice().into() }
    }

    /// A block out of its words. Whatever they are, cells come out.
    #[must_use]
    pub fn from_words(words: Box<[u64]>) -> Self {
        Self { words }
    }

    /// Its words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// A cell.
    #[inline]
    #[must_use]
    pub fn get<T: Cell>(&self, row: usize) -> T {
        let at = row % FRAME_ROWS;
        let frame = self.frame(row / FRAME_ROWS);
        T::from_bits(frame.get(&self.words, at).map(|bits| self.as_packed::<T>(bits)))
    }

    /// Appends the first `rows` cells.
    pub fn unpack<T: Cell>(&self, rows: usize, to: &mut Vec<T>) {
        self.unpack_rows(0..rows, to);
    }

    /// Appends these cells.
    pub fn unpack_rows<T: Cell>(&self, rows: Range<usize>, to: &mut Vec<T>) {
        to.reserve(rows.len());
        let mut from = rows.start;
        while from < rows.end {
            let first = from % FRAME_ROWS;
            let end = FRAME_ROWS.min(first + rows.end - from);
            self.unpack_frame(self.frame(from / FRAME_ROWS), first..end, to);
            from += end - first;
        }
    }

    #[inline]
    fn unpack_frame<T: Cell>(&self, frame: Frame, rows: Range<usize>, to: &mut Vec<T>) {
        let cell = |bits: Option<u64>| T::from_bits(bits.map(|bits| self.as_packed::<T>(bits)));
        let place = (frame.about >> PLACE_SHIFT) as usize;
        let words = self.words.get(place..).unwrap_or_default();
        match frame.about & (HAS_NULLS | WIDTH) {
            0 => to.extend(std::iter::repeat_n(cell(Some(frame.base)), rows.len())),
            HAS_NULLS => to.extend(std::iter::repeat_n(cell(None), rows.len())),
            width @ 1..=WIDE => {
                let differences = differences(words, width as u32);
                let there = differences.get(rows).unwrap_or_default().iter();
                to.extend(there.map(|it| cell(Some(frame.base.wrapping_add(*it)))));
            }
            about if about & WIDTH <= u64::from(MAX_WIDTH_BESIDE_NULLS) => {
                let differences = differences(words, (about & WIDTH) as u32);
                let there = differences.get(rows).unwrap_or_default().iter();
                to.extend(there.map(|it| cell(it.checked_sub(1).map(|it| frame.base.wrapping_add(it)))));
            }
            _ => to.extend(rows.map(|at| cell(frame.get(&self.words, at)))),
        }
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline]
    fn frame(&self, frame: usize) -> Frame {
        let head = self.words.get(HEAD + 2 * frame..).and_then(|rest| rest.first_chunk());
        let [base, about] = *head.unwrap_or(&[0, 0]);
        Frame { base, about }
    }

    #[inline]
    fn as_packed<T: Cell>(&self, bits: u64) -> u64 {
        if T::KIND == Kind::Real && self.words.first().is_some_and(|flags| flags & WHOLE_REALS != 0) {
            return (bits as i64 as f64).to_bits();
        }
        bits
    }
}

/// As many bits as a difference may have.
const WIDE: u64 = 64;

/// The differences of a frame.
#[inline]
fn differences(words: &[u64], width: u32) -> [u64; FRAME_ROWS] {
    let mut all = [0; FRAME_ROWS];
    match width {
        8 => take_bytes(words, &mut all, |word| word.to_le_bytes().map(u64::from)),
        16 => take_bytes(words, &mut all, |word| [0, 1, 2, 3].map(|at| word >> (16 * at) & 0xffff)),
        32 => take_bytes(words, &mut all, |word| [word & 0xffff_ffff, word >> 32]),
        _ => {
            for (to, difference) in all.iter_mut().zip(Differences::new(words, width)) {
                *to = difference;
            }
        }
    }
    all
}

/// Takes apart words that hold `N` each.
#[inline(always)]
fn take_bytes<const N: usize>(words: &[u64], to: &mut [u64], apart: impl Fn(u64) -> [u64; N]) {
    for (to, word) in to.as_chunks_mut().0.iter_mut().zip(words) {
        *to = apart(*word);
    }
}

/// The differences of a frame, one after the other.
struct Differences<'a> {
    words: std::slice::Iter<'a, u64>,
    /// What was not taken of the last word, and how many bits that is.
    rest: u64,
    bits: u32,
    width: u32,
}

impl<'a> Differences<'a> {
    fn new(words: &'a [u64], width: u32) -> Self {
        Self { words: words.iter(), rest: 0, bits: 0, width }
    }
}

impl Iterator for Differences<'_> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let mask = u64::MAX >> (u64::BITS - self.width);
        if let Some(bits) = self.bits.checked_sub(self.width) {
            let difference = self.rest & mask;
            self.bits = bits;
            self.rest = self.rest.checked_shr(self.width).unwrap_or(0);
            return Some(difference);
        }
        let word = self.words.next().copied().unwrap_or(0);
        let difference = (self.rest | word << self.bits) & mask;
        let taken = self.width - self.bits;
        self.rest = word.checked_shr(taken).unwrap_or(0);
        self.bits = u64::BITS - taken;
        Some(difference)
    }
}

/// The head of a frame.
#[derive(Clone, Copy)]
struct Frame {
    base: u64,
    about: u64,
}

impl Frame {
    #[inline]
    fn get(self, words: &[u64], at: usize) -> Option<u64> {
        let width = (self.about & WIDTH).min(64) as usize;
        let has_nulls = self.about & HAS_NULLS != 0;
        let place = (self.about >> PLACE_SHIFT) as usize;
        if width == 0 {
            return (!has_nulls).then_some(self.base);
        }
        let difference = bits(words, place, at, width);
        match (has_nulls, width) {
            (false, _) => Some(self.base.wrapping_add(difference)),
            (true, 64) => {
                let is_there = bits(words, place + FRAME_ROWS, at, 1) != 0;
                is_there.then(|| self.base.wrapping_add(difference))
            }
            (true, _) => difference.checked_sub(1).map(|difference| self.base.wrapping_add(difference)),
        }
    }
}

/// `width` bits, of those that begin at the word `place` and have this width the one at `at`.
#[inline]
fn bits(words: &[u64], place: usize, at: usize, width: usize) -> u64 {
    let first = at * width;
    let (word, shift) = (place + first / 64, first % 64);
    let low = words.get(word).copied().unwrap_or(0) >> shift;
    let high = match shift + width > 64 {
        true => words.get(word + 1).copied().unwrap_or(0) << (64 - shift),
        false => 0,
    };
    (low | high) & (u64::MAX >> (64 - width))
}

/// How many bits a row may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Widths {
    Any,
    /// Those of a number of bytes, unless that is much more.
    Bytes,
}

impl Widths {
    /// The width for numbers of so many bits.
    #[inline]
    const fn of(self, bits: u32) -> u32 {
        match (self, bits) {
            (Self::Any, _) | (_, 0) => bits,
            (_, 1..=8) => 8,
            (_, 9..=16) => 16,
            (_, 25..=32) => 32,
            _ => bits,
        }
    }
}

/// The rows of a frame.
struct Rows {
    /// Whatever it was where there is nothing.
    numbers: [u64; FRAME_ROWS],
    are_there: [bool; FRAME_ROWS],
    len: usize,
    nulls: usize,
    low: i64,
    high: i64,
}

impl Rows {
    const fn new() -> Self {
        Self {
            numbers: [0; FRAME_ROWS],
            are_there: [true; FRAME_ROWS],
            len: 0,
            nulls: 0,
            low: i64::MAX,
            high: i64::MIN,
        }
    }

    /// Takes the rows of a frame.
    #[inline(always)]
    fn fill<T: Cell>(&mut self, cells: impl ExactSizeIterator<Item = T> + Clone, as_whole: bool) {
        self.len = cells.len();
        (self.low, self.high, self.nulls) = (i64::MAX, i64::MIN, 0);
        if T::MAY_BE_NULL {
            let are_there = cells.clone().map(|cell| cell.bits().is_some());
            for (to, is_there) in self.are_there.iter_mut().zip(are_there) {
                *to = is_there;
                self.nulls += usize::from(!is_there);
            }
        }
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for (number, cell) in self.numbers.iter_mut().zip(cells) {
            let Some(bits) = cell.bits() else { continue };
            let bits = if as_whole { f64::from_bits(bits) as i64 as u64 } else { bits };
            *number = bits;
            low = low.min(bits as i64);
            high = high.max(bits as i64);
        }
        (self.low, self.high) = (low, high);
    }
}

/// Appends the bits of a frame; returns its head.
fn pack_frame(rows: &mut Rows, widths: Widths, words: &mut Vec<u64>) -> [u64; 2] {
    let Rows { numbers, are_there, len, nulls, low, high } = rows;
    let numbers = numbers.get_mut(..*len).unwrap_or_default();
    let are_there = are_there.get(..*len).unwrap_or_default();
    let has_nulls = if *nulls > 0 { HAS_NULLS } else { 0 };
    if *nulls == numbers.len() {
        return [0, has_nulls];
    }
    let (base, range) = (*low as u64, high.wrapping_sub(*low) as u64);
    let place = (words.len() as u64) << PLACE_SHIFT;
    let bits = u64::BITS - range.leading_zeros();
    if *nulls == 0 {
        numbers.iter_mut().for_each(|number| *number = number.wrapping_sub(base));
        let width = widths.of(bits);
        append(numbers, width, words);
        return [base, place | u64::from(width)];
    }
    if bits > MAX_WIDTH_BESIDE_NULLS {
        numbers.iter_mut().for_each(|number| *number = number.wrapping_sub(base));
        append(numbers, 64, words);
        words.resize((place >> PLACE_SHIFT) as usize + FRAME_ROWS, 0);
        for (number, is_there) in numbers.iter_mut().zip(are_there) {
            *number = u64::from(*is_there);
        }
        append(numbers, 1, words);
        return [base, place | has_nulls | 64];
    }
    let width = widths.of(u64::BITS - (range + 1).leading_zeros());
    for (number, is_there) in numbers.iter_mut().zip(are_there) {
        *number = if *is_there { number.wrapping_sub(base).wrapping_add(1) } else { 0 };
    }
    append(numbers, width, words);
    [base, place | has_nulls | u64::from(width)]
}

fn append(numbers: &[u64], width: u32, words: &mut Vec<u64>) {
    match width {
        0 => {}
        8 => append_bytes(numbers, words, |numbers: [u64; 8]| u64::from_le_bytes(numbers.map(|it| it as u8))),
        16 => append_bytes(numbers, words, |[a, b, c, d]| a | b << 16 | c << 32 | d << 48),
        32 => append_bytes(numbers, words, |[low, high]| low | high << 32),
        64 => words.extend_from_slice(numbers),
        _ => append_bits(numbers, width, words),
    }
}

/// Puts `N` numbers into each word; none has more bits than there is room for.
#[inline(always)]
fn append_bytes<const N: usize>(numbers: &[u64], words: &mut Vec<u64>, together: impl Fn([u64; N]) -> u64) {
    let (whole, rest) = numbers.as_chunks::<N>();
    words.extend(whole.iter().map(|numbers| together(*numbers)));
    if !rest.is_empty() {
        let mut last = [0; N];
        last.iter_mut().zip(rest).for_each(|(to, number)| *to = *number);
        words.push(together(last));
    }
}

fn append_bits(numbers: &[u64], width: u32, words: &mut Vec<u64>) {
    words.reserve(numbers.len() * width as usize / 64 + 1);
    let mut bits = Bits { words, word: 0, used: 0 };
    // Several at once, as far as they go into a word.
    let rest = match width {
        ..=16 => {
            let (fours, rest) = numbers.as_chunks();
            for [a, b, c, d] in fours {
                bits.put(a | b << width | c << (2 * width) | d << (3 * width), 4 * width);
            }
            rest
        }
        17..=32 => {
            let (pairs, rest) = numbers.as_chunks();
            pairs.iter().for_each(|[low, high]| bits.put(low | high << width, 2 * width));
            rest
        }
        _ => numbers,
    };
    rest.iter().for_each(|number| bits.put(*number, width));
    bits.end();
}

/// Words that bits are appended to.
struct Bits<'a> {
    words: &'a mut Vec<u64>,
    /// What is not a whole word yet, and how many bits that is.
    word: u64,
    used: u32,
}

impl Bits<'_> {
    #[inline(always)]
    fn put(&mut self, number: u64, width: u32) {
        self.word |= number << self.used;
        self.used += width;
        if self.used >= u64::BITS {
            self.words.push(self.word);
            self.used -= u64::BITS;
            // What of the number had no room.
            self.word = if self.used == 0 { 0 } else { number >> (width - self.used) };
        }
    }

    fn end(self) {
        if self.used > 0 {
            self.words.push(self.word);
        }
    }
}

#[inline]
fn is_whole(bits: Option<u64>) -> bool {
    let Some(bits) = bits else { return true };
    let value = f64::from_bits(bits);
    value.abs() < MAX_WHOLE && (value as i64 as f64).to_bits() == bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back<T: Cell + PartialEq + std::fmt::Debug>(cells: &[T]) -> usize {
        let packed = Packed::of(cells);
        let mut unpacked: Vec<T> = Vec::new();
        packed.unpack(cells.len(), &mut unpacked);
        assert_eq!(unpacked, cells);
        let one_by_one: Vec<T> = (0..cells.len()).map(|row| packed.get(row)).collect();
        assert_eq!(one_by_one, cells);
        for rows in [0..cells.len() / 2, cells.len() / 3..cells.len(), 300.min(cells.len())..cells.len()] {
            let mut part: Vec<T> = Vec::new();
            packed.unpack_rows(rows.clone(), &mut part);
            assert_eq!(part, cells[rows]);
        }
        let quickly = Packed::quickly(cells, |cell| *cell);
        let (mut unpacked, one_by_one): (Vec<T>, Vec<T>) =
            (Vec::new(), (0..cells.len()).map(|row| quickly.get(row)).collect());
        quickly.unpack(cells.len(), &mut unpacked);
        assert_eq!((unpacked.as_slice(), one_by_one.as_slice()), (cells, cells));
        packed.memory_bytes()
    }

    #[test]
    fn what_differs_little_takes_little() {
        let rows = BLOCK_ROWS as i64;
        // 17 bytes a frame, and a byte a row.
        let near: Vec<i64> = (0..rows).map(|n| (1 << 40) + n / 256 * 1000 + n % 200).collect();
        assert!(there_and_back(&near) <= BLOCK_ROWS + BLOCK_ROWS / 256 * 16 + 8);
        let same = vec![7i64; BLOCK_ROWS];
        assert!(there_and_back(&same) <= BLOCK_ROWS / 256 * 16 + 8);
        let nothing = vec![None::<i64>; BLOCK_ROWS];
        assert!(there_and_back(&nothing) <= BLOCK_ROWS / 256 * 16 + 8);
        let whole: Vec<f64> = (0..rows).map(|n| (n % 256) as f64).collect();
        assert!(there_and_back(&whole) <= BLOCK_ROWS + BLOCK_ROWS / 256 * 16 + 8);
    }

    #[test]
    fn the_widest_numbers_come_back_with_and_without_nothing_beside_them() {
        for n in [1usize, 2, 255, 256, 257, 600] {
            let wide: Vec<i64> = (0..n).map(|n| if n % 2 == 0 { i64::MIN } else { i64::MAX }).collect();
            there_and_back(&wide);
            for gap in [2, 3, 7] {
                let gaps = |(n, value): (usize, &i64)| (n % gap != 0).then_some(*value);
                there_and_back(&wide.iter().enumerate().map(gaps).collect::<Vec<_>>());
                let half = |(n, value): (usize, &i64)| (n % gap != 0).then_some(*value >> 2);
                there_and_back(&wide.iter().enumerate().map(half).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn words_that_nobody_packed_give_cells_too() {
        for words in [vec![], vec![u64::MAX; 3], vec![0; 2]] {
            let block = Packed::from_words(words.into());
            let _ = (block.get::<i64>(5000), block.get::<Option<f64>>(1));
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            cells in proptest::collection::vec(proptest::option::weighted(0.8, any::<i64>()), 0..700),
            shift in 0u32..64,
        ) {
            there_and_back(&cells.iter().map(|cell| cell.map(|value| value >> shift)).collect::<Vec<_>>());
            there_and_back(&cells.iter().map(|cell| cell.unwrap_or(0) >> shift).collect::<Vec<_>>());
            there_and_back(&cells.iter().map(|cell| cell.is_some()).collect::<Vec<_>>());
        }

        #[test]
        fn floating_point_numbers_keep_their_bits(
            cells in proptest::collection::vec(prop_oneof![
                any::<f64>(), Just(-0.0), Just(f64::NAN), (-1000i32..1000).prop_map(f64::from),
            ], 0..300),
        ) {
            let packed = Packed::of(&cells);
            for (row, cell) in cells.iter().enumerate() {
                prop_assert_eq!(packed.get::<f64>(row).to_bits(), cell.to_bits());
            }
        }
    }
}
