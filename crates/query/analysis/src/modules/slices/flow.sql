include perfetto module graphs.search;

-- The slices that flows lead to from some: `root_node_id`, `node_id`, `parent_node_id`.
create perfetto macro _slice_following_flow(
    -- The slices to start from: `id`.
    source_table TableOrSubquery)
returns TableOrSubquery as (
    select * from graph_reachable_weight_bounded_dfs!(
        (select slice_out as source_node_id, slice_in as dest_node_id, 0 as edge_weight from flow),
        (select slice_out as root_node_id, 1 as root_target_weight from flow join (select id from $source_table) s
            on s.id = slice_out),
        1)
);
