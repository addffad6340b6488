include perfetto module linux.cpu.idle;

-- How often and how long each CPU slept in each state.
create perfetto table cpu_idle_stats(
    -- The CPU.
    cpu LONG,
    -- The state, from 1.
    state LONG,
    -- How often.
    count LONG,
    -- How long.
    dur DURATION,
    -- How long each time.
    avg_dur DURATION,
    -- Hundredths of the time of which the state is known.
    idle_percent DOUBLE
) as
select g.cpu, g.state, g.count, g.dur, g.dur / g.count as avg_dur, g.dur * 100.0 / t.dur as idle_percent
from (
    select cpu, idle + 1 as state, count(*) as count, sum(dur) as dur from cpu_idle_counters where idle >= 0 group by cpu, idle
) g
join (select cpu, sum(dur) as dur from cpu_idle_counters group by cpu) t on t.cpu = g.cpu
order by g.cpu, g.state;
