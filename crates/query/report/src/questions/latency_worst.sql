-- The longest waits for a CPU: when, who, whom somebody else woke, and who ran on that CPU meanwhile for the longest.
with worst as (
    select row_number() over (order by dur desc, ts) as n, ts, dur, utid, next_ucpu as ucpu, waker_utid, irq_context, state
    from _report_state
    where state in ('R', 'R+') and has_end and next_state = 'Running'
    order by n limit 50
),
meanwhile as (
    select w.n, s.thread, s.process, sum(min(s.ts + s.dur, w.ts + w.dur) - max(s.ts, w.ts)) as dur
    from worst w join _report_sched s on s.ucpu = w.ucpu and s.ts < w.ts + w.dur and s.ts + s.dur > w.ts
    group by w.n, s.thread, s.process
),
most as (select n, thread, process, dur, row_number() over (partition by n order by dur desc, thread) as place from meanwhile)
select w.ts - trace_start() as moment, w.dur, t.thread, t.process, c.cpu,
    case
        when w.state = 'R+' then 'preempted'
        when w.irq_context = 1 then 'an interrupt'
        else k.thread
    end as woken_by,
    m.thread as meanwhile, m.dur as meanwhile_dur
from worst w
join _report_thread t on t.utid = w.utid
left join cpu c on c.ucpu = w.ucpu
left join _report_thread k on k.utid = w.waker_utid
left join most m on m.n = w.n and m.place = 1
order by w.n
