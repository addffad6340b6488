-- What each dump of a heap is about: the time from the dump before it, or from when it says that it began, and what was allocated then. Frees
-- are rows of negative size; what a stack has freed as much of as it had allocated is not retained.
create perfetto table _android_heap_profile_intervals as
with by_stack as (
    select upid, heap_name, ts, min(id) as id, sum(count) as count, sum(size) as size,
        sum(iif(size > 0, size, 0)) as allocated
    from heap_profile_allocation
    group by upid, heap_name, ts, callsite_id
),
by_dump as (
    select upid, heap_name, ts, min(id) as id, sum(iif(count > 0, size, 0)) as retained, sum(allocated) as allocated,
        sum(size) as delta
    from by_stack
    group by upid, heap_name, ts
),
ended as (
    select d.id, d.upid, d.heap_name, d.ts as ts_end, h.ts as said, d.retained, d.allocated, d.delta,
        lag(d.ts, 1, trace_start()) over (partition by d.upid, d.heap_name order by d.ts) + 1 as behind
    from by_dump d
    join heap_profile h on h.upid = d.upid and h.ts_end = d.ts
),
begun as (
    select *, iif(said < ts_end, said, iif(behind < ts_end, behind, ts_end)) as ts from ended
)
select id, upid, heap_name, ts, ts_end - ts as dur, retained, allocated, delta from begun;
