-- A tree taken apart into a tree a group: the parent of each node is the nearest above it that is of its group. Has `id`, `parent_id` and
-- `group_key`.
create perfetto macro tree_structural_partition_by_group(
    -- The tree: `id`, `parent_id`, `group_key`.
    tree_table TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_tree_partition((select id, parent_id, group_key from $tree_table))
);
