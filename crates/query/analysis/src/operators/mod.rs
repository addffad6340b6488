//! Operators that SQL has no words for, on whole tables: spans of time, graphs and trees, flame graphs.
//!
//! `SPAN_JOIN` and `__intrinsic_flamegraph` are modules of virtual tables. The others are called like table functions whose arguments are queries,
//! by the macros of the standard library. What runs all of them is [`whole`].

pub(crate) mod counters;
pub(crate) mod dominators;
pub(crate) mod fill_gaps;
pub(crate) mod flamegraph;
pub(crate) mod flatten;
pub(crate) mod graph;
pub(crate) mod intersect;
pub(crate) mod keys;
pub(crate) mod merge;
pub(crate) mod pairs;
pub(crate) mod search;
pub(crate) mod self_intersect;
pub(crate) mod slice_layout;
pub(crate) mod slices;
pub(crate) mod span_join;
mod spans;
pub(crate) mod trees;
pub(crate) mod whole;

use std::sync::Arc;

use datafusion::common::Result;

use crate::operators::whole::Operator;

/// What the names of operators begin with.
pub(crate) const PREFIX: &str = "__operator_";

/// What the operator is called that a flame graph is.
pub(crate) const FLAMEGRAPH: &str = "__operator_flamegraph";

/// The operator of this name, with the texts that it is called with.
///
/// # Errors
///
/// If the texts say nothing that it can do.
pub(crate) fn find(name: &str, texts: &[String]) -> Result<Option<Arc<dyn Operator>>> {
    if name == FLAMEGRAPH {
        return Ok(Some(Arc::new(flamegraph::Flamegraph::new(texts)?)));
    }
    let text = |at: usize| texts.get(at).map(String::as_str).unwrap_or_default();
    let Some(name) = name.strip_prefix(PREFIX) else { return Ok(None) };
    Ok(Some(match name {
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
        "slice_layout" => Arc::new(slice_layout::SliceLayout),
        "slice_ancestors" => Arc::new(slices::Ancestors),
        _ => return Ok(None),
    }))
}
