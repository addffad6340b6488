-- Counters: what programs count first, then what varied most; of a name those two that were largest.
select c.track_id, k.name, k.unit, coalesce(p.name, 'CPU ' || u.cpu, t.thread) as owner,
    c.times, c.lowest, c.mean, c.highest, c.latest
from (
    select track_id, count(*) as times, min(value) as lowest, avg(value) as mean, max(value) as highest,
        max(iif(n = 1, value, null)) as latest
    from (select track_id, value, row_number() over (partition by track_id order by ts desc, id desc) as n from counter)
    group by track_id
) c
join counter_track k on k.id = c.track_id
left join process_counter_track a on a.id = k.id
left join _report_process p on p.upid = a.upid
left join cpu_counter_track u on u.id = k.id
left join thread_counter_track b on b.id = k.id
left join _report_thread t on t.utid = b.utid
order by k.type glob '*track_event*' desc,
    row_number() over (partition by k.name order by c.highest desc, c.track_id) <= 2 desc,
    (c.highest - c.lowest) / max(abs(c.highest), abs(c.lowest), 1e-9) desc, c.times desc, c.track_id
limit 10000
