//! What is reached in a graph: `graph_reachable_dfs!`, `graph_reachable_bfs!`, `graph_reachable_weight_bounded_dfs!`.

use std::collections::VecDeque;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::graph::Graph;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, input, int_column, int_field};

/// Rows by which memory is asked for.
const STEP: usize = 1 << 16;

/// The operator: of edges (`source_node_id`, `dest_node_id`) and of nodes to start from (`node_id`), which need no edges, what is reached:
/// `node_id`, and the `parent_node_id` that it is reached from first.
#[derive(Debug)]
pub(crate) enum Search {
    DepthFirst,
    BreadthFirst,
}

impl Operator for Search {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["node_id", "parent_node_id"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let mut graph = Graph::read(input(inputs, 0)?, None, held)?;
        let starts = int_column(input(inputs, 1)?, "node_id")?;
        let starts: Vec<usize> = starts.iter().flatten().map(|id| graph.add(id)).collect();
        let found = match self {
            Self::DepthFirst => depth_first(&graph, starts),
            Self::BreadthFirst => breadth_first(&graph, starts),
        };
        let ids = |of: fn(&(usize, Option<usize>)) -> Option<usize>| {
            boxed(found.iter().map(|it| of(it).and_then(|node| graph.id(node))).collect::<Int64Array>())
        };
        Ok(vec![ids(|it| Some(it.0)), ids(|it| it.1)])
    }
}

/// Nodes and the ones that they were reached from.
fn depth_first(graph: &Graph, starts: Vec<usize>) -> Vec<(usize, Option<usize>)> {
    let (mut seen, mut found) = (vec![false; graph.len()], Vec::new());
    for start in starts {
        graph.walk(start, &mut seen, |node, parent, _| {
            found.push((node, parent));
            true
        });
    }
    found
}

fn breadth_first(graph: &Graph, starts: Vec<usize>) -> Vec<(usize, Option<usize>)> {
    let (mut seen, mut found) = (vec![false; graph.len()], Vec::new());
    let mut todo: VecDeque<_> = starts.into_iter().map(|start| (start, None)).collect();
    while let Some((node, parent)) = todo.pop_front() {
        let Some(seen) = seen.get_mut(node).filter(|seen| !**seen) else { continue };
        *seen = true;
        found.push((node, parent));
        todo.extend(graph.edges(node).iter().map(|(dest, _)| (*dest, Some(node))));
    }
    found
}

/// The operator with a bound: edges have an `edge_weight`; of each `root_node_id` it goes depth first until the weights of all edges that it went
/// along are more than its `root_target_weight`. A third table's `is_floor` says whether the node with which they became more is one of the
/// rows.
#[derive(Debug)]
pub(crate) struct WeightBounded;

impl Operator for WeightBounded {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["root_node_id", "node_id", "parent_node_id"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let mut graph = Graph::read(input(inputs, 0)?, Some("edge_weight"), held)?;
        let roots = input(inputs, 1)?;
        let (root, bound) = (int_column(roots, "root_node_id")?, int_column(roots, "root_target_weight")?);
        let is_floor = int_column(input(inputs, 2)?, "is_floor")?;
        let is_floor = is_floor.iter().next().flatten().unwrap_or_default() != 0;
        let starts: Vec<_> = root.iter().map(|id| id.map(|id| graph.add(id))).collect();
        let mut rows: [Vec<Option<i64>>; 3] = Default::default();
        let mut seen = vec![false; graph.len()];
        let mut reached = Vec::new();
        let mut counted = 0;
        for (start, bound) in starts.iter().zip(&bound) {
            let (Some(start), Some(bound)) = (start, bound) else { continue };
            let mut sum = 0i64;
            graph.walk(*start, &mut seen, |node, parent, weight| {
                reached.push((node, parent));
                sum = sum.saturating_add(weight);
                sum <= bound
            });
            // Those that were seen are to be seen again, by other roots.
            reached
                .iter()
                .for_each(|(node, _)| seen.iter_mut().skip(*node).take(1).for_each(|it| *it = false));
            if sum > bound && !is_floor {
                reached.pop();
            }
            for (node, parent) in reached.drain(..) {
                let row = [graph.id(*start), graph.id(node), parent.and_then(|parent| graph.id(parent))];
                rows.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
            let len = rows.first().map_or(0, Vec::len);
            while counted + STEP <= len {
                counted += STEP;
                held.try_grow(STEP * 2 * size_of::<[Option<i64>; 3]>())?;
            }
        }
        Ok(rows.into_iter().map(|column| boxed(Int64Array::from(column))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    fn edges(list: &[&[i64]]) -> RecordBatch {
        table(&["source_node_id", "dest_node_id"], list)
    }

    #[test]
    fn what_is_reached_comes_in_the_order_of_the_search() {
        let graph = edges(&[&[1, 2], &[1, 3], &[2, 4], &[4, 3], &[3, 5], &[9, 1]]);
        let start = table(&["node_id"], &[&[1], &[7]]);
        let found = |search: Search| -> Vec<[Option<i64>; 2]> {
            rows(&search, &[graph.clone(), start.clone()]).into_iter().map(|row| [row[0], row[1]]).collect()
        };
        let some = |node, parent| [Some(node), Some(parent)];
        let none = |node| [Some(node), None];
        assert_eq!(
            found(Search::DepthFirst),
            [none(1), some(2, 1), some(4, 2), some(3, 4), some(5, 3), none(7)]
        );
        assert_eq!(
            found(Search::BreadthFirst),
            [none(1), none(7), some(2, 1), some(3, 1), some(4, 2), some(5, 3)]
        );
    }
}
