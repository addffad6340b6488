//! How many bytes of a trace are of which time.

use crate::range::Range;

/// Parts that the time is seen in. Ours: pieces are as exact as this is fine.
const PARTS: usize = 1 << 14;

/// Bytes by time, in equal parts that grow with the trace.
#[derive(Debug)]
pub(crate) struct Sizes {
    start: i64,
    width: i64,
    parts: Vec<u64>,
    /// Bytes that every piece has.
    common: u64,
}

impl Sizes {
    pub(crate) fn new() -> Self {
        Self { start: 0, width: 0, parts: Vec::new(), common: 0 }
    }

    pub(crate) fn take(&mut self, ts: Option<i64>, bytes: usize) {
        let Some(ts) = ts else {
            self.common += bytes as u64;
            return;
        };
        if self.parts.is_empty() {
            (self.start, self.width) = (ts, 1);
            self.parts = vec![0; PARTS];
        }
        let from_start = ts.saturating_sub(self.start).max(0);
        while from_start / self.width >= PARTS as i64 {
            self.halve();
        }
        if let Some(part) = self.parts.get_mut((from_start / self.width) as usize) {
            *part += bytes as u64;
        }
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        for at in 0..PARTS / 2 {
            let both = self.parts.get(2 * at..2 * at + 2).map_or(0, |both| both.iter().sum());
            if let Some(part) = self.parts.get_mut(at) {
                *part = both;
            }
        }
        if let Some(rest) = self.parts.get_mut(PARTS / 2..) {
            rest.fill(0);
        }
    }

    /// Consecutive ranges of about so many bytes each, which together are `whole`.
    pub(crate) fn ranges(&self, whole: Range, bytes: u64, most: usize) -> Vec<Range> {
        // What is common to all pieces counts in each, but leaves room for something else.
        let bytes = bytes.saturating_sub(self.common).max(bytes / 4).max(1);
        let mut ranges = Vec::new();
        let mut from = whole.from;
        let mut so_far = 0u64;
        for (at, part) in self.parts.iter().enumerate() {
            let begin = self.start.saturating_add(self.width.saturating_mul(at as i64));
            if so_far > 0
                && so_far + part > bytes
                && begin > from
                && begin < whole.to
                && ranges.len() + 1 < most
            {
                ranges.push(Range { from, to: begin });
                (from, so_far) = (begin, 0);
            }
            if begin.saturating_add(self.width) > whole.from && begin < whole.to {
                so_far += part;
            }
        }
        ranges.push(Range { from, to: whole.to });
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_one_another_and_have_about_the_size() {
        let mut sizes = Sizes::new();
        for ts in 0..1_000_000 {
            sizes.take(Some(5000 + ts * 1000), 100);
        }
        let whole = Range { from: i64::MIN, to: i64::MAX };
        let ranges = sizes.ranges(whole, 30_000_000, 100);
        assert_eq!(ranges.len(), 4);
        assert_eq!((ranges[0].from, ranges[3].to), (whole.from, whole.to));
        assert!(ranges.windows(2).all(|two| two[0].to == two[1].from));
        assert!((295_000_000..305_000_000).contains(&ranges[0].to), "{ranges:?}");
        assert_eq!(sizes.ranges(whole, 1000, 3).len(), 3);
        assert_eq!(Sizes::new().ranges(whole, 1000, 3), [whole]);
    }
}
