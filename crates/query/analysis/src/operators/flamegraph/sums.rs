//! Values of nodes: their own, and with all below them.

use arrow::array::{Array as _, ArrayRef, Float64Array, Int64Array};
use datafusion::common::{DataFusionError, Result, exec_err};

use super::config::{Config, View};
use super::halves::{Halves, Tree};
use super::paths::Paths;
use crate::functions::text::{ints, reals};
use crate::operators::keys::boxed;

/// A column of values.
pub(crate) enum Values {
    Ints(Vec<Option<i64>>),
    Reals(Vec<Option<f64>>),
}

/// What can be added.
pub(crate) trait Number: Copy + Default + PartialOrd {
    fn plus(self, other: Self) -> Option<Self>;
    fn width(self) -> f64;
}

impl Number for i64 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
    fn width(self) -> f64 {
        self.max(0) as f64
    }
}

impl Number for f64 {
    fn plus(self, other: Self) -> Option<Self> {
        Some(self + other)
    }
    fn width(self) -> f64 {
        self.max(0.0)
    }
}

/// Sums of each node.
pub(crate) enum Sums {
    Ints { own: Vec<i64>, all: Vec<i64> },
    Reals { own: Vec<f64>, all: Vec<f64> },
}

impl Values {
    pub(crate) fn read(array: &ArrayRef) -> Result<Self> {
        let values = match array.data_type() {
            it if it.is_floating() => Self::Reals(reals(array)?.iter().collect()),
            _ => Self::Ints(ints(array)?.iter().collect()),
        };
        let is_negative = match &values {
            Self::Ints(values) => values.iter().flatten().any(|value| *value < 0),
            Self::Reals(values) => values.iter().flatten().any(|value| *value < 0.0),
        };
        if is_negative {
            return exec_err!("flamegraph: value columns must be non-negative");
        }
        Ok(values)
    }

    /// Whether a frame has a value that is not zero.
    pub(crate) fn has_some(&self, row: usize) -> bool {
        match self {
            Self::Ints(values) => values.get(row).copied().flatten().is_some_and(|value| value != 0),
            Self::Reals(values) => values.get(row).copied().flatten().is_some_and(|value| value != 0.0),
        }
    }

    pub(crate) fn sums(&self, config: &Config, paths: &Paths, halves: &Halves) -> Result<Sums> {
        Ok(match self {
            Self::Ints(values) => {
                let (own, all) = sums(values, config, paths, halves)?;
                Sums::Ints { own, all }
            }
            Self::Reals(values) => {
                let (own, all) = sums(values, config, paths, halves)?;
                Sums::Reals { own, all }
            }
        })
    }
}

fn overflow() -> DataFusionError {
    DataFusionError::Execution("flamegraph: integer value overflow".to_owned())
}

fn add<N: Number>(to: &mut [N], at: usize, value: N) -> Result<()> {
    if let Some(place) = to.get_mut(at) {
        *place = place.plus(value).ok_or_else(overflow)?;
    }
    Ok(())
}

fn sums<N: Number>(
    values: &[Option<N>],
    config: &Config,
    paths: &Paths,
    halves: &Halves,
) -> Result<(Vec<N>, Vec<N>)> {
    let (mut own, mut all) = down(values, paths, halves)?;
    let (own_up, all_up) = up(values, config, paths, halves)?;
    own.extend(own_up);
    all.extend(all_up);
    Ok((own, all))
}

fn down<N: Number>(values: &[Option<N>], paths: &Paths, halves: &Halves) -> Result<(Vec<N>, Vec<N>)> {
    let mut own = vec![N::default(); halves.down.parents.len()];
    for (row, (value, node)) in values.iter().zip(&halves.node).enumerate() {
        if let (Some(value), Some(node)) = (value, node)
            && paths.counts(row)
        {
            add(&mut own, *node, *value)?;
        }
    }
    let all = summed(&halves.down, own.clone())?;
    Ok((own, all))
}

fn up<N: Number>(
    values: &[Option<N>],
    config: &Config,
    paths: &Paths,
    halves: &Halves,
) -> Result<(Vec<N>, Vec<N>)> {
    let nodes = halves.up.parents.len();
    let (mut own, mut last) = (vec![N::default(); nodes], vec![N::default(); nodes]);
    if nodes == 0 {
        return Ok((own, last));
    }
    let is_pivot = config.view == View::Pivot;
    // What each frame has that was not left out, those below it that were included.
    let mut weights = vec![N::default(); paths.len()];
    for (row, value) in values.iter().enumerate().filter(|(row, _)| paths.counts(*row)) {
        let is_in = !is_pivot || halves.node.get(row).copied().flatten().is_some();
        if let (Some(value), Some(kept), true) = (value, paths.kept_of(row), is_in) {
            add(&mut weights, kept, *value)?;
        }
    }
    if is_pivot {
        // With all below each, up to where a graph begins.
        for row in (0..paths.len()).rev().filter(|row| paths.is_kept(*row)) {
            let node = halves.node.get(row).copied().flatten();
            let is_below = node.is_some_and(|node| halves.parent(node).is_some());
            if let (true, Some(above), Some(weight)) = (is_below, paths.above(row), weights.get(row).copied())
            {
                add(&mut weights, above, weight)?;
            }
        }
    }
    for (row, way) in &halves.ways {
        let weight = weights.get(*row).copied().unwrap_or_default();
        add(&mut own, way.first, weight)?;
        add(&mut last, way.last, weight)?;
    }
    let all = summed(&halves.up, last)?;
    Ok((own, all))
}

/// Each with all below it: nodes have larger numbers than those above them.
fn summed<N: Number>(tree: &Tree, mut all: Vec<N>) -> Result<Vec<N>> {
    for (node, parent) in tree.parents.iter().enumerate().rev() {
        if let (Some(parent), Some(value)) = (parent, all.get(node).copied()) {
            add(&mut all, *parent, value)?;
        }
    }
    Ok(all)
}

impl Sums {
    pub(crate) fn own_array(&self) -> ArrayRef {
        match self {
            Self::Ints { own, .. } => boxed(Int64Array::from(own.clone())),
            Self::Reals { own, .. } => boxed(Float64Array::from(own.clone())),
        }
    }

    pub(crate) fn all_array(&self) -> ArrayRef {
        match self {
            Self::Ints { all, .. } => boxed(Int64Array::from(all.clone())),
            Self::Reals { all, .. } => boxed(Float64Array::from(all.clone())),
        }
    }

    pub(crate) fn width(&self, node: usize) -> f64 {
        match self {
            Self::Ints { all, .. } => all.get(node).copied().unwrap_or_default().width(),
            Self::Reals { all, .. } => all.get(node).copied().unwrap_or_default().width(),
        }
    }

    pub(crate) fn is_zero(&self, node: usize) -> bool {
        match self {
            Self::Ints { all, .. } => all.get(node).is_none_or(|value| *value == 0),
            Self::Reals { all, .. } => all.get(node).is_none_or(|value| *value == 0.0),
        }
    }

    /// Numbers of the type that the values have.
    pub(crate) fn as_own_type(&self, values: impl Iterator<Item = f64>) -> ArrayRef {
        match self {
            Self::Ints { .. } => boxed(values.map(|value| Some(value as i64)).collect::<Int64Array>()),
            Self::Reals { .. } => boxed(values.map(Some).collect::<Float64Array>()),
        }
    }
}
