//! What differs, and why.

use std::fmt;
use std::fs;

use crate::case::{folder, matches};

/// A key that has not the same value on both services.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) case: String,
    pub(crate) key: String,
    pub(crate) upstream: String,
    pub(crate) ours: String,
}

/// The rows of `differences.md`.
#[derive(Debug)]
pub(crate) struct Explanations(Vec<Explanation>);

#[derive(Debug)]
struct Explanation {
    /// Patterns of a [`Difference`]'s fields.
    case: String,
    key: String,
    upstream: String,
    ours: String,
    is_used: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "| `{}` | `{}` | `{}` | `{}` |", self.case, self.key, self.upstream, self.ours)
    }
}

impl Explanations {
    /// Rows of tables whose first cell is code; the fifth cell is the reason.
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string(folder().join("differences.md")).expect("differences.md");
        Self(text.lines().filter(|line| line.starts_with("| `")).map(Explanation::parse).collect())
    }

    /// Whether a row is about this.
    pub(crate) fn explain(&mut self, difference: &Difference) -> bool {
        let mut explained = false;
        for explanation in &mut self.0 {
            if explanation.is_about(difference) {
                explanation.is_used = true;
                explained = true;
            }
        }
        explained
    }

    /// Rows that were about nothing.
    pub(crate) fn unused(&self) -> impl Iterator<Item = String> {
        let unused = self.0.iter().filter(|explanation| !explanation.is_used);
        unused.map(|row| format!("| `{}` | `{}` | `{}` | `{}` |", row.case, row.key, row.upstream, row.ours))
    }
}

impl Explanation {
    fn parse(row: &str) -> Self {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [case, key, upstream, ours, reason] = cells[..] else { panic!("five cells are expected: {row}") };
        assert!(!reason.is_empty(), "a reason is expected: {row}");
        let [case, key, upstream, ours] =
            [case, key, upstream, ours].map(|cell| cell.trim_matches('`').to_owned());
        Self { case, key, upstream, ours, is_used: false }
    }

    fn is_about(&self, difference: &Difference) -> bool {
        let pairs = [
            (&self.case, &difference.case),
            (&self.key, &difference.key),
            (&self.upstream, &difference.upstream),
            (&self.ours, &difference.ours),
        ];
        pairs.into_iter().all(|(pattern, text)| matches(pattern, text))
    }
}

#[test]
fn rows_are_patterns() {
    let mut rows = Explanations(vec![Explanation::parse("| `a*` | `k` | `1` | `*` | because |")]);
    let mut difference = Difference {
        case: "ab".to_owned(),
        key: "k".to_owned(),
        upstream: "1".to_owned(),
        ours: "2".to_owned(),
    };
    assert_eq!(rows.unused().count(), 1);
    assert!(rows.explain(&difference));
    assert_eq!(rows.unused().count(), 0);
    difference.upstream.push('0');
    assert!(!rows.explain(&difference));
}
