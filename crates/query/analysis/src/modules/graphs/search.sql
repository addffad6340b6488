-- What is reached in a graph, depth first: `node_id`, and `parent_node_id`, from which it was reached first.
create perfetto macro graph_reachable_dfs(
    -- The edges: `source_node_id` and `dest_node_id`.
    graph_table TableOrSubquery,
    -- The nodes to start from: `node_id`.
    start_nodes TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_graph_dfs(
        (select source_node_id, dest_node_id from $graph_table), (select node_id from $start_nodes))
);

-- What is reached in a graph, breadth first: `node_id`, and `parent_node_id`, from which it was reached first.
create perfetto macro graph_reachable_bfs(
    -- The edges: `source_node_id` and `dest_node_id`.
    graph_table TableOrSubquery,
    -- The nodes to start from: `node_id`.
    start_nodes TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_graph_bfs(
        (select source_node_id, dest_node_id from $graph_table), (select node_id from $start_nodes))
);

-- Of each node the next one below the same parent: `node_id` and `next_node_id`.
create perfetto macro graph_next_sibling(
    -- The nodes: `node_id`, `node_parent_id`, and `sort_key`, which orders those of a parent.
    graph_table TableOrSubquery)
returns TableOrSubquery as (
    select node_id, lead(node_id) over (partition by node_parent_id order by sort_key) as next_node_id
    from $graph_table
);

-- What is reached from each of some nodes, depth first, until the weights of the edges that were gone along are more than a bound. Has
-- `root_node_id`, `node_id` and `parent_node_id`.
create perfetto macro graph_reachable_weight_bounded_dfs(
    -- The edges: `source_node_id`, `dest_node_id`, `edge_weight`.
    graph_table TableOrSubquery,
    -- The nodes to start from, and their bounds: `root_node_id`, `root_target_weight`.
    root_table TableOrSubquery,
    -- Whether the node with which the bound is passed is reached, too.
    is_target_weight_floor Expr)
returns TableOrSubquery as (
    select * from __operator_graph_weight_bounded_dfs(
        (select source_node_id, dest_node_id, edge_weight from $graph_table),
        (select root_node_id, root_target_weight from $root_table),
        (select cast($is_target_weight_floor as int) as is_floor))
);
