-- Slices by name: how long they took, and how long without the slices within them.
include perfetto module slices.self_dur;

select name, max(times) as times, sum(dur) as total, sum(max(self_dur, 0)) as self,
    max(iif(n = (times * 50 + 99) / 100, dur, null)) as p50,
    max(iif(n = (times * 99 + 99) / 100, dur, null)) as p99,
    max(dur) as longest
from (
    select ifnull(s.name, '(no name)') as name, s.dur, d.self_dur,
        row_number() over (partition by ifnull(s.name, '(no name)') order by s.dur) as n,
        count(*) over (partition by ifnull(s.name, '(no name)')) as times
    from slice s join slice_self_dur d on d.id = s.id
    where s.dur >= 0
)
group by name
order by self desc, name
limit 10000
