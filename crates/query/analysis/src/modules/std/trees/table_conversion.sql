-- A tree of a table with `id` and `parent_id`, and other columns.
create perfetto macro _tree_from_table(
    -- The table.
    source_table TableOrSubquery,
    -- The other columns, a list.
    columns ColumnNameList)
returns Expr as (select id, parent_id __intrinsic_token_apply_prefix!(_column_of_tree, $columns) from $source_table);

create perfetto macro _column_of_tree(name ColumnName) returns Expr as $name;

-- A tree as a table: numbers of rows (`_tree_id`, `_tree_parent_id`), `id`, `parent_id` and the other columns.
create perfetto macro _tree_to_table(
    -- The tree.
    tree_ptr Expr,
    -- The other columns, a list.
    columns ColumnNameList)
returns TableOrSubquery as (
    select * from __operator_tree_table(__intrinsic_stringify!($columns), (select * from $tree_ptr))
);
