include perfetto module linux.cpu.utilization.general;
include perfetto module linux.cpu.utilization.thread_cpu;
include perfetto module time.conversion;
include perfetto module intervals.intersect;

-- How much of each period a thread ran.
create perfetto function cpu_thread_utilization_per_period(
    -- The length of a period.
    interval LONG,
    -- The thread.
    utid JOINID(thread.id))
returns table(
    -- Where the period begins.
    ts TIMESTAMP,
    -- The part of all CPUs, from 0 to 1.
    utilization DOUBLE,
    -- The part of one CPU, from 0 to the number of CPUs.
    unnormalized_utilization DOUBLE)
as
select * from _cpu_avg_utilization_per_period!($interval, (select ts, ts_end from sched where utid = $utid));

-- How much of each second a thread ran.
create perfetto function cpu_thread_utilization_per_second(
    -- The thread.
    utid JOINID(thread.id))
returns table(
    -- Where the period begins.
    ts TIMESTAMP,
    -- The part of all CPUs, from 0 to 1.
    utilization DOUBLE,
    -- The part of one CPU, from 0 to the number of CPUs.
    unnormalized_utilization DOUBLE)
as
select * from cpu_thread_utilization_per_period(1000000000, $utid);

-- Cycles that each thread took.
create perfetto table cpu_cycles_per_thread(
    -- The thread.
    utid JOINID(thread.id),
    -- Thousandths of cycles.
    millicycles LONG,
    -- Millions of cycles.
    megacycles LONG,
    -- How long it ran.
    runtime DURATION,
    -- The lowest frequency, in kHz.
    min_freq LONG,
    -- The highest frequency, in kHz.
    max_freq LONG,
    -- The mean frequency, in kHz.
    avg_freq LONG
) as
select utid, _sums_of_cycles!(c)
from cpu_cycles_per_thread_per_cpu c
group by utid;

-- Cycles that each thread took within an interval.
create perfetto function cpu_cycles_per_thread_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The thread.
    utid JOINID(thread.id),
    -- Thousandths of cycles.
    millicycles LONG,
    -- Millions of cycles.
    megacycles LONG,
    -- How long it ran.
    runtime DURATION,
    -- How long it ran while the machine did not sleep.
    awake_runtime DURATION,
    -- The lowest frequency, in kHz.
    min_freq LONG,
    -- The highest frequency, in kHz.
    max_freq LONG,
    -- The mean frequency, in kHz.
    avg_freq LONG)
as
select f.utid, _cycles_of_pieces!(i.dur), _awake_runtime!(i), _freqs_of_pieces!(i.dur)
from _interval_intersect_single!($ts, $dur, (select id, ts, dur from _cpu_freq_per_thread)) i
join _cpu_freq_per_thread f on f.id = i.id
group by f.utid;

-- How much each thread ran within an interval.
create perfetto function cpu_thread_utilization_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The process.
    upid JOINID(process.id),
    -- The thread.
    utid JOINID(thread.id),
    -- What the thread is called.
    thread_name STRING,
    -- How long it ran while the machine did not sleep.
    awake_dur LONG,
    -- Hundredths of all CPUs in that time.
    awake_utilization DOUBLE,
    -- Hundredths of one CPU in that time.
    awake_unnormalized_utilization DOUBLE)
as
select min(t.upid) as upid, t.utid, min(t.name) as thread_name,
    sum(c.awake_runtime) as awake_dur,
    round(sum(c.awake_runtime) * 100.0 / (to_monotonic($ts + $dur) - to_monotonic($ts)) / (select max(cpu) + 1 from cpu), 6) as awake_utilization,
    round(sum(c.awake_runtime) * 100.0 / (to_monotonic($ts + $dur) - to_monotonic($ts)), 6) as awake_unnormalized_utilization
from cpu_cycles_per_thread_in_interval($ts, $dur) c join thread t on t.utid = c.utid
group by t.utid;
