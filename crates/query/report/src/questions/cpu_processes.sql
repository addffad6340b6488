-- CPU time by the name of the process.
select process as name, count(distinct ifnull(upid, -1 - utid)) as processes, min(pid) as pid, sum(dur) as cpu, count(*) as runs
from _report_sched
group by process
order by cpu desc, name
limit 10000
