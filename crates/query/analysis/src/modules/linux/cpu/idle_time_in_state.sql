create perfetto view __cpu_idle_state_steps as
select ts, machine_id, state, cpu,
    value - lag(value) over (partition by track_id order by ts) as residency,
    (ts - lag(ts) over (partition by track_id order by ts)) / 1000 as slice
from (
    select c.ts, c.value, c.track_id, t.machine_id,
        extract_arg(t.dimension_arg_set_id, 'state') as state,
        extract_arg(t.dimension_arg_set_id, 'cpu') as cpu
    from counter c join track t on t.id = c.track_id
    where t.type = 'cpu_idle_state'
);

-- How much of the time between two readings each CPU slept in each state; C0 is when it did not.
create perfetto table linux_per_cpu_idle_time_in_state_counters(
    -- The later reading.
    ts TIMESTAMP,
    -- The machine.
    machine_id JOINID(machine.id),
    -- The state.
    state STRING,
    -- The CPU.
    cpu LONG,
    -- Hundredths of the time.
    idle_percentage DOUBLE,
    -- Microseconds in the state.
    total_residency DOUBLE,
    -- Microseconds between the readings.
    time_slice LONG
) as
select ts, machine_id, state, cpu, min(100.0, residency / slice * 100) as idle_percentage, residency as total_residency,
    slice as time_slice
from __cpu_idle_state_steps
where slice is not null
union all
select ts, machine_id, 'C0', cpu, max(0.0, (slice - residency) / slice * 100), max(0.0, slice - residency), slice
from (
    select ts, machine_id, cpu, sum(residency) as residency, min(slice) as slice
    from __cpu_idle_state_steps where slice is not null group by ts, cpu, machine_id
    order by ts, cpu, machine_id
);

-- The same of all CPUs together.
create perfetto table linux_cpu_idle_time_in_state_counters(
    -- The later reading.
    ts TIMESTAMP,
    -- The machine.
    machine_id JOINID(machine.id),
    -- The state.
    state STRING,
    -- Hundredths of the time.
    idle_percentage DOUBLE,
    -- Microseconds in the state.
    total_residency DOUBLE,
    -- Microseconds between the readings.
    time_slice LONG
) as
select ts, machine_id, state, min(100.0, sum(total_residency) / sum(time_slice) * 100) as idle_percentage,
    sum(total_residency) as total_residency, sum(time_slice) as time_slice
from linux_per_cpu_idle_time_in_state_counters
group by ts, state, machine_id;
