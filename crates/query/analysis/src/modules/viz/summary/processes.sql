include perfetto module viz.summary.slices;
include perfetto module viz.summary.threads;

create perfetto table _process_track_summary as
select t.upid, sum(s.cnt) as slice_count from process_track t join _slice_track_summary s on s.id = t.id group by t.upid;

create perfetto table _heap_profile_allocation_summary as
select upid, count(*) as allocation_count from heap_profile_allocation group by upid;

create perfetto table _heap_profile_graph_summary as
select upid, count(*) as graph_object_count from heap_graph_object group by upid;

create perfetto table _thread_process_grouped_summary as
select t.upid, max(s.max_running_dur) as max_running_dur, sum(s.sum_running_dur) as sum_running_dur,
    sum(s.running_count) as running_count, sum(s.slice_count) as slice_count,
    sum(s.stack_sample_count) as stack_sample_count
from _thread_available_info_summary s join thread t on t.utid = s.utid
where t.upid is not null
group by t.upid;

create perfetto table _process_available_info_summary as
select p.upid, ifnull(t.max_running_dur, 0) as max_running_dur, ifnull(t.sum_running_dur, 0) as sum_running_dur,
    ifnull(t.running_count, 0) as running_count, ifnull(t.slice_count, 0) as thread_slice_count,
    ifnull(t.stack_sample_count, 0) as stack_sample_count, ifnull(k.slice_count, 0) as process_slice_count,
    ifnull(a.allocation_count, 0) as allocation_count, ifnull(g.graph_object_count, 0) as graph_object_count
from process p
left join _thread_process_grouped_summary t on t.upid = p.upid
left join _process_track_summary k on k.upid = p.upid
left join _heap_profile_allocation_summary a on a.upid = p.upid
left join _heap_profile_graph_summary g on g.upid = p.upid
where t.upid is not null or k.upid is not null or a.upid is not null or g.upid is not null
    or p.upid in (select upid from process_counter_track where upid is not null)
    or p.upid in (select upid from process_state_track where upid is not null)
    or p.upid in (select upid from profiler_smaps where upid is not null);
