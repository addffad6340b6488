//! Finds what a batch repeats, for zstd's encoder. How hard it looks is what a level of zstd means here.
//!
//! The library's own search sees a block of 128 KiB and one earlier place for what comes next; this one sees across blocks. Places are
//! chained by their next bytes, the latest first, and the effort says how many of a chain are compared (zstd's levels do the same).

use ruzstd::encoding::{CompressionLevel, Matcher, Sequence};

/// Shorter ones cost about what they save. It also keeps the repetitions of a block fewer than a block can have.
const MIN_BYTES: usize = 5;
/// As good as any: no better one is looked for.
const LONG_BYTES: usize = 256;
/// How far back they may lie, which is what readers have to keep. Four times as much makes a trace smaller by less than a hundredth, and takes
/// twice the time, for the chains no longer fit into the caches.
const WINDOW_BYTES: usize = 256 * 1024;
/// The largest block of the format.
const BLOCK_BYTES: usize = 128 * 1024;
/// What is compared at once. The last bytes of a batch, fewer than these, are not looked for.
const WORD_BYTES: usize = 8;
/// At most this many chains.
const MAX_CHAINS_LOG: u32 = 17;

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Earlier places that are compared with the one at hand.
    candidates: u16,
    /// Look whether there is more to gain one byte further on.
    patient: bool,
    /// Where nothing repeats, steps grow by one every 2 to the power of this many bytes.
    stride_log: u32,
}

impl Effort {
    /// Takes any number, as zstd does: 0 is its default, which is 3; negative ones are fast; more than 22 is no more than 22.
    pub(crate) fn of_level(level: i32) -> Self {
        let (candidates, patient, stride_log) = match level {
            ..0 => (1, false, 5),
            1..3 => (1, false, 8),
            0 | 3..5 => (3, false, 8),
            5..9 => (8, true, 9),
            9..16 => (24, true, 10),
            16.. => (64, true, 12),
        };
        Self { candidates, patient, stride_log }
    }
}

/// A piece of the batch that stood there before.
#[derive(Debug, Clone, Copy)]
struct Repetition {
    len: usize,
    distance: usize,
}

impl Repetition {
    /// About the bits that it saves: the further away, the more it costs to say where (zstd's own estimate).
    fn gain(self) -> usize {
        (self.len * 4 + usize::BITS as usize) - self.distance.ilog2() as usize
    }
}

/// A batch, of which the encoder takes block by block.
pub(crate) struct Repetitions<'a> {
    batch: &'a [u8],
    effort: Effort,
    /// The block at hand.
    from: usize,
    to: usize,
    /// The first place in it with another byte than its first.
    odd: usize,
    /// The latest place of each chain, modulo 2^32. At first the batch's beginning, which is as good a guess as any.
    latest: Vec<u32>,
    /// The place before each one in its chain, for those in the window.
    before: Vec<u32>,
    /// The encoder's memory for a block, which it gives back.
    space: Vec<u8>,
}

impl<'a> Repetitions<'a> {
    pub(crate) fn new(batch: &'a [u8], effort: Effort) -> Self {
        let window = batch.len().next_power_of_two().clamp(BLOCK_BYTES, WINDOW_BYTES);
        let chains_log = window.ilog2().min(MAX_CHAINS_LOG);
        Self {
            batch,
            effort,
            from: 0,
            to: 0,
            odd: 0,
            latest: vec![0; 1 << chains_log],
            before: vec![0; window],
            space: Vec::new(),
        }
    }

    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.batch.get(at..at + WORD_BYTES)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// The chain of places that are followed by these bytes, and by some others.
    fn chain(&self, word: u64) -> usize {
        const SPREAD: u64 = 0x9e37_79b1_85eb_ca87; // a prime near the golden ratio of 2^64, as zstd has one
        let first = word << (u64::BITS - 8 * MIN_BYTES as u32);
        (first.wrapping_mul(SPREAD) >> (u64::BITS - self.latest.len().ilog2())) as usize
    }

    fn enter(&mut self, at: usize) {
        let Some(word) = self.word(at) else { return };
        let chain = self.chain(word);
        let place = at & (self.before.len() - 1);
        if let (Some(latest), Some(before)) = (self.latest.get_mut(chain), self.before.get_mut(place)) {
            *before = *latest;
            *latest = at as u32;
        }
    }

    /// The best of what stands here and stood before.
    ///
    /// A block's first byte and the first that differs from it are never taken for repeated: the encoder panics if the bytes that are not
    /// are all the same, or if there are none before the first repetition and no others.
    fn find(&self, at: usize) -> Option<Repetition> {
        if at == self.from || at == self.odd {
            return None;
        }
        let chain = self.chain(self.word(at)?);
        let end = if at < self.odd { self.odd } else { self.to };
        let rest = self.batch.get(at..end)?;
        let mut best: Option<Repetition> = None;
        let mut distance = 0;
        let mut next = *self.latest.get(chain)?;
        for _ in 0..self.effort.candidates {
            let further = (at as u32).wrapping_sub(next) as usize;
            if further <= distance || further > at || further >= self.before.len() {
                break;
            }
            distance = further;
            let place = at - distance;
            let found = Repetition { len: common_len(self.batch.get(place..)?, rest), distance };
            if found.len >= MIN_BYTES && best.is_none_or(|best| found.gain() > best.gain()) {
                best = Some(found);
            }
            if found.len >= LONG_BYTES {
                break;
            }
            next = *self.before.get(place & (self.before.len() - 1))?;
        }
        best
    }

    /// Enters the place at hand and those behind it, as long as the next one promises more; gives the place to begin at.
    fn wait_for_better(&mut self, mut at: usize, mut found: Repetition) -> (usize, Repetition) {
        self.enter(at);
        while self.effort.patient && found.len < LONG_BYTES {
            let worth = found.gain() + 4; // a literal more
            match self.find(at + 1).filter(|next| next.gain() > worth) {
                Some(next) => (at, found) = (at + 1, next),
                None => break,
            }
            self.enter(at);
        }
        (at, found)
    }
}

/// How many bytes both begin with.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(WORD_BYTES).zip(b.chunks_exact(WORD_BYTES));
    let len = WORD_BYTES * words.take_while(|(a, b)| a == b).count();
    let rest = a.iter().skip(len).zip(b.iter().skip(len));
    len + rest.take_while(|(a, b)| a == b).count()
}

impl Matcher for Repetitions<'_> {
    fn get_next_space(&mut self) -> Vec<u8> {
        let mut space = std::mem::take(&mut self.space);
        space.resize(BLOCK_BYTES, 0);
        space
    }

    fn get_last_space(&mut self) -> &[u8] {
        self.batch.get(self.from..self.to).unwrap_or_default()
    }

    /// What the encoder read of the batch: the next block.
    fn commit_space(&mut self, space: Vec<u8>) {
        self.from = self.to;
        self.to += space.len();
        debug_assert_eq!(self.batch.get(self.from..self.to), Some(space.as_slice()));
        self.space = space;
    }

    fn skip_matching(&mut self) {
        (self.from..self.to).for_each(|at| self.enter(at));
    }

    fn start_matching(&mut self, mut handle: impl for<'s> FnMut(Sequence<'s>)) {
        let batch = self.batch;
        let block = self.get_last_space();
        let same = block.iter().take_while(|byte| Some(*byte) == block.first()).count();
        self.odd = self.from + same;
        let mut literals_from = self.from;
        let mut at = self.from;
        while at < self.to {
            let Some(found) = self.find(at) else {
                self.enter(at);
                at += 1 + ((at - literals_from) >> self.effort.stride_log);
                continue;
            };
            let (begin, Repetition { len, distance }) = self.wait_for_better(at, found);
            let literals = batch.get(literals_from..begin).unwrap_or_default();
            handle(Sequence::Triple { literals, offset: distance, match_len: len });
            at = begin + len;
            (begin + 1..at).for_each(|passed| self.enter(passed));
            literals_from = at;
        }
        if literals_from < self.to {
            let literals = batch.get(literals_from..self.to).unwrap_or_default();
            handle(Sequence::Literals { literals });
        }
    }

    /// There is one frame only.
    fn reset(&mut self, _level: CompressionLevel) {}

    fn window_size(&self) -> u64 {
        self.before.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;
    use ruzstd::decoding::StreamingDecoder;
    use ruzstd::encoding::FrameCompressor;

    use super::*;

    /// One of each effort.
    const LEVELS: [i32; 6] = [-1, 1, 3, 6, 12, 22];

    fn compress(batch: &[u8], level: i32) -> Vec<u8> {
        let mut frame = Vec::new();
        let search = Repetitions::new(batch, Effort::of_level(level));
        let mut encoder = FrameCompressor::new_with_matcher(search, CompressionLevel::Fastest);
        encoder.set_source(batch);
        encoder.set_drain(&mut frame);
        encoder.compress();
        frame
    }

    fn decompress(frame: &[u8]) -> Vec<u8> {
        let mut batch = Vec::new();
        StreamingDecoder::new(frame).unwrap().read_to_end(&mut batch).unwrap();
        batch
    }

    /// Numbers without a pattern.
    fn noise() -> impl FnMut() -> u32 {
        let mut state = 1u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        }
    }

    /// Like packets: records of a few kinds, each with its own fixed parts, and numbers between them.
    fn records(len: usize) -> Vec<u8> {
        let mut number = noise();
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let kind = number() % 5;
            bytes.extend(format!("kind {kind} has {:x} of ", number() % 700).bytes());
            bytes.extend(std::iter::repeat_n(b'a' + kind as u8, number() as usize % 9));
            bytes.extend((number() as u16).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    fn check(batch: &[u8]) {
        for level in [-1, 3, 12] {
            assert!(decompress(&compress(batch, level)) == batch, "{} bytes at level {level}", batch.len());
        }
    }

    #[test]
    fn batches_of_all_sizes_come_back() {
        let around_a_block = [BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1];
        for len in [0, 1, 4, 5, 7, 8, 9, 100].into_iter().chain(around_a_block) {
            check(&records(len));
            check(&vec![7; len]);
        }
    }

    #[test]
    fn a_batch_larger_than_the_window_comes_back() {
        let mut batch = records(WINDOW_BYTES + BLOCK_BYTES / 2); // so the beginning is out of reach at the end
        batch.extend_from_within(..BLOCK_BYTES);
        assert!(decompress(&compress(&batch, 6)) == batch);
    }

    /// Where the encoder would have nothing but repetitions to write, or one byte again and again between them.
    #[test]
    fn blocks_of_what_stood_before_come_back() {
        let block = records(BLOCK_BYTES);
        let mut spotted = block.clone();
        spotted.iter_mut().step_by(50).for_each(|byte| *byte = 0xff);
        let mut last = block.clone();
        last[..BLOCK_BYTES - 1].fill(0);
        check(&[block.as_slice(), &block].concat());
        check(&[block.as_slice(), &spotted, &last, &block].concat());
    }

    #[test]
    fn what_does_not_repeat_is_stored() {
        let mut number = noise();
        let batch: Vec<u8> = (0..300_000).map(|_| (number() >> 3) as u8).collect();
        check(&batch);
        assert!(compress(&batch, 22).len() < batch.len() + batch.len() / 1000 + 64);
    }

    #[test]
    fn what_repeats_in_another_block_is_found() {
        let block: Vec<u8> = {
            let mut number = noise();
            (0..BLOCK_BYTES).map(|_| (number() >> 3) as u8).collect()
        };
        let twice = [block.as_slice(), &block].concat();
        for level in [1, 22] {
            let len = compress(&twice, level).len();
            assert!(len < block.len() + block.len() / 10, "level {level}: {len} bytes");
        }
    }

    #[test]
    fn more_effort_makes_less_of_it() {
        let batch = records(200_000);
        let lens = LEVELS.map(|level| compress(&batch, level).len());
        assert!(lens.is_sorted_by(|less, more| less >= more), "{lens:?}");
        assert!(lens[4] * 100 < lens[1] * 97, "{lens:?}");
    }

    #[test]
    fn any_level_is_some_effort() {
        let effort = Effort::of_level;
        assert_eq!(effort(0), effort(3));
        assert_eq!(effort(i32::MIN), effort(-1));
        assert_eq!(effort(i32::MAX), effort(22));
        let candidates: Vec<u16> =
            (-1..=22).filter(|&level| level != 0).map(|level| effort(level).candidates).collect();
        assert!(candidates.is_sorted(), "{candidates:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Of pieces that are new, or copied from anywhere before, as long as they like.
        #[test]
        fn whatever_is_pieced_together_comes_back(
            pieces in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..60).prop_map(Ok),
                    (any::<u16>(), 1usize..20_000).prop_map(Err),
                    (any::<u16>(), 1usize..40).prop_map(Err),
                ],
                0..40,
            ),
            level in proptest::sample::select(&LEVELS),
        ) {
            let mut batch: Vec<u8> = Vec::new();
            for piece in pieces {
                match piece {
                    Ok(new) => batch.extend(new),
                    Err((distance, len)) => (0..len).for_each(|_| {
                        let from = batch.len().saturating_sub(1 + usize::from(distance));
                        let byte = batch.get(from).copied().unwrap_or(0);
                        batch.push(byte);
                    }),
                }
            }
            prop_assert!(decompress(&compress(&batch, level)) == batch);
        }
    }
}
