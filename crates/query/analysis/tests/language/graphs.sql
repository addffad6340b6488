include perfetto module graphs.search;
with g(source_node_id, dest_node_id) as (values (1, 2), (1, 3), (2, 3), (3, null), (8, 1))
select * from graph_reachable_dfs!(g, (select 1 as node_id union all select 9))
----
1|NULL
2|1
3|2
9|NULL

include perfetto module graphs.search;
with g(source_node_id, dest_node_id) as (values (1, 2), (1, 3), (2, 3))
select * from graph_reachable_bfs!(g, (select 1 as node_id))
----
1|NULL
2|1
3|1

include perfetto module graphs.search;
with g(source_node_id, dest_node_id, edge_weight) as (values (1, 2, 1), (2, 3, 1), (3, 4, 1)),
    r(root_node_id, root_target_weight) as (values (1, 1), (2, 0))
select * from graph_reachable_weight_bounded_dfs!(g, r, 1)
----
1|1|NULL
1|2|1
1|3|2
2|2|NULL
2|3|2

include perfetto module graphs.search;
select * from graph_next_sibling!((select 1 as node_id, 0 as node_parent_id, 5 as sort_key union all select 2, 0, 4)) order by 1
----
1|NULL
2|1

include perfetto module graphs.dominator_tree;
with g(source_node_id, dest_node_id) as (values (0, 1), (0, 2), (1, 3), (2, 3), (3, 4))
select * from graph_dominator_tree!(g, 0)
----
0|NULL
1|0
2|0
3|0
4|3

include perfetto module graphs.partition;
with t(id, parent_id, group_key) as (values (1, null, 1), (2, 1, 2), (3, 2, 1), (4, 3, 2))
select * from tree_structural_partition_by_group!(t)
----
1|NULL|1
2|NULL|2
3|1|1
4|2|2

include perfetto module graphs.scan;
with edges(source_node_id, dest_node_id) as (values (0, 1), (0, 2), (1, 2), (4, 5)), init(id, depth) as (values (0, 0), (4, 0))
select * from _graph_aggregating_scan!(edges, init, (depth), (select id, max(depth) + 1 as depth from $table group by id)) order by id
----
0|0
1|1
2|2
4|0
5|1

include perfetto module graphs.scan;
with edges(source_node_id, dest_node_id) as (values (0, 1), (0, 2), (1, 2)), init(id, depth) as (values (0, 0))
select * from _graph_scan!(edges, init, (depth), (select id, depth + 1 as depth from $table)) order by 1, 2
----
0|0
1|1
2|1
2|2

include perfetto module graphs.hierarchy;
select * from _tree_reachable_ancestors_or_self!(slice, (select 1 as id))
----
1
0

include perfetto module std.trees.table_conversion;
select * from _tree_to_table!(_tree_from_table!((select 5 as id, null as parent_id, 'a' as n union all select 6, 5, 'b'), (n)), (n))
----
0|NULL|5|NULL|a
1|0|6|5|b

include perfetto module std.trees.table_conversion;
select * from _tree_to_table!(_tree_from_table!((select 5 as id, null as parent_id, 'a' as n union all select 5, null, 'b'), (n)), (n))
----
error: tree: duplicate id
