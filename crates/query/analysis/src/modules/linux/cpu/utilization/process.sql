include perfetto module linux.cpu.utilization.general;
include perfetto module linux.cpu.utilization.thread_cpu;
include perfetto module time.conversion;
include perfetto module intervals.intersect;

-- How much of each period a process ran.
create perfetto function cpu_process_utilization_per_period(
    -- The length of a period.
    interval LONG,
    -- The process.
    upid JOINID(process.id))
returns table(
    -- Where the period begins.
    ts TIMESTAMP,
    -- The part of all CPUs, from 0 to 1.
    utilization DOUBLE,
    -- The part of one CPU, from 0 to the number of CPUs.
    unnormalized_utilization DOUBLE)
as
select * from _cpu_avg_utilization_per_period!($interval, (
    select s.ts, s.ts_end from sched s join thread t on t.utid = s.utid where t.upid = $upid and not ifnull(t.is_idle, 0)));

-- How much of each second a process ran.
create perfetto function cpu_process_utilization_per_second(
    -- The process.
    upid JOINID(process.id))
returns table(
    -- Where the period begins.
    ts TIMESTAMP,
    -- The part of all CPUs, from 0 to 1.
    utilization DOUBLE,
    -- The part of one CPU, from 0 to the number of CPUs.
    unnormalized_utilization DOUBLE)
as
select * from cpu_process_utilization_per_period(1000000000, $upid);

-- Cycles that each process took.
create perfetto table cpu_cycles_per_process(
    -- The process.
    upid JOINID(process.id),
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
select t.upid, _sums_of_cycles!(c)
from cpu_cycles_per_thread_per_cpu c join thread t on t.utid = c.utid
where t.upid is not null
group by t.upid;

-- Cycles that each process took within an interval.
create perfetto function cpu_cycles_per_process_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The process.
    upid JOINID(process.id),
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
select t.upid, _cycles_of_pieces!(i.dur), _awake_runtime!(i), _freqs_of_pieces!(i.dur)
from _interval_intersect_single!($ts, $dur, (select id, ts, dur from _cpu_freq_per_thread)) i
join _cpu_freq_per_thread f on f.id = i.id
join thread t on t.utid = f.utid
group by t.upid;

-- How much each process ran within an interval.
create perfetto function cpu_process_utilization_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The process.
    upid JOINID(process.id),
    -- What the process is called.
    process_name STRING,
    -- How long it ran while the machine did not sleep.
    awake_dur LONG,
    -- Hundredths of all CPUs in that time.
    awake_utilization DOUBLE,
    -- Hundredths of one CPU in that time.
    awake_unnormalized_utilization DOUBLE)
as
select p.upid, min(p.name) as process_name,
    sum(c.awake_runtime) as awake_dur,
    round(sum(c.awake_runtime) * 100.0 / (to_monotonic($ts + $dur) - to_monotonic($ts)) / (select max(cpu) + 1 from cpu), 6) as awake_utilization,
    round(sum(c.awake_runtime) * 100.0 / (to_monotonic($ts + $dur) - to_monotonic($ts)), 6) as awake_unnormalized_utilization
from cpu_cycles_per_process_in_interval($ts, $dur) c join process p on p.upid = c.upid
group by p.upid;
