include perfetto module intervals.intersect;
include perfetto module std.metasql.unparenthesize;

-- How many intervals there are at a time: `ts` and `value`, from each time at which the number changes.
create perfetto macro intervals_overlap_count(
    -- The intervals.
    segments TableOrSubquery,
    -- The column that says when they begin.
    ts_column ColumnName,
    -- The column that says how long they are; -1 is without an end.
    dur_column ColumnName)
returns TableOrSubquery as (
    select * from __operator_interval_count((select $ts_column as ts, $dur_column as dur from $segments))
);

-- How many intervals of each group there are at a time: `ts`, `value` and `group_name`.
create perfetto macro intervals_overlap_count_by_group(
    -- The intervals.
    segments TableOrSubquery,
    -- The column that says when they begin.
    ts_column ColumnName,
    -- The column that says how long they are; -1 is without an end.
    dur_column ColumnName,
    -- The column that says which group they are of.
    group_column ColumnName)
returns TableOrSubquery as (
    select * from __operator_interval_count(
        (select $ts_column as ts, $dur_column as dur, $group_column as group_name from $segments))
);

-- Whether intervals of a table overlap each other, 1 or 0.
create perfetto macro _intervals_overlap_in_table(
    -- The table, with `ts` and `dur`.
    intervals TableOrSubquery)
returns Expr as (
    select ifnull(max(ends > next_ts), 0) as has_overlaps
    from (
        select ts + dur as ends, lead(ts) over (order by ts) as next_ts from $intervals where dur != -1
    )
);

-- Intervals, and those that lie in them, in one table, as `_intervals_flatten` wants it.
create perfetto macro _intervals_merge_root_and_children(
    -- The outer ones: `id`, `ts`, `dur`.
    roots_table TableOrSubquery,
    -- The inner ones: `root_id`, `id`, `parent_id`, `ts`, `dur`.
    children_table TableOrSubquery)
returns TableOrSubquery as (
    select r.id as root_id, r.ts as root_ts, r.dur as root_dur, c.id, c.parent_id, c.ts, c.dur
    from (select * from $roots_table) r
    left join (select root_id, id, parent_id, ts, dur from $children_table where dur > 0) c on c.root_id = r.id
    where r.dur > 0
);

-- The same where only a key and time say in which of the outer intervals an inner one lies.
create perfetto macro _intervals_merge_root_and_children_by_intersection(
    -- The outer ones: `id`, `ts`, `dur` and the key.
    roots_table TableOrSubquery,
    -- The inner ones: `id`, `parent_id`, `ts`, `dur` and the key.
    children_table TableOrSubquery,
    -- The column that is the key.
    key ColumnName)
returns TableOrSubquery as (
    select ii.ts, ii.dur, c.id, ifnull(c.parent_id, ii.id_1) as parent_id,
        r.id as root_id, r.ts as root_ts, r.dur as root_dur, ii.$key
    from _interval_intersect!((
        (select * from $children_table where dur > 0), (select * from $roots_table where dur > 0)), ($key)) ii
    join (select * from $children_table where dur > 0) c on c.id = ii.id_0
    join (select * from $roots_table where dur > 0) r on r.id = ii.id_1
);

-- At each time the innermost interval: `root_id`, `id`, `ts` and `dur`, which do not overlap within a root.
create perfetto macro _intervals_flatten(
    -- Outer and inner intervals: `root_id`, `root_ts`, `root_dur`, `id`, `parent_id`, `ts`, `dur`.
    children_with_roots_table TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_interval_flatten(
        (select root_id, root_ts, root_dur, id, parent_id, ts, dur from $children_with_roots_table))
);

-- Intervals that overlap each other, or are no further apart than a tolerance, made one: `ts` and `dur`.
create perfetto macro interval_merge_overlapping(
    -- The intervals, with `ts` and `dur`.
    intervals TableOrSubquery,
    -- The tolerance.
    epsilon Expr)
returns TableOrSubquery as (
    select ts, dur - ($epsilon) as dur
    from __operator_interval_merge((select ts, dur + ($epsilon) as dur from $intervals))
);

-- Intervals of a partition that overlap or touch each other made one: `ts`, `dur` and the columns of the partition.
create perfetto macro interval_merge_overlapping_partitioned(
    -- The intervals, with `ts`, `dur` and these columns.
    intervals TableOrSubquery,
    -- The columns that they are partitioned by, a list.
    partition_columns ColumnNameList)
returns TableOrSubquery as (
    select * from __operator_interval_merge(
        (select ts, dur __intrinsic_token_apply_prefix!(_same, $partition_columns) from $intervals))
);
