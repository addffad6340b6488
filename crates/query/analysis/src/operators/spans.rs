//! Where the spans of two sides overlap. Only numbers: rows are known by their places.
//!
//! A side is a list of spans, sorted, that do not overlap each other. Where it has none there is a gap, which joins of the kinds LEFT and OUTER
//! take for a span without a row. A span is from its start to before its end; one of no length, or without an end (`dur` -1), is where it
//! starts (upstream: span_join_operator.cc).

use std::ops::Range;

/// A span of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    /// Its row; nothing for a gap.
    pub(crate) row: Option<usize>,
}

impl Span {
    /// As it is written.
    fn raw_end(self) -> i64 {
        self.ts.saturating_add(self.dur)
    }

    /// What has no end ends where it starts.
    fn end(self) -> i64 {
        if self.dur == -1 { self.ts } else { self.raw_end() }
    }

    fn overlaps(self, other: Self) -> bool {
        let are_rows = self.row.is_some() && other.row.is_some();
        self.ts == other.ts && are_rows
            || self.ts >= other.ts && self.ts < other.end()
            || other.ts >= self.ts && other.ts < self.end()
    }
}

/// Where two spans overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    pub(crate) left: Option<usize>,
    pub(crate) right: Option<usize>,
}

/// One side.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) ts: Vec<i64>,
    /// Nothing where the table has none: all are 0.
    pub(crate) dur: Option<Vec<i64>>,
    /// Whether there are spans without rows in its gaps.
    pub(crate) has_gaps: bool,
}

impl Side {
    fn span(&self, row: usize) -> Span {
        let dur = self.dur.as_ref().map_or(Some(0), |dur| dur.get(row).copied());
        Span {
            ts: self.ts.get(row).copied().unwrap_or_default(),
            dur: dur.unwrap_or_default(),
            row: Some(row),
        }
    }

    /// The spans of these rows, and the gaps between, before and behind them.
    fn spans(&self, rows: Range<usize>) -> impl Iterator<Item = Span> + '_ {
        let mut from = 0;
        let mut rows = rows.peekable();
        let mut is_over = false;
        let mut next_row = None;
        std::iter::from_fn(move || {
            loop {
                if let Some(row) = next_row.take() {
                    let span: Span = self.span(row);
                    from = span.end();
                    return Some(span);
                }
                let to = match rows.next() {
                    Some(row) => {
                        next_row = Some(row);
                        self.span(row).ts
                    }
                    None if is_over => return None,
                    None => {
                        is_over = true;
                        i64::MAX
                    }
                };
                if self.has_gaps && from < to {
                    return Some(Span { ts: from, dur: to - from, row: None });
                }
            }
        })
    }
}

/// Gives `to` the overlaps of these rows of both sides, by time.
pub(crate) fn join(left: (&Side, Range<usize>), right: (&Side, Range<usize>), mut to: impl FnMut(Overlap)) {
    let mut lefts = left.0.spans(left.1);
    let mut rights = right.0.spans(right.1);
    let (mut one, mut other) = (lefts.next(), rights.next());
    while let (Some(a), Some(b)) = (one, other) {
        if a.overlaps(b) && (a.row.is_some() || b.row.is_some()) {
            let ts = a.ts.max(b.ts);
            let dur = a.raw_end().min(b.raw_end()) - ts;
            to(Overlap { ts, dur, left: a.row, right: b.row });
        }
        // That which ends first has no more overlaps; of two that end together the one that began first, as the other may be of no length.
        match (a.end(), a.ts) <= (b.end(), b.ts) {
            true => one = lefts.next(),
            false => other = rights.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(spans: &[(i64, i64)], has_gaps: bool) -> Side {
        Side {
            ts: spans.iter().map(|(ts, _)| *ts).collect(),
            dur: Some(spans.iter().map(|(_, dur)| *dur).collect()),
            has_gaps,
        }
    }

    fn joined(left: &Side, right: &Side) -> Vec<(i64, i64, Option<usize>, Option<usize>)> {
        let mut out = Vec::new();
        join((left, 0..left.ts.len()), (right, 0..right.ts.len()), |overlap| out.push(overlap));
        out.iter().map(|it| (it.ts, it.dur, it.left, it.right)).collect()
    }

    #[test]
    fn overlaps_are_cut_at_both_ends() {
        let (a, b) = (side(&[(0, 10), (10, 10), (30, 5)], false), side(&[(5, 10), (16, 30)], false));
        let both = |left, right| (Some(left), Some(right));
        let expected = [(5, 5, both(0, 0)), (10, 5, both(1, 0)), (16, 4, both(1, 1)), (30, 5, both(2, 1))];
        assert_eq!(joined(&a, &b), expected.map(|(ts, dur, (left, right))| (ts, dur, left, right)));
    }

    #[test]
    fn gaps_are_spans_without_rows() {
        let (a, b) = (side(&[(0, 10)], false), side(&[(4, 2)], true));
        assert_eq!(joined(&a, &b), [(0, 4, Some(0), None), (4, 2, Some(0), Some(0)), (6, 4, Some(0), None)]);
        assert_eq!(joined(&a, &side(&[], true)), [(0, 10, Some(0), None)]);
        assert!(joined(&a, &side(&[], false)).is_empty());
    }
}
