//! What is kept: a range of time.

/// From a time, to before another, in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first moment in it.
    pub from: i64,
    /// The first moment after it.
    pub to: i64,
}

impl Range {
    /// All of a trace.
    pub const ALL: Self = Self { from: i64::MIN, to: i64::MAX };

    #[inline]
    pub(crate) fn has(self, ts: i64) -> bool {
        self.from <= ts && ts < self.to
    }
}

/// A moment as a user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds from the trace's first event.
    FromStart(i64),
    /// Nanoseconds of the trace's clock.
    Absolute(i64),
}

impl Moment {
    /// The time on the trace's clock.
    #[must_use]
    pub fn in_trace(self, start: i64) -> i64 {
        match self {
            Self::FromStart(ns) => start.saturating_add(ns),
            Self::Absolute(ns) => ns,
        }
    }
}
