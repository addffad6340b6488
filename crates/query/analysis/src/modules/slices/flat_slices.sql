include perfetto module intervals.overlap;
include perfetto module slices.with_context;

-- At each time the innermost slice of a thread: slices that do not lie in each other.
create perfetto table _slice_flattened as
select f.id as slice_id, f.ts, f.dur, s.depth, s.name, f.root_id, s.track_id, s.utid, s.tid, s.thread_name, s.upid, s.pid,
    s.process_name
from _intervals_flatten!(_intervals_merge_root_and_children!(
    (select id, ts, dur from slice where parent_id is null),
    (select r.id as root_id, s.id, s.parent_id, s.ts, s.dur
    from __slice_above a
    join slice r on r.id = a.above and r.parent_id is null
    join slice s on s.id = a.below))) f
join thread_slice s on s.id = f.id;
