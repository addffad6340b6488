-- How long threads were ready to run before they ran, by name. A percentile is the value that so many are not above.
select thread, process, max(times) as times, sum(dur) as total,
    max(iif(n = (times * 50 + 99) / 100, dur, null)) as p50,
    max(iif(n = (times * 90 + 99) / 100, dur, null)) as p90,
    max(iif(n = (times * 99 + 99) / 100, dur, null)) as p99,
    max(dur) as longest
from (
    select t.thread, t.process, s.dur,
        row_number() over (partition by t.process, t.thread order by s.dur) as n,
        count(*) over (partition by t.process, t.thread) as times
    from _report_state s join _report_thread t on t.utid = s.utid
    where s.state in ('R', 'R+') and s.has_end
)
group by process, thread
order by total desc, thread
limit 10000
