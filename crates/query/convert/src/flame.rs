//! Flame graphs without their picture: each stack a bar on that of who called it, as wide as what it has cost.
//!
//! Memory and time are those of the stacks; bars narrower than 1/12,000 of the whole are left out, and with them what is above them.

use ferretto_trace_tables::Tables;

use crate::Error;
use crate::stacks::{Of, Stacks};

/// Of a width of 1: a tenth of a pixel of a picture that is 1,200 wide.
const NARROWEST: f64 = 0.1 / 1200.0;

/// A flame graph.
#[derive(Clone, Debug)]
pub struct FlameGraph {
    /// What its stacks are made from, which says what values count.
    pub of: Of,
    /// The sum of all.
    pub total: i64,
    /// The deepest level that a bar is on.
    pub depth: usize,
    /// Each comes after the one that it stands on.
    pub bars: Vec<Bar>,
}

/// A stack.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its innermost frame.
    pub name: String,
    /// The bar that it stands on.
    pub below: Option<usize>,
    /// How many bars are below it.
    pub depth: usize,
    /// Where it begins; the whole is 1 wide.
    pub x: f64,
    /// How wide it is.
    pub width: f64,
    /// What it has cost with all that stands on it.
    pub value: i64,
    /// What it has cost alone.
    pub own: i64,
}

impl FlameGraph {
    /// Of stacks of this kind, or of the first that the trace has: samples, memory, a profile, slices.
    ///
    /// # Errors
    ///
    /// [`Error::Nothing`] if it has none.
    pub fn of(tables: &Tables, of: Option<Of>) -> Result<Self, Error> {
        Ok(Self::new(&Stacks::new(tables, of)?))
    }

    pub(crate) fn new(stacks: &Stacks) -> Self {
        let values = with_callees(stacks);
        let value_of = |node: usize| values.get(node).copied().unwrap_or(0).max(0);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); stacks.nodes.len()];
        let mut roots = Vec::new();
        for (index, node) in stacks.nodes.iter().enumerate() {
            match node.parent.and_then(|parent| children.get_mut(parent)) {
                Some(siblings) => siblings.push(index),
                None => roots.push(index),
            }
        }
        let name =
            |node: usize| stacks.nodes.get(node).and_then(|node| Some(&stacks.places.get(node.place)?.name));
        let total: i64 = roots.iter().map(|root| value_of(*root)).sum();
        let mut graph = Self { of: stacks.of, total, depth: 0, bars: Vec::new() };
        // Siblings to be placed, with what they stand on, their level, and where it begins.
        let mut waiting: Vec<(Vec<usize>, Option<usize>, usize, f64)> = vec![(roots, None, 0, 0.0)];
        while let Some((mut siblings, below, depth, mut x)) = waiting.pop() {
            siblings.sort_by_key(|node| name(*node));
            for node in siblings {
                let value = value_of(node);
                let width = value as f64 / total.max(1) as f64;
                if width >= NARROWEST {
                    let own = stacks.nodes.get(node).map_or(0, |node| node.value.max(0));
                    let bar = Bar {
                        name: name(node).cloned().unwrap_or_default(),
                        below,
                        depth,
                        x,
                        width,
                        value,
                        own,
                    };
                    let above = children.get_mut(node).map(std::mem::take).unwrap_or_default();
                    waiting.push((above, Some(graph.bars.len()), depth + 1, x));
                    graph.bars.push(bar);
                    graph.depth = graph.depth.max(depth);
                }
                x += width;
            }
        }
        graph
    }

    /// The names of a bar and of those that it stands on, the outermost first.
    #[must_use]
    pub fn path(&self, bar: usize) -> Vec<&str> {
        let mut path = Vec::new();
        let mut at = self.bars.get(bar);
        while let Some(bar) = at {
            path.push(bar.name.as_str());
            at = bar.below.and_then(|below| self.bars.get(below));
        }
        path.reverse();
        path
    }
}

/// Each comes after its parent, so one way back is enough.
fn with_callees(stacks: &Stacks) -> Vec<i64> {
    let mut values: Vec<i64> = stacks.nodes.iter().map(|node| node.value.max(0)).collect();
    for (index, node) in stacks.nodes.iter().enumerate().rev() {
        let value = values.get(index).copied().unwrap_or(0);
        if let Some(above) = node.parent.and_then(|parent| values.get_mut(parent)) {
            *above = above.saturating_add(value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::small;

    #[test]
    fn bars_stand_on_who_called_them() {
        let graph = FlameGraph::of(&small(), None).unwrap();
        let inner = graph.bars.iter().position(|bar| bar.name == "inner").unwrap();
        assert_eq!(graph.path(inner), ["app", "main", "outer", "inner"]);
        let outer = graph.bars.iter().find(|bar| bar.name == "outer").unwrap();
        assert_eq!((graph.total, outer.value, outer.own), (5_500, 5_000, 3_000));
    }
}
