-- Values of processes' counters as intervals.
create perfetto view _all_counters_per_process as
select c.ts, lead(c.ts, 1, ifnull(p.end_ts, trace_end()) + 1) over (partition by c.track_id order by c.ts) - c.ts as dur,
    t.upid, c.value, c.track_id, t.name
from counter c
join process_counter_track t on t.id = c.track_id
left join process p on p.upid = t.upid
where t.upid is not null;
