//! Which frames are left out, and which stacks count.

use std::collections::HashMap;

use arrow::array::{Array as _, RecordBatch, StringViewArray, UInt64Array};
use arrow::compute::take_record_batch;
use datafusion::common::{Result, exec_err};

use super::config::Config;
use crate::functions::text::texts;
use crate::operators::whole::{column, int_column};

/// The bit of a stack that is left out: no filter has it.
const HIDDEN: u64 = 1 << 63;

/// Frames, each behind its parent, and what is known of their stacks.
pub(crate) struct Paths {
    /// The parent of each.
    pub(crate) parents: Vec<Option<usize>>,
    /// Of each frame the nearest one, itself or above it, that is not left out.
    pub(crate) kept: Vec<Option<usize>>,
    /// Which filters match something in the stack.
    bits: Vec<u64>,
    /// All filters.
    wanted: u64,
    /// Frames that a graph is looked at from.
    pub(crate) is_match: Vec<bool>,
}

#[derive(Clone, Copy, Default)]
struct Matches {
    show: u64,
    hides_stack: bool,
    hides_frame: bool,
    is_match: bool,
}

impl Paths {
    pub(crate) fn read(batch: &RecordBatch, config: &Config, keys: &[usize]) -> Result<Self> {
        let parents = parents(batch)?;
        let names = std::iter::once("name").chain(config.groups.iter().map(String::as_str));
        let columns = names.map(|name| texts(column(batch, name)?)).collect::<Result<Vec<_>>>()?;
        let mut known: HashMap<usize, Matches> = HashMap::new();
        let mut paths = Self {
            kept: Vec::with_capacity(parents.len()),
            bits: Vec::with_capacity(parents.len()),
            wanted: (1 << config.show_stack.len()) - 1,
            is_match: Vec::with_capacity(parents.len()),
            parents: Vec::new(),
        };
        for (row, (parent, key)) in parents.iter().zip(keys).enumerate() {
            let matches = *known.entry(*key).or_insert_with(|| matches(config, &columns, row));
            let above = parent.and_then(|parent| Some((paths.kept.get(parent)?, paths.bits.get(parent)?)));
            let (kept, bits) = above.map_or((None, 0), |(kept, bits)| (*kept, *bits));
            paths.is_match.push(matches.is_match && !matches.hides_frame);
            match (matches.hides_frame, matches.hides_stack) {
                (true, _) => {
                    paths.kept.push(kept);
                    paths.bits.push(bits);
                }
                (false, hides) => {
                    paths.kept.push(Some(row));
                    paths.bits.push(if hides { HIDDEN } else { bits | matches.show });
                }
            }
        }
        paths.parents = parents;
        Ok(paths)
    }

    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The parent's nearest frame that is not left out.
    pub(crate) fn above(&self, row: usize) -> Option<usize> {
        self.kept_of(self.parents.get(row).copied().flatten()?)
    }

    pub(crate) fn kept_of(&self, row: usize) -> Option<usize> {
        self.kept.get(row).copied().flatten()
    }

    pub(crate) fn is_kept(&self, row: usize) -> bool {
        self.kept_of(row) == Some(row)
    }

    pub(crate) fn is_match(&self, row: usize) -> bool {
        self.is_match.get(row).copied().unwrap_or_default()
    }

    pub(crate) fn is_hidden(&self, row: usize) -> bool {
        self.bits.get(row).is_some_and(|bits| bits & HIDDEN != 0)
    }

    /// Whether what a frame has itself counts.
    pub(crate) fn counts(&self, row: usize) -> bool {
        self.kept_of(row).is_some() && self.bits.get(row) == Some(&self.wanted)
    }
}

fn matches(config: &Config, columns: &[StringViewArray], row: usize) -> Matches {
    let mut found = Matches::default();
    for text in columns.iter().filter(|column| !column.is_null(row)).map(|column| column.value(row)) {
        for (bit, filter) in config.show_stack.iter().enumerate() {
            found.show |= u64::from(filter.is_match(text)) << bit;
        }
        found.hides_stack |= config.hide_stack.iter().any(|filter| filter.is_match(text));
        found.hides_frame |= config.hide_frame.iter().any(|filter| filter.is_match(text));
        found.is_match |= config.view_pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
    }
    found
}

fn parents(batch: &RecordBatch) -> Result<Vec<Option<usize>>> {
    let (id, parent) = (int_column(batch, "id")?, int_column(batch, "parent_id")?);
    let mut rows = HashMap::with_capacity(id.len());
    for (row, id) in id.iter().enumerate() {
        let Some(id) = id else { return exec_err!("flamegraph: a frame has no id") };
        if rows.insert(id, row).is_some() {
            return exec_err!("flamegraph: duplicate id {id}");
        }
    }
    let row = |parent: Option<i64>| match parent.map(|parent| (parent, rows.get(&parent))) {
        Some((parent, None)) => exec_err!("flamegraph: there is no parent {parent}"),
        Some((_, Some(row))) => Ok(Some(*row)),
        None => Ok(None),
    };
    parent.iter().map(row).collect()
}

/// The rows with each behind its parent.
pub(crate) fn parents_first(batch: &RecordBatch) -> Result<RecordBatch> {
    let parents = parents(batch)?;
    if parents.iter().enumerate().all(|(row, parent)| parent.is_none_or(|parent| parent < row)) {
        return Ok(batch.clone());
    }
    let mut is_placed = vec![false; parents.len()];
    let mut order: Vec<usize> = Vec::with_capacity(parents.len());
    for row in 0..parents.len() {
        // It, and what above it has no place yet.
        let mut chain = Vec::new();
        let mut next = Some(row);
        while let Some(row) = next.filter(|row| is_placed.get(*row) == Some(&false)) {
            chain.push(row);
            if chain.len() > parents.len() {
                return exec_err!("flamegraph: frames are their own parents");
            }
            next = parents.get(row).copied().flatten();
        }
        for row in chain.into_iter().rev() {
            is_placed.iter_mut().skip(row).take(1).for_each(|it| *it = true);
            order.push(row);
        }
    }
    let order: UInt64Array = order.into_iter().map(|row| u64::try_from(row).ok()).collect();
    Ok(take_record_batch(batch, &order)?)
}
