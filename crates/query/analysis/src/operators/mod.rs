//! Operators that SQL has no words for, on whole tables: spans of time, graphs and trees.
//!
//! `SPAN_JOIN` is a virtual table's module. The others are [`whole`]: called like table functions whose arguments are queries, by the macros of
//! the standard library.

pub(crate) mod counters;
pub(crate) mod dominators;
pub(crate) mod fill_gaps;
pub(crate) mod flatten;
pub(crate) mod graph;
pub(crate) mod intersect;
pub(crate) mod keys;
pub(crate) mod merge;
pub(crate) mod pairs;
pub(crate) mod search;
pub(crate) mod self_intersect;
pub(crate) mod slices;
pub(crate) mod span_join;
mod spans;
pub(crate) mod trees;
pub(crate) mod whole;

use std::sync::Arc;

use crate::operators::whole::Operator;

/// What the names of operators begin with.
pub(crate) const PREFIX: &str = "__operator_";

/// The operator of this name, with the texts that it is called with.
pub(crate) fn find(name: &str, texts: &[String]) -> Option<Arc<dyn Operator>> {
    let text = |at: usize| texts.get(at).map(String::as_str).unwrap_or_default();
    Some(match name.strip_prefix(PREFIX)? {
        "interval_intersect" => Arc::new(intersect::Intersect::by(text(0))),
        "interval_self_intersect" => Arc::new(self_intersect::SelfIntersect),
        "interval_create" => Arc::new(pairs::Pairs),
        "interval_count" => Arc::new(merge::Count),
        "interval_merge" => Arc::new(merge::Merge),
        "interval_flatten" => Arc::new(flatten::Flatten),
        "interval_fill_gaps" => Arc::new(fill_gaps::FillGaps::by(text(0))),
        "counter_intervals" => Arc::new(counters::Intervals),
        "graph_dfs" => Arc::new(search::Search::DepthFirst),
        "graph_bfs" => Arc::new(search::Search::BreadthFirst),
        "graph_weight_bounded_dfs" => Arc::new(search::WeightBounded),
        "graph_dominators" => Arc::new(dominators::Dominators),
        "tree_partition" => Arc::new(trees::Partition),
        "tree_table" => Arc::new(trees::Table::with(text(0))),
        "slice_ancestors" => Arc::new(slices::Ancestors),
        _ => return None,
    })
}
