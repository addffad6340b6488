-- Every time that somebody ran, with the process's place among the busiest: what is drawn over time.
select s.ts - (select begins from _report_window) as ts, s.dur, p.place
from _report_sched s left join (
    select process, row_number() over (order by sum(dur) desc, process) - 1 as place
    from _report_sched group by process order by 2 limit 9
) p on p.process = s.process
