include perfetto module counters.intervals;

-- How fast each CPU runs.
create perfetto table cpu_frequency_counters(
    -- The value.
    id LONG,
    -- Its track.
    track_id JOINID(track.id),
    -- From when.
    ts TIMESTAMP,
    -- How long.
    dur DURATION,
    -- The frequency, in kHz.
    freq LONG,
    -- The CPU among those of all machines.
    ucpu LONG,
    -- The CPU.
    cpu LONG
) as
select v.id, v.track_id, v.ts, v.dur, cast_int!(v.value) as freq, c.ucpu, t.cpu
from counter_leading_intervals!((
    select c.id, c.ts, c.track_id, c.value from counter c join cpu_counter_track t on t.id = c.track_id
    where t.name = 'cpufreq')) v
join cpu_counter_track t on t.id = v.track_id
join cpu c on c.cpu = t.cpu and c.machine_id is t.machine_id;
