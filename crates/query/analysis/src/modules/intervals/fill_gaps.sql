include perfetto module std.metasql.unparenthesize;

-- Intervals made whole from the beginning of the trace to its end, for each group: where a group has none there is one whose data is NULL.
create perfetto macro _intervals_fill_gaps(
    -- The columns that make a group, a list, or `(NULL)` for one group of all.
    group_cols ColumnNameList,
    -- The other columns, a list.
    data_cols ColumnNameList,
    -- The intervals, with `ts`, `dur` and all these.
    data TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_interval_fill_gaps(
        __intrinsic_stringify!($group_cols),
        (select ts, dur, metasql_unparenthesize_exprlist!($group_cols), metasql_unparenthesize_exprlist!($data_cols)
        from $data),
        (select trace_start() as ts, trace_dur() as dur))
);
