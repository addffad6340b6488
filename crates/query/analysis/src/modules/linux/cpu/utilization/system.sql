include perfetto module linux.cpu.utilization.general;
include perfetto module linux.cpu.utilization.thread_cpu;
include perfetto module time.conversion;
include perfetto module intervals.intersect;

-- How much of each period anything ran.
create perfetto function cpu_utilization_per_period(
    -- The length of a period.
    interval LONG)
returns table(
    -- Where the period begins.
    ts TIMESTAMP,
    -- The part of all CPUs, from 0 to 1.
    utilization DOUBLE,
    -- The part of one CPU, from 0 to the number of CPUs.
    unnormalized_utilization DOUBLE)
as
select * from _cpu_avg_utilization_per_period!($interval, (
    select s.ts, s.ts_end from sched s join thread t on t.utid = s.utid where not ifnull(t.is_idle, 0)));

-- How much of each second anything ran.
create perfetto table cpu_utilization_per_second(
    -- Where the period begins.
    ts TIMESTAMP,
    -- The part of all CPUs, from 0 to 1.
    utilization DOUBLE,
    -- The part of one CPU, from 0 to the number of CPUs.
    unnormalized_utilization DOUBLE
) as
select ts, utilization, unnormalized_utilization from cpu_utilization_per_period(1000000000);

-- Cycles that everything took.
create perfetto table cpu_cycles(
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
select _sums_of_cycles!(c)
from cpu_cycles_per_thread_per_cpu c;

-- Cycles that everything took within an interval.
create perfetto function cpu_cycles_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
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
select
    _cycles_of_pieces!(i.dur), _awake_runtime!(i), _freqs_of_pieces!(i.dur)
from _interval_intersect_single!($ts, $dur, (select id, ts, dur from _cpu_freq_per_thread)) i
join _cpu_freq_per_thread f on f.id = i.id;

-- How much anything ran within an interval.
create perfetto function cpu_utilization_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- How long it ran while the machine did not sleep.
    awake_dur LONG,
    -- Hundredths of all CPUs in that time.
    awake_utilization DOUBLE,
    -- Hundredths of one CPU in that time.
    awake_unnormalized_utilization DOUBLE)
as
select
    c.awake_runtime as awake_dur,
    round(c.awake_runtime * 100.0 / (to_monotonic($ts + $dur) - to_monotonic($ts)) / (select max(cpu) + 1 from cpu), 2) as awake_utilization,
    round(c.awake_runtime * 100.0 / (to_monotonic($ts + $dur) - to_monotonic($ts)), 2) as awake_unnormalized_utilization
from cpu_cycles_in_interval($ts, $dur) c;

-- Cycles that were taken of each CPU.
create perfetto table cpu_cycles_per_cpu(
    -- The CPU among those of all machines.
    ucpu JOINID(cpu.id),
    -- The CPU.
    cpu LONG,
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
select ucpu, cpu, _sums_of_cycles!(c)
from cpu_cycles_per_thread_per_cpu c
group by ucpu, cpu;

-- Cycles that were taken of each CPU within an interval.
create perfetto function cpu_cycles_per_cpu_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The CPU among those of all machines.
    ucpu JOINID(cpu.id),
    -- The CPU.
    cpu LONG,
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
    avg_freq LONG)
as
select f.ucpu, min(f.cpu) as cpu, _cycles_of_pieces!(i.dur), _freqs_of_pieces!(i.dur)
from _interval_intersect_single!($ts, $dur, (select id, ts, dur from _cpu_freq_per_thread)) i
join _cpu_freq_per_thread f on f.id = i.id
group by f.ucpu;
