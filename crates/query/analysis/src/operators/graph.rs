//! A graph out of a table of edges, its nodes numbered as they come.

use std::collections::HashMap;

use arrow::array::{Array as _, RecordBatch};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::whole::int_column;

/// What an edge takes of memory here, about: numbers of nodes, and its place.
const EDGE_BYTES: usize = 96;

/// Nodes by number, and where edges go.
#[derive(Default)]
pub(crate) struct Graph {
    /// What the table calls each node.
    pub(crate) ids: Vec<i64>,
    numbers: HashMap<i64, usize>,
    /// Of each node the nodes that edges go to, in the order of the table, and weights.
    edges: Vec<Vec<(usize, i64)>>,
}

impl Graph {
    /// Of `source_node_id` and `dest_node_id`; edges from or to NULL are none. `weight` names a column of integers.
    pub(crate) fn read(batch: &RecordBatch, weight: Option<&str>, held: &Held) -> Result<Self> {
        held.try_grow(batch.num_rows() * EDGE_BYTES)?;
        let (from, to) = (int_column(batch, "source_node_id")?, int_column(batch, "dest_node_id")?);
        let weight = weight.map(|name| int_column(batch, name)).transpose()?;
        let mut graph = Self::default();
        for row in (0..batch.num_rows()).filter(|row| !from.is_null(*row)) {
            let source = graph.add(from.value(row));
            if to.is_null(row) {
                continue;
            }
            let dest = graph.add(to.value(row));
            let weight = weight.as_ref().map_or(0, |weight| weight.value(row));
            graph.edges.iter_mut().skip(source).take(1).for_each(|edges| edges.push((dest, weight)));
        }
        Ok(graph)
    }

    /// The number of a node, which there is from now on.
    pub(crate) fn add(&mut self, id: i64) -> usize {
        *self.numbers.entry(id).or_insert_with(|| {
            self.ids.push(id);
            self.edges.push(Vec::new());
            self.ids.len() - 1
        })
    }

    /// The number of a node, if there is one of this name.
    pub(crate) fn find(&self, id: i64) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// What a node is called.
    pub(crate) fn id(&self, node: usize) -> Option<i64> {
        self.ids.get(node).copied()
    }

    /// Where edges of a node go, with their weights.
    pub(crate) fn edges(&self, node: usize) -> &[(usize, i64)] {
        self.edges.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Goes from a node to all that it reaches, depth first, those that were seen before left out. Each is given with the one that it is first
    /// reached from, and the weight of the edge; what it says whether to go on.
    pub(crate) fn walk(
        &self,
        from: usize,
        seen: &mut [bool],
        mut visit: impl FnMut(usize, Option<usize>, i64) -> bool,
    ) {
        let mut todo = vec![(from, None, 0)];
        while let Some((node, parent, weight)) = todo.pop() {
            let Some(seen) = seen.get_mut(node).filter(|seen| !**seen) else { continue };
            *seen = true;
            if !visit(node, parent, weight) {
                return;
            }
            // The first edge is gone along first.
            todo.extend(self.edges(node).iter().rev().map(|(dest, weight)| (*dest, Some(node), *weight)));
        }
    }
}
