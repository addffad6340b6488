-- The dominator tree of a graph: of each node that the root reaches the nearest one that all ways to it go through. Has `node_id` and
-- `dominator_node_id`.
create perfetto macro graph_dominator_tree(
    -- The edges: `source_node_id` and `dest_node_id`.
    graph_table TableOrSubquery,
    -- The node to start from.
    root_node_id Expr)
returns TableOrSubquery as (
    select * from __operator_graph_dominators(
        (select source_node_id, dest_node_id from $graph_table), (select $root_node_id as root))
);
