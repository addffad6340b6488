-- Why threads did not run, by cause: blocked in the kernel first, then asleep, and the thread that was so for the longest.
select state, io_wait, blocked_function, sum(times) as times, sum(total) as total, max(longest) as longest, sum(threads) as threads,
    max(iif(place = 1, thread, null)) as most
from (
    select s.state, s.io_wait, s.blocked_function, t.thread, count(*) as times, sum(s.dur) as total, max(s.dur) as longest,
        count(distinct s.utid) as threads,
        row_number() over (partition by s.state, s.io_wait, s.blocked_function order by sum(s.dur) desc, t.thread) as place
    from _report_state s join _report_thread t on t.utid = s.utid
    where s.state not in ('Running', 'R', 'R+', 'X', 'Z', 'x', 'P')
    group by s.state, s.io_wait, s.blocked_function, t.thread
)
group by state, io_wait, blocked_function
order by state glob 'D*' desc, total desc
limit 10000
