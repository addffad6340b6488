create perfetto macro _ii_renamed(x ColumnName, y ColumnName) returns _ProjectionFragment as $x as $y;

-- Where intervals of all tables overlap. Tables have `id`, `ts`, `dur` and the columns that they are partitioned by.
create perfetto macro _interval_intersect(
    -- The tables, a list.
    tabs _TableNameList,
    -- The columns that they are partitioned by, a list.
    agg_columns ColumnNameList)
returns TableOrSubquery as (
    select * from __operator_interval_intersect(
        __intrinsic_stringify!($agg_columns),
        __intrinsic_token_apply!(_as_query, $tabs))
);

-- What of the intervals of a table lies within one interval.
create perfetto macro _interval_intersect_single(
    -- Where the interval begins.
    ts Expr,
    -- How long it is.
    dur Expr,
    -- The table, with `id`, `ts` and `dur`.
    t TableOrSubquery)
returns TableOrSubquery as (
    select id_0 as id, ts, dur
    from _interval_intersect!(($t, (select 0 as id, $ts as ts, $dur as dur)), ())
);

create perfetto macro _interval_rename_cols(
    tab TableOrSubquery, agg_columns ColumnNameList, id_col ColumnName, ts_col ColumnName, dur_col ColumnName)
returns TableOrSubquery as (
    select $id_col as id, $ts_col as ts, $dur_col as dur
        __intrinsic_token_apply_prefix!(_ii_renamed, $agg_columns, $agg_columns)
    from $tab
);

-- Where intervals of two tables overlap whose columns have other names.
create perfetto macro _interval_intersect_with_col_names(
    -- The first table.
    tab1 TableOrSubquery,
    -- What its `id` is called.
    id_col1 ColumnName,
    -- What its `ts` is called.
    ts_col1 ColumnName,
    -- What its `dur` is called.
    dur_col1 ColumnName,
    -- The second table.
    tab2 TableOrSubquery,
    -- What its `id` is called.
    id_col2 ColumnName,
    -- What its `ts` is called.
    ts_col2 ColumnName,
    -- What its `dur` is called.
    dur_col2 ColumnName,
    -- The columns that both are partitioned by, a list.
    agg_columns ColumnNameList)
returns TableOrSubquery as (
    select * from _interval_intersect!((
        _interval_rename_cols!($tab1, $agg_columns, $id_col1, $ts_col1, $dur_col1),
        _interval_rename_cols!($tab2, $agg_columns, $id_col2, $ts_col2, $dur_col2)), $agg_columns)
);

-- The intervals of a table cut wherever one of them begins or ends: a row for each that is on from there, and for each that ends there. Has
-- `ts`, `dur`, `group_id`, `id` and `interval_ends_at_ts`.
create perfetto macro interval_self_intersect(
    -- The table, with `id`, `ts` and `dur`.
    intervals TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_interval_self_intersect((select id, ts, dur from $intervals))
);
