include perfetto module counters.intervals;

-- How fast the shared unit of the CPUs (DSU) runs.
create perfetto table linux_devfreq_dsu_counter(
    -- The value.
    id LONG,
    -- From when.
    ts TIMESTAMP,
    -- How long.
    dur DURATION,
    -- The frequency.
    dsu_freq LONG
) as
select id, ts, dur, cast_int!(value) as dsu_freq
from counter_leading_intervals!((
    select c.* from counter c join track t on t.id = c.track_id
    where t.type = 'linux_device_frequency' and (
        extract_arg(t.dimension_arg_set_id, 'linux_device') glob '*devfreq_dsu'
        or extract_arg(t.dimension_arg_set_id, 'linux_device') glob '*dsufreq')));
