include perfetto module viz.summary.slices;

create perfetto table _sched_summary as
select s.utid, max(s.dur) as max_running_dur, sum(s.dur) as sum_running_dur, count(*) as running_count
from sched s join thread t on t.utid = s.utid
where not ifnull(t.is_idle, 0) and s.dur != -1
group by s.utid;

create perfetto table _thread_track_summary as
select t.utid, sum(s.cnt) as slice_count from thread_track t join _slice_track_summary s on s.id = t.id group by t.utid;

create perfetto table _stack_sample_summary as
select c.utid, count(*) as sample_count
from stack_sample s join stack_sample_task_context c on c.id = s.task_context_id
where c.utid is not null
group by c.utid;

create perfetto table _thread_available_info_summary as
select t.utid, ifnull(r.max_running_dur, 0) as max_running_dur, ifnull(r.sum_running_dur, 0) as sum_running_dur,
    ifnull(r.running_count, 0) as running_count, ifnull(k.slice_count, 0) as slice_count,
    ifnull(s.sample_count, 0) as stack_sample_count
from thread t
left join _sched_summary r on r.utid = t.utid
left join _thread_track_summary k on k.utid = t.utid
left join _stack_sample_summary s on s.utid = t.utid
where r.utid is not null or k.utid is not null or s.utid is not null
    or t.utid in (select utid from thread_counter_track where utid is not null);
