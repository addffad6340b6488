include perfetto module linux.cpu.utilization.general;
include perfetto module intervals.intersect;

-- Cycles that each thread took of each CPU.
create perfetto table cpu_cycles_per_thread_per_cpu(
    -- The thread.
    utid JOINID(thread.id),
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
select f.utid, f.ucpu, min(c.cpu) as cpu, _cycles_of_pieces!(f.dur), _freqs_of_pieces!(f.dur)
from _cpu_freq_per_thread f join cpu c on c.ucpu = f.ucpu
group by f.utid, f.ucpu;

-- Cycles that each thread took of each CPU within an interval.
create perfetto function cpu_cycles_per_thread_per_cpu_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The thread.
    utid JOINID(thread.id),
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
select f.utid, f.ucpu, min(c.cpu) as cpu, _cycles_of_pieces!(i.dur), _freqs_of_pieces!(i.dur)
from _interval_intersect_single!($ts, $dur, (select id, ts, dur from _cpu_freq_per_thread)) i
join _cpu_freq_per_thread f on f.id = i.id
join cpu c on c.ucpu = f.ucpu
group by f.utid, f.ucpu;
