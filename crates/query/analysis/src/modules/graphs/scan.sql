-- Goes along the edges of a graph from rows of nodes, and makes rows of rows by a query at each step. Has `id` and the columns of the scan.
create perfetto macro _graph_scan(
    -- The edges: `source_node_id` and `dest_node_id`.
    graph_table TableOrSubquery,
    -- The rows to start from: `id` and the columns.
    init_table TableOrSubquery,
    -- The columns, a list.
    scan_columns ColumnNameList,
    -- The query of a step, which reads `$table`.
    step_query TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_graph_scan(
        'plain', __intrinsic_stringify_ignore_table!($step_query), __intrinsic_stringify!($scan_columns),
        (select source_node_id, dest_node_id from $graph_table), (select * from $init_table))
);

-- The same, waiting at each node for all rows that come to it: its query makes one of them.
create perfetto macro _graph_aggregating_scan(
    -- The edges: `source_node_id` and `dest_node_id`.
    graph_table TableOrSubquery,
    -- The rows to start from: `id` and the columns.
    init_table TableOrSubquery,
    -- The columns, a list.
    agg_columns ColumnNameList,
    -- The query of a step, which reads `$table`.
    agg_query TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_graph_scan(
        'aggregating', __intrinsic_stringify_ignore_table!($agg_query), __intrinsic_stringify!($agg_columns),
        (select source_node_id, dest_node_id from $graph_table), (select * from $init_table))
);
