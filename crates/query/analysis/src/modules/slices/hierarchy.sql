-- A slice, and the slices that lie above it.
create perfetto function _slice_ancestor_and_self(
    -- The slice.
    slice_id JOINID(slice.id))
returns table(
    -- The slice.
    id JOINID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its track.
    track_id JOINID(track.id),
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG)
as
select s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
from __slice_above_or_self a join slice s on s.id = a.above
where a.below = $slice_id;

-- A slice, and the slices that lie below it.
create perfetto function _slice_descendant_and_self(
    -- The slice.
    slice_id JOINID(slice.id))
returns table(
    -- The slice.
    id JOINID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its track.
    track_id JOINID(track.id),
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG)
as
select s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
from __slice_above_or_self a join slice s on s.id = a.below
where a.above = $slice_id;

-- Slices without those whose column is NULL; the parent of each is the nearest above it that is left, and `depth` is that one's.
create perfetto macro _slice_remove_nulls_and_reparent(
    -- Slices: `id`, `parent_id`, `depth` and the column.
    slice_table TableOrSubQuery,
    -- The column.
    column_name ColumnName)
returns TableOrSubQuery as (
    select s.id, p.id as parent_id, ifnull(p.rank, 0) as depth, s.$column_name
    from (select * from $slice_table where $column_name is not null) s
    left join (
        select a.below as child_id, k.id, k.depth as rank, row_number() over (partition by a.below order by k.depth desc) as number
        from __slice_above a
        join (select * from $slice_table where $column_name is not null) k on k.id = a.above
    ) p on p.child_id = s.id and p.number = 1
);
