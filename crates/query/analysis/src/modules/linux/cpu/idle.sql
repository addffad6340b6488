include perfetto module counters.intervals;

-- How deeply each CPU sleeps.
create perfetto table cpu_idle_counters(
    -- The value.
    id LONG,
    -- Its track.
    track_id JOINID(track.id),
    -- From when.
    ts TIMESTAMP,
    -- How long.
    dur DURATION,
    -- The state; -1 if it does not sleep.
    idle LONG,
    -- The CPU.
    cpu LONG
) as
select v.id, v.track_id, v.ts, v.dur, cast_int!(iif(v.value = 4294967295, -1, v.value)) as idle, t.cpu
from counter_leading_intervals!((
    select c.id, c.ts, c.track_id, c.value from counter c join cpu_counter_track t on t.id = c.track_id
    where t.name = 'cpuidle')) v
join cpu_counter_track t on t.id = v.track_id;
