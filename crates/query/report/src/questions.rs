//! The queries, a file each in `questions/`, and their rows.
//!
//! Each can be run with `ferretto query -f`, behind `prepare.sql`, on whose tables they stand. The numbers of rows are bounded in them.

use ferretto_analysis::{Cell, Trace};

use crate::Error;

/// Makes what the others stand on. First of all.
pub(crate) const PREPARE: &str = include_str!("questions/prepare.sql");
pub(crate) const OVERVIEW: &str = include_str!("questions/overview.sql");
pub(crate) const MACHINE: &str = include_str!("questions/machine.sql");
pub(crate) const CPU_PROCESSES: &str = include_str!("questions/cpu_processes.sql");
pub(crate) const CPU_COURSE: &str = include_str!("questions/cpu_course.sql");
pub(crate) const CPU_THREADS: &str = include_str!("questions/cpu_threads.sql");
pub(crate) const LATENCY: &str = include_str!("questions/latency.sql");
pub(crate) const LATENCY_BINS: &str = include_str!("questions/latency_bins.sql");
pub(crate) const LATENCY_WORST: &str = include_str!("questions/latency_worst.sql");
pub(crate) const BLOCKED: &str = include_str!("questions/blocked.sql");
pub(crate) const WAKERS: &str = include_str!("questions/wakers.sql");
pub(crate) const SLICES: &str = include_str!("questions/slices.sql");
pub(crate) const LONGEST_SLICES: &str = include_str!("questions/longest_slices.sql");
pub(crate) const COUNTERS: &str = include_str!("questions/counters.sql");
/// With the tracks that are asked for in the place of `TRACKS`.
pub(crate) const COUNTER_COURSE: &str = include_str!("questions/counter_course.sql");
pub(crate) const LOSSES: &str = include_str!("questions/losses.sql");

/// What `make` makes of the rows of a query.
pub(crate) fn ask<T>(
    trace: &Trace,
    question: &str,
    mut make: impl FnMut(&mut Row<'_>) -> T,
) -> Result<Vec<T>, Error> {
    let mut answers = Vec::new();
    for batch in trace.query(question)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| Cell::of(column, row)).collect();
            answers.push(make(&mut Row { cells, next: 0 }));
        }
    }
    Ok(answers)
}

/// A row, whose cells are taken one behind the other.
pub(crate) struct Row<'a> {
    cells: Vec<Cell<'a>>,
    next: usize,
}

impl Row<'_> {
    fn cell(&mut self) -> Cell<'_> {
        let cell = self.cells.get(self.next).copied().unwrap_or(Cell::Null);
        self.next += 1;
        cell
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        match self.cell() {
            Cell::Text(text) => Some(crate::names::printable(text)),
            _ => None,
        }
    }

    /// Whether a text has these words in it.
    pub(crate) fn has_words(&mut self, words: &str) -> bool {
        matches!(self.cell(), Cell::Text(text) if text.contains(words))
    }

    /// A text that there always is.
    pub(crate) fn name(&mut self) -> String {
        self.text().unwrap_or_default()
    }

    pub(crate) fn int(&mut self) -> Option<i64> {
        match self.cell() {
            Cell::Int(value) => Some(value),
            Cell::Real(value) => Some(value as i64),
            _ => None,
        }
    }

    /// A whole number, 0 if there is none: of sums of nothing.
    pub(crate) fn sum(&mut self) -> i64 {
        self.int().unwrap_or(0)
    }

    pub(crate) fn real(&mut self) -> Option<f64> {
        match self.cell() {
            Cell::Int(value) => Some(value as f64),
            Cell::Real(value) => Some(value),
            _ => None,
        }
    }
}
