-- How threads spent their time, by name: on a CPU, ready to run but waiting for one, blocked in the kernel, asleep.
select t.thread, t.process, count(distinct t.utid) as threads, min(t.tid) as tid,
    sum(iif(s.state = 'Running', s.dur, 0)) as cpu,
    sum(iif(s.state in ('R', 'R+'), s.dur, 0)) as waiting,
    sum(iif(s.state glob 'D*', s.dur, 0)) as blocked,
    sum(iif(s.state in ('S', 'I'), s.dur, 0)) as asleep
from _report_state s join _report_thread t on t.utid = s.utid
where not t.is_idle
group by t.process, t.thread
order by cpu desc, waiting desc, thread
limit 10000
