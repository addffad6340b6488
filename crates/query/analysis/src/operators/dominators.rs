//! Dominators in a graph: `graph_dominator_tree!`.
//!
//! A node dominates another if all ways from the root to that one go through it. The immediate dominator of each is found by going through the
//! nodes in reverse postorder until nothing changes (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm).

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::graph::Graph;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, input, int_column, int_field};

/// The operator: of edges (`source_node_id`, `dest_node_id`) and a table with the one `root`, of each node that it reaches the nearest one that
/// dominates it: `node_id`, `dominator_node_id`.
#[derive(Debug)]
pub(crate) struct Dominators;

impl Operator for Dominators {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["node_id", "dominator_node_id"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let mut graph = Graph::read(input(inputs, 0)?, None, held)?;
        let root = int_column(input(inputs, 1)?, "root")?.iter().next().flatten();
        let root = root.filter(|_| graph.len() > 0).map(|root| graph.add(root));
        let mut found: Vec<(i64, Option<i64>)> = match root {
            None => Vec::new(),
            Some(root) => {
                let of = |(node, dominator): (usize, usize)| {
                    Some((graph.id(node)?, graph.id(dominator).filter(|_| node != root)))
                };
                dominators(&graph, root).into_iter().filter_map(of).collect()
            }
        };
        found.sort_unstable();
        Ok(vec![
            boxed(found.iter().map(|(node, _)| Some(*node)).collect::<Int64Array>()),
            boxed(found.iter().map(|(_, dominator)| *dominator).collect::<Int64Array>()),
        ])
    }
}

/// Of each node that is reached its nearest dominator; the root's is itself.
fn dominators(graph: &Graph, root: usize) -> Vec<(usize, usize)> {
    let order = reverse_postorder(graph, root);
    // From here on nodes are their places in that order: 0 is the root, and dominators have smaller ones.
    let mut place = vec![usize::MAX; graph.len()];
    for (at, node) in order.iter().enumerate() {
        place.iter_mut().skip(*node).take(1).for_each(|it| *it = at);
    }
    let place = |node: usize| place.get(node).copied().unwrap_or(usize::MAX);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
    for (at, node) in order.iter().enumerate() {
        for (dest, _) in graph.edges(*node) {
            before.iter_mut().skip(place(*dest)).take(1).for_each(|it| it.push(at));
        }
    }
    let mut nearest: Vec<Option<usize>> = vec![None; order.len()];
    nearest.iter_mut().take(1).for_each(|it| *it = Some(0));
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for (at, before) in before.iter().enumerate().skip(1) {
            let known = before.iter().copied().filter(|it| nearest.get(*it).copied().flatten().is_some());
            let found = known.reduce(|one, other| common(&nearest, one, other));
            if let Some(place) = nearest.get_mut(at)
                && *place != found
            {
                *place = found;
                is_changed = true;
            }
        }
    }
    let node = |at: usize| order.get(at).copied();
    let pairs = nearest.iter().enumerate().filter_map(|(at, of)| Some((node(at)?, node((*of)?)?)));
    pairs.collect()
}

/// The nearest node that dominates both.
fn common(nearest: &[Option<usize>], mut one: usize, mut other: usize) -> usize {
    let up = |at: usize| nearest.get(at).copied().flatten().unwrap_or_default();
    while one != other {
        match one > other {
            true => one = up(one),
            false => other = up(other),
        }
    }
    one
}

/// Nodes that are reached, each before those that are reached through it alone.
fn reverse_postorder(graph: &Graph, root: usize) -> Vec<usize> {
    let mut seen = vec![false; graph.len()];
    let mut order = Vec::new();
    // Nodes, and how many of their edges were gone along.
    let mut open = vec![(root, 0)];
    seen.iter_mut().skip(root).take(1).for_each(|it| *it = true);
    while let Some((node, edge)) = open.last_mut() {
        match graph.edges(*node).get(*edge) {
            Some((dest, _)) => {
                *edge += 1;
                if let Some(seen) = seen.get_mut(*dest).filter(|seen| !**seen) {
                    *seen = true;
                    open.push((*dest, 0));
                }
            }
            None => {
                order.push(*node);
                open.pop();
            }
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    #[test]
    fn all_ways_go_through_a_dominator() {
        let graph = [[0, 1], [0, 2], [1, 3], [2, 3], [3, 4], [4, 1], [9, 4], [3, 3]];
        let list: Vec<&[i64]> = graph.iter().map(|edge| edge.as_slice()).collect();
        let edges = table(&["source_node_id", "dest_node_id"], &list);
        let found = rows(&Dominators, &[edges, table(&["root"], &[&[0]])]);
        let expected =
            [[Some(0), None], [Some(1), Some(0)], [Some(2), Some(0)], [Some(3), Some(0)], [Some(4), Some(3)]];
        assert_eq!(found, expected);
    }
}
