-- For whom threads waited: who woke them, of those that were blocked in the kernel, and of those asleep that ran for a hundredth of the time.
select t.thread, t.process, s.state, s.io_wait, iif(s.next_irq = 1, 'an interrupt', w.thread) as waker, count(*) as times,
    sum(s.dur) as total, max(s.dur) as longest
from _report_state s
join _report_thread t on t.utid = s.utid
left join _report_thread w on w.utid = s.next_waker
where s.next_waker is not null
    and (s.state glob 'D*' or s.state in ('S', 'I') and s.utid in (
        select utid from _report_state where state = 'Running'
        group by utid having sum(dur) * 100 > (select ends - begins from _report_window)))
group by t.thread, t.process, s.state, s.io_wait, iif(s.next_irq = 1, 'an interrupt', w.thread)
order by total desc, t.thread
limit 10000
