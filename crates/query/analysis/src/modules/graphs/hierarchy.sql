include perfetto module graphs.search;

-- The nodes of a tree that lie above some, and these: `id`.
create perfetto macro _tree_reachable_ancestors_or_self(
    -- The tree: `id`, `parent_id`.
    tree TableOrSubquery,
    -- The nodes to start from: `id`.
    start_nodes TableOrSubquery)
returns TableOrSubquery as (
    select node_id as id
    from graph_reachable_dfs!(
        (select id as source_node_id, parent_id as dest_node_id from $tree), (select id as node_id from $start_nodes))
);
